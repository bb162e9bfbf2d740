"""FileSink: writes part files that become visible, whole, when they are committed.

A subtask writes one hidden file at a time. Finishing a file makes it durable, committing renames it and syncs its
directory; a committed file never changes. A subtask without records makes no file. Source: PyFlink,
connectors/file_system.py; Flink, FileSink.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from runtime.common.serialization import Encoder
from runtime.connectors.files.part_file import (
    PartFile,
    check_writable,
    commit_part,
    remove_leftovers,
    sync_directory,
)
from runtime.connectors.files.paths import local_path
from runtime.connectors.files.sink_config import BucketAssigner, OutputFileConfig, RollingPolicy
from runtime.connectors.files.writer_formats import (
    CsvWriterFormat,
    FileWriterFormat,
    NdjsonWriterFormat,
    ParquetWriterFormat,
    RowWriterFormat,
    TextWriterFormat,
)
from runtime.core.batch import RecordBatch
from runtime.operators.sink import Committer, Sink, SinkWriter, WriterContext


@dataclass(frozen=True, slots=True)
class _SinkOptions:
    base_path: str
    file_format: FileWriterFormat
    rolling_policy: RollingPolicy
    bucket_assigner: BucketAssigner
    output_file_config: OutputFileConfig
    bucket_check_interval_ms: int
    sink_id: str
    """Tells this sink's unfinished files from those of others in the same directory."""


class FileSink(Sink):
    """Writes files. Made by a builder: `FileSink.for_row_format(path, encoder).build()`."""

    BaseBuilder: ClassVar[type[FileSinkBuilder]]
    RowFormatBuilder: ClassVar[type[FileSinkBuilder]]
    BulkFormatBuilder: ClassVar[type[FileSinkBuilder]]

    def __init__(self, options: _SinkOptions) -> None:
        self._options = options

    @staticmethod
    def for_row_format(base_path: str | Path, encoder: Encoder | RowWriterFormat) -> FileSinkBuilder:
        """A sink of records written one after the other.

        Args:
            base_path: directory, made if need be.
            encoder: `Encoder.simple_string_encoder(...)` for lines of text, or a row format.
        """
        row_format = TextWriterFormat(encoder.charset) if isinstance(encoder, Encoder) else encoder
        return FileSinkBuilder(base_path, row_format, RollingPolicy.default_rolling_policy())

    @staticmethod
    def for_bulk_format(base_path: str | Path, writer_factory: FileWriterFormat) -> FileSinkBuilder:
        """A sink of files that have to be written whole, such as Parquet; they roll at every checkpoint."""
        return FileSinkBuilder(base_path, writer_factory, RollingPolicy.on_checkpoint_rolling_policy())

    @staticmethod
    def for_ndjson(base_path: str | Path) -> FileSinkBuilder:
        """A sink of NDJSON files; see NdjsonWriterFormat."""
        return FileSink.for_row_format(base_path, NdjsonWriterFormat())

    @staticmethod
    def for_csv(base_path: str | Path, has_header: bool = True, delimiter: str = ",") -> FileSinkBuilder:
        """A sink of CSV files; see CsvWriterFormat."""
        return FileSink.for_row_format(base_path, CsvWriterFormat(has_header, delimiter))

    @staticmethod
    def for_parquet(base_path: str | Path, compression: str = "zstd") -> FileSinkBuilder:
        """A sink of Parquet files; see ParquetWriterFormat."""
        return FileSink.for_bulk_format(base_path, ParquetWriterFormat(compression))

    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        return _FileSinkWriter(self._options, context, restored)

    def create_committer(self) -> Committer | None:
        return _FileCommitter()


