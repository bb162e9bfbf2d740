"""A Parquet format whose readers stay a moment behind the last record, so that windows of processing time can fire.

Windows of processing time that are open when the input ends never fire, in Flink as here.
"""

from __future__ import annotations

import time
from typing import Any

from runtime.connectors.formats.bad_records import BadRecordHandler
from runtime.connectors.formats.file_format import FileSplit
from runtime.connectors.formats.parquet.files import ParquetFormat
from runtime.connectors.rate_limiter import RateLimiter
from runtime.core.batch import RecordBatch
from runtime.operators.source import ReadStatus, SplitReader

LINGER_S = 6.0
"""Seconds between the last record of a split and its end: a window, and what is on its way on a busy machine."""


class LingeringParquetFormat(ParquetFormat):
    """Reads as ParquetFormat does."""

    def resolve(self, path: str) -> LingeringParquetFormat:
        resolved = super().resolve(path)
        return LingeringParquetFormat(resolved._columns, resolved._row_type)

    def open(
        self,
        split: FileSplit,
        position: Any | None,
        limiter: RateLimiter,
        bad_records: BadRecordHandler | None = None,
        max_record_bytes: int | None = None,
    ) -> SplitReader:
        return _LingeringReader(super().open(split, position, limiter, bad_records, max_record_bytes))


class _LingeringReader(SplitReader):
    def __init__(self, reader: SplitReader) -> None:
        self._reader = reader
        self._ends_at: float | None = None

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        found = self._reader.read(max_rows)
        if found is not ReadStatus.END_OF_SPLIT:
            return found
        if self._ends_at is None:
            self._ends_at = time.monotonic() + LINGER_S
        return ReadStatus.NOTHING_YET if time.monotonic() < self._ends_at else found

    @property
    def position(self) -> Any:
        return self._reader.position

    def close(self) -> None:
        self._reader.close()
