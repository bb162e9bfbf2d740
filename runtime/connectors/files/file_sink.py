"""FileSink: writes part files that become visible, whole and exactly once, when they are committed.

A subtask writes one hidden file per bucket. Preparing makes files durable, committing renames them and syncs their
directory; a committed file never changes. A checkpoint holds the finished files, to be committed when it is complete,
and how long the unfinished ones are: who restores it goes on with copies cut to that length. A subtask without records
makes no file. Source: PyFlink, connectors/file_system.py; Flink, FileSink.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from runtime.common.serialization import Encoder
from runtime.connectors.background import BackgroundCall
from runtime.connectors.files.part_file import (
    AsItIs,
    PartFile,
    check_part,
    check_writable,
    commit_part,
    directory_away,
    hidden_name,
    maker_of,
    remove_leftovers,
    size_of,
    suffix_of,
    sync_above,
    sync_all,
)
from runtime.connectors.files.paths import local_path
from runtime.connectors.files.sink_config import BucketAssigner, OutputFileConfig, RollingPolicy
from runtime.connectors.formats.csv.columns import CsvWriterFormat
from runtime.connectors.formats.json.ndjson import NdjsonWriterFormat
from runtime.connectors.formats.parquet.files import ParquetWriterFormat
from runtime.connectors.formats.text import TextWriterFormat
from runtime.connectors.formats.writer_format import FileWriterFormat, RowWriterFormat
from runtime.core.batch import RecordBatch
from runtime.operators.sink import (
    CommitTally,
    Committer,
    Predecessors,
    Sink,
    SinkWriter,
    SnapshotUnusableError,
    Sweeper,
    WriterContext,
)

logger = logging.getLogger(__name__)

MAX_OPEN_PARTS = 128
"""Files of different buckets that a subtask writes at a time; for one more, the longest unused is finished. Above, the
process runs out of file handles; below, many buckets make many small files.
"""

MAX_KNOWN_DIRECTORIES = 4_096
"""Directories that a subtask remembers having made durable; it syncs the others' parents once more when it comes back
to them. Buckets may be as many as there are keys."""


@dataclass(frozen=True, slots=True)
class _SinkOptions:
    base_path: str
    file_format: FileWriterFormat
    rolling_policy: RollingPolicy
    bucket_assigner: BucketAssigner
    output_file_config: OutputFileConfig
    bucket_check_interval_ms: int


class FileSink(Sink):
    """Writes files. Made by a builder: `FileSink.for_row_format(path, encoder).build()`."""

    state_format = "files"
    BaseBuilder: ClassVar[type[FileSinkBuilder]]
    RowFormatBuilder: ClassVar[type[FileSinkBuilder]]
    BulkFormatBuilder: ClassVar[type[FileSinkBuilder]]

    def __init__(self, options: _SinkOptions) -> None:
        self._options = options

    @staticmethod
    def for_row_format(base_path: str | Path, encoder: Encoder | RowWriterFormat) -> FileSinkBuilder:
        """Return a builder for a sink of records written one after the other.

        Args:
            base_path: directory, made if need be.
            encoder: `Encoder.simple_string_encoder(...)` for lines of text, or a row format.
        """
        row_format = TextWriterFormat(encoder.charset) if isinstance(encoder, Encoder) else encoder
        return FileSinkBuilder(base_path, row_format, RollingPolicy.default_rolling_policy())

    @staticmethod
    def for_bulk_format(base_path: str | Path, writer_factory: FileWriterFormat) -> FileSinkBuilder:
        """Return a builder for a sink of files that are written whole, such as Parquet; they roll at every
        checkpoint.
        """
        return FileSinkBuilder(base_path, writer_factory, RollingPolicy.on_checkpoint_rolling_policy())

    @staticmethod
    def for_ndjson(base_path: str | Path) -> FileSinkBuilder:
        """Return a builder for a sink of NDJSON files; see NdjsonWriterFormat."""
        return FileSink.for_row_format(base_path, NdjsonWriterFormat())

    @staticmethod
    def for_csv(base_path: str | Path, has_header: bool = True, delimiter: str = ",") -> FileSinkBuilder:
        """Return a builder for a sink of CSV files; see CsvWriterFormat."""
        return FileSink.for_row_format(base_path, CsvWriterFormat(has_header, delimiter))

    @staticmethod
    def for_parquet(base_path: str | Path, compression: str = "zstd") -> FileSinkBuilder:
        """Return a builder for a sink of Parquet files; see ParquetWriterFormat."""
        return FileSink.for_bulk_format(base_path, ParquetWriterFormat(compression))

    def paths(self) -> list[str]:
        return [self._options.base_path]

    def accepts_changelog(self) -> bool:
        return self._options.file_format.shows_row_kinds

    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        return _FileSinkWriter(self._options, context, restored)

    def create_committer(self) -> Committer | None:
        return _FileCommitter()

    def create_sweeper(self, context: WriterContext) -> Sweeper | None:
        return _FileSweeper(Path(self._options.base_path), context)


class FileSinkBuilder:
    """Source: PyFlink, FileSink.RowFormatBuilder and BulkFormatBuilder."""

    def __init__(self, base_path: str | Path, file_format: FileWriterFormat, rolling_policy: RollingPolicy) -> None:
        self._options = _SinkOptions(
            base_path=local_path(base_path),
            file_format=file_format,
            rolling_policy=rolling_policy,
            bucket_assigner=BucketAssigner.date_time_bucket_assigner(),
            output_file_config=OutputFileConfig(),
            bucket_check_interval_ms=60_000,
        )

    def with_bucket_check_interval(self, interval: int) -> FileSinkBuilder:
        """Set how often, in ms, the rolling policy is asked although nothing is written.

        Raises:
            ValueError: the interval is not above 0.
        """
        if interval <= 0:
            raise ValueError(f"the bucket check interval must be above 0 ms, not {interval}")
        self._options = replace(self._options, bucket_check_interval_ms=interval)
        return self

    def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> FileSinkBuilder:
        """Set which directory below the base path records go to; by default one for each hour of writing."""
        self._options = replace(self._options, bucket_assigner=bucket_assigner)
        return self

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> FileSinkBuilder:
        """Set how part files are named."""
        self._options = replace(self._options, output_file_config=output_file_config)
        return self

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> FileSinkBuilder:
        """Set when a new part file is begun.

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
        """Refuse, since part files are not compacted.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("FileSink.enable_compact is not supported; part files stay as they were written")

    def build(self) -> FileSink:
        """Make the sink."""
        return FileSink(self._options)


# PyFlink has a class of its own for each kind of format
FileSink.BaseBuilder = FileSink.RowFormatBuilder = FileSink.BulkFormatBuilder = FileSinkBuilder


class _FileSinkWriter(SinkWriter):
    def __init__(self, options: _SinkOptions, context: WriterContext, restored: Sequence[Any]) -> None:
        self._options = options
        self._context = context
        self._base = Path(options.base_path)
        self._uid = secrets.token_hex(6)
        self._counter = 0
        #: being written, by bucket; the longest unused first
        self._parts: dict[str, PartFile] = {}
        #: finished, not handed out yet
        self._finished: list[PartFile] = []
        #: handed out and not committed, by hidden path; closed, and removed unless a snapshot holds them, at the end
        self._prepared: dict[str, PartFile] = {}
        #: those that a snapshot holds
        self._kept: set[PartFile] = set()
        #: directories in which files or directories were made since the last snapshot, by this writer or perhaps by
        #: one whose process ended before it could sync them
        self._new_in: set[Path] = set()
        #: directories that this writer has used
        self._known = {self._base}
        options.file_format.check(context.input_type)
        self._fingerprint = options.file_format.fingerprint(context.input_type)
        relies_on_base = any(Path(item["temporary"]).is_relative_to(self._base) for item in context.held)
        if relies_on_base and not self._base.is_dir():
            # a directory made anew would look as if its files had been removed
            raise directory_away(self._base)
        #: named like a part file: a process that is killed while the probe exists leaves it to the next attempt's sweep
        self._probe = hidden_name(f"probe-{self._uid}", context.origin, context.owner, context.attempt)
        check_writable(self._base, self._probe)
        sync_above(self._base)
        try:
            for item in restored:
                self._resume(item)
        except BaseException:
            self._close_parts()
            raise
        self._schedule_check()

    def write(self, batch: RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        now_ms = self._context.clock.now_ms()
        for bucket, rows in self._options.bucket_assigner.split(batch, now_ms):
            self._roll_if_due(bucket, now_ms)
            part = self._parts.pop(bucket, None)
            if part is None:
                part = self._begin(bucket, now_ms)
            self._parts[bucket] = part
            part.write(rows, now_ms)
            self._roll_if_due(bucket, now_ms)
        while len(self._parts) > MAX_OPEN_PARTS:
            self._finish_part(next(iter(self._parts)))

    def flush(self, end_of_input: bool) -> None:
        if end_of_input or self._options.rolling_policy.rolls_on_checkpoint:
            for bucket in list(self._parts):
                self._finish_part(bucket)

    def prepare_savepoint(self, checkpoint_id: int) -> None:
        for bucket in list(self._parts):
            self._finish_part(bucket)
        for part in (*self._prepared.values(), *self._finished):
            part.reserve(checkpoint_id)
        sync_all(self._prepared.values(), ())

    def prepare_commit(self) -> Sequence[Any]:
        sync_all(self._finished, self._new_directories())
        finished, self._finished = self._finished, []
        self._prepared |= {str(part.temporary): part for part in finished}
        return [part.committable() for part in finished]

    def snapshot_state(self) -> Sequence[Any]:
        sync_all(self._parts.values(), self._new_directories())
        self._kept.update(self._prepared.values(), self._parts.values())
        return [
            {
                **part.committable(),
                "bucket": bucket,
                "rows": part.rows,
                "created_ms": part.created_ms,
                "format": self._fingerprint,
            }
            for bucket, part in self._parts.items()
        ]

    def committed(self, committables: Sequence[Any]) -> None:
        for committable in committables:
            part = self._prepared.pop(committable["temporary"], None)
            if part is not None:
                self._kept.discard(part)
                part.close(remove=False)

    def close(self) -> None:
        self._cancel_check()
        self._close_parts()

    def _close_parts(self) -> None:
        parts = [*self._prepared.values(), *self._finished, *self._parts.values()]
        self._prepared, self._finished, self._parts = {}, [], {}
        for part in parts:
            part.close(remove=part not in self._kept)

    @property
    def _suffix(self) -> str:
        suffix = self._options.output_file_config.part_suffix
        return self._options.file_format.suffix if suffix is None else suffix

    def _begin(
        self,
        bucket: str,
        now_ms: int,
        beginning: tuple[Path, int] | None = None,
        only_copied: str | None = None,
    ) -> PartFile:
        """Begin a file.

        Args:
            bucket: directory below the base path.
            now_ms: wall-clock time.
            beginning: as of PartFile.
            only_copied: suffix of a file to which nothing will be added; None: of the sink's format.
        """
        config, context = self._options.output_file_config, self._context
        suffix = self._suffix if only_copied is None else only_copied
        file_format = self._options.file_format if only_copied is None else AsItIs()
        name = f"{config.part_prefix}-{self._uid}-{context.subtask_index}-{self._counter}"
        self._counter += 1
        directory = self._base / bucket
        if directory not in self._known:
            if not directory.is_dir():
                check_writable(directory, self._probe)
            self._new_in.update(self._base / parent for parent in Path(bucket).parents)
            if len(self._known) >= MAX_KNOWN_DIRECTORIES:
                self._known.clear()
            self._known.add(directory)
        self._new_in.add(directory)
        temporary = directory / hidden_name(name, context.origin, context.owner, context.attempt)
        target = directory / f"{name}{suffix}"
        return PartFile(temporary, target, file_format, context.input_type, now_ms, beginning)

    def _resume(self, item: Any) -> None:
        """Continue with a copy of a former writer's file, as long as it was at the snapshot; one for each bucket."""
        bucket, origin = item["bucket"], Path(item["temporary"])
        if bucket in self._parts:
            self._finish_part(bucket)
        if size_of(origin) is None:
            if size_of(Path(item["target"])) is None:
                raise SnapshotUnusableError(f"{origin}, which the snapshot relies on, is gone")
            # only if the newest checkpoint was damaged, or the job goes back to an old savepoint
            logger.warning("%s was committed after the restored checkpoint: its rows stay", item["target"])
            return
        suffix = suffix_of(origin, Path(item["target"]))
        # snapshots of earlier versions do not say what the file holds
        written = item.get("format", self._fingerprint if suffix == self._suffix else "")
        is_other = written != self._fingerprint or not self._options.file_format.can_resume
        beginning = (origin, item["bytes"])
        part = self._begin(bucket, self._context.clock.now_ms(), beginning, suffix if is_other else None)
        part.rows, part.created_ms = item["rows"], item["created_ms"]
        self._parts[bucket] = part
        if is_other:
            # the program writes another format, or other columns, now: it is committed as it was
            self._finish_part(bucket)

    def _new_directories(self) -> set[Path]:
        new_in, self._new_in = self._new_in, set()
        return new_in

    def _finish_part(self, bucket: str) -> None:
        part = self._parts.pop(bucket)
        # listed first: if finishing fails, closing still removes it
        self._finished.append(part)
        part.finish()

    def _roll_if_due(self, bucket: str, now_ms: int) -> None:
        part = self._parts.get(bucket)
        if part is not None and self._options.rolling_policy.is_due(
            part.size_bytes, now_ms - part.created_ms, now_ms - part.written_ms
        ):
            self._finish_part(bucket)

    def _schedule_check(self) -> None:
        service = self._context.processing_time
        self._cancel_check = service.register_timer(
            service.now_ms() + self._options.bucket_check_interval_ms, self._check
        )

    def _check(self, timestamp_ms: int) -> None:
        for bucket in list(self._parts):
            self._roll_if_due(bucket, self._context.clock.now_ms())
        self._schedule_check()


