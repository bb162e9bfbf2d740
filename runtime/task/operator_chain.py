"""OperatorChain: the operators of one task, wired output to input, and their common life cycle.

Built once per task, used by its thread only. Records enter at the head and leave through the record writers.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from runtime.common.execution_kind import ExecutionKind
from runtime.core.elements import END_OF_INPUT, MIN_WATERMARK, LatencyMarker, StreamElement
from runtime.core.ids import Attempt, CheckpointId, OperatorId
from runtime.graph.job_graph import ChainEdge, JobVertex
from runtime.metrics import Counter
from runtime.network.record_writer import RecordWriter
from runtime.operators.final_rows import FinalRowsOutput
from runtime.operators.operator import OperatorContext, OperatorFactory, StreamOperator
from runtime.operators.output import Output
from runtime.operators.outputs import (
    BroadcastingOutputCollector,
    ChainingOutput,
    CopyingChainingOutput,
    DiscardingOutput,
    RecordWriterOutput,
    TaggedOutput,
)
from runtime.state.snapshot import CANONICAL_SNAPSHOT, OperatorSnapshot, SnapshotRequest


class ExitOutput:
    """An exit of the chain: a record writer and the side output, if any, that it takes."""

    __slots__ = ("source_operator", "tag", "writer")

    def __init__(self, source_operator: int, tag: str | None, writer: RecordWriter) -> None:
        self.source_operator = source_operator
        self.tag = tag
        self.writer = writer


class OperatorChain:
    """The operators of a task.

    Args:
        vertex: what to build; factories are loaded here, so that each task has its own copy of the user's functions.
        exits: record writers by the operator that feeds them.
        context_of: makes an operator's context from its index in the vertex.
        object_reuse: hand records on inside the chain without copying them.
        on_latency_marker: told of every latency marker that reaches an operator behind the head.
    """

    def __init__(
        self,
        vertex: JobVertex,
        exits: Sequence[ExitOutput],
        context_of: Callable[[int], OperatorContext],
        object_reuse: bool,
        on_latency_marker: Callable[[OperatorId, LatencyMarker], None] | None = None,
    ) -> None:
        self._vertex = vertex
        self._on_latency_marker = on_latency_marker
        #: ways from one operator of the chain into another, by the target's index
        self._entrances: dict[int, list[ChainingOutput]] = {}
        self.exits = exits
        self._inner = list(vertex.chain_edges)
        self._has_opened = False
        self._closed: set[int] = set()
        self.operators: list[StreamOperator] = []
        factories: list[OperatorFactory] = [pickle.loads(chained.factory) for chained in vertex.operators]
        self.operators += [factory.create() for factory in factories]
        inner_targets = {edge.source for edge in self._inner}
        #: operators of which records leave the chain, or end in it
        self._last = {e.source_operator for e in exits} | (set(range(len(self.operators))) - inner_targets)
        #: outputs of which the watermark is the chain's
        self._ends: list[TaggedOutput] = []
        #: what leaves by each exit, by its index
        self._leaving: dict[int, TaggedOutput] = {}
        #: how many operators have been told of the end of their inputs, and how many have been finished
        self._ended = 0
        self._finished = 0
        #: ways on from each operator, by its index
        self._outputs_of: dict[int, list[TaggedOutput]] = {}
        #: counts of records that left each operator, by index
        self.records_out: list[Counter] = []
        for index in reversed(range(len(self.operators))):
            context = context_of(index)
            counter = context.metrics.counter("numRecordsOut")
            self.records_out.insert(0, counter)
            output = self._output_of(index, counter, object_reuse)
            is_batch = ExecutionKind.of(context.configuration) is ExecutionKind.BATCH
            if is_batch and getattr(factories[index], "makes_changelog", False):
                output = FinalRowsOutput(output)
            self.operators[index].setup(context, output)

    @property
    def output_watermark(self) -> int:
        """Return the lowest of the watermarks that have left the chain, or reached its ends where nothing leaves."""
        return min((output.watermark for output in self._ends), default=MIN_WATERMARK)

    def watermark_of_exit(self, number: int) -> int:
        """Return the watermark that has left by an exit, by its index."""
        return self._leaving[number].watermark

    def output_of_exit(self, number: int) -> TaggedOutput:
        """Return what leads to an exit, by its index."""
        return self._leaving[number]

    def output_into(self, operator_id: OperatorId) -> TaggedOutput | None:
        """Return the way to an operator from another one of the chain; None: there is none."""
        for index, entrances in self._entrances.items():
            if self._vertex.operators[index].operator_id == operator_id:
                return entrances[0]
        return None

    def show_to_taps(self, element: StreamElement) -> None:
        """Show an element that goes through the whole chain to those who look at its outputs."""
        for outputs in self._outputs_of.values():
            for output in outputs:
                output.show_to_tap(element)

    @property
    def records_sent(self) -> int:
        """Return the number of records that have left the chain by any exit, or were taken by its sinks."""
        return sum(self.records_out[index].get_count() for index in self._last)

    def _output_of(self, index: int, counter: Counter, object_reuse: bool) -> Output:
        outputs: list[TaggedOutput] = []
        for edge in self._inner:
            if edge.source == index:
                outputs.append(self._inner_output(index, edge, counter, object_reuse))
                if not self.exits and edge.target in self._last:
                    self._ends.append(outputs[-1])
        for number, leaving in enumerate(self.exits):
            if leaving.source_operator == index:
                outputs.append(RecordWriterOutput(leaving.writer, leaving.tag, counter))
                self._leaving[number] = outputs[-1]
                self._ends.append(outputs[-1])
        self._outputs_of[index] = outputs
        if not outputs:
            return DiscardingOutput()
        return outputs[0] if len(outputs) == 1 else BroadcastingOutputCollector(outputs)

    def _inner_output(self, index: int, edge: ChainEdge, counter: Counter, object_reuse: bool) -> TaggedOutput:
        target = self.operators[edge.target].inputs[edge.input_index]
        if object_reuse:
            output = ChainingOutput(target, edge.side_output_tag, counter)
        else:
            output_type = self._vertex.operators[index].output_type if edge.side_output_tag is None else None
            output = CopyingChainingOutput(target, edge.side_output_tag, counter, output_type)
        if self._on_latency_marker is not None:
            reached = self._vertex.operators[edge.target].operator_id
            output.on_latency_marker = partial(self._on_latency_marker, reached)
        self._entrances.setdefault(edge.target, []).append(output)
        return output

    def metrics(self, records_in: int, input_watermarks: Sequence[int]) -> dict[str, object]:
        """Return the metrics of each operator as `<operator id>.<metric>`, with Flink's names.

        Args:
            records_in: records that the head has received.
            input_watermarks: by input of the head; empty for a source.
        """
        values: dict[str, object] = {}
        for index, chained in enumerate(self._vertex.operators):
            if index:
                entrances = self._entrances.get(index, ())
                received = sum(entrance.records for entrance in entrances)
                watermarks: Sequence[int] = [entrance.watermark for entrance in entrances]
            else:
                received, watermarks = records_in, input_watermarks
            values[f"{chained.operator_id}.numRecordsIn"] = received
            values[f"{chained.operator_id}.currentOutputWatermark"] = self._watermark_behind(index)
            if watermarks:
                values[f"{chained.operator_id}.currentInputWatermark"] = min(watermarks)
            if len(watermarks) > 1 and len(self.operators[index].inputs) > 1:
                for number, watermark in enumerate(watermarks, 1):
                    values[f"{chained.operator_id}.currentInput{number}Watermark"] = watermark
        return values

    def _watermark_behind(self, index: int) -> int:
        # where nothing follows, what has come in has gone out
        outputs: Sequence[TaggedOutput] = self._outputs_of[index] or self._entrances.get(index, [])
        return min((output.watermark for output in outputs), default=MIN_WATERMARK)

    @property
    def head(self) -> StreamOperator:
        return self.operators[0]

    def initialize_state(self, restore: Mapping[OperatorId, OperatorSnapshot]) -> None:
        """Restore every operator, last first, as they are opened."""
        for index in reversed(range(len(self.operators))):
            self.operators[index].initialize_state(restore.get(self._vertex.operators[index].operator_id))

    def open(self) -> None:
        """Open every operator, last first, so that what an opening operator emits finds an open successor."""
        for operator in reversed(self.operators):
            operator.open()
        self._has_opened = True

    def num_fired_timers(self) -> int:
        """Return how many timers have fired; operators that could not be restored have none yet."""
        return sum(operator.num_fired_timers() for operator in self.operators) if self._has_opened else 0

    def is_available(self) -> bool:
        """Return whether a step could run now: every operator and every exit takes more."""
        return self.has_room() and all(op.is_available() for op in self.operators)

    def has_room(self) -> bool:
        """Return whether every exit takes more."""
        return all(e.writer.is_available() for e in self.exits)

    @property
    def is_idle(self) -> bool:
        """Return whether what has left the chain says that its watermark does not count."""
        return bool(self._ends) and all(output.is_idle for output in self._ends)

    def end_input(self, input_index: int) -> None:
        """Note that this input of the head has ended."""
        self.head.end_input(input_index)

    def finish(self, keep_open: bool = False) -> bool:
        """Finish the operators first to last once all inputs have ended, flush, and send END on every channel.

        Args:
            keep_open: leave the operators open, so that checkpoints can still take their final state.

        Returns:
            False if an operator still waits for results: to be called again once mail or a timer has come.
        """
        while self._finished < len(self.operators):
            operator = self.operators[self._finished]
            if self._ended == self._finished:
                self._ended += 1
                for edge in self._inner:
                    if edge.target == self._finished:
                        operator.end_input(edge.input_index)
            if operator.has_pending():
                return False
            operator.finish()
            self._finished += 1
        # before END: what a user's close() raises must still fail the task
        if not keep_open:
            self.close_finished()
        self.broadcast(END_OF_INPUT)
        return True

    def broadcast(self, element: StreamElement) -> None:
        """Send an element on every channel of every exit, behind everything that was emitted before."""
        self.show_to_taps(element)
        for leaving in self.exits:
            leaving.writer.broadcast(element)

    @property
    def is_open(self) -> bool:
        """Return whether every operator is still open, so that its state can be taken."""
        return not self._closed

    def prepare_snapshot(self, checkpoint_id: CheckpointId) -> None:
        """Let every operator, first to last, emit what belongs before a barrier that is about to go out."""
        for operator in self.operators:
            operator.prepare_snapshot_pre_barrier(checkpoint_id)

    def snapshot(self, request: SnapshotRequest = CANONICAL_SNAPSHOT) -> dict[OperatorId, OperatorSnapshot]:
        """Take the state of every operator, between two steps.

        Raises:
            Exception: whatever an operator raised; what others have begun is given up.
        """
        snapshots: dict[OperatorId, OperatorSnapshot] = {}
        try:
            for chained, operator in zip(self._vertex.operators, self.operators, strict=True):
                snapshots[chained.operator_id] = operator.snapshot_state(request)
        except BaseException:
            for snapshot in snapshots.values():
                if snapshot.pending is not None:
                    snapshot.pending.discard()
            raise
        return snapshots

    def notify_checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        """Tell every operator that a checkpoint is complete."""
        for operator in self.operators:
            operator.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: CheckpointId) -> None:
        """Tell every operator that a checkpoint was given up."""
        for operator in self.operators:
            operator.notify_checkpoint_aborted(checkpoint_id)

    def notify_savepoints_failed(self, savepoints: Sequence[tuple[Attempt, CheckpointId]]) -> None:
        """Tell every operator that savepoints of earlier attempts have failed."""
        for operator in self.operators:
            operator.notify_savepoints_failed(savepoints)

    def close_finished(self) -> None:
        """Close every operator that is still open and has nothing to commit.

        Raises:
            Exception: the first error of a close.
        """
        self._close(index for index, operator in enumerate(self.operators) if not operator.commits_at_the_end)

    def commit_finished(self) -> None:
        """Make visible what the operators hold back until the whole job has finished."""
        for operator in self.operators:
            operator.commit_finished()

    def job_finished(self) -> None:
        """Release what the operators keep in case the job goes back to an older checkpoint."""
        for operator in self.operators:
            operator.job_finished()

    def close(self, after_failure: bool) -> None:
        """Close every operator that is still open, whatever the others do.

        Raises:
            Exception: the first error of a close, unless `after_failure`: then there is a cause already.
        """
        try:
            self._close(range(len(self.operators)))
        except Exception:
            if not after_failure:
                raise

    def _close(self, indexes: Iterable[int]) -> None:
        first: Exception | None = None
        for index in indexes:
            if index in self._closed:
                continue
            self._closed.add(index)
            try:
                self.operators[index].close()
            except Exception as error:
                first = first or error
        if first is not None:
            raise first
