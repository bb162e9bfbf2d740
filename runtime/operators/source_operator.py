"""SourceOperator: reads splits, one at a time, and emits their records with event times and watermarks.

Every split has a watermark generator of its own. The operator's watermark is the least of the splits that it has begun
and not ended (only a restore can leave it more than one), never goes back, and becomes MAX_WATERMARK at the end of
bounded input. The task calls `emit_next` in its loop; nothing here blocks. Splits come from the SourceCoordinator.
Source: Flink, SourceOperator.
"""

from __future__ import annotations

import enum
import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runtime.common import options
from runtime.common.typeinfo import TypeInformation
from runtime.common.watermark_strategy import WatermarkStrategy
from runtime.core.batch import Mark, RecordBatch
from runtime.core.elements import MAX_WATERMARK, MIN_WATERMARK, Watermark, WatermarkStatus
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
    SourceCoordinator,
    SplitsAvailable,
)
from runtime.operators.watermarks import WatermarkTracker
from runtime.state.snapshot import OperatorSnapshot, OperatorStateSnapshot, Redistribution

SPLITS_STATE = "source-splits"
"""Name of the operator state that holds the splits being read: one item per split, dealt out anew on rescaling."""
POLL_INTERVAL_MS = 50
"""When a reader with nothing to give is asked again, unless it says when."""


class EmitStatus(enum.Enum):
    """What `emit_next` has to say about the next call."""

    MORE_AVAILABLE = "more available"
    NOTHING_AVAILABLE = "nothing available"
    """Call again when an event has arrived or at `next_wakeup_ms`."""
    END_OF_INPUT = "end of input"


@dataclass(frozen=True, slots=True)
class _SplitState:
    """A split to be read, and how far it has been."""

    split: SourceSplit
    position: Any = None
    watermark: int = MIN_WATERMARK


