"""BlackHoleSink: takes everything and keeps nothing. Source: Flink, the blackhole connector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.core.batch import RecordBatch
from runtime.operators.sink import Sink, SinkWriter, WriterContext


class BlackHoleSink(Sink):
    """Drops records; the operator counts them in the metric numRecordsSend."""

    def keeps_state(self) -> bool:
        return False

    def accepts_changelog(self) -> bool:
        return True

    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        return _BlackHoleWriter()


class _BlackHoleWriter(SinkWriter):
    def write(self, batch: RecordBatch) -> None:
        """Do nothing."""
