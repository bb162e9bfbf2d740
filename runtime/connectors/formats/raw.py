"""Raw values: the bytes of a message or a line are one value, without a schema. Source: Flink, the raw format."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from runtime.common.serialization import DeserializationSchema, SerializationSchema
from runtime.common.typeinfo import BasicType, BasicTypeInfo, PrimitiveArrayTypeInfo, TypeInformation, Types
from runtime.connectors.formats.file_format import LineFormat, to_lines
from runtime.connectors.formats.writer_format import RowWriterFormat
from runtime.core.batch import RecordBatch
from runtime.operators.sink import SinkError

_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
_CODES = {
    BasicType.BOOLEAN: "?",
    BasicType.BYTE: "b",
    BasicType.SHORT: "h",
    BasicType.INT: "i",
    BasicType.LONG: "q",
    BasicType.FLOAT: "f",
    BasicType.DOUBLE: "d",
}


class RawMessageSchema(SerializationSchema, DeserializationSchema):
    """A value of a basic type per message.

    Args:
        type_info: bytes (the default), STRING, BOOLEAN, or a number of fixed size.
        charset: of a STRING.
        endianness: of a number, "big-endian" or "little-endian".

    Raises:
        TypeError: values of the type have no raw form.
        ValueError: no such endianness.
        LookupError: no such charset.
    """

    def __init__(
        self, type_info: TypeInformation | None = None, charset: str = "UTF-8", endianness: str = "big-endian"
    ) -> None:
        if endianness not in ("big-endian", "little-endian"):
            raise ValueError(f"endianness must be big-endian or little-endian, not {endianness!r}")
        "".encode(charset)
        self._type = _BYTES if type_info is None else type_info
        self._charset = charset
        self._code: str | None = None
        basic = self._type.basic_type if isinstance(self._type, BasicTypeInfo) else None
        self._is_text = basic is BasicType.STRING
        if basic is not None and basic in _CODES:
            self._code = (">" if endianness == "big-endian" else "<") + _CODES[basic]
        elif not self._is_text and not (isinstance(self._type, PrimitiveArrayTypeInfo) and self._type.is_bytes):
            raise TypeError(f"values of type {self._type!r} have no raw form")

    def get_produced_type(self) -> TypeInformation:
        return self._type

    def deserialize(self, message: bytes) -> Any:
        if self._code is not None:
            size = struct.calcsize(self._code)
            if len(message) != size:
                raise ValueError(f"{len(message)} bytes are not a raw {self._type!r}, which has {size}")
            return struct.unpack(self._code, message)[0]
        return message.decode(self._charset) if self._is_text else bytes(message)

    def serialize(self, value: Any) -> bytes:
        try:
            if self._code is not None:
                return struct.pack(self._code, value)
            return value.encode(self._charset) if self._is_text else bytes(value)
        except (struct.error, AttributeError) as error:
            raise TypeError(f"{value!r:.100} ({type(value).__name__}) is not a {self._type!r}: {error}") from error


class RawLineFormat(LineFormat):
    """Reads lines without their ends, as bytes."""

    def produced_type(self) -> TypeInformation | None:
        return _BYTES

    def decode_messages(self, messages: Sequence[bytes]) -> RecordBatch:
        return RecordBatch.of_values(list(messages), type_info=_BYTES)

    def decode(self, data: bytes) -> RecordBatch:
        return RecordBatch.of_values(to_lines(data), type_info=_BYTES)


class RawWriterFormat(RowWriterFormat):
    """Writes bytes and a line end for each record."""

    def render(self, batch: RecordBatch, input_type: TypeInformation | None) -> bytes:
        try:
            return b"\n".join([*batch.values(), b""])
        except TypeError as error:
            raise SinkError(f"raw lines must be bytes: {error}") from error
