"""ReplaySource: recorded rows, once or again and again, as fast as they happened, faster, or at once.

The recording is cut by time into slices of equal length. Each subtask reads a lane of its own, of each slice every n-th
row, so that the subtasks keep pace with each other. The same split and position always give the same rows; only when
they come is a matter of the clock. A slot's process holds the whole recording, so it may have some million rows.
Readers are the task thread's.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from polars.exceptions import PolarsError

from runtime.common.execution_kind import ExecutionKind
from runtime.common.typeinfo import RowTypeInfo, TypeInformation, Types
from runtime.connectors.flights import FIRST_DAY_MS, FLIGHT_TYPE, flights
from runtime.core.batch import RecordBatch
from runtime.core.clock import Clock
from runtime.operators.columnar.frames import FrameReader, batch_of, type_of
from runtime.operators.source import (
    Boundedness,
    NoSplit,
    ReaderContext,
    ReadStatus,
    Source,
    SourceError,
    SourceSplit,
    SplitEnumerator,
    SplitReader,
)

MS_PER_HOUR = 3_600_000
DAY_MS = 24 * MS_PER_HOUR
POLL_MS = 100
"""Wait between two batches: with fewer the page's rates get lumpy, more cost wake-ups."""
MAX_CATCH_UP_MS = 1000.0
"""A reader that was held up emits at most so much at once; it goes on later rather than in a burst."""
MAX_SLICES = 100_000
_TICKS_PER_MS = {"ms": 1, "us": 1000, "ns": 1_000_000}
#: columns of slices beside the rows' own
_DUE, _TIME = "__due_ms", "__time_ms"


@dataclass(frozen=True)
class Recording:
    """Rows to be replayed, with their times.

    Args:
        origin: "flights", or the paths of files.
        row_type: of the rows.
        time_column: event time: LONG (ms since the epoch), SQL_TIMESTAMP or INSTANT, never null.
        due_column: when a row comes, likewise; None: at its event time. A null one means that too.
        slice_ms: length of a slice.
        start_ms: beginning of the first slice; None: the first row's.
        longest_pause_ms: longer ones are cut to that, and the slice stretched over its time instead; None = none is.
    """

    origin: str | tuple[str, ...]
    row_type: RowTypeInfo
    time_column: str
    due_column: str | None = None
    slice_ms: int = MS_PER_HOUR
    start_ms: int | None = None
    longest_pause_ms: int | None = None

    def __post_init__(self) -> None:
        for name in (self.time_column, self.due_column):
            if name is None:
                continue
            if name not in self.row_type.get_field_names():
                raise ValueError(f"there is no column {name!r}; there are {self.row_type.get_field_names()}")
            if self.row_type.get_field_types()[self.row_type.get_field_names().index(name)] not in (
                Types.LONG(),
                Types.SQL_TIMESTAMP(),
                Types.INSTANT(),
            ):
                raise ValueError(f"column {name!r} must be LONG (ms), SQL_TIMESTAMP or INSTANT to be a time")
        for what, number in (("slice_ms", self.slice_ms), ("longest_pause_ms", self.longest_pause_ms)):
            if number is not None and number < 1:
                raise ValueError(f"{what} must be at least 1, not {number}")

    def rows(self) -> pl.DataFrame:
        """Read all rows.

        Raises:
            SourceError: a file cannot be read, or does not have the columns.
        """
        if self.origin == "flights":
            return flights()
        schema = FrameReader(self.row_type).schema
        frames = []
        for path in self.origin:
            try:
                frames.append(_read(path, schema).select(pl.col(name).cast(dtype) for name, dtype in schema.items()))
            except (PolarsError, OSError) as error:
                raise SourceError(f"{path} cannot be replayed: {error}") from error
        return pl.concat(frames)


def _read(path: str, schema: dict[str, pl.DataType]) -> pl.DataFrame:
    if path.endswith(".csv"):
        return pl.read_csv(path, columns=list(schema), schema_overrides=schema)
    if path.endswith((".ndjson", ".jsonl")):
        return pl.read_ndjson(path, schema=schema)
    return pl.read_parquet(path, columns=list(schema))


