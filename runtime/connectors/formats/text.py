"""Lines of text, read as STRING records and written from records of any type.

Source: PyFlink, StreamFormat.text_line_format; Flink, SimpleStringEncoder.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from runtime.common.typeinfo import TypeInformation, Types
from runtime.connectors.formats.file_format import LineFormat
from runtime.connectors.formats.writer_format import RowWriterFormat
from runtime.core.batch import RecordBatch
from runtime.core.formatting import flink_formatter
from runtime.operators.sink import SinkError

_STRING = Types.STRING()


class TextLineFormat(LineFormat):
    """Reads lines without their ends, LF or CR LF.

    Args:
        charset_name: an encoding in which LF is the byte 10 and nothing else has that byte: UTF-8, Latin-1, GBK, …

    Raises:
        ValueError: the encoding is unknown or is no such one (UTF-16, for example).
    """

    def __init__(self, charset_name: str = "UTF-8") -> None:
        try:
            self._charset = codecs.lookup(charset_name).name
            fits = "\n".encode(self._charset) == b"\n" and "a".encode(self._charset) == b"a"
        except LookupError as error:
            raise ValueError(f"unknown charset {charset_name!r}") from error
        if not fits:
            raise ValueError(f"charset {charset_name!r} cannot be split at line ends; convert the files to UTF-8 first")

    def produced_type(self) -> TypeInformation | None:
        return _STRING

    def decode_messages(self, messages: Sequence[bytes]) -> RecordBatch:
        return RecordBatch.of_values([message.decode(self._charset) for message in messages], type_info=_STRING)

    def decode(self, data: bytes) -> RecordBatch:
        text = data.decode(self._charset)
        # not splitlines: that also cuts at form feeds, U+2028 and others
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        if "\r" in text:
            lines = [line[:-1] if line.endswith("\r") else line for line in lines]
        return RecordBatch.of_values(lines, type_info=_STRING)


class TextWriterFormat(RowWriterFormat):
    """A line per record, shown as Flink shows it. Source: Flink, SimpleStringEncoder.

    Args:
        charset_name: encoding of the file.
    """

    shows_row_kinds = True

    def __init__(self, charset_name: str = "UTF-8") -> None:
        try:
            "".encode(charset_name)
        except LookupError as error:
            raise ValueError(f"unknown charset {charset_name!r}") from error
        self._charset = charset_name

    def render(self, batch: RecordBatch, input_type: TypeInformation | None) -> bytes:
        lines = list(map(flink_formatter(input_type), batch.values()))
        lines.append("")
        try:
            return "\n".join(lines).encode(self._charset)
        except UnicodeEncodeError as error:
            raise SinkError(f"a record has a character that {self._charset} cannot encode: {error}") from error
