"""SlotPeeks: what users are shown of the rows that pass a slot's edges or are dropped as late. Only the loop's thread.

A peek hangs samplers on outputs of tasks (`TaggedOutput.tap`) and takes them off again when its lease ends. A sampler
looks at a few rows a second, makes them JSON at once, and keeps no row. It never waits: what does not fit into the
bytes of the lease is dropped and counted, so that what waits for a JobMaster that stands still has a limit, too. Rows
that take long to show are shown more seldom: all peeks of a slot together have a hundredth of its time.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from runtime.common.configuration import Configuration
from runtime.common.typeinfo import RowTypeInfo
from runtime.common.types import Row, row_of
from runtime.core.batch import NO_TIMESTAMP, RecordBatch
from runtime.core.clock import Clock
from runtime.core.elements import (
    MIN_WATERMARK,
    CheckpointBarrier,
    EndOfInput,
    StreamElement,
    Watermark,
    WatermarkStatus,
)
from runtime.core.ids import Attempt, OperatorId, SlotId
from runtime.operators.output import Tap
from runtime.operators.outputs import TaggedOutput
from runtime.task.control_link import ControlLink
from runtime.task.late_samples import LateSamples
from runtime.task.messages import EdgePeeked, PeekedElement, StartPeek
from runtime.task.peek_values import PeekedValues
from runtime.task.task import Task

SEND_INTERVAL_MS = 250.0
MAX_PEEKS = 8
"""At a time in one slot; each further one is dropped."""
ELEMENT_BYTES = 80
"""Of an element on the wire, beside its text."""
MAX_SHARE = 0.01
"""Of a slot's time, for showing rows."""
MAX_SAVED_MS = 10.0
"""Of that time, after a pause."""


