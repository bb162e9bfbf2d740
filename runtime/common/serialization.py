"""Schemas and encoders of connectors: records to bytes or text lines, and back.

Immutable and picklable. The caller of an encoder decides how a record without a string type becomes text, because
the record's type is known only there (see `runtime.core.formatting`). Source: PyFlink, common/serialization.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from runtime.common.typeinfo import RowTypeInfo, TypeInformation, Types
from runtime.common.types import Row

__all__ = [
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowDataBulkWriterFactory",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
]


class SerializationSchema(ABC):
    """Records to bytes."""

    @abstractmethod
    def serialize(self, value: Any) -> bytes:
        """Return the bytes of one record.

        Raises:
            TypeError: the record is of another type.
        """


class DeserializationSchema(ABC):
    """Bytes to records."""

    @abstractmethod
    def deserialize(self, message: bytes) -> Any:
        """Return the record of one message.

        Raises:
            ValueError: the message cannot be read.
        """

    @abstractmethod
    def get_produced_type(self) -> TypeInformation:
        """Return the type of the records."""


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Strings.

    Args:
        charset: name of the encoding, as Python or Java knows it.

    Raises:
        LookupError: there is no such encoding.
    """

    __slots__ = ("charset",)

    def __init__(self, charset: str = "UTF-8") -> None:
        "".encode(charset)
        self.charset = charset

    def serialize(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise TypeError(f"SimpleStringSchema: {value!r:.100} ({type(value).__name__}) is not a string")
        return value.encode(self.charset)

    def deserialize(self, message: bytes) -> str:
        return message.decode(self.charset)

    def get_produced_type(self) -> TypeInformation:
        return Types.STRING()


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes, unchanged."""

    __slots__ = ()

    def serialize(self, value: Any) -> bytes:
        if not isinstance(value, (bytes, bytearray)):
            raise TypeError(f"ByteArraySchema: {value!r:.100} ({type(value).__name__}) is not bytes")
        return bytes(value)

    def deserialize(self, message: bytes) -> bytes:
        return message

    def get_produced_type(self) -> TypeInformation:
        return Types.PRIMITIVE_ARRAY(Types.BYTE())


class Encoder:
    """Writes a record as a line of text in a file sink.

    Attributes:
        charset: encoding of the file.
    """

    __slots__ = ("charset",)

    def __init__(self, charset: str = "UTF-8") -> None:
        "".encode(charset)
        self.charset = charset

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Write one line per record: the text that `print` would show.

        Raises:
            LookupError: there is no such encoding.
        """
        return Encoder(charset_name)


class RowFieldExtractorSchema(SerializationSchema):
    """Serializes one field of each Row, which must hold bytes already; the key of a message, for example.

    Args:
        field_index: position of the field.

    Raises:
        ValueError: it is negative.
    """

    __slots__ = ("field_index",)

    def __init__(self, field_index: int) -> None:
        if field_index < 0:
            raise ValueError(f"RowFieldExtractorSchema: the field index must not be negative, it is {field_index}")
        self.field_index = field_index

    def serialize(self, value: Any) -> bytes:
        if not isinstance(value, Row) or self.field_index >= len(value):
            raise TypeError(f"RowFieldExtractorSchema: {value!r:.100} is not a row with a field {self.field_index}")
        field = value[self.field_index]
        if field is None:
            return b""
        if not isinstance(field, (bytes, bytearray)):
            raise TypeError(f"RowFieldExtractorSchema: field {self.field_index} is a {type(field).__name__}, not bytes")
        return bytes(field)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowFieldExtractorSchema) and other.field_index == self.field_index

    def __hash__(self) -> int:
        return hash(self.field_index)


class BulkWriterFactory:
    """Marks what `FileSink.for_bulk_format` takes; the formats' modules have those that write something."""


class RowDataBulkWriterFactory(BulkWriterFactory):
    """A bulk writer of rows of one type.

    Args:
        row_type: the columns of the files.
    """

    def __init__(self, row_type: RowTypeInfo) -> None:
        self._row_type = row_type

    def get_row_type(self) -> RowTypeInfo:
        return self._row_type