@dataclass(frozen=True)
class Slices:
    """A recording, cut and paced."""

    frames: Sequence[pl.DataFrame]
    """One frame a slice, in the order in which rows come: the row type's columns, and as __time_ms the event time and
    as __due_ms the ms from the slice's start at which a row comes, in [0, slice_ms].
    """


@functools.lru_cache(maxsize=2)
def slices_of(recording: Recording) -> Slices:
    """Return the slices of a recording, read once per process.

    Raises:
        SourceError: it cannot be read, has no rows, rows without a time, or too many slices.
    """
    rows = recording.rows()
    if not rows.height:
        raise SourceError("there are no rows to replay")
    times = rows.with_columns(_milliseconds(rows, recording.time_column).alias(_TIME))
    if times[_TIME].null_count():
        raise SourceError(f"a row has no time in column {recording.time_column!r}, so it has no place in a replay")
    due = pl.col(_TIME)
    if recording.due_column is not None:
        due = pl.coalesce(_milliseconds(rows, recording.due_column), due)
    times = times.with_columns(due.alias(_DUE)).sort(_DUE, _TIME, maintain_order=True)
    start, last = recording.start_ms, times[_DUE][-1]
    start = times[_DUE][0] if start is None else start
    count = (last - start) // recording.slice_ms + 1
    if count > MAX_SLICES:
        raise SourceError(
            f"the recording has {count} slices of {recording.slice_ms} ms; at most {MAX_SLICES} can be replayed"
        )
    return Slices(_paced(times, start, count, recording))


