"""Outputs: take what an operator emits, and pass it on in one of four ways.

Used by the task's thread only. An output belongs to one operator; side outputs are told apart by their tag.
"""

from __future__ import annotations

from typing import Protocol

from runtime.core.batch import RecordBatch
from runtime.core.elements import LatencyMarker, StreamElement, Watermark, WatermarkStatus
from runtime.operators.output_tag import OutputTag


class Input(Protocol):
    """The receiving side of an operator; a two-input operator has two."""

    def process_batch(self, batch: RecordBatch) -> None:
        """Process records and the watermark marks between them, exactly as if the batch were cut at each mark."""

    def process_watermark(self, watermark: Watermark) -> None: ...

    def process_watermark_status(self, status: WatermarkStatus) -> None: ...

    def process_latency_marker(self, marker: LatencyMarker) -> None: ...


class Output(Protocol):
    """The surroundings of an operator that take what it emits."""

    def collect(self, batch: RecordBatch, tag: OutputTag | None = None) -> None:
        """Emit records: to the main output, or to the side output of `tag`. A batch may carry marks."""

    def emit_watermark(self, watermark: Watermark) -> None:
        """Emit a watermark to the main output and every side output."""

    def emit_watermark_status(self, status: WatermarkStatus) -> None: ...

    def emit_latency_marker(self, marker: LatencyMarker) -> None: ...


class Tap(Protocol):
    """Looks at what passes an output. It must neither change what it is given, nor keep it, nor wait."""

    def take(self, batch: RecordBatch) -> None:
        """Look at records, and the marks between them, before they go on."""

    def take_element(self, element: StreamElement) -> None:
        """Look at what passes beside the records."""
