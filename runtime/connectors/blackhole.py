"""BlackHoleSink: takes everything and keeps nothing but a count. Source: Flink, the blackhole connector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.core.batch import RecordBatch
from runtime.metrics import Counter
from runtime.operators.sink import Sink, SinkWriter, WriterContext


class BlackHoleSink(Sink):
    """Counts records in the metric numRecordsSend."""

    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        return _BlackHoleWriter(context.metrics.counter("numRecordsSend"))


class _BlackHoleWriter(SinkWriter):
    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    def write(self, batch: RecordBatch) -> None:
        self._counter.inc(batch.num_rows)
