"""Parquet as PyFlink names it, over `runtime.connectors.files`.

Where PyFlink takes a table row type, these take `Types.ROW_NAMED(...)`. Source: PyFlink, formats/parquet.py.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from runtime.common.configuration import Configuration
from runtime.common.exclusions import refusing_module
from runtime.common.serialization import RowDataBulkWriterFactory
from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.connectors.files.parquet import ParquetFormat
from runtime.connectors.files.writer_formats import FormatWriter, ParquetWriterFormat
from runtime.operators.sink import SinkError

__all__ = [
    "ParquetBulkWriterFactory",
    "ParquetBulkWriters",
    "ParquetColumnarRowInputFormat",
    "check_fits",
    "checked_row_type",
]


class ParquetColumnarRowInputFormat(ParquetFormat):
    """Reads columns of Parquet files; for `FileSource.for_bulk_file_format`.

    Args:
        row_type: names and types of the columns to read, from `Types.ROW_NAMED`.
        hadoop_config: not used: files are read without Hadoop.
        batch_size: not used: batches are as large as the stream's.
        is_utc_timestamp: not used: timestamps have no zone.
        is_case_sensitive: only True can be used.

    Raises:
        TypeError: the row type is none.
        ValueError: names are to be found whatever their case.
    """

    def __init__(
        self,
        row_type: RowTypeInfo,
        hadoop_config: Configuration | None = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        if not is_case_sensitive:
            raise ValueError("columns are found by their exact names: is_case_sensitive=False cannot be used")
        super().__init__(checked_row_type(row_type).get_field_names(), row_type)


class ParquetBulkWriters:
    """Makes writers of Parquet files."""

    @staticmethod
    def for_row_type(
        row_type: RowTypeInfo,
        hadoop_config: Configuration | None = None,  # noqa: ARG004 (PyFlink's)
        utc_timestamp: bool = False,  # noqa: ARG004 (PyFlink's)
    ) -> ParquetBulkWriterFactory:
        """Return a writer for `FileSink.for_bulk_format`.

        Args:
            row_type: columns of the files and type of the stream, from `Types.ROW_NAMED`.
            hadoop_config: not used.
            utc_timestamp: not used: timestamps have no zone.

        Raises:
            TypeError: the row type is none.
        """
        return ParquetBulkWriterFactory(checked_row_type(row_type))


class ParquetBulkWriterFactory(RowDataBulkWriterFactory, ParquetWriterFormat):
    """Writes rows of one type; made by `ParquetBulkWriters`."""

    def __init__(self, row_type: RowTypeInfo) -> None:
        RowDataBulkWriterFactory.__init__(self, row_type)
        ParquetWriterFormat.__init__(self)

    def check(self, input_type: TypeInformation | None) -> None:
        check_fits(self._row_type, input_type)

    def open(self, file: IO[bytes], input_type: TypeInformation | None, is_new: bool) -> FormatWriter:
        return super().open(file, self._row_type, is_new)


def checked_row_type(row_type: object) -> RowTypeInfo:
    """Return the row type itself.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(row_type, RowTypeInfo):
        raise TypeError(f"a row type is needed, from Types.ROW_NAMED(names, types), not {row_type!r}")
    return row_type


def check_fits(row_type: RowTypeInfo, input_type: TypeInformation | None) -> None:
    """Refuse a stream whose records are known to be of another type than the files.

    Raises:
        SinkError: they are.
    """
    if input_type is not None and input_type != row_type:
        raise SinkError(f"the files have the row type {row_type}, the records are {input_type}")


if not TYPE_CHECKING:
    __getattr__ = refusing_module(__name__)
