"""FileSource: reads files, cut into splits that subtasks read in parallel; once, or watching for new ones.

Splits are dealt out in the order of the files, so that event time moves forward in every subtask. A position is the
format's: a byte offset, or a row group and a row. Source: PyFlink, connectors/file_system.py.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from runtime.common.time import Duration
from runtime.common.typeinfo import TypeInformation
from runtime.connectors.files.file_monitor import FileMonitor, Found, find_new_files
from runtime.connectors.files.paths import list_files, local_path
from runtime.connectors.formats.bad_records import ERRORS_METRIC, BadRecordHandler, BadRecords
from runtime.connectors.formats.file_format import FileFormat, FileSplit
from runtime.connectors.formats.text import TextLineFormat
from runtime.connectors.rate_limiter import RateLimiter, check_rate
from runtime.connectors.split_queue import SplitQueue
from runtime.core.column_condition import ColumnCondition
from runtime.operators.source import (
    Boundedness,
    ReaderContext,
    Source,
    SourceError,
    SourceSplit,
    SplitEnumerator,
    SplitReader,
)

#: Splits get no larger unless the user says so: what a lost reader has to read again stays small.
MAX_SPLIT_BYTES = 64 << 20
#: A file is not cut finer than this for the sake of parallelism alone.
MIN_SPLIT_BYTES = 1 << 20


class StreamFormat:
    """PyFlink's entry to the formats of records in a stream. Source: PyFlink, StreamFormat."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> TextLineFormat:
        """Return a format of lines of text; see TextLineFormat."""
        return TextLineFormat(charset_name)


class FileSource(Source):
    """Reads each file once. Made by a builder: `FileSource.for_record_stream_format(format, *paths).build()`."""

    def __init__(
        self,
        file_format: FileFormat,
        paths: list[str],
        splits: int | None,
        rate: float | None,
        bad_records: BadRecords,
        discovery_interval_ms: int | None,
    ) -> None:
        self._format = file_format
        # a position is one of the format's: that of a line is no row group
        own = type(file_format).__name__
        self.split_format = f"ranges of files, {file_format.position_of or own}"
        self.former_split_formats = tuple(
            f"ranges of files, {name}" for name in dict.fromkeys((*file_format.formerly, own))
        )
        self._paths = paths
        self._splits = splits
        self._rate = rate
        self._bad_records = bad_records
        self._discovery_interval_ms = discovery_interval_ms
        self.dead_letter_tag = bad_records.tag
        if discovery_interval_ms is not None:
            self.boundedness = Boundedness.CONTINUOUS_UNBOUNDED

    @staticmethod
    def for_record_stream_format(stream_format: FileFormat, *paths: str | Path) -> FileSourceBuilder:
        """Return a builder for a source of the records of line formats: text, NDJSON, CSV.

        Args:
            stream_format: how to read the files.
            paths: files, directories, glob patterns or file: URIs; at least one.

        Raises:
            ValueError: no path, or one on another file system.
        """
        return FileSourceBuilder(stream_format, *paths)

    @staticmethod
    def for_bulk_file_format(bulk_format: FileFormat, *paths: str | Path) -> FileSourceBuilder:
        """Return a builder for a source of the records of column formats: Parquet. Like `for_record_stream_format`."""
        return FileSourceBuilder(bulk_format, *paths)

    def check(self) -> None:
        """Check that there is something to read; for the program that submits the job.

        Raises:
            SourceError: a path does not exist or has no file, and is not watched; the message names it.
        """
        list_files(self._paths, may_be_empty=self._discovery_interval_ms is not None)

    def produced_type(self) -> TypeInformation | None:
        return self._format.produced_type()

    def reading(self, columns: frozenset[str], conditions: Sequence[ColumnCondition]) -> FileSource:
        file_format = self._format.reading(columns, conditions)
        if file_format is self._format:
            return self
        source = copy.copy(self)
        source._format = file_format
        return source

    def paths(self) -> list[str]:
        return self._paths

    def create_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        # earlier versions saved the splits alone if the files were not watched
        state = restored if restored is None or isinstance(restored, dict) else {"seen": None, "splits": restored}
        waiting = [] if state is None else [self.split_from_json(item) for item in state["splits"]]
        if self._discovery_interval_ms is not None:
            seen = [] if state is None else state["seen"]
            if seen is None:
                raise SourceError(
                    "the snapshot does not say which files were read, as it began with an earlier version: watched, "
                    "all of them would be read again. Do not watch them, or give the source another uid to begin anew"
                )
            return FileMonitor(self._find_new, self._discovery_interval_ms, self.split_to_json, seen, waiting)
        if state is not None:
            return _FileQueue(waiting, self.split_to_json, state["seen"])
        planned = self._plan(parallelism)
        return _FileQueue(planned, self.split_to_json, sorted({split.path for split in planned}))

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        assert isinstance(split, FileSplit)
        limiter = RateLimiter(self._rate, context.parallelism, context.clock)
        handler = BadRecordHandler(self._bad_records, context.metrics.counter(ERRORS_METRIC))
        return self._format.open(split, position, limiter, handler, context.max_record_bytes)

    def split_to_json(self, split: SourceSplit) -> Any:
        assert isinstance(split, FileSplit)
        return [split.split_id, split.path, split.start, split.end]

    def split_from_json(self, value: Any) -> SourceSplit:
        split_id, path, start, end = value
        return FileSplit(split_id, path, start, end)

    def _find_new(self, seen: frozenset[str]) -> Found:
        return find_new_files(self._paths, seen, self._format, MAX_SPLIT_BYTES)

    def _plan(self, parallelism: int) -> list[FileSplit]:
        files = list_files(self._paths)
        try:
            sizes = [Path(file).stat().st_size for file in files]
        except OSError as error:
            raise SourceError(f"{error.filename}: {error.strerror}") from error
        total = sum(sizes)
        wanted = self._splits
        if wanted is None:
            wanted = max(math.ceil(total / MAX_SPLIT_BYTES), min(parallelism, math.ceil(total / MIN_SPLIT_BYTES)))
        splits: list[FileSplit] = []
        for file, size in zip(files, sizes, strict=True):
            if size == 0:
                continue
            parts = max(1, round(wanted * size / total))
            for start, end in self._format.cut(file, parts):
                splits.append(FileSplit(f"{len(splits)}:{Path(file).name}:{start}", file, start, end))
        return splits


