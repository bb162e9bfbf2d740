"""Operators with two inputs: their two faces, and the one event time that they make of two.

Event time is the minimum over the inputs that are not idle and never goes back; the operator is idle while both are.
Used by the task's thread. Source: Flink, TwoInputStreamOperator and IndexedCombinedWatermarkStatus.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from runtime.core.batch import NO_TIMESTAMP, RecordBatch
from runtime.core.elements import MIN_WATERMARK, LatencyMarker, Watermark, WatermarkStatus
from runtime.operators.functions import key_function
from runtime.operators.input_order import InputOrder
from runtime.operators.operator import StreamOperator
from runtime.operators.output import Input
from runtime.operators.user_operator import FunctionOperator, KeyedStateOperator, keys_of
from runtime.state.snapshot import CANONICAL_SNAPSHOT, OperatorSnapshot, SnapshotRequest


class CombinedWatermark:
    """Combines watermark and idleness of two inputs. Pure."""

    __slots__ = ("_idle", "_watermarks", "is_idle", "watermark")

    def __init__(self) -> None:
        self._watermarks = [MIN_WATERMARK, MIN_WATERMARK]
        self._idle = [False, False]
        self.watermark = MIN_WATERMARK
        self.is_idle = False

    def on_watermark(self, index: int, watermark: int) -> int | None:
        """Take `watermark` of input `index`; returns the combined one if it rose."""
        if watermark > self._watermarks[index]:
            self._watermarks[index] = watermark
        return self._combine()

    def on_status(self, index: int, status: WatermarkStatus) -> tuple[int | None, WatermarkStatus | None]:
        """Take input `index`'s idleness; returns the combined (watermark if it rose, status if it changed)."""
        was_idle = self.is_idle
        self._idle[index] = status is WatermarkStatus.IDLE
        self.is_idle = all(self._idle)
        return self._combine(), None if was_idle == self.is_idle else status

    def _combine(self) -> int | None:
        first, second = self._watermarks
        if self._idle[0]:
            first = second
        if self._idle[1]:
            second = first if not self._idle[0] else MIN_WATERMARK
        if self.is_idle:
            return None
        combined = first if first < second else second
        if combined <= self.watermark:
            return None
        self.watermark = combined
        return combined


class _InputFace(Input):
    """The receiving side of one input."""

    def __init__(self, operator: TwoInputBatchOperator, index: int) -> None:
        self._operator = operator
        self._index = index

    def process_batch(self, batch: RecordBatch) -> None:
        self._operator.process_batch(self._index, batch)

    def process_watermark(self, watermark: Watermark) -> None:
        self._operator.process_watermark(self._index, watermark)

    def process_watermark_status(self, status: WatermarkStatus) -> None:
        self._operator.process_watermark_status(self._index, status)

    def process_latency_marker(self, marker: LatencyMarker) -> None:
        self._operator.output.emit_latency_marker(marker)


class TwoInputBatchOperator(StreamOperator, ABC):
    """An operator with two inputs, numbered 0 and 1, that takes batches as they are."""

    def __init__(self) -> None:
        self._faces = (_InputFace(self, 0), _InputFace(self, 1))
        self.combined = CombinedWatermark()

    @property
    def inputs(self) -> Sequence[Input]:
        return self._faces

    @abstractmethod
    def process_batch(self, index: int, batch: RecordBatch) -> None:
        """Process records of one input and the marks between them."""

    def process_watermark(self, index: int, watermark: Watermark) -> None:
        """Process the event time of one input."""
        risen = self.combined.on_watermark(index, watermark.timestamp)
        if risen is not None:
            self.advance_watermark(risen)
            self.end_step()

    def process_watermark_status(self, index: int, status: WatermarkStatus) -> None:
        """Process that one input became idle or active."""
        risen, combined_status = self.combined.on_status(index, status)
        if risen is not None:
            self.advance_watermark(risen)
            self.end_step()
        if combined_status is not None:
            self.emit_status(combined_status)

    def emit_status(self, status: WatermarkStatus) -> None:
        """Pass on that the inputs together became idle or active."""
        self.output.emit_watermark_status(status)

    @abstractmethod
    def advance_watermark(self, watermark: int) -> None:
        """Advance event time to `watermark`."""

    @abstractmethod
    def end_step(self) -> None:
        """Hand on what was gathered."""


