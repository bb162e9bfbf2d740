"""SourceOperator: reads splits, one at a time or several in turn, and emits their records with times and watermarks.

Every split has a watermark generator of its own. The operator's watermark is the least of the splits that it has begun
and not ended, idle ones left out; it never goes back, and becomes MAX_WATERMARK at the end of bounded input. A split
that is too far ahead of the source's alignment group is not read until the group has caught up.
The task calls `emit_next` in its loop; nothing here blocks. Splits come from the SourceCoordinator.
Source: Flink, SourceOperator, WatermarkOutputMultiplexer.
"""

from __future__ import annotations

import enum
import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runtime.common import options
from runtime.common.execution_kind import ExecutionKind
from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.common.watermark_strategy import WatermarkStrategy
from runtime.core.batch import Mark, RecordBatch
from runtime.core.column_condition import ColumnCondition
from runtime.core.elements import MAX_WATERMARK, MIN_WATERMARK, LatencyMarker, Watermark, WatermarkStatus
from runtime.operators.operator import StreamOperator
from runtime.operators.output import Input
from runtime.operators.source import ReaderContext, ReadStatus, Source, SourceError, SourceSplit, SplitReader
from runtime.operators.source_coordinator import (
    COORDINATOR_STATE,
    RECEIVED_STATE,
    AssignSplit,
    CoordinatorEvent,
    NoMoreSplits,
    NoSplitNow,
    RequestSplit,
    ResyncSplits,
    SourceCoordinator,
    SplitsAvailable,
)
from runtime.operators.source_metrics import SourceMetrics, SplitActivity, SplitMetrics
from runtime.operators.source_splits import SPLITS_STATE, ReaderClock, SplitState, saved_splits
from runtime.operators.watermark_alignment import AlignWatermark, ReportWatermark
from runtime.operators.watermarks import WatermarkTracker, columns_with_times
from runtime.state.snapshot import (
    CANONICAL_SNAPSHOT,
    OperatorSnapshot,
    OperatorStateSnapshot,
    Redistribution,
    SnapshotRequest,
)
from runtime.state.state_meta import LIST_OF_OPERATOR, UNION_OF_OPERATOR, DeclaredStates, StateMeta, json_of

POLL_INTERVAL_MS = 50
"""Interval at which a reader with nothing to give is asked again, unless it says when."""


class EmitStatus(enum.Enum):
    """Tells the caller of `emit_next` when to call again."""

    MORE_AVAILABLE = "more available"
    NOTHING_AVAILABLE = "nothing available"
    """Call again when an event has arrived or at `next_wakeup_ms`."""
    END_OF_INPUT = "end of input"


@dataclass(slots=True)
class _OpenSplit:
    """A split that is being read."""

    split: SourceSplit
    reader: SplitReader
    tracker: WatermarkTracker
    metrics: SplitMetrics | None
    """None for a source that reads one split after the other: they may be without number."""
    has_nothing: bool = False
    """Whether the last read found nothing; else something other than the split keeps records from coming."""


