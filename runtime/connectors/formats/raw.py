"""Raw values: a message's bytes are one value, without a schema around it. Source: Flink, the raw format."""

from __future__ import annotations

import struct
from typing import Any

from runtime.common.serialization import DeserializationSchema, SerializationSchema
from runtime.common.typeinfo import BasicType, BasicTypeInfo, PrimitiveArrayTypeInfo, TypeInformation, Types

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
        self._type = Types.PRIMITIVE_ARRAY(Types.BYTE()) if type_info is None else type_info
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
            raise TypeError(f"{value!r:.100} ({type(value).__name__}) is no {self._type!r}: {error}") from error
