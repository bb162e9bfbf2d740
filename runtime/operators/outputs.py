"""The four exits of an operator: into the next one, copied into the next one, out of the chain, to several.

An output made with a tag takes that side output only, one without takes the main output only; watermarks, status and
latency markers go to all. Marks on a batch of the main output are watermarks for every side output too: an output with
a tag turns them into a Watermark unless its own batch has carried them already, which is why side outputs must be
flushed before the main one. Used by the task's thread. Source: Flink, ChainingOutput and its siblings.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Protocol

from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import RecordBatch
from runtime.core.elements import MIN_WATERMARK, LatencyMarker, StreamElement, Watermark, WatermarkStatus
from runtime.metrics import Counter
from runtime.network.isolation import Isolator
from runtime.operators.output import Input, Output, Tap
from runtime.operators.output_tag import OutputTag


class ElementWriter(Protocol):
    """The part of a `runtime.network.record_writer.RecordWriter` that RecordWriterOutput needs."""

    def emit(self, batch: RecordBatch) -> None: ...

    def broadcast(self, element: StreamElement) -> None: ...

    def emit_randomly(self, marker: LatencyMarker) -> None: ...


class TaggedOutput(Output):
    """Takes either the main output or one side output, and counts the records that it takes.

    Args:
        tag: id of the side output; None = the main output.
        records_out: counts the records that leave by this output; None = they are counted elsewhere.
    """

    def __init__(self, tag: str | None, records_out: Counter | None) -> None:
        self.tag = tag
        self.records_out = records_out
        #: the latest that was handed on
        self.watermark = MIN_WATERMARK
        #: whether the status that was handed on last is idle
        self.is_idle = False
        #: how many were handed on
        self.records = 0
        #: looks at what leaves by this output; None: nobody does
        self.tap: Tap | None = None

    def takes(self, tag: OutputTag | None) -> bool:
        """Return whether records emitted with that tag leave here."""
        return self.tag is None if tag is None else tag.tag_id == self.tag

    def collect(self, batch: RecordBatch, tag: OutputTag | None = None) -> None:
        if (self.tag is None) if tag is None else (tag.tag_id == self.tag):
            if self.records_out is not None:
                self.records_out.inc(batch.num_rows)
            self.records += batch.num_rows
            if batch.marks:
                self.watermark = batch.marks[-1].watermark
            if self.tap is not None:
                self.tap.take(batch)
            self._forward_batch(batch)
        elif tag is None and batch.marks:
            self.emit_watermark(Watermark(batch.marks[-1].watermark))

    def emit_watermark(self, watermark: Watermark) -> None:
        if self.tag is not None and watermark.timestamp <= self.watermark:
            return
        self.watermark = watermark.timestamp
        if self.tap is not None:
            self.tap.take_element(watermark)
        self._forward_element(watermark)

    def emit_watermark_status(self, status: WatermarkStatus) -> None:
        self.is_idle = status is WatermarkStatus.IDLE
        if self.tap is not None:
            self.tap.take_element(status)
        self._forward_element(status)

    def emit_latency_marker(self, marker: LatencyMarker) -> None:
        self._forward_element(marker)

    def show_to_tap(self, element: StreamElement) -> None:
        """Have the tap, if there is one, look at an element that leaves by this output or behind it."""
        if self.tap is not None:
            self.tap.take_element(element)

    def _forward_batch(self, batch: RecordBatch) -> None:
        raise NotImplementedError

    def _forward_element(self, element: Watermark | WatermarkStatus | LatencyMarker) -> None:
        raise NotImplementedError


class ChainingOutput(TaggedOutput):
    """Calls the next operator of the chain; records are handed on by reference (object reuse on)."""

    def __init__(self, target: Input, tag: str | None = None, records_out: Counter | None = None) -> None:
        super().__init__(tag, records_out)
        self._target = target
        self._process_batch = target.process_batch
        #: told of every latency marker before the operator sees it
        self.on_latency_marker: Callable[[LatencyMarker], None] | None = None

    def _forward_batch(self, batch: RecordBatch) -> None:
        self._process_batch(batch)

    def _forward_element(self, element: Watermark | WatermarkStatus | LatencyMarker) -> None:
        if isinstance(element, Watermark):
            self._target.process_watermark(element)
        elif isinstance(element, WatermarkStatus):
            self._target.process_watermark_status(element)
        else:
            if self.on_latency_marker is not None:
                self.on_latency_marker(element)
            self._target.process_latency_marker(element)


class CopyingChainingOutput(ChainingOutput):
    """Calls the next operator of the chain with copies of the records (object reuse off).

    Values of immutable types and Arrow columns are not copied. A batch that has columns goes on as columns only, in a
    batch of its own: values made from them are then this consumer's alone.
    """

    def __init__(
        self,
        target: Input,
        tag: str | None = None,
        records_out: Counter | None = None,
        type_info: TypeInformation | None = None,
    ) -> None:
        super().__init__(target, tag, records_out)
        self._isolated = Isolator(type_info).isolated

    def _forward_batch(self, batch: RecordBatch) -> None:
        self._process_batch(self._isolated(batch))


class RecordWriterOutput(TaggedOutput):
    """Leaves the chain: hands records to a writer that deals them out to the consumer's subtasks."""

    def __init__(self, writer: ElementWriter, tag: str | None = None, records_out: Counter | None = None) -> None:
        super().__init__(tag, records_out)
        self._writer = writer

    def _forward_batch(self, batch: RecordBatch) -> None:
        self._writer.emit(batch)

    def _forward_element(self, element: Watermark | WatermarkStatus | LatencyMarker) -> None:
        if isinstance(element, LatencyMarker):
            self._writer.emit_randomly(element)
        else:
            self._writer.broadcast(element)


class BroadcastingOutputCollector(Output):
    """Fans out to several outputs, each of which picks what is meant for it.

    It takes over the counters of its outputs: a record that goes several ways has left the operator once.
    """

    def __init__(self, outputs: Sequence[Output]) -> None:
        self._outputs = tuple(outputs)
        self._tagged = [output for output in outputs if isinstance(output, TaggedOutput)]
        self._records_out = next((o.records_out for o in self._tagged if o.records_out is not None), None)
        for output in self._tagged:
            output.records_out = None

    def collect(self, batch: RecordBatch, tag: OutputTag | None = None) -> None:
        if self._records_out is not None and any(output.takes(tag) for output in self._tagged):
            self._records_out.inc(batch.num_rows)
        for output in self._outputs:
            output.collect(batch, tag)

    def emit_watermark(self, watermark: Watermark) -> None:
        for output in self._outputs:
            output.emit_watermark(watermark)

    def emit_watermark_status(self, status: WatermarkStatus) -> None:
        for output in self._outputs:
            output.emit_watermark_status(status)

    def emit_latency_marker(self, marker: LatencyMarker) -> None:
        # one way only: markers that multiply at every fork would be a load of their own
        random.choice(self._outputs).emit_latency_marker(marker)


class DiscardingOutput(Output):
    """Output of an operator that nothing follows."""

    def collect(self, batch: RecordBatch, tag: OutputTag | None = None) -> None:
        pass

    def emit_watermark(self, watermark: Watermark) -> None:
        pass

    def emit_watermark_status(self, status: WatermarkStatus) -> None:
        pass

    def emit_latency_marker(self, marker: LatencyMarker) -> None:
        pass
