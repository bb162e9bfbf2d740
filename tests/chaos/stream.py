"""The self-proving stream: what each record says of itself, the source that makes it, and the operators that check it.

Every record has a source id, a sequence number and a checksum of both; every hop verifies the checksum. A record's key
is a function of the two, and the sequence numbers of one key are known, so keyed state can tell at once whether one was
lost, came twice or overtook another. What the job puts out is compared with a model that needs one number per source.
"""

from __future__ import annotations

import math
import os
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from runtime.common import Row, Types
from runtime.common.typeinfo import TypeInformation
from runtime.connectors.rate_limiter import RateLimiter
from runtime.core.batch import RecordBatch
from runtime.datastream import KeyedBroadcastProcessFunction, KeyedProcessFunction, MapFunction, RuntimeContext
from runtime.datastream.state import ListState, ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from runtime.operators.checkpointed_function import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
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
from tests.chaos.fault_points import FaultPoints

SOURCES = 8
"""At least as many as the largest parallelism, so that every subtask has one."""
RESIDUES = 6
"""Keys of each source."""
MS_PER_RECORD = 10
"""Event time between two records of a source."""
TIMER_EVERY = 5
"""Every so many records of its key one registers a timer."""
TIMER_DELAY_MS = 700
RECORD, TIMER = 0, 1

RAW = Types.TUPLE([Types.LONG()] * 4)
"""source, sequence, checksum, number of checks passed."""
OUT_FIELDS = ("source", "seq", "key", "n", "tally", "kind", "bad", "crc")
OUT = Types.ROW_NAMED(list(OUT_FIELDS), [Types.LONG()] * len(OUT_FIELDS))
COUNTED = Types.TUPLE([Types.LONG()] * 6)
RULES = MapStateDescriptor("rules", Types.LONG(), Types.LONG())


class CorruptRecordError(Exception):
    """A record is not what the source made."""


def checksum(source: int, sequence: int) -> int:
    """Return a record's checksum."""
    return zlib.crc32(f"{source}/{sequence}".encode())


def key_of(source: int, sequence: int) -> int:
    """The key of a record; `key % SOURCES` is its source."""
    return (sequence % RESIDUES) * SOURCES + source


def number_in_key(sequence: int) -> int:
    """Return the number of records of its key up to and including that one."""
    return sequence // RESIDUES + 1


def timestamp_of(sequence: int) -> int:
    """Event time of a record, ms."""
    return sequence * MS_PER_RECORD


def timer_of(sequence: int) -> int | None:
    """Return the time of the timer that the record registers, if any."""
    due = number_in_key(sequence) % TIMER_EVERY == 0
    return timestamp_of(sequence) + TIMER_DELAY_MS if due else None


def check(source: int, sequence: int, crc: int) -> None:
    """Verify a record; raises CorruptRecordError."""
    if crc != checksum(source, sequence):
        raise CorruptRecordError(f"record {sequence} of source {source} has checksum {crc}")


# --- source -----------------------------------------------------------------------------------------------------------


def sources_of(region: int, regions: int) -> tuple[int, ...]:
    """The sources of one of several pipelines."""
    return tuple(range(region, SOURCES, regions))


class ProvingSource(Source):
    """Splits without end, one for each source, each of them 0, 1, 2, …

    Args:
        rows_per_second: of each split.
        sources: their ids.
    """

    boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    splits_at_once = SOURCES

    def __init__(self, rows_per_second: float, sources: Sequence[int]) -> None:
        self.rows_per_second = rows_per_second
        self.sources = tuple(sources)

    def produced_type(self) -> TypeInformation | None:
        return RAW

    def create_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        # shared out evenly at the start; what is restored has been dealt out before
        limit = math.ceil(len(self.sources) / parallelism) if restored is None else SOURCES
        return _Enumerator(list(self.sources) if restored is None else restored, limit)

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        limiter = RateLimiter(self.rows_per_second, 1, context.clock)
        return _Reader(int(split.split_id), 0 if position is None else position, limiter)

    def split_to_json(self, split: SourceSplit) -> Any:
        return split.split_id

    def split_from_json(self, value: Any) -> SourceSplit:
        return SourceSplit(value)


class _Enumerator(SplitEnumerator):
    def __init__(self, left: list[int], limit: int) -> None:
        self._left = left
        self._limit = limit
        self._given: dict[int, int] = {}

    def next_split(self, subtask_index: int) -> SourceSplit | NoSplit:
        given = self._given.get(subtask_index, 0)
        if not self._left or given >= self._limit:
            return NoSplit.LATER
        self._given[subtask_index] = given + 1
        return SourceSplit(str(self._left.pop(0)))

    def add_splits_back(self, splits: Sequence[SourceSplit]) -> None:
        self._left.extend(int(split.split_id) for split in splits)
        self._limit = SOURCES

    def snapshot(self) -> Any:
        return list(self._left)


