"""Timers in RocksDB: all of them are rows, and the first ones of each key group are in memory too.

A row begins with the key group and the timestamp, so the rows of a key group are in firing order. A heap in memory
holds the first timers of every key group; a key group with more has a *limit*, the row at which the timers that are
only in the database begin. As long as each such key group has a timer in the heap, the first of all is in it. Adding or
deleting a timer behind the limit is a blind write: the row is the timer. Task's thread only.

At least one timer of each key group is in memory, and otherwise its share of MAX_TIMERS. The work is proportional to
the timers added and removed, however many key groups there are: a full memory is scanned, and not again before half as
many timers have been added; at most twice as many timers of a key group are read as were left of it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Protocol

from rocksdict import WriteBatch

from runtime.core.elements import MIN_WATERMARK
from runtime.core.keys import decode_key
from runtime.state.backend import Timer, TimerService
from runtime.state.errors import StateError
from runtime.state.namespaces import decode_namespace, encode_namespace
from runtime.state.rocksdb.instance import RocksDBInstance
from runtime.state.rocksdb.rows import (
    EVENT_COLUMN,
    KEY_GROUP,
    PROCESSING_COLUMN,
    TIMER,
    TIMER_VALUE,
    group_end,
    timer_of,
)
from runtime.state.rocksdb.rows import timer_row as make_row
from runtime.state.timer_slice import ENDLESS, TimerSlice
from runtime.state.timers import FiredTimer

MAX_TIMERS = 65_536
"""Maximum number of one queue's timers in memory, some 300 bytes each; twice the number of key groups if that is
more."""
_CHUNK = 1_024
"""Maximum number of timers of a key group that are read at once. With fewer, a burst of timers reads all the time; with
more, timers of key groups that have few others wait in memory.
"""
_MAX_UNWRITTEN = 65_536
"""Maximum number of unwritten changes; a snapshot has to write them while processing waits (2 µs each)."""


class TimerContext(Protocol):
    """The part of the backend that timers need."""

    current_entry: Any

    def set_current_key(self, key: Any) -> None: ...

    def flush(self) -> None:
        """Write all unwritten changes of all queues."""


class RocksDBTimerQueue:
    """The timers of one time domain of one service.

    Args:
        context: the backend.
        db: the database.
        column: name of the column family; its timers are restored.
        key_groups: of the backend.
    """

    def __init__(self, context: TimerContext, db: RocksDBInstance, column: str, key_groups: range) -> None:
        #: the timers in memory: row → sequence number
        self.live: dict[bytes, int] = {}
        self._context = context
        self._db = db
        self._column = column
        self._handle = db.handle(column)
        self._heap: list[tuple[int, int, bytes, int]] = []
        self._sequence = 0
        #: by key group, timers in memory
        self._counts: dict[int, int] = {}
        #: by key group with timers that are only in the database: the first of their rows, or one before it
        self._limits: dict[int, bytes] = {}
        #: by key group with a limit: number of its timers in memory when the limit was set
        self._chunks: dict[int, int] = {}
        #: maximum number of timers in memory
        self._most_live = MAX_TIMERS
        #: unwritten changes: row → its value, None = deleted
        self._unwritten: dict[bytes, bytes | None] = {}
        #: rows among them that were never in the database
        self._unheard_of: set[bytes] = set()
        begin, end = KEY_GROUP.pack(key_groups.start), group_end(key_groups.stop - 1)
        while (first := next(db.scan(column, begin, end), None)) is not None:
            key_group = KEY_GROUP.unpack_from(first[0])[0]
            self._limits[key_group] = first[0]
            begin = group_end(key_group)
        restored = list(self._limits)
        self._chunks = {key_group: _share(len(restored)) for key_group in restored}
        for key_group in restored:
            self._refill(key_group)

    def add(self, row: bytes, timestamp: int, key_group: int, key_size: int) -> None:
        """Add a timer that is not in memory; it may be in the database."""
        limit = self._limits.get(key_group)
        self._sequence = sequence = self._sequence + 1
        if limit is None or row < limit:
            if row not in self._unwritten:
                self._unheard_of.add(row)
            self._push(row, timestamp, key_group, key_size, sequence)
        self._unwritten[row] = TIMER_VALUE.pack(key_size, sequence)
        if len(self.live) > self._most_live:
            self._shrink()
        self._write_if_many()

    def remove(self, row: bytes, key_group: int) -> None:
        """Remove a timer, if it exists."""
        if row in self.live:
            self._forget(row)
            self._drop(row, key_group)
        elif key_group in self._limits:
            self._forget(row)

    def pop_due(self, until: int) -> tuple[int, bytes, int] | None:
        """Remove and return the first timer with timestamp <= `until`: timestamp, row, length of its key."""
        live = self.live
        while self._heap and self._heap[0][0] <= until:
            timestamp, sequence, row, key_size = heappop(self._heap)
            if live.get(row) == sequence:
                self._forget(row)
                self._drop(row, KEY_GROUP.unpack_from(row)[0])
                return timestamp, row, key_size
        return None

    def next_timestamp(self) -> int | None:
        """Return the timestamp of the first timer."""
        while self._heap:
            timestamp, sequence, row, _ = self._heap[0]
            if self.live.get(row) == sequence:
                return timestamp
            heappop(self._heap)
        return None

    def has_due(self, until: int) -> bool:
        """Return whether a timer has a timestamp <= `until`."""
        if not self._heap or self._heap[0][0] > until:
            return False
        first = self.next_timestamp()
        return first is not None and first <= until

    def namespaces(self) -> Iterator[bytes]:
        """Yield the encoded namespaces of all timers."""
        if self._limits:
            self._context.flush()
            for row, value in self._db.scan(self._column, b""):
                yield row[TIMER.size + TIMER_VALUE.unpack(value)[0] :]
            return
        for _, sequence, row, size in self._heap:
            if self.live.get(row) == sequence:
                yield row[TIMER.size + size :]

    def save(self, batch: WriteBatch) -> None:
        """Add the unwritten changes to a batch."""
        handle = self._handle
        for row, value in self._unwritten.items():
            if value is None:
                batch.delete(row, handle)
            else:
                batch.put(row, value, handle)

    def saved(self) -> None:
        """Note that the batch was written."""
        self._unwritten = {}
        self._unheard_of = set()

    def _forget(self, row: bytes) -> None:
        """Mark the row as deleted, unless it was never written."""
        if row in self._unheard_of:
            self._unheard_of.discard(row)
            del self._unwritten[row]
        else:
            self._unwritten[row] = None
            self._write_if_many()

    def _write_if_many(self) -> None:
        if len(self._unwritten) > _MAX_UNWRITTEN:
            self._context.flush()

    def _push(self, row: bytes, timestamp: int, key_group: int, key_size: int, sequence: int) -> None:
        self.live[row] = sequence
        self._counts[key_group] = self._counts.get(key_group, 0) + 1
        heappush(self._heap, (timestamp, sequence, row, key_size))

    def _drop(self, row: bytes, key_group: int) -> None:
        del self.live[row]
        self._counts[key_group] -= 1
        if not self._counts[key_group] and key_group in self._limits:
            self._context.flush()
            self._refill(key_group)
            if len(self.live) > self._most_live:
                self._shrink()
        if len(self._heap) > 2 * len(self.live) + _CHUNK:
            self._heap = [item for item in self._heap if self.live.get(item[2]) == item[1]]
            heapify(self._heap)

    def _refill(self, key_group: int) -> None:
        """Read the next timers of a key group; there are no unwritten changes."""
        chunk = min(2 * self._chunks.pop(key_group), _share(len(self._limits)))
        rows = self._db.scan(self._column, self._limits.pop(key_group), group_end(key_group))
        for count, (row, value) in enumerate(rows):
            if count == chunk:
                self._limits[key_group] = row
                self._chunks[key_group] = chunk
                return
            size, sequence = TIMER_VALUE.unpack(value)
            self._sequence = max(self._sequence, sequence)
            self._push(row, timer_of(row, size).timestamp, key_group, size, sequence)

    def _shrink(self) -> None:
        """Leave the later timers of each key group to the database."""
        by_group: dict[int, list[bytes]] = {}
        for row in self.live:
            by_group.setdefault(KEY_GROUP.unpack_from(row)[0], []).append(row)
        kept = max(1, MAX_TIMERS // (2 * len(by_group)))
        for key_group, rows in by_group.items():
            if len(rows) > kept:
                rows.sort()
                self._limits[key_group] = rows[kept]
                self._counts[key_group] = self._chunks[key_group] = kept
                for row in rows[kept:]:
                    del self.live[row]
        # with one each of very many key groups, more than half of MAX_TIMERS remains
        self._most_live = max(MAX_TIMERS, 2 * len(self.live))
        self._heap = [item for item in self._heap if self.live.get(item[2]) == item[1]]
        heapify(self._heap)


def _share(num_groups: int) -> int:
    """Return the number of timers to read at once for each of that many key groups."""
    return max(1, min(_CHUNK, MAX_TIMERS // (2 * num_groups)))


class RocksDBTimerService(TimerService):
    """The timers of one name; see TimerService."""

    def __init__(
        self,
        name: str,
        context: TimerContext,
        db: RocksDBInstance,
        key_groups: range,
        on_event_time: Callable[[Timer], None],
        on_processing_time: Callable[[Timer], None],
    ) -> None:
        self._context = context
        self._on_event_time = on_event_time
        self._on_processing_time = on_processing_time
        self.current_watermark = MIN_WATERMARK
        self.num_fired = 0
        self.is_quiesced = False
        self.event = RocksDBTimerQueue(context, db, EVENT_COLUMN + name, key_groups)
        self.processing = RocksDBTimerQueue(context, db, PROCESSING_COLUMN + name, key_groups)

    def register_event_time_timer(self, timestamp: int, namespace: Hashable = None) -> None:
        self._register(self.event, timestamp, namespace)

    def delete_event_time_timer(self, timestamp: int, namespace: Hashable = None) -> None:
        self._delete(self.event, timestamp, namespace)

    def register_processing_time_timer(self, timestamp: int, namespace: Hashable = None) -> None:
        if not self.is_quiesced:
            self._register(self.processing, timestamp, namespace)

    def delete_processing_time_timer(self, timestamp: int, namespace: Hashable = None) -> None:
        self._delete(self.processing, timestamp, namespace)

    def advance_watermark(self, watermark: int, timer_slice: TimerSlice = ENDLESS) -> bool:
        self.current_watermark = watermark
        return self._fire(self.event, watermark, self._on_event_time, timer_slice)

    def advance_processing_time(self, now_ms: int, timer_slice: TimerSlice = ENDLESS) -> bool:
        return self._fire(self.processing, now_ms, self._on_processing_time, timer_slice)

    def next_processing_time(self) -> int | None:
        return self.processing.next_timestamp()

    def event_time_namespaces(self) -> set[Any]:
        return {decode_namespace(namespace) for namespace in set(self.event.namespaces())}

    def _register(self, queue: RocksDBTimerQueue, timestamp: int, namespace: Hashable) -> None:
        entry = self._context.current_entry
        key = entry.encoded_key
        timestamp = operator.index(timestamp)
        row = _row_of(entry.key_group, timestamp, key, namespace)
        if row not in queue.live:
            queue.add(row, timestamp, entry.key_group, len(key))

    def _delete(self, queue: RocksDBTimerQueue, timestamp: int, namespace: Hashable) -> None:
        entry = self._context.current_entry
        queue.remove(_row_of(entry.key_group, timestamp, entry.encoded_key, namespace), entry.key_group)

    def _fire(
        self, queue: RocksDBTimerQueue, until: int, callback: Callable[[Timer], None], timer_slice: TimerSlice
    ) -> bool:
        context, pop_due = self._context, queue.pop_due
        while queue.has_due(until):
            if timer_slice.left <= 0 and not timer_slice.renew():
                return False
            while timer_slice.left > 0 and (due := pop_due(until)) is not None:
                timer_slice.left -= 1
                timestamp, row, key_size = due
                end = TIMER.size + key_size
                context.set_current_key(decode_key(row[TIMER.size : end]))
                self.num_fired += 1
                callback(FiredTimer(timestamp, context.current_entry.key, decode_namespace(row[end:])))
        return True


def _row_of(key_group: int, timestamp: int, key: bytes, namespace: Hashable) -> bytes:
    try:
        return make_row(key_group, timestamp, key, encode_namespace(namespace))
    except OverflowError as error:
        raise StateError(f"no timer can be at {timestamp}: {error}") from error
