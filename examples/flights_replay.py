"""FlightsReplay: an unbounded source that replays a year of flights by the clock, again and again with shifted years.

Flights come in the order in which they really left. Each day of 24 hours takes 24 seconds; a pause of more than half an
hour, as there is every night, is cut to that and the day stretched over the time instead, so that something always
moves. Each subtask reads a lane of its own: of each day, every n-th flight. The same split and position always give the
same records; only when they come is a matter of the clock.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from examples.tools.replay_flights import FLIGHTS, MS_PER_MINUTE, scheduled_departure
from runtime.core.batch import RecordBatch
from runtime.core.clock import Clock
from runtime.operators.source import (
    Boundedness,
    NoSplit,
    ReaderContext,
    ReadStatus,
    Source,
    SourceSplit,
    SplitEnumerator,
    SplitReader,
)

MS_PER_HOUR = 3_600_000
DAY_MS = 24 * MS_PER_HOUR
DAYS = 365
FIRST_DAY_MS = 1_357_027_200_000
"""2013-01-01T08:00Z: days begin at 3 in the morning of New York's winter, when next to nothing leaves."""
LONGEST_PAUSE_MS = MS_PER_HOUR // 2
POLL_MS = 100
"""Wait between two batches: with fewer the page's rates get lumpy, more cost wake-ups."""
MAX_CATCH_UP_MS = 1000.0
"""A reader that was held up emits at most so much at once; it goes on later rather than in a burst."""


@dataclass(frozen=True, slots=True)
class LaneSplit(SourceSplit):
    """Every `lanes`-th flight of one day."""

    day: int
    """Since the start of the replay; day 365 is the first day of the second year."""
    lane: int
    lanes: int


class FlightsReplay(Source):
    """The flights as dicts: sched_dep (ms since the epoch), origin, dest, carrier, flight, dep_delay (minutes or None).

    Args:
        hours_per_second: speed of the replay.

    Raises:
        ValueError: the speed is not above 0.
    """

    boundedness = Boundedness.CONTINUOUS_UNBOUNDED

    def __init__(self, hours_per_second: float = 1.0) -> None:
        if not hours_per_second > 0:
            raise ValueError(f"the speed must be above 0, not {hours_per_second!r}")
        self.hours_per_second = hours_per_second

    def produced_type(self) -> None:
        return None

    def create_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        if restored is None:
            return LaneEnumerator([0] * parallelism, [])
        next_days: list[int] = restored["next_days"]
        returned = [self.split_from_json(item) for item in restored["returned"]]
        if len(next_days) != parallelism:
            # what the old lanes have begun is read to its end, whoever takes it; then the new lanes go on
            day = max(next_days)
            lanes = len(next_days)
            returned += [lane_split(d, lane, lanes) for lane in range(lanes) for d in range(next_days[lane], day)]
            next_days = [day] * parallelism
        return LaneEnumerator(next_days, returned)

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        assert isinstance(split, LaneSplit)
        return LaneReader(split, position or 0, self.hours_per_second, context.clock)

    def split_to_json(self, split: SourceSplit) -> Any:
        return lane_to_json(split)

    def split_from_json(self, value: Any) -> SourceSplit:
        return lane_split(*value)


def lane_split(day: int, lane: int, lanes: int) -> LaneSplit:
    """The split of one lane of one day."""
    return LaneSplit(f"day-{day}-lane-{lane}-of-{lanes}", day, lane, lanes)


def lane_to_json(split: SourceSplit) -> list[int]:
    assert isinstance(split, LaneSplit)
    return [split.day, split.lane, split.lanes]


class LaneEnumerator(SplitEnumerator):
    """Gives each subtask its own lane, day by day, so that the subtasks keep pace with each other.

    Args:
        next_days: lane → the day that it reads next; as many lanes as subtasks.
        returned: splits that somebody has to read first.
    """

    def __init__(self, next_days: Sequence[int], returned: Sequence[SourceSplit]) -> None:
        self._next_days = list(next_days)
        self._returned = deque(returned)

    def next_split(self, subtask_index: int) -> SourceSplit | NoSplit:
        if self._returned:
            return self._returned.popleft()
        day = self._next_days[subtask_index]
        self._next_days[subtask_index] += 1
        return lane_split(day, subtask_index, len(self._next_days))

    def add_splits_back(self, splits: Sequence[SourceSplit]) -> None:
        self._returned.extend(splits)

    def snapshot(self) -> Any:
        return {"next_days": self._next_days, "returned": [lane_to_json(split) for split in self._returned]}