class _Reader(SplitReader):
    def __init__(self, source: int, sequence: int, limiter: RateLimiter) -> None:
        self._source = source
        self._sequence = sequence
        self._limiter = limiter

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        rows = self._limiter.take(max_rows)
        if rows == 0:
            return ReadStatus.NOTHING_YET
        sequences = range(self._sequence, self._sequence + rows)
        self._sequence += rows
        values = [(self._source, s, checksum(self._source, s), 0) for s in sequences]
        return RecordBatch.of_values(values, [timestamp_of(s) for s in sequences], type_info=RAW)

    @property
    def position(self) -> Any:
        return self._sequence

    def next_read_ms(self) -> int | None:
        return self._limiter.next_ms()


# --- operators --------------------------------------------------------------------------------------------------------


class Check(MapFunction, CheckpointedFunction):
    """First hop, in the source's chain: counts records in operator state, and fails where it is told to.

    Of the list state every subtask gets a part, of the union list state all: the first subtask then goes on from its
    sum. Either way the sum over all subtasks is the number of records.
    """

    def __init__(self, points: FaultPoints) -> None:
        self._points = points

    def open(self, runtime_context: RuntimeContext) -> None:
        if runtime_context.get_index_of_this_subtask() > 0:
            self._in_union = 0

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        if context.is_restored():
            self._points.reach("restore")
        store = context.get_operator_state_store()
        self._list: ListState[int] = store.get_list_state(ListStateDescriptor("counted", Types.LONG()))
        self._union: ListState[int] = store.get_union_list_state(ListStateDescriptor("counted by all", Types.LONG()))
        self._in_list, self._in_union = sum(self._list.get()), sum(self._union.get())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._points.reach("snapshot")
        self._list.update([self._in_list])
        self._union.update([self._in_union])

    def map(self, value: Any) -> Any:
        self._points.reach("map")
        source, sequence, crc, hops = value
        check(source, sequence, crc)
        self._in_list += 1
        self._in_union += 1
        return source, sequence, crc, hops + 1

    def close(self) -> None:
        self._points.reach("close")


class Ledger(KeyedProcessFunction):
    """Second hop, keyed by `key_of`: numbers the records of each key and keeps timers.

    Emits (source, sequence, checksum, number in the key, kind, whether the number is not the one expected).
    """

    def __init__(self, points: FaultPoints) -> None:
        self._points = points

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self._points.reach("keyed")
        source, sequence, crc, _ = value
        check(source, sequence, crc)
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        timer = timer_of(sequence)
        if timer is not None:
            ctx.timer_service().register_event_time_timer(timer)
        yield source, sequence, crc, count, RECORD, int(count != number_in_key(sequence))

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        source = ctx.get_current_key() % SOURCES
        sequence = (timestamp - TIMER_DELAY_MS) // MS_PER_RECORD
        yield source, sequence, checksum(source, sequence), 0, TIMER, 0


class Tally(KeyedBroadcastProcessFunction[int, Any, int, Row]):
    """Third hop, keyed by source: counts its records, and sees that those of each key come in order.

    A second, broadcast input keeps a map that is the same in all subtasks.

    Args:
        points: where it fails.
        taps: each process notes there when it handled its first record.
    """

    def __init__(self, points: FaultPoints, taps: str) -> None:
        self._points = points
        self._taps = taps
        self._tapped = False

    def open(self, runtime_context: RuntimeContext) -> None:
        self._total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self._last = runtime_context.get_map_state(MapStateDescriptor("last", Types.LONG(), Types.LONG()))

    def process_broadcast_element(self, value: int, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        # rules of several sources come in another order to each subtask
        rules = ctx.get_broadcast_state(RULES)
        rules.put(value % 4, max(value, rules.get(value % 4) or 0))

    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterator[Row]:
        if not self._tapped:
            self._tapped = True
            (Path(self._taps) / str(os.getpid())).write_text(str(time.time()))
        self._points.reach("tally")
        source, sequence, crc, number, kind, bad = value
        check(source, sequence, crc)
        key, total = key_of(source, sequence), 0
        if kind == RECORD:
            total = (self._total.value() or 0) + 1
            self._total.update(total)
            bad |= int(number != (self._last.get(key) or 0) + 1)
            self._last.put(key, number)
        numbers = (source, sequence, key, number, total, kind, bad, crc)
        yield Row(**dict(zip(OUT_FIELDS, numbers, strict=True)))