class FileSinkBuilder:
    """Source: PyFlink, FileSink.RowFormatBuilder and BulkFormatBuilder."""

    def __init__(self, base_path: str | Path, file_format: FileWriterFormat, rolling_policy: RollingPolicy) -> None:
        self._options = _SinkOptions(
            base_path=local_path(base_path),
            file_format=file_format,
            rolling_policy=rolling_policy,
            bucket_assigner=BucketAssigner.base_path_bucket_assigner(),
            output_file_config=OutputFileConfig(),
            bucket_check_interval_ms=60_000,
            sink_id="",
        )

    def with_bucket_check_interval(self, interval: int) -> FileSinkBuilder:
        """How often, in ms, the rolling policy is asked although nothing is written.

        Raises:
            ValueError: the interval is not above 0.
        """
        if interval <= 0:
            raise ValueError(f"the bucket check interval must be above 0 ms, not {interval}")
        self._options = replace(self._options, bucket_check_interval_ms=interval)
        return self

    def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> FileSinkBuilder:
        """Which directory below the base path records go to."""
        self._options = replace(self._options, bucket_assigner=bucket_assigner)
        return self

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> FileSinkBuilder:
        """How part files are named."""
        self._options = replace(self._options, output_file_config=output_file_config)
        return self

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> FileSinkBuilder:
        """When a new part file is begun.

        Raises:
            ValueError: the format is a bulk format, and the policy does not roll at checkpoints.
        """
        if not self._options.file_format.can_resume and not rolling_policy.rolls_on_checkpoint:
            raise ValueError("bulk formats must roll at checkpoints: use RollingPolicy.on_checkpoint_rolling_policy()")
        self._options = replace(self._options, rolling_policy=rolling_policy)
        return self

    def disable_compact(self) -> FileSinkBuilder:
        """Leave part files as they were written; the default."""
        return self

    def enable_compact(self, *args: Any) -> FileSinkBuilder:
        """Refused: part files are not compacted.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("FileSink.enable_compact is not supported; part files stay as they were written")

    def build(self) -> FileSink:
        """Make the sink."""
        return FileSink(replace(self._options, sink_id=secrets.token_hex(8)))


# PyFlink has a class of its own for each kind of format
FileSink.BaseBuilder = FileSink.RowFormatBuilder = FileSink.BulkFormatBuilder = FileSinkBuilder


class _FileSinkWriter(SinkWriter):
    def __init__(self, options: _SinkOptions, context: WriterContext, restored: Sequence[Any]) -> None:
        self._options = options
        self._context = context
        self._base = Path(options.base_path)
        self._uid = secrets.token_hex(6)
        self._counter = 0
        self._bucket = ""
        self._part: PartFile | None = None
        #: finished, not handed out yet
        self._finished: list[PartFile] = []
        #: handed out; closed, and removed unless committed, at the end
        self._prepared: list[PartFile] = []
        self._kept: set[PartFile] = set()
        self._has_ended = False
        options.file_format.check(context.input_type)
        check_writable(self._base, f".probe.{self._uid}")
        if context.attempt > 0:
            remove_leftovers(self._base, options.sink_id)
        for item in restored:
            self._resume(item)
        self._schedule_check()

    def write(self, batch: RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        now_ms = self._context.clock.now_ms()
        self._roll_if_due(now_ms)
        bucket = self._options.bucket_assigner.bucket_id(now_ms)
        if bucket != self._bucket:
            self._finish_part()
            self._bucket = bucket
        if self._part is None:
            self._part = self._begin(now_ms)
        self._part.write(batch, now_ms)
        self._roll_if_due(now_ms)

    def flush(self, end_of_input: bool) -> None:
        self._has_ended = end_of_input
        if end_of_input or self._options.rolling_policy.rolls_on_checkpoint:
            self._finish_part()

    def prepare_commit(self) -> Sequence[Any]:
        finished, self._finished = self._finished, []
        self._prepared += finished
        if not self._has_ended:
            # this is a snapshot's
            for part in finished:
                self._keep(part)
        return [part.committable() for part in finished]

    def snapshot_state(self) -> Sequence[Any]:
        part = self._part
        if part is None:
            return ()
        part.sync()
        self._keep(part)
        return [{**part.committable(), "bucket": self._bucket, "rows": part.rows}]

    def close(self) -> None:
        self._cancel_check()
        parts = [*self._prepared, *self._finished] + ([] if self._part is None else [self._part])
        self._prepared, self._finished, self._part = [], [], None
        for part in parts:
            part.close(remove=part not in self._kept)

    def _begin(self, now_ms: int) -> PartFile:
        config = self._options.output_file_config
        suffix = self._options.file_format.suffix if config.part_suffix is None else config.part_suffix
        name = f"{config.part_prefix}-{self._uid}-{self._context.subtask_index}-{self._counter}"
        self._counter += 1
        directory = self._base / self._bucket
        if self._bucket:
            check_writable(directory, f".probe.{self._uid}")
        temporary = directory / f".{name}.inprogress.{self._options.sink_id}"
        return PartFile(
            temporary, directory / f"{name}{suffix}", self._options.file_format, self._context.input_type, now_ms
        )

    def _resume(self, item: Any) -> None:
        """Cut a former writer's file to its length at the snapshot and go on with it, with one at most."""
        self._finish_part()
        now_ms = self._context.clock.now_ms()
        part = PartFile(
            Path(item["temporary"]),
            Path(item["target"]),
            self._options.file_format,
            self._context.input_type,
            now_ms,
            item["bytes"],
        )
        part.rows = item["rows"]
        self._kept.add(part)
        self._part, self._bucket = part, item["bucket"]

    def _keep(self, part: PartFile) -> None:
        part.keep()
        self._kept.add(part)

    def _finish_part(self) -> None:
        part, self._part = self._part, None
        if part is not None:
            # listed first: if finishing fails, closing still removes it
            self._finished.append(part)
            part.finish()

    def _roll_if_due(self, now_ms: int) -> None:
        part = self._part
        if part is not None and self._options.rolling_policy.is_due(
            part.size_bytes, now_ms - part.created_ms, now_ms - part.written_ms
        ):
            self._finish_part()

    def _schedule_check(self) -> None:
        service = self._context.processing_time
        self._cancel_check = service.register_timer(
            service.now_ms() + self._options.bucket_check_interval_ms, self._check
        )

    def _check(self, timestamp_ms: int) -> None:
        self._roll_if_due(self._context.clock.now_ms())
        self._schedule_check()


class _FileCommitter(Committer):
    def commit(self, committables: Sequence[Any]) -> None:
        for directory in {commit_part(committable) for committable in committables}:
            sync_directory(directory)