class LaneReader(SplitReader):
    """Emits the flights of a lane when they are due. Its position is the number of those it has emitted."""

    def __init__(self, split: LaneSplit, position: int, hours_per_second: float, clock: Clock) -> None:
        flights = yearly_flights().partitions[split.day % DAYS].gather_every(split.lanes, split.lane)
        self._flights = flights.drop("due_ms")
        #: wall-clock ms, from the day's start, at which each flight is due
        self._due: npt.NDArray[np.float64] = flights["due_ms"].to_numpy() / (3600.0 * hours_per_second)
        self._day_ms = DAY_MS / (3600.0 * hours_per_second)
        self._shift_ms = split.day // DAYS * DAYS * DAY_MS
        self._clock = clock
        self._next = position
        #: monotonic time at which the day began, or would have if it had been read from its start
        self._began = clock.monotonic_ms() - (self._next_due() if position else 0.0)

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        elapsed = self._clock.monotonic_ms() - self._began
        behind = elapsed - self._next_due() - MAX_CATCH_UP_MS
        if behind > 0.0:
            self._began += behind
            elapsed -= behind
        stop = min(int(np.searchsorted(self._due, elapsed, side="right")), self._next + max_rows)
        if stop > self._next:
            flights = self._flights[self._next : stop].to_dicts()
            for flight in flights:
                flight["sched_dep"] += self._shift_ms
            self._next = stop
            return RecordBatch.of_values(flights)
        return ReadStatus.END_OF_SPLIT if elapsed >= self._day_ms else ReadStatus.NOTHING_YET

    @property
    def position(self) -> Any:
        return self._next

    def next_read_ms(self) -> int | None:
        return self._clock.now_ms() + POLL_MS

    def _next_due(self) -> float:
        return float(self._due[self._next]) if self._next < len(self._due) else self._day_ms


@dataclass(frozen=True, slots=True)
class Year:
    """The flights of the year by day."""

    partitions: Sequence[pl.DataFrame]
    """One frame per day, in the order of departure; the columns of the records and due_ms, the event-time ms from the
    day's start at which the flight is due, in [0, DAY_MS]."""


@functools.lru_cache(maxsize=1)
def yearly_flights() -> Year:
    """The year, read once per process: 0.3 s, 20 MB."""
    return Year(paced_days(pl.read_parquet(FLIGHTS)))


def paced_days(flights: pl.DataFrame) -> list[pl.DataFrame]:
    """Cut the flights into days and say when each flight is due.

    Args:
        flights: the columns of examples/data/flights.parquet.

    Returns:
        `DAYS` frames as `Year.partitions` has them; a day without flights is an empty one.
    """
    delay_ms = pl.col("dep_delay").cast(pl.Int64).fill_null(0) * MS_PER_MINUTE
    departures = (
        flights.with_columns(scheduled_departure().dt.epoch("ms").alias("sched_dep"))
        .with_columns((pl.col("sched_dep") + delay_ms - FIRST_DAY_MS).alias("since_ms"))
        .sort("since_ms", "sched_dep", maintain_order=True)
        # the last evening's late departures belong to the last day
        .with_columns((pl.col("since_ms") // DAY_MS).clip(0, DAYS - 1).alias("day"))
    )
    in_day = pl.col("since_ms") - pl.col("day") * DAY_MS
    pause = (in_day - in_day.shift(1).over("day").fill_null(0)).clip(0, LONGEST_PAUSE_MS)
    last_pause = (DAY_MS - in_day.last().over("day")).clip(0, LONGEST_PAUSE_MS)
    paced = departures.with_columns(pause.cum_sum().over("day").alias("paced"), last_pause.alias("rest")).with_columns(
        (pl.col("paced") * (DAY_MS / (pl.col("paced").last() + pl.col("rest").last()).over("day"))).alias("due_ms")
    )
    days = paced.select("day", "sched_dep", "origin", "dest", "carrier", "flight", "dep_delay", "due_ms").partition_by(
        "day", as_dict=True, include_key=False
    )
    empty = paced.select("sched_dep", "origin", "dest", "carrier", "flight", "dep_delay", "due_ms").clear()
    return [days.get((day,), empty) for day in range(DAYS)]