class _FileQueue(SplitQueue):
    """Deals out the splits of files that are not watched; its snapshot has the form of FileMonitor's.

    Args:
        splits: those that have not been dealt out.
        split_to_json: as `Source.split_to_json`.
        seen: every file that was found; None: nobody knows any more.
    """

    def __init__(
        self, splits: Sequence[SourceSplit], split_to_json: Callable[[SourceSplit], Any], seen: Sequence[str] | None
    ) -> None:
        super().__init__(splits, split_to_json)
        self._seen = seen

    def snapshot(self) -> Any:
        return {"seen": self._seen, "splits": super().snapshot()}


class FileSourceBuilder:
    """Source: PyFlink, FileSourceBuilder; `set_splits`, `set_rate_limit` and `set_bad_records` are Tidemark's."""

    def __init__(self, file_format: FileFormat, *paths: str | Path) -> None:
        if not paths:
            raise ValueError("a file source needs at least one path")
        self._format = file_format
        self._paths = [local_path(path) for path in paths]
        self._splits: int | None = None
        self._rate: float | None = None
        self._bad_records = BadRecords.fail()
        self._discovery_interval_ms: int | None = None

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the files that exist when the job starts, then end; the default."""
        self._discovery_interval_ms = None
        return self

    def monitor_continuously(self, discovery_interval: Duration | timedelta) -> FileSourceBuilder:
        """Read the files that exist, and then new ones as they appear, without end.

        A file is read once, as it was when it was found: move finished files into place. Names that begin with `.` or
        `_` are passed over. The names of all files that were ever found are part of a snapshot.

        Args:
            discovery_interval: time between two looks at the paths.

        Raises:
            TypeError: it is no duration.
            ValueError: it is below 1 ms.
        """
        if isinstance(discovery_interval, timedelta):
            interval_ms = discovery_interval // timedelta(milliseconds=1)
        elif isinstance(discovery_interval, Duration):
            interval_ms = discovery_interval.to_millis()
        else:
            raise TypeError(f"the discovery interval must be a Duration, not {discovery_interval!r}")
        if interval_ms < 1:
            raise ValueError(f"the discovery interval must be at least 1 ms, not {discovery_interval}")
        self._discovery_interval_ms = interval_ms
        return self

    def set_bad_records(self, bad_records: BadRecords) -> FileSourceBuilder:
        """Set what happens to records that cannot be read: `BadRecords.fail()`, `.skip()` or `.to_side_output()`."""
        self._bad_records = bad_records
        return self

    def set_splits(self, splits: int) -> FileSourceBuilder:
        """Cut the files into about this many splits in all, at least one a file; more than one a compressed file is
        not possible. Default: splits of at most 64 MiB, and one a subtask unless they would be below 1 MiB.

        Raises:
            ValueError: `splits` is below 1.
        """
        if splits < 1:
            raise ValueError(f"the number of splits must be at least 1, not {splits}")
        self._splits = splits
        return self

    def set_rate_limit(self, rows_per_second: float) -> FileSourceBuilder:
        """Emit at most this many rows a second over all subtasks, an even share each.

        Raises:
            ValueError: the rate is not above 0.
        """
        self._rate = check_rate(rows_per_second)
        return self

    def build(self) -> FileSource:
        """Make the source.

        Raises:
            SourceError: the format takes names or types from the first file, and that cannot be read.
            ValueError: two settings do not go together.
        """
        file_format = self._format
        if self._discovery_interval_ms is not None and self._splits is not None:
            raise ValueError("set_splits needs a static file set; monitored files are split as they appear")
        if self._bad_records.is_tolerant and not file_format.tells_bad_records:
            raise ValueError(f"{type(file_format).__name__} cannot skip single records; use BadRecords.fail()")
        if file_format.takes_from_file:
            file_format = file_format.resolve(list_files(self._paths)[0])
        return FileSource(
            file_format, self._paths, self._splits, self._rate, self._bad_records, self._discovery_interval_ms
        )