class SlotPeeks:
    """The peeks of one slot.

    Args:
        slot, attempt: whose they are.
        tasks: of the slot, also those that are made later.
        link: to the JobMaster.
        clock: for rates and leases.
    """

    def __init__(self, slot: SlotId, attempt: Attempt, tasks: Sequence[Task], link: ControlLink, clock: Clock) -> None:
        self._slot = slot
        self._attempt = attempt
        self._tasks = tasks
        self._link = link
        self._clock = clock
        self._peeks: dict[str, Peek] = {}
        self._allowance = Allowance()
        self._next_send_ms = 0.0

    def __bool__(self) -> bool:
        """Return whether any is open."""
        return bool(self._peeks)

    def start(self, request: StartPeek, configuration: Configuration, redact: Callable[[str], str]) -> None:
        """Begin a peek, or go on with it.

        Args:
            request: what is to be seen.
            configuration: of the job; it may name columns to be masked.
            redact: takes the values of the job's secrets out of a text.
        """
        peek = self._peeks.get(request.peek_id)
        if peek is None:
            if len(self._peeks) >= MAX_PEEKS:
                return
            peek = Peek(PeekedValues.of_job(configuration, redact), self._allowance)
        peek.until_ms = self._clock.monotonic_ms() + request.lease_ms
        peek.left_bytes = request.max_bytes
        if request.of_late:
            self._look_at_late(request, peek)
            return
        for subtask, output, unread in self._outputs(request):
            if subtask not in peek.samplers:
                sampler = RowSampler(peek, subtask, request.interval_ms, self._clock, unread)
                peek.samplers[subtask] = (output, sampler)
                output.tap = sampler if output.tap is None else Taps.of(output.tap, sampler)
        if peek.samplers:
            self._peeks[request.peek_id] = peek

    def stop(self, peek_id: str) -> None:
        """End a peek."""
        peek = self._peeks.pop(peek_id, None)
        if peek is None:
            return
        for output, sampler in peek.samplers.values():
            output.tap = Taps.without(output.tap, sampler)
        self._send(peek_id, peek, is_last=True)

    def advance(self) -> None:
        """Send what was seen, if it is time, and end the peeks whose lease is over."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_send_ms:
            return
        self._next_send_ms = now_ms + SEND_INTERVAL_MS
        for peek_id, peek in list(self._peeks.items()):
            if now_ms >= peek.until_ms:
                self.stop(peek_id)
            else:
                self._send(peek_id, peek)

    def close(self) -> None:
        """End all."""
        for peek_id in list(self._peeks):
            self.stop(peek_id)

    def _look_at_late(self, request: StartPeek, peek: Peek) -> None:
        for task in self._tasks:
            subtask = task.task_id.subtask_index
            if task.task_id.vertex_id != request.vertex_id or subtask not in request.subtasks:
                continue
            samples = task.late_samples(OperatorId(str(request.edge)))
            # a task that has started anew has samples of its own
            if samples is not None and (subtask not in peek.late or peek.late[subtask].samples is not samples):
                peek.late[subtask] = SeenLate(samples)
        if peek.late:
            self._peeks[request.peek_id] = peek

    def _outputs(self, request: StartPeek) -> Iterable[tuple[int, TaggedOutput, frozenset[str]]]:
        for task in self._tasks:
            subtask = task.task_id.subtask_index
            if task.task_id.vertex_id == request.vertex_id and subtask in request.subtasks:
                output = task.output_to(request.edge)
                if output is not None:
                    yield subtask, output, task.unread_columns(request.edge)

    def _send(self, peek_id: str, peek: Peek, is_last: bool = False) -> None:
        now_ms = self._clock.monotonic_ms()
        for _, sampler in peek.samplers.values():
            sampler.tell_due_watermark(math.inf if is_last else now_ms)
        for subtask, seen in peek.late.items():
            seen.tell(peek, subtask)
        if peek.elements or peek.num_rows or peek.num_dropped:
            elements, peek.elements = tuple(peek.elements), []
            self._link.send(EdgePeeked(self._slot, self._attempt, peek_id, elements, peek.num_rows, peek.num_dropped))
            peek.num_rows = peek.num_dropped = 0


class Allowance:
    """The time that may be spent on showing rows; a row that takes longer than what is left is paid back afterwards.

    Args:
        share: of all time.
    """

    def __init__(self, share: float = MAX_SHARE) -> None:
        self._share = share
        self._left_ms = MAX_SAVED_MS
        self._at_ms = -math.inf

    def has_some(self, now_ms: float) -> bool:
        """Return whether a row may be shown; `now_ms` is monotonic."""
        self._left_ms = min(MAX_SAVED_MS, self._left_ms + self._share * (now_ms - self._at_ms))
        self._at_ms = now_ms
        return self._left_ms > 0

    def spend(self, ms: float) -> None:
        """Take the time that a row has taken."""
        self._left_ms -= ms


@dataclass(slots=True, eq=False)
class Peek:
    """Collects what the samplers of a peek have seen since it was sent last."""

    values: PeekedValues
    allowance: Allowance = field(default_factory=Allowance)
    until_ms: float = 0.0
    left_bytes: int = 0
    """Of the lease."""
    #: by subtask
    samplers: dict[int, tuple[TaggedOutput, RowSampler]] = field(default_factory=dict)
    late: dict[int, SeenLate] = field(default_factory=dict)
    elements: list[PeekedElement] = field(default_factory=list)
    num_rows: int = 0
    num_dropped: int = 0

    def add(self, element: PeekedElement) -> None:
        """Keep an element if it fits."""
        size = len(element.text) + ELEMENT_BYTES
        if size > self.left_bytes:
            self.num_dropped += 1
            return
        self.left_bytes -= size
        self.elements.append(element)


@dataclass(slots=True, eq=False)
class SeenLate:
    """Remembers which late records of a subtask a peek has seen."""

    samples: LateSamples
    next_number: int = 0
    num_records: int = 0

    def tell(self, peek: Peek, subtask: int) -> None:
        """Give the peek what has come since."""
        peek.num_rows += self.samples.num_records - self.num_records
        self.num_records = self.samples.num_records
        for sample in self.samples.since(self.next_number):
            self.next_number = sample.number + 1
            peek.add(
                PeekedElement(
                    "late",
                    subtask,
                    sample.passed_ms,
                    sample.timestamp,
                    sample.watermark,
                    sample.text,
                    sample.row_kind,
                    sample.is_cut,
                )
            )


class RowSampler(Tap):
    """Looks at what passes one output, for one peek.

    Args:
        peek: whose it is.
        subtask: whose output it is.
        interval_ms: time from one row to the next, on average.
        clock: for the rate.
        unread: columns that nobody reads. They are not shown: what is null there may have a value in the source.
    """

    def __init__(
        self, peek: Peek, subtask: int, interval_ms: float, clock: Clock, unread: frozenset[str] = frozenset()
    ) -> None:
        self._peek = peek
        self._unread = unread
        self._subtask = subtask
        self._interval_ms = interval_ms
        #: rows that may follow each other at once after a pause: those of a second
        self._burst = max(1, int(1000.0 / interval_ms))
        self._clock = clock
        self._due_ms = clock.monotonic_ms()
        self._watermark = self._told_watermark = MIN_WATERMARK
        self._watermark_due_ms = -math.inf

    def take(self, batch: RecordBatch) -> None:
        self._peek.num_rows += batch.num_rows
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._due_ms and batch.num_rows:
            self._sample(batch, now_ms)
        if batch.marks:
            self._watermark = batch.marks[-1].watermark

    def take_element(self, element: StreamElement) -> None:
        if isinstance(element, Watermark):
            self._watermark = element.timestamp
            return
        self.tell_watermark()
        if isinstance(element, WatermarkStatus):
            self._add("status", text=element.name)
        elif isinstance(element, CheckpointBarrier):
            self._add("barrier", text=str(element.checkpoint_id))
        elif isinstance(element, EndOfInput):
            self._add("end")

    def tell_watermark(self) -> None:
        """Add the watermark that holds now, unless that is done: of several between two rows, only the last counts."""
        if self._watermark != self._told_watermark:
            self._told_watermark = self._watermark
            self._watermark_due_ms = self._clock.monotonic_ms() + self._interval_ms
            self._add("watermark", self._watermark)

    def tell_due_watermark(self, now_ms: float) -> None:
        """Add the watermark if none was added for an interval: those of many subtasks would leave no room for rows."""
        if now_ms >= self._watermark_due_ms:
            self.tell_watermark()

    def _sample(self, batch: RecordBatch, now_ms: float) -> None:
        since_ms = max(self._due_ms, now_ms - (self._burst - 1) * self._interval_ms)
        count = min(int((now_ms - since_ms) / self._interval_ms) + 1, batch.num_rows)
        self._due_ms = since_ms + count * self._interval_ms
        number = 0
        for index in sorted(random.sample(range(batch.num_rows), count)):
            while number < len(batch.marks) and batch.marks[number].offset <= index:
                self._watermark = batch.marks[number].watermark
                number += 1
            begin_ms = self._clock.monotonic_ms()
            if not self._peek.allowance.has_some(begin_ms):
                return
            self.tell_watermark()
            try:
                # one row alone: the columns of a batch are not made rows for this
                self._add_row(batch.slice(index, index + 1))
            except Exception:
                # a value that does not even let itself be looked at must not fail the task
                self._peek.num_dropped += 1
            finally:
                self._peek.allowance.spend(self._clock.monotonic_ms() - begin_ms)

    def _add_row(self, row: RecordBatch) -> None:
        if self._peek.left_bytes <= ELEMENT_BYTES:
            self._peek.num_dropped += 1
            return
        [value] = row.values()
        timestamps = row.timestamps()
        timestamp = None if timestamps is None or timestamps[0] == NO_TIMESTAMP else int(timestamps[0])
        type_info = row.type_info
        if self._unread and isinstance(type_info, RowTypeInfo) and isinstance(value, Row):
            value, type_info = _without(value, type_info, self._unread)
        text, is_cut = self._peek.values.shown(value, type_info)
        kind = value.get_row_kind().short_string if isinstance(value, Row) else ""
        self._add("row", timestamp, text, kind, is_cut)

    def _add(
        self, kind: str, timestamp: int | None = None, text: str = "", row_kind: str = "", is_cut: bool = False
    ) -> None:
        passed_ms = self._clock.now_ms()
        self._peek.add(PeekedElement(kind, self._subtask, passed_ms, timestamp, None, text, row_kind, is_cut))


def _without(row: Row, type_info: RowTypeInfo, names: frozenset[str]) -> tuple[Row, RowTypeInfo]:
    """Return a row without some of its columns, and its type."""
    kept = [
        (name, kind, value)
        for name, kind, value in zip(type_info.get_field_names(), type_info.get_field_types(), row, strict=True)
        if name not in names
    ]
    made = row_of([value for _, _, value in kept], tuple(name for name, _, _ in kept))
    made.set_row_kind(row.get_row_kind())
    return made, RowTypeInfo([kind for _, kind, _ in kept], [name for name, _, _ in kept])


class Taps(Tap):
    """Several taps of one output."""

    def __init__(self, taps: tuple[Tap, ...]) -> None:
        self._taps = taps

    @classmethod
    def of(cls, tap: Tap, further: Tap) -> Taps:
        """Return what both look through."""
        return cls((*(tap._taps if isinstance(tap, Taps) else (tap,)), further))

    @staticmethod
    def without(tap: Tap | None, gone: Tap) -> Tap | None:
        """Return what is left of a tap; None: nothing."""
        left = tuple(each for each in (tap._taps if isinstance(tap, Taps) else (tap,)) if each not in (gone, None))
        return Taps(left) if len(left) > 1 else next(iter(left), None)

    def take(self, batch: RecordBatch) -> None:
        for tap in self._taps:
            tap.take(batch)

    def take_element(self, element: StreamElement) -> None:
        for tap in self._taps:
            tap.take_element(element)
