"""Parquet at PyFlink's module path. The code is in `runtime.connectors.formats.parquet`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.common.exclusions import refusing_module
from runtime.connectors.formats.parquet.files import ParquetBulkWriterFactory as ParquetBulkWriterFactory
from runtime.connectors.formats.parquet.files import ParquetBulkWriters as ParquetBulkWriters
from runtime.connectors.formats.parquet.files import ParquetColumnarRowInputFormat as ParquetColumnarRowInputFormat

__all__ = ["ParquetBulkWriterFactory", "ParquetBulkWriters", "ParquetColumnarRowInputFormat"]

if not TYPE_CHECKING:
    __getattr__ = refusing_module(__name__)
