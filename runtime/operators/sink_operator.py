"""SinkOperator: the end of a chain; hands records to a sink's writer and makes them visible in a second step.

At a snapshot and at the end of input the writer prepares committables, which the operator keeps. `commit_finished`
commits them once every task of the job has finished; it must come before `close`, which discards what is neither
committed nor part of a snapshot. Source: Flink, SinkWriterOperator and CommitterOperator, in one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import RecordBatch
from runtime.core.elements import Watermark
from runtime.operators.operator import OneInputOperator
from runtime.operators.sink import Committer, Sink, SinkError, SinkWriter, WriterContext
from runtime.operators.sink_metrics import SinkMetrics
from runtime.state.snapshot import (
    CANONICAL_SNAPSHOT,
    OperatorSnapshot,
    OperatorStateSnapshot,
    Redistribution,
    SnapshotRequest,
)

WRITER_STATE = "sink-writer"
"""Name of the operator state with the writer's own items."""
COMMITTABLES_STATE = "sink-committables"
"""Name of the operator state with what was prepared and not yet committed."""


class SinkOperator(OneInputOperator):
    """Writes one subtask's records."""

    commits_at_the_end = True

    def __init__(self, sink: Sink, input_type: TypeInformation | None) -> None:
        self._sink = sink
        self._input_type = input_type
        self._restored: list[Any] = []
        self._pending: list[Any] = []
        self._writer: SinkWriter | None = None
        self._committer: Committer | None = None
        self._has_prepared_all = False

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        if snapshot is not None:
            self._restored = _items(snapshot, WRITER_STATE)
            self._pending = _items(snapshot, COMMITTABLES_STATE)

    def open(self) -> None:
        """Make the writer.

        Raises:
            SinkError: the target cannot be written to, or there are committables and nothing that can commit them.
        """
        context = self.context
        self._committer = self._sink.create_committer()
        self._check_committable()
        writer_context = WriterContext(
            subtask_index=context.subtask_index,
            parallelism=context.parallelism,
            attempt=context.attempt,
            task_name=context.task_name,
            input_type=self._input_type,
            configuration=context.configuration,
            clock=context.clock,
            processing_time=context.processing_time,
            metrics=context.metrics,
            client=context.client,
        )
        self._records_out = context.metrics.counter("numRecordsOut")
        self._metrics = SinkMetrics(context.metrics, context.clock, lambda: len(self._pending))
        self._writer = self._guarded(lambda: self._sink.create_writer(writer_context, self._restored))

    def is_available(self) -> bool:
        return self._writer is None or self._writer.is_available()

    def process_batch(self, batch: RecordBatch) -> None:
        assert self._writer is not None
        started_ms = self._metrics.now_ms()
        try:
            self._writer.write(batch)
        except Exception as error:
            self._metrics.write_failed(batch.num_rows)
            raise self._describe(error) from error
        self._metrics.written(batch.num_rows, started_ms)
        self._records_out.inc(batch.num_rows)
        if batch.marks:
            self._writer.write_watermark(batch.marks[-1].watermark)
            self.output.emit_watermark(Watermark(batch.marks[-1].watermark))

    def process_watermark(self, watermark: Watermark) -> None:
        assert self._writer is not None
        self._writer.write_watermark(watermark.timestamp)
        self.output.emit_watermark(watermark)

    def finish(self) -> None:
        writer = self._writer
        assert writer is not None
        self._guarded(lambda: writer.flush(end_of_input=True))
        self._prepare(writer)
        self._has_prepared_all = True
        self._check_committable()

    def snapshot_state(self, request: SnapshotRequest = CANONICAL_SNAPSHOT) -> OperatorSnapshot:
        writer = self._writer
        assert writer is not None
        if not self._has_prepared_all:
            self._guarded(lambda: writer.flush(end_of_input=False))
            self._prepare(writer)
        return OperatorSnapshot(
            operator_states={
                WRITER_STATE: _state(list(self._guarded(writer.snapshot_state))),
                COMMITTABLES_STATE: _state(self._pending),
            }
        )

    def commit_finished(self) -> None:
        """Commit what is pending; may be called again after an error, or for nothing.

        Raises:
            SinkError: something could not be made visible; it stays pending.
        """
        committer = self._committer
        if committer is not None and self._pending:
            try:
                self._guarded(lambda: committer.commit(self._pending))
            except SinkError:
                self._metrics.commit_failed(len(self._pending))
                raise
            self._metrics.committed(len(self._pending))
        self._pending = []

    def close(self) -> None:
        writer, self._writer = self._writer, None
        committer, self._committer = self._committer, None
        try:
            if writer is not None:
                writer.close()
        finally:
            if committer is not None:
                committer.close()

    def _prepare(self, writer: SinkWriter) -> None:
        committables = self._guarded(writer.prepare_commit)
        self._metrics.prepared(len(committables))
        self._pending.extend(committables)

    def _check_committable(self) -> None:
        if self._pending and self._committer is None:
            raise SinkError(f"sink {self.context.operator_name}: there are committables but no committer")

    def _guarded(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except Exception as error:
            raise self._describe(error) from error

    def _describe(self, error: Exception) -> SinkError:
        text = str(error) if isinstance(error, SinkError) else f"{type(error).__name__}: {error}"
        return SinkError(f"sink {self.context.operator_name}: {text}")


def _state(items: list[Any]) -> OperatorStateSnapshot:
    return OperatorStateSnapshot(Redistribution.SPLIT, [json.dumps(item).encode() for item in items])


def _items(snapshot: OperatorSnapshot, name: str) -> list[Any]:
    state = snapshot.operator_states.get(name)
    return [] if state is None else [json.loads(item) for item in state.items]


@dataclass(frozen=True, slots=True)
class SinkOperatorFactory:
    """Makes the operator of a sink; shipped to the slots."""

    sink: Sink
    input_type: TypeInformation | None

    def create(self) -> SinkOperator:
        return SinkOperator(self.sink, self.input_type)

    @property
    def output_type(self) -> TypeInformation | None:
        return None