def _paced(times: pl.DataFrame, start: int, count: int, recording: Recording) -> list[pl.DataFrame]:
    length = recording.slice_ms
    number = ((pl.col(_DUE) - start) // length).clip(0, count - 1)
    times = times.with_columns(number.alias("__slice")).with_columns(pl.col(_DUE) - start - pl.col("__slice") * length)
    longest = recording.longest_pause_ms
    if longest is not None:
        pause = (pl.col(_DUE) - pl.col(_DUE).shift(1).over("__slice").fill_null(0)).clip(0, longest)
        rest = (length - pl.col(_DUE).last().over("__slice")).clip(0, longest)
        paced = pause.cum_sum().over("__slice")
        stretch = length / (paced.last().over("__slice") + rest)
        times = times.with_columns((paced * stretch).alias(_DUE))
    times = times.with_columns(pl.col(_DUE).cast(pl.Float64).clip(0, length))
    found = times.partition_by("__slice", as_dict=True, include_key=False)
    empty = times.drop("__slice").clear()
    return [found.get((index,), empty) for index in range(count)]


def _milliseconds(rows: pl.DataFrame, column: str) -> pl.Expr:
    dtype = rows.schema[column]
    return pl.col(column).dt.epoch("ms") if isinstance(dtype, pl.Datetime) else pl.col(column)


class ReplaySource(Source):
    """Replays a recording; made by `flights` or `of_files`. Rows have event times.

    Args:
        recording: the rows.
        speed: how many times as fast as it happened; None = as fast as possible.
        repeat: whether it begins again behind its end, its times moved on by its length; else the source ends.

    Raises:
        ValueError: the speed is not above 0.
    """

    split_format = "lanes of a recording"

    def __init__(self, recording: Recording, speed: float | None = 1.0, repeat: bool = False) -> None:
        if speed is not None and not speed > 0:
            raise ValueError(f"the speed must be above 0, not {speed!r}")
        self.recording = recording
        self.speed = speed
        self.repeat = repeat
        self.boundedness = Boundedness.CONTINUOUS_UNBOUNDED if repeat else Boundedness.BOUNDED

    @staticmethod
    def flights(speed: float | None = 3600.0, repeat: bool = False) -> ReplaySource:
        """Return a replay of the 336,776 flights that left New York in 2013, in the order in which they really left.

        Event time is the scheduled departure, so the stream is out of order by nature, by up to 22 hours. A day takes
        24 hours by the recording's clock; pauses above half an hour, as there are every night, are cut, and the day is
        stretched over its time instead, so that something always moves.

        Args:
            speed: 3600 makes an hour of a second; None = as fast as possible.
            repeat: year after year, each 365 days later.

        Raises:
            ValueError: the speed is not above 0.
        """
        recording = Recording("flights", FLIGHT_TYPE, "sched_dep", "departed", DAY_MS, FIRST_DAY_MS, MS_PER_HOUR // 2)
        return ReplaySource(recording, speed, repeat)

    @staticmethod
    def of_files(
        *paths: str | Path,
        time_column: str,
        row_type: RowTypeInfo | None = None,
        due_column: str | None = None,
        speed: float | None = 1.0,
        repeat: bool = False,
        slice_ms: int = MS_PER_HOUR,
        longest_pause_ms: int | None = None,
    ) -> ReplaySource:
        """Return a replay of files that all slots can read: Parquet, .csv with a header, .ndjson.

        Args:
            paths: of the files; rows of equal time come in the order of the files.
            time_column: event time: LONG (ms since the epoch), SQL_TIMESTAMP or INSTANT, never null.
            row_type: names and types of the columns; None: as the first file, a Parquet one, has them.
            due_column: the time at which a row comes; None: its event time. With it, rows come out of order.
            speed: how many times as fast as it happened; None = as fast as possible.
            repeat: whether it begins again behind its end, its times moved on by its length.
            slice_ms: length of the slices; with speed, subtasks may be apart by a part of one.
            longest_pause_ms: longer ones are cut to that, and their slice is stretched over its time.

        Raises:
            SourceError: the first file cannot be read.
            ValueError: a number is out of range, there is no file, or a column cannot be a time.
        """
        if not paths:
            raise ValueError("a replay needs at least one file")
        if row_type is None:
            try:
                row_type = type_of(pl.read_parquet(paths[0], n_rows=0), {})
            except (PolarsError, OSError) as error:
                raise SourceError(f"{paths[0]} cannot be read: {error}; declare the row_type") from error
        names = tuple(str(Path(path).absolute()) for path in paths)
        recording = Recording(names, row_type, time_column, due_column, slice_ms, None, longest_pause_ms)
        return ReplaySource(recording, speed, repeat)

    def produced_type(self) -> TypeInformation:
        return self.recording.row_type

    def create_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        count = None if self.repeat else lambda: len(slices_of(self.recording).frames)
        if restored is None:
            return _LaneEnumerator([0] * parallelism, [], count)
        next_slices: list[int] = restored["next"]
        returned = [self.split_from_json(item) for item in restored["returned"]]
        if len(next_slices) != parallelism:
            # what the old lanes have begun is read to its end, whoever takes it; then the new lanes go on
            first, lanes = max(next_slices), len(next_slices)
            returned += [lane_split(s, lane, lanes) for lane in range(lanes) for s in range(next_slices[lane], first)]
            next_slices = [first] * parallelism
        return _LaneEnumerator(next_slices, returned, count)

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        assert isinstance(split, LaneSplit)
        in_batches = ExecutionKind.of(context.configuration) is ExecutionKind.MICRO_BATCH
        return LaneReader(self, split, position or 0, context.clock, in_batches=in_batches)

    def split_to_json(self, split: SourceSplit) -> Any:
        return _lane_to_json(split)

    def split_from_json(self, value: Any) -> SourceSplit:
        return lane_split(*value)


@dataclass(frozen=True, slots=True)
class LaneSplit(SourceSplit):
    """Every `lanes`-th row of a slice."""

    slice: int
    """Since the start of the replay; behind the last one the first comes again."""
    lane: int
    lanes: int


def lane_split(slice_number: int, lane: int, lanes: int) -> LaneSplit:
    """Return the split of one lane of one slice."""
    return LaneSplit(f"slice-{slice_number}-lane-{lane}-of-{lanes}", slice_number, lane, lanes)


def _lane_to_json(split: SourceSplit) -> list[int]:
    assert isinstance(split, LaneSplit)
    return [split.slice, split.lane, split.lanes]


class _LaneEnumerator(SplitEnumerator):
    """Gives each subtask its own lane, slice by slice.

    Args:
        next_slices: lane → the slice that it reads next; as many lanes as subtasks.
        returned: splits that somebody has to read first.
        count: tells the number of slices; None: no end.
    """

    def __init__(
        self, next_slices: Sequence[int], returned: Sequence[SourceSplit], count: Callable[[], int] | None
    ) -> None:
        self._next = list(next_slices)
        self._returned = deque(returned)
        self._count = count

    def next_split(self, subtask_index: int) -> SourceSplit | NoSplit:
        if self._returned:
            return self._returned.popleft()
        number = self._next[subtask_index]
        if self._count is not None and number >= self._count():
            return NoSplit.NEVER
        self._next[subtask_index] += 1
        return lane_split(number, subtask_index, len(self._next))

    def add_splits_back(self, splits: Sequence[SourceSplit]) -> None:
        self._returned.extend(splits)

    def snapshot(self) -> Any:
        return {"next": self._next, "returned": [_lane_to_json(split) for split in self._returned]}


class LaneReader(SplitReader):
    """Emits the rows of a lane when they are due. Its position is the number of those it has emitted; in micro-batches,
    between which it goes on with its pace, with the wall-clock ms since the slice's start.

    Args:
        source: the replay.
        split: the lane.
        position: from which it reads.
        clock: that rows wait for.
        in_batches: whether a reader lives for one micro-batch.
    """

    def __init__(
        self,
        source: ReplaySource,
        split: LaneSplit,
        position: int | Sequence[float],
        clock: Clock,
        *,
        in_batches: bool = False,
    ) -> None:
        recording, speed = source.recording, source.speed
        slices = slices_of(recording).frames
        self._type = recording.row_type
        self._rows, self._times, due = _lane(slices[split.slice % len(slices)], split)
        shift_ms = split.slice // len(slices) * len(slices) * recording.slice_ms
        if shift_ms:
            self._times = self._times + shift_ms
            moved = [name for name in (recording.time_column, recording.due_column) if name is not None]
            schema = self._rows.schema
            self._rows = self._rows.with_columns(_shifted(name, shift_ms, schema) for name in dict.fromkeys(moved))
        #: wall-clock ms, from the slice's start, at which each row is due; None: at once
        self._due: npt.NDArray[np.float64] | None = None if speed is None else due / speed
        self._slice_ms = 0.0 if speed is None else recording.slice_ms / speed
        self._clock = clock
        self._in_batches = in_batches
        number, *elapsed = [position] if isinstance(position, int) else position
        self._next = int(number)
        #: monotonic time at which the slice began, or would have if it had been read from its start
        self._began = clock.monotonic_ms() - (elapsed[0] if elapsed else self._next_due() if self._next else 0.0)

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        elapsed = self._clock.monotonic_ms() - self._began
        behind = elapsed - self._next_due() - MAX_CATCH_UP_MS
        # a batch may be long after the one before it, and has a limit of its own
        if behind > 0.0 and not self._in_batches:
            self._began += behind
            elapsed -= behind
        end = len(self._times) if self._due is None else int(np.searchsorted(self._due, elapsed, side="right"))
        stop = min(end, self._next + max_rows)
        if stop > self._next:
            rows, times = self._rows[self._next : stop], self._times[self._next : stop]
            self._next = stop
            return batch_of(rows, self._type, times)
        return ReadStatus.END_OF_SPLIT if elapsed >= self._slice_ms else ReadStatus.NOTHING_YET

    @property
    def position(self) -> Any:
        return [self._next, self._clock.monotonic_ms() - self._began] if self._in_batches else self._next

    def next_read_ms(self) -> int | None:
        return self._clock.now_ms() + POLL_MS

    def _next_due(self) -> float:
        if self._due is None:
            return 0.0
        return float(self._due[self._next]) if self._next < len(self._due) else self._slice_ms


def _lane(rows: pl.DataFrame, split: LaneSplit) -> tuple[pl.DataFrame, npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return a lane's rows, their event times and the ms from the slice's start at which they come."""
    lane = rows.gather_every(split.lanes, split.lane)
    return lane.drop(_TIME, _DUE), lane[_TIME].to_numpy(), lane[_DUE].to_numpy()


def _shifted(name: str, shift_ms: int, schema: pl.Schema) -> pl.Expr:
    dtype = schema[name]
    ticks = shift_ms * _TICKS_PER_MS[dtype.time_unit] if isinstance(dtype, pl.Datetime) else shift_ms
    return (pl.col(name).cast(pl.Int64) + ticks).cast(dtype)
