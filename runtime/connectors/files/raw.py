"""Lines as bytes, read and written as they are. Source: Flink, the raw format, with a line as the unit."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.common.typeinfo import TypeInformation, Types
from runtime.connectors.files.file_format import LineFormat, to_lines
from runtime.connectors.files.writer_formats import RowWriterFormat
from runtime.core.batch import RecordBatch
from runtime.operators.sink import SinkError

_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())


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