class SourceOperator(StreamOperator):
    """The head of a chain that has no input."""

    def __init__(self, source: Source, watermark_strategy: WatermarkStrategy, name: str) -> None:
        self._source = source
        self._strategy = watermark_strategy
        self._name = name
        self._queue: deque[SplitState] = deque()
        self._open: list[_OpenSplit] = []
        #: of splits that have ended, each with the first checkpoint behind its end; None: there is none yet
        self._lingering: list[tuple[SplitReader, int | None]] = []
        #: index of the open split that is read next
        self._turn = 0
        self._watermark = MIN_WATERMARK
        self._has_restored_watermark = False
        self._received: int | None = None
        #: a request is to be made again only when the coordinator says so
        self._asked = False
        self._is_answer_due = False
        self._no_more = False
        self._ended = False
        self._idle = False
        #: splits beyond it wait for the alignment group
        self._max_allowed = MAX_WATERMARK
        self._wakeup_ms: int | None = None
        #: whether the last `emit_next` found nothing to emit
        self._waits = False
        #: a latency marker is due since that wall-clock time
        self._marker_due_ms: int | None = None
        self._latency_interval_ms = 0
        self._interval_ms = 0
        self._is_batch = False
        #: whether an instance lives for one micro-batch only
        self._in_passes = False
        #: numbers of the assignments that this instance has received
        self._received_in_pass: list[int] = []
        self._period_ms: int | None = None

    @property
    def inputs(self) -> Sequence[Input]:
        return ()

    # --- life cycle ---------------------------------------------------------------------------------------------------

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        if snapshot is None:
            return
        self._watermark = snapshot.watermark
        self._has_restored_watermark = snapshot.watermark > MIN_WATERMARK
        splits = snapshot.operator_states.get(SPLITS_STATE)
        self._queue.extend(saved_splits(self._source, () if splits is None else splits.items))

    def open(self) -> None:
        self._interval_ms = self.context.configuration.get(options.AUTO_WATERMARK_INTERVAL).to_millis()
        kind = ExecutionKind.of(self.context.configuration)
        self._is_batch, self._in_passes = kind is ExecutionKind.BATCH, kind is ExecutionKind.MICRO_BATCH
        self._period_ms = self._new_tracker().period_ms
        self._schedule_periodic()
        self._schedule_report()
        self._latency_interval_ms = self.context.configuration.get(options.LATENCY_INTERVAL).to_millis()
        self._schedule_marker()
        self.metrics = SourceMetrics(self.context, lambda: self._watermark, self._pending_records)

    def snapshot_state(self, request: SnapshotRequest = CANONICAL_SNAPSHOT) -> OperatorSnapshot:
        for split in self._open:
            split.reader.notify_snapshot(request.checkpoint_id)
        for reader, _ in self._lingering:
            reader.notify_snapshot(request.checkpoint_id)
        self._lingering = [(reader, first or request.checkpoint_id) for reader, first in self._lingering]
        states = [
            SplitState(s.split, s.reader.position, s.tracker.current, *self._times_of(s.tracker)) for s in self._open
        ]
        items = [state.saved(self._source) for state in (*states, *self._queue)]
        numbers = self._received_in_pass if self._in_passes else [] if self._received is None else [self._received]
        received = [json.dumps(number).encode() for number in numbers]
        return OperatorSnapshot(
            operator_states={
                SPLITS_STATE: OperatorStateSnapshot(Redistribution.SPLIT, items, json_of(self._source.split_format)),
                RECEIVED_STATE: OperatorStateSnapshot(Redistribution.UNION, received),
            },
            watermark=self._watermark,
        )

    def positions(self) -> Iterator[tuple[str, Any]]:
        """Yield the id of each split that is being read, or was begun before, and the position in it, of JSON."""
        for opened in self._open:
            yield opened.split.split_id, opened.reader.position
        for state in self._queue:
            if state.position is not None:
                yield state.split.split_id, state.position

    def _times_of(self, tracker: WatermarkTracker) -> tuple[int | None, int | None, bool]:
        if not self._in_passes:
            return None, None, False
        return tracker.active_ms, self.context.clock.now_ms(), tracker.is_idle

    def next_due_ms(self) -> int | None:
        """Return when a split is idle; the present if a generator of the user's may tell event time by the clock."""
        if self._ended or not self._open:
            return None
        if self._strategy.generator_factory is not None:
            return self.context.clock.now_ms()
        idleness_ms = self._strategy.idleness_ms
        trackers = [split.tracker for split in self._open if not split.tracker.is_idle]
        return min((tracker.active_ms + idleness_ms for tracker in trackers), default=None) if idleness_ms else None

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Emit the watermark and the idleness behind a micro-batch, in which no timer runs."""
        if self._in_passes and not self._ended:
            self._update_trackers()

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Tell the readers that a checkpoint of the job has completed."""
        for split in self._open:
            split.reader.notify_checkpoint_complete(checkpoint_id)
        lingering, self._lingering = self._lingering, []
        for reader, first in lingering:
            reader.notify_checkpoint_complete(checkpoint_id)
            if first is None or first > checkpoint_id:
                self._lingering.append((reader, first))
            else:
                reader.close()

    def close(self) -> None:
        while self._open:
            self._open.pop().reader.close()
        while self._lingering:
            self._lingering.pop()[0].close()

    # --- the coordinator ----------------------------------------------------------------------------------------------

    def handle_event(self, event: object) -> None:
        """Take an event of the coordinator; the task calls `emit_next` afterwards.

        Raises:
            TypeError: it is not an event of a coordinator.
        """
        if not isinstance(event, AlignWatermark):
            self._is_answer_due = False
        if isinstance(event, AssignSplit):
            self._receive(event)
        elif isinstance(event, SplitsAvailable):
            self._asked = False
        elif isinstance(event, NoMoreSplits):
            self._no_more = True
        elif isinstance(event, AlignWatermark):
            self._max_allowed = event.max_allowed
            self.metrics.alignment_drift_ms = event.drift_ms
        elif isinstance(event, NoSplitNow):
            if self._strategy.idleness_ms is not None and not self._open and not self._is_batch:
                self._set_idle(True)
        else:
            raise TypeError(f"source {self._name} cannot handle {event!r}")

    def _receive(self, assignment: AssignSplit) -> None:
        if self._received is not None and assignment.number <= self._received:
            # repeated for a resync, and not lost after all
            return
        self._asked = False
        self._received = assignment.number
        if self._in_passes:
            self._received_in_pass.append(assignment.number)
        self._queue.append(SplitState(self._source.split_from_json(assignment.split)))

    def resync(self) -> None:
        """Ask the coordinator again if it was asked: what was said between the two may have been lost."""
        if not self._no_more:
            self.context.events.send_to_coordinator(ResyncSplits(self._received, self._asked))

    # --- reading ------------------------------------------------------------------------------------------------------

    def emit_next(self, max_rows: int) -> EmitStatus:
        """Emit at most `max_rows` records, or do one small step towards the next ones.

        Raises:
            SourceError: the split cannot be read; the message names the source and what the reader says.
        """
        self._wakeup_ms = None
        if self._has_restored_watermark:
            # not when opening: the operators behind need not be open yet
            self._has_restored_watermark = False
            self.output.emit_watermark(Watermark(self._watermark))
        self._waits = False
        self._emit_due_marker()
        if len(self._open) < self._source.splits_at_once:
            if self._queue:
                self._open_split(self._queue.popleft())
                return EmitStatus.MORE_AVAILABLE
            if not self._no_more:
                self._request_split()
                if self._is_answer_due:
                    # what is not known yet may be behind what would be read now
                    return EmitStatus.NOTHING_AVAILABLE
            elif not self._open:
                self._end()
                return EmitStatus.END_OF_INPUT
        return self._read(max_rows)

    def drain(self) -> None:
        """End the input here, whatever is left to read: event time reaches its end.

        Splits that are being read stay open, so that a snapshot still holds their positions.
        """
        self._end()

    def next_wakeup_ms(self) -> int | None:
        """Return the wall-clock time of the next call after NOTHING_AVAILABLE; None = when an event has arrived."""
        return self._wakeup_ms

    def _read(self, max_rows: int) -> EmitStatus:
        """Read the next open split that has something and need not wait for its group."""
        for _ in range(len(self._open)):
            self._turn = (self._turn + 1) % len(self._open)
            current = self._open[self._turn]
            if self._is_paused(current):
                continue
            try:
                result = None if current.reader.prepare() else current.reader.read(max_rows)
            except Exception as error:
                raise self._describe(error, current.split) from error
            current.has_nothing = result is ReadStatus.NOTHING_YET or result is ReadStatus.IDLE
            if self._source.dead_letter_tag is not None:
                # in the same step as the records: a snapshot's position covers both or neither
                dead_letters = current.reader.take_dead_letters()
                if dead_letters is not None:
                    self.output.collect(dead_letters, self._source.dead_letter_tag)
            if result is None:
                # it is the same split's turn again
                self._turn -= 1
                return EmitStatus.MORE_AVAILABLE
            if isinstance(result, RecordBatch):
                if current.metrics is not None:
                    current.metrics.switch(SplitActivity.ACTIVE)
                self._emit(current, result)
                return EmitStatus.MORE_AVAILABLE
            if result is ReadStatus.END_OF_SPLIT:
                del self._open[self._turn]
                if current.reader.awaits_checkpoint():
                    self._lingering.append((current.reader, None))
                else:
                    current.reader.close()
                self._emit_combined()
                return EmitStatus.MORE_AVAILABLE
            if result is ReadStatus.IDLE and not current.tracker.is_idle:
                current.tracker.is_idle = True
                self._emit_combined()
                self._set_idle(all(split.tracker.is_idle for split in self._open))
            at = current.reader.next_read_ms()
            at = self.context.clock.now_ms() + POLL_INTERVAL_MS if at is None else at
            self._wakeup_ms = at if self._wakeup_ms is None else min(self._wakeup_ms, at)
        self._waits = True
        self.metrics.nothing_to_read()
        return EmitStatus.NOTHING_AVAILABLE

    def is_looking(self) -> bool:
        """Return whether, after NOTHING_AVAILABLE, a reader does not know yet what there is to be read."""
        return any(not self._is_paused(split) and split.reader.is_looking() for split in self._open)

    def _is_paused(self, split: _OpenSplit) -> bool:
        """Return whether the split has to wait for its alignment group."""
        paused = split.tracker.current > self._max_allowed
        if paused and split.metrics is not None:
            split.metrics.switch(SplitActivity.PAUSED)
        return paused

    def _request_split(self) -> None:
        if not self._asked:
            self._asked = self._is_answer_due = True
            self.context.events.send_to_coordinator(RequestSplit())

    def _open_split(self, state: SplitState) -> None:
        context = self.context
        clock = context.clock
        if self._in_passes:
            clock = ReaderClock(clock, state.read_ms)
        reader_context = ReaderContext(
            context.subtask_index, context.parallelism, context.configuration, clock, context.metrics
        )
        tracker = self._new_tracker()
        if state.watermark > MIN_WATERMARK:
            tracker.restore(state.watermark)
        if self._in_passes and state.active_ms is not None:
            tracker.continue_activity(state.active_ms)
        try:
            reader = self._source.create_reader(state.split, state.position, reader_context)
        except Exception as error:
            raise self._describe(error, state.split) from error
        if isinstance(clock, ReaderClock):
            clock.arrive()
        split = _OpenSplit(state.split, reader, tracker, None)
        if self._source.splits_at_once > 1:
            split.metrics = SplitMetrics(
                context.metrics, state.split.split_id, context, lambda: tracker.current, lambda: split.has_nothing
            )
        self._open.append(split)
        # it is read next: splits that are read one at a time begin at once
        self._turn = len(self._open) - 2

    def _pending_records(self) -> int | None:
        known = [pending for pending in (s.reader.pending_records() for s in self._open) if pending is not None]
        return sum(known) if known else None

    def _describe(self, error: Exception, split: SourceSplit) -> SourceError:
        text = str(error) if isinstance(error, SourceError) else f"{type(error).__name__}: {error}"
        return SourceError(f"source {self._name}, split {split.split_id}: {text}")

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        self._set_idle(False)
        self._watermark = MAX_WATERMARK
        self.output.emit_watermark(Watermark(MAX_WATERMARK))
        self._report()

    # --- latency ------------------------------------------------------------------------------------------------------

    def _schedule_marker(self) -> None:
        if self._latency_interval_ms > 0:
            service = self.context.processing_time
            service.register_timer(service.now_ms() + self._latency_interval_ms, self._on_marker_due)

    def _on_marker_due(self, _: int) -> None:
        if self._ended:
            return
        if self._marker_due_ms is None:
            self._marker_due_ms = self.context.clock.now_ms()
        if self._waits:
            self._emit_due_marker()
        self._schedule_marker()

    def _emit_due_marker(self) -> None:
        """Emit the marker that is due. A back-pressured source is not asked to emit: the marker waits as records do,
        and that time is part of the latency."""
        if self._marker_due_ms is not None:
            marker = LatencyMarker(self._marker_due_ms, self.context.operator_id, self.context.subtask_index)
            self._marker_due_ms = None
            self.output.emit_latency_marker(marker)

    # --- event time ---------------------------------------------------------------------------------------------------

    def _emit(self, current: _OpenSplit, batch: RecordBatch) -> None:
        self._set_idle(False)
        given, floor = () if self._is_batch else batch.marks, current.tracker.current
        batch = current.tracker.on_batch(batch)
        if given:
            batch = batch.with_marks(current.tracker.with_given(batch.marks, given, floor))
        if batch.marks:
            # what an earlier split said cannot be taken back, and the other begun splits count as well
            cap = self._least_watermark(current)
            if self._watermark >= batch.marks[0].watermark or cap < batch.marks[-1].watermark:
                batch = batch.with_marks(self._limited(batch.marks, cap))
        if batch.marks:
            self._watermark = batch.marks[-1].watermark
        if batch.num_rows:
            self.metrics.emitted(batch)
            self.output.collect(batch)
        elif batch.marks:
            self.output.emit_watermark(Watermark(self._watermark))

    def _limited(self, marks: Sequence[Mark], cap: int) -> list[Mark]:
        """Return the marks as far as they are new, none above `cap`."""
        limited = []
        reached = self._watermark
        for offset, watermark in marks:
            watermark = min(watermark, cap)
            if watermark > reached:
                limited.append(Mark(offset, watermark))
                reached = watermark
        return limited

    def _least_watermark(self, but: _OpenSplit | None = None) -> int:
        """Return the least watermark of the splits that were begun, but for one; MAX_WATERMARK if there are none."""
        least = MAX_WATERMARK
        for split in self._open:
            if split is not but and not split.tracker.is_idle:
                least = min(least, split.tracker.current)
        for state in self._queue:
            # begun before a restore, and waiting for its turn
            if state.position is not None:
                least = min(least, state.watermark)
        return least

    def _emit_combined(self) -> None:
        """Emit the watermark of all splits together if it has risen."""
        combined = self._least_watermark()
        if self._watermark < combined < MAX_WATERMARK:
            self._watermark = combined
            self.output.emit_watermark(Watermark(combined))

    def _new_tracker(self) -> WatermarkTracker:
        return WatermarkTracker(self._strategy, self._interval_ms, self.context.clock, self.context, self._is_batch)

    def _schedule_periodic(self) -> None:
        if self._period_ms is not None:
            service = self.context.processing_time
            service.register_timer(service.now_ms() + self._period_ms, self._on_periodic)

    def _on_periodic(self, _: int) -> None:
        if self._ended:
            return
        self._update_trackers()
        self._schedule_periodic()

    def _update_trackers(self) -> None:
        for split in self._open:
            if not split.has_nothing or self._is_paused(split):
                # paused or back-pressured is not idle
                split.tracker.touch()
            split.tracker.on_periodic()
            if split.metrics is not None and not self._is_paused(split):
                split.metrics.switch(SplitActivity.IDLE if split.tracker.is_idle else SplitActivity.ACTIVE)
        if self._open:
            self._emit_combined()
            self._set_idle(all(split.tracker.is_idle for split in self._open))

    def _schedule_report(self) -> None:
        alignment = self._strategy.alignment
        if alignment is not None:
            service = self.context.processing_time
            service.register_timer(service.now_ms() + alignment.update_interval_ms, self._on_report)

    def _on_report(self, _: int) -> None:
        if not self._ended:
            self._report()
            self._schedule_report()

    def _report(self) -> None:
        """Tell the alignment group how far this subtask is; before its first watermark there is nothing to tell."""
        if self._strategy.alignment is not None and self._watermark > MIN_WATERMARK:
            reported = MAX_WATERMARK if self._idle else self._watermark
            self.context.events.send_to_coordinator(ReportWatermark(reported))

    def _set_idle(self, idle: bool) -> None:
        if idle != self._idle:
            self._idle = idle
            self.output.emit_watermark_status(WatermarkStatus.IDLE if idle else WatermarkStatus.ACTIVE)


