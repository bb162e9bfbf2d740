"""FileWriterFormat: writes records as one kind of file; and what formats by rows and by columns share.

A FileWriterFormat is a picklable description; a FormatWriter belongs to one part file. Row formats can go on with a
file that was cut at a snapshot, others begin a new one.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from typing import IO

import pyarrow as pa

from runtime.common.typeinfo import TypeInformation
from runtime.core.arrow import has_columns, to_arrow
from runtime.core.batch import RecordBatch
from runtime.core.serializers import serializer_for
from runtime.operators.sink import SinkError


class FormatWriter(ABC):
    """Writes the records of one part file."""

    @abstractmethod
    def write(self, batch: RecordBatch) -> None:
        """Append records.

        Raises:
            SinkError: a record cannot be written in this format.
        """

    def finish(self) -> None:
        """Write the end of the file; the file itself stays open."""

    def abandon(self) -> None:
        """Let go of the file, which will be removed or cut; idempotent, and nothing after `finish`."""


class FileWriterFormat(ABC):
    """Writes one kind of file."""

    suffix: str = ""
    """Suffix of the part files, unless the user chooses one."""
    can_resume: bool = True
    """Whether a file can be continued after any record."""
    shows_row_kinds: bool = False
    """Whether what is written says which rows take back others."""

    def check(self, input_type: TypeInformation | None) -> None:
        """Refuse a type that cannot be written.

        Raises:
            SinkError: what is missing.
        """

    def fingerprint(self, input_type: TypeInformation | None) -> str:
        """Return what tells files of this format and these columns from others: a file is continued by the same only.

        16 hex digits, of the class, its attributes and the type.
        """
        attributes = sorted(vars(self).items(), key=lambda item: item[0])
        what = f"{type(self).__name__} {attributes!r} {serializer_for(input_type).name}"
        return hashlib.blake2b(what.encode(), digest_size=8).hexdigest()

    @abstractmethod
    def open(self, file: IO[bytes], input_type: TypeInformation | None, is_new: bool) -> FormatWriter:
        """Return a writer at the end of `file`, which is empty if `is_new`."""


class RowWriterFormat(FileWriterFormat):
    """A format in which records are bytes one after the other."""

    @abstractmethod
    def render(self, batch: RecordBatch, input_type: TypeInformation | None) -> bytes:
        """Return the bytes of some records.

        Raises:
            SinkError: a record cannot be written in this format.
        """

    def header(self, input_type: TypeInformation | None) -> bytes:
        """Return the beginning of a file."""
        return b""

    def message_prefix(self, input_type: TypeInformation | None) -> bytes:
        """Return what stands before a record that is a message of its own."""
        return b""

    def open(self, file: IO[bytes], input_type: TypeInformation | None, is_new: bool) -> FormatWriter:
        if is_new:
            file.write(self.header(input_type))
        return _RowWriter(self, file, input_type)


class _RowWriter(FormatWriter):
    def __init__(self, row_format: RowWriterFormat, file: IO[bytes], input_type: TypeInformation | None) -> None:
        self._format = row_format
        self._file = file
        self._type = input_type

    def write(self, batch: RecordBatch) -> None:
        self._file.write(self._format.render(batch, self._type))


class ColumnWriterFormat(FileWriterFormat):
    """A format that needs a type with columns."""

    #: the format's name in messages

    kind: str

    def check(self, input_type: TypeInformation | None) -> None:
        if input_type is None or not has_columns(input_type):
            raise SinkError(f"{self.kind} needs records of a known type; give the stream before it an output_type")


def columns_of(batch: RecordBatch, input_type: TypeInformation | None) -> pa.RecordBatch:
    """Return the records as columns.

    Raises:
        SinkError: one does not fit the type.
    """
    try:
        if batch.has_arrow or input_type is None:
            return batch.arrow()
        return to_arrow(batch.values(), input_type)
    except TypeError as error:
        raise SinkError(f"a record does not fit the type of the sink's input: {error}") from error