class _FileCommitter(Committer):
    def check(self, committables: Sequence[Any]) -> None:
        for committable in committables:
            check_part(committable)

    def commit(self, committables: Sequence[Any]) -> CommitTally:
        renamed = [commit_part(committable) for committable in committables]
        # those too that were renamed before: perhaps nobody got as far as this
        sync_all((), {Path(committable["target"]).parent for committable in committables})
        return CommitTally(already_committed=renamed.count(False))


class _FileSweeper(Sweeper):
    """Looks for leftovers on a thread: the directory may hold very many files."""

    def __init__(self, base: Path, context: WriterContext) -> None:
        self._base = base
        self._origin = context.origin
        self._owner = context.owner
        #: used by the thread
        self._predecessors = Predecessors(context)
        #: whether what other jobs have left may go as well. Hidden files lock nothing: until then they may stay.
        self._takes_over = False
        #: attempt → checkpoint ids
        self._failed_savepoints: dict[int, set[int]] = {}
        self._call: BackgroundCall[None] | None = None
        #: the last sweep that was asked for; None: it was begun
        self._wanted: Callable[[], None] | None = None

    def sweep(self, held: Sequence[Any]) -> None:
        spared, takes_over = {item["temporary"] for item in held}, self._takes_over
        failed = {attempt: set(ids) for attempt, ids in self._failed_savepoints.items()}
        self._wanted = lambda: self._remove(spared, takes_over, failed)
        if self._call is not None:
            if not self._call.is_done:
                return
            self._call.result()
        wanted, self._wanted = self._wanted, None
        self._call = BackgroundCall("file-sink-sweep", wanted)

    def take_over(self) -> None:
        self._takes_over = True

    def savepoint_failed(self, attempt: int, checkpoint_id: int) -> None:
        self._failed_savepoints.setdefault(attempt, set()).add(checkpoint_id)

    def sweep_at_end(self, held: Sequence[Any]) -> None:
        self.sweep([item for item in held if (maker_of(Path(item["temporary"])) or ("", 0))[0] != self._owner])

    def close(self) -> None:
        if self._call is not None:
            self._call.close()
        if self._wanted is not None:
            self._wanted()

    def _remove(self, held_paths: set[str], takes_over: bool, failed: Mapping[int, set[int]]) -> None:
        def is_leftover(path: Path) -> bool:
            maker = maker_of(path)
            is_predecessors = maker is not None and self._predecessors.has_left(*maker)
            is_mine = maker is not None and maker[0] == self._owner
            return is_predecessors and (is_mine or takes_over) and str(path) not in held_paths

        def failed_of(path: Path) -> set[int]:
            maker = maker_of(path)
            # other jobs, and JobMasters that know nothing of a savepoint, give the same number again
            return failed.get(maker[1], set()) if maker is not None and maker[0] == self._owner else set()

        remove_leftovers(self._base, self._origin, is_leftover, failed_of)
        self._predecessors.seal()