@dataclass(frozen=True, slots=True)
class SourceOperatorFactory:
    """Makes the operator of a source; shipped to the slots."""

    source: Source
    watermark_strategy: WatermarkStrategy
    name: str

    def create(self) -> SourceOperator:
        return SourceOperator(self.source, self.watermark_strategy, self.name)

    def reading(
        self, columns: frozenset[str], conditions: tuple[ColumnCondition, ...]
    ) -> tuple[SourceOperatorFactory, frozenset[str]]:
        """Return the factory of a source whose rows are looked at in some columns only, and those that it leaves out.
        Only for records of a row type.

        Args:
            columns: that are read of its records behind it.
            conditions: hold for all records that pass the filters behind it.
        """
        read = columns_with_times(columns, self.watermark_strategy)
        # rows that are left out would not move event time on
        passed_over = () if self.watermark_strategy.has_watermarks else conditions
        output_type = self.output_type
        assert isinstance(output_type, RowTypeInfo)
        declared = frozenset(output_type.get_field_names())
        read = declared if read is None else read & declared
        source = self.source.reading(read, passed_over)
        return (self, frozenset()) if source is self.source else (replace(self, source=source), declared - read)

    @property
    def output_type(self) -> TypeInformation | None:
        return self.source.produced_type()

    @property
    def declared_states(self) -> DeclaredStates:
        kind = json_of(self.source.split_format)
        former = tuple(map(json_of, self.source.former_split_formats))
        splits = StateMeta(SPLITS_STATE, LIST_OF_OPERATOR, kind, namespaced=False, former=former)
        coordinator = StateMeta(COORDINATOR_STATE, UNION_OF_OPERATOR, kind, namespaced=False, former=former)
        return DeclaredStates((splits, coordinator))


__all__ = [
    "COORDINATOR_STATE",
    "SPLITS_STATE",
    "AssignSplit",
    "CoordinatorEvent",
    "EmitStatus",
    "NoMoreSplits",
    "NoSplitNow",
    "RequestSplit",
    "SourceCoordinator",
    "SourceOperator",
    "SourceOperatorFactory",
    "SplitsAvailable",
]