class TwoInputOperator(TwoInputBatchOperator):
    """An operator with two inputs, record by record; subclasses emit what they make of them through `end_step`."""

    def process_batch(self, index: int, batch: RecordBatch) -> None:
        values = batch.values()
        timestamps = batch.timestamps()
        if timestamps is None:
            timestamps = [NO_TIMESTAMP] * len(values)
        keys = self.keys_of_batch(index, batch)
        if not batch.marks:
            self.process_rows(index, values, timestamps, keys)
        else:
            for number, (start, stop, watermark) in enumerate(batch.segments()):
                if start < stop:
                    self.process_rows(index, values[start:stop], timestamps[start:stop], keys[start:stop])
                if watermark is not None:
                    risen = self.combined.on_watermark(index, watermark)
                    if risen is not None:
                        self.advance_watermark(risen)
                        if self.is_firing():
                            self.keep_rest(batch, number)
                            break
        self.end_step()

    def keep_rest(self, batch: RecordBatch, mark: int) -> None:
        """Keep what lies behind a mark of a batch, given by its number, if timers are left to fire there."""

    @abstractmethod
    def process_rows(self, index: int, values: list[Any], timestamps: list[int], keys: list[Any]) -> None:
        """Process records of one input between two watermarks; all lists are equally long."""

    def keys_of_batch(self, index: int, batch: RecordBatch) -> list[Any]:
        """Return one key for each record; anything as long as the batch if the inputs are not keyed."""
        return batch.values()


class PlainTwoInputOperator(TwoInputOperator, FunctionOperator):
    """User functions behind two inputs that are not keyed.

    Args:
        functions: those of the user.
        output_type: type of the main output; None = Python objects.
    """

    def __init__(self, functions: Sequence[Any], output_type: Any) -> None:
        TwoInputOperator.__init__(self)
        FunctionOperator.__init__(self, functions, output_type)
        self.current_watermark = MIN_WATERMARK

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        if snapshot is not None:
            self.current_watermark = snapshot.watermark
        super().initialize_state(snapshot)

    def snapshot_state(self, request: SnapshotRequest = CANONICAL_SNAPSHOT) -> OperatorSnapshot:
        return OperatorSnapshot(operator_states=self.snapshot_operator_state(), watermark=self.current_watermark)

    def advance_watermark(self, watermark: int) -> None:
        if watermark >= self.current_watermark:
            self.current_watermark = watermark
            self.collector.mark(watermark)

    def end_step(self) -> None:
        self.collector.flush()


class KeyedTwoInputOperator(TwoInputOperator, KeyedStateOperator):
    """Keyed state and timers behind two inputs that are keyed alike, or of which one is keyed.

    Args:
        functions: those of the user.
        key_selectors: one for each input; None = that input has no keys.
        output_type: type of the main output; None = Python objects.
    """

    def __init__(self, functions: Sequence[Any], key_selectors: Sequence[Any], output_type: Any) -> None:
        TwoInputOperator.__init__(self)
        KeyedStateOperator.__init__(self, functions, key_selectors, output_type)
        self._key_selectors = key_selectors
        self._keys_of: list[Callable[[Any], Any] | None] = [
            None if selector is None else key_function(selector) for selector in key_selectors
        ]
        #: what has to wait until the watermark before it is in the output
        self._status_behind: WatermarkStatus | None = None

    def keep_rest(self, batch: RecordBatch, mark: int) -> None:
        KeyedStateOperator.keep_rest(self, batch, mark)

    def emit_status(self, status: WatermarkStatus) -> None:
        if self.is_firing():
            self._status_behind = status
        else:
            super().emit_status(status)

    def fire_on(self) -> None:
        super().fire_on()
        if self._status_behind is not None and not self.is_firing():
            status, self._status_behind = self._status_behind, None
            self.output.emit_watermark_status(status)

    def advance_watermark(self, watermark: int) -> None:
        KeyedStateOperator.advance_watermark(self, watermark)

    def end_step(self) -> None:
        KeyedStateOperator.end_step(self)

    def input_order(self, input_index: int) -> InputOrder:
        return InputOrder.AS_THEY_COME if self._keys_of[input_index] is None else InputOrder.BY_KEY

    def keys_of_input(self, input_index: int, batch: RecordBatch) -> list[Any]:
        return self.keys_of_batch(input_index, batch)

    def keys_of_batch(self, index: int, batch: RecordBatch) -> list[Any]:
        if batch.keys is not None:
            return batch.keys
        key_of = self._keys_of[index]
        if key_of is None:
            return batch.values()
        return keys_of(self.context, key_of, batch.values(), self._key_selectors[index])