class SourceOperator(StreamOperator):
    """The head of a chain that has no input."""

    def __init__(self, source: Source, watermark_strategy: WatermarkStrategy, name: str) -> None:
        self._source = source
        self._strategy = watermark_strategy
        self._name = name
        self._queue: deque[_SplitState] = deque()
        self._split: SourceSplit | None = None
        self._reader: SplitReader | None = None
        self._tracker: WatermarkTracker | None = None
        self._watermark = MIN_WATERMARK
        self._has_restored_watermark = False
        self._received: int | None = None
        self._asked = False
        self._no_more = False
        self._ended = False
        self._idle = False
        #: least watermark of the splits that were begun before a restore and wait for their turn
        self._cap = MAX_WATERMARK
        self._wakeup_ms: int | None = None
        self._interval_ms = 0
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
        for item in () if splits is None else splits.items:
            saved = json.loads(item)
            split = self._source.split_from_json(saved["split"])
            self._queue.append(_SplitState(split, saved["position"], saved["watermark"]))

    def open(self) -> None:
        self._interval_ms = self.context.configuration.get(options.AUTO_WATERMARK_INTERVAL).to_millis()
        self._period_ms = self._new_tracker().period_ms
        self._schedule_periodic()

    def snapshot_state(self) -> OperatorSnapshot:
        states = list(self._queue)
        if self._split is not None and self._reader is not None:
            reached = MIN_WATERMARK if self._tracker is None else self._tracker.current
            states.insert(0, _SplitState(self._split, self._reader.position, reached))
        items = [
            json.dumps(
                {"split": self._source.split_to_json(s.split), "position": s.position, "watermark": s.watermark}
            ).encode()
            for s in states
        ]
        received = [] if self._received is None else [json.dumps(self._received).encode()]
        return OperatorSnapshot(
            operator_states={
                SPLITS_STATE: OperatorStateSnapshot(Redistribution.SPLIT, items),
                RECEIVED_STATE: OperatorStateSnapshot(Redistribution.UNION, received),
            },
            watermark=self._watermark,
        )

    def close(self) -> None:
        self._close_reader()

    # --- the coordinator ----------------------------------------------------------------------------------------------

    def handle_event(self, event: object) -> None:
        """Take an event of the coordinator; the task calls `emit_next` afterwards.

        Raises:
            TypeError: the event is none of a coordinator's.
        """
        if isinstance(event, AssignSplit):
            self._asked = False
            self._received = event.number
            self._queue.append(_SplitState(self._source.split_from_json(event.split)))
        elif isinstance(event, SplitsAvailable):
            self._asked = False
        elif isinstance(event, NoMoreSplits):
            self._no_more = True
        elif isinstance(event, NoSplitNow):
            if self._strategy.idleness_ms is not None:
                self._set_idle(True)
        else:
            raise TypeError(f"source {self._name} cannot handle {event!r}")

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
        if self._reader is None:
            return self._next_split()
        try:
            result = self._reader.read(max_rows)
        except Exception as error:
            raise self._describe(error) from error
        if isinstance(result, RecordBatch):
            self._emit(result)
            return EmitStatus.MORE_AVAILABLE
        if result is ReadStatus.NOTHING_YET:
            at = self._reader.next_read_ms()
            self._wakeup_ms = self.context.clock.now_ms() + POLL_INTERVAL_MS if at is None else at
            return EmitStatus.NOTHING_AVAILABLE
        self._close_reader()
        return self._next_split()

    def next_wakeup_ms(self) -> int | None:
        """After NOTHING_AVAILABLE: wall-clock time of the next call; None = when an event has arrived."""
        return self._wakeup_ms

    def _next_split(self) -> EmitStatus:
        if self._queue:
            self._open_reader(self._queue.popleft())
            return EmitStatus.MORE_AVAILABLE
        if self._no_more:
            self._end()
            return EmitStatus.END_OF_INPUT
        if not self._asked:
            self._asked = True
            self.context.events.send_to_coordinator(RequestSplit())
        return EmitStatus.NOTHING_AVAILABLE

    def _open_reader(self, state: _SplitState) -> None:
        context = self.context
        reader_context = ReaderContext(
            context.subtask_index, context.parallelism, context.configuration, context.clock, context.metrics
        )
        self._split = state.split
        self._cap = min((s.watermark for s in self._queue if s.position is not None), default=MAX_WATERMARK)
        self._tracker = self._new_tracker()
        if state.watermark > MIN_WATERMARK:
            self._tracker.restore(state.watermark)
        try:
            self._reader = self._source.create_reader(state.split, state.position, reader_context)
        except Exception as error:
            raise self._describe(error) from error

    def _close_reader(self) -> None:
        reader, self._reader = self._reader, None
        self._split = self._tracker = None
        if reader is not None:
            reader.close()

    def _describe(self, error: Exception) -> SourceError:
        split = "" if self._split is None else f", split {self._split.split_id}"
        text = str(error) if isinstance(error, SourceError) else f"{type(error).__name__}: {error}"
        return SourceError(f"source {self._name}{split}: {text}")

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        self._set_idle(False)
        self._watermark = MAX_WATERMARK
        self.output.emit_watermark(Watermark(MAX_WATERMARK))

    # --- event time ---------------------------------------------------------------------------------------------------

    def _emit(self, batch: RecordBatch) -> None:
        assert self._tracker is not None
        self._set_idle(False)
        batch = self._tracker.on_batch(batch)
        if batch.marks and (self._watermark >= batch.marks[0].watermark or self._cap < batch.marks[-1].watermark):
            batch = batch.with_marks(self._limited(batch.marks))
        if batch.marks:
            self._watermark = batch.marks[-1].watermark
        if batch.num_rows:
            self.output.collect(batch)
        elif batch.marks:
            self.output.emit_watermark(Watermark(self._watermark))

    def _limited(self, marks: Sequence[Mark]) -> list[Mark]:
        """The marks as far as they are news: what an earlier split said cannot be taken back, and begun splits wait."""
        limited = []
        reached = self._watermark
        for offset, watermark in marks:
            watermark = min(watermark, self._cap)
            if watermark > reached:
                limited.append(Mark(offset, watermark))
                reached = watermark
        return limited

    def _new_tracker(self) -> WatermarkTracker:
        return WatermarkTracker(self._strategy, self._interval_ms, self.context.clock, self.context)

    def _schedule_periodic(self) -> None:
        if self._period_ms is not None:
            service = self.context.processing_time
            service.register_timer(service.now_ms() + self._period_ms, self._on_periodic)

    def _on_periodic(self, _: int) -> None:
        if self._ended:
            return
        if self._tracker is not None:
            watermark = self._tracker.on_periodic()
            if watermark is not None and min(watermark, self._cap) > self._watermark:
                self._watermark = min(watermark, self._cap)
                self.output.emit_watermark(Watermark(self._watermark))
            self._set_idle(self._tracker.is_idle)
        self._schedule_periodic()

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

    @property
    def output_type(self) -> TypeInformation | None:
        return self.source.produced_type()


__all__ = [
    "COORDINATOR_STATE",
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
