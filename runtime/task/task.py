"""Task: one subtask of a chain, run step by step by its slot's loop.

A step takes a slice of records (about 20 ms of work) from the input through the whole chain, lets the source emit one,
or fires a slice of the timers that the last watermark has made due: nothing behind that watermark is looked at before
all have fired. It runs only if its output has room, so that operator code never blocks. Checkpoints are taken between
steps (see runtime.task.task_checkpoints). Used by the loop's thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from runtime.checkpoint.state_files import TaskStateReader
from runtime.common import options
from runtime.common.execution_kind import ExecutionKind
from runtime.core.batch import RecordBatch
from runtime.core.checkpoint_options import AfterSnapshot
from runtime.core.elements import (
    END_OF_INPUT,
    MAX_WATERMARK,
    CheckpointBarrier,
    EndOfInput,
    LatencyMarker,
    Watermark,
    WatermarkStatus,
)
from runtime.core.ids import Attempt, CheckpointId, OperatorId
from runtime.graph.job_graph import ChainedOperator
from runtime.network.channel import NetworkEnvironment
from runtime.operators.operator import StreamOperator
from runtime.operators.outputs import TaggedOutput
from runtime.operators.source_operator import EmitStatus, SourceOperator
from runtime.task.batch_input import BatchInput
from runtime.task.channel_restore import restored_elements
from runtime.task.input_gate import GateElement, InputGate
from runtime.task.late_samples import LateSamples
from runtime.task.latency import LatencyStatistics
from runtime.task.mailbox import TaskMailbox
from runtime.task.messages import TaskDeployment, TaskState
from runtime.task.operator_chain import ExitOutput, OperatorChain
from runtime.task.operator_contexts import OperatorContexts, OperatorServices
from runtime.task.processing_time import TaskTimers
from runtime.task.running_task import AsTask
from runtime.task.slicing import SliceSize, timer_slice_of
from runtime.task.state_writing import operator_snapshots
from runtime.task.task_channels import allows_unaligned, create_gates, create_writer
from runtime.task.task_checkpoints import (
    CheckpointGivenUp,
    CheckpointServices,
    TaskCheckpoints,
    TaskOutput,
)
from runtime.task.task_input import TaskInput
from runtime.task.task_metrics import TaskMetrics
from runtime.task.task_source import TaskSource
from runtime.task.time_accounting import Activity, TimeAccounting

#: What one step may put into a channel beyond its window before the next slices are made smaller: a record that becomes
#: thousands must not fill the memory. Flink's 20 overdraft buffers of 32 KB; below, large batches are cut for nothing.
OVERDRAFT_BYTES = 640 << 10


class SlotServices(CheckpointServices, OperatorServices, Protocol):
    """Services of the slot that a task needs."""

    network: NetworkEnvironment
    keeps_finished_open: bool
    """Whether the state of tasks that have finished is asked for."""
    only_ends: bool
    """Whether tasks are restored from the savepoint that the job stops with, only in order to end."""

    def state_reader(self, location: str | None) -> TaskStateReader: ...

    def task_failed(self, task: Task, error: Exception) -> None: ...

    def wake(self) -> None:
        """Have the loop look at its tasks; any thread."""


class Task:
    """A subtask of a job vertex."""

    def __init__(self, deployment: TaskDeployment, services: SlotServices) -> None:
        self.deployment = deployment
        self.task_id = deployment.task
        self.state = TaskState.DEPLOYING
        self._services = services
        self._clock = services.clock
        vertex = deployment.vertex
        self.name = f"{vertex.name} ({self.task_id.subtask_index + 1}/{vertex.parallelism})"
        self.time = TimeAccounting(services.clock)
        self._metrics = TaskMetrics(services.clock, services.client.redact)
        self._mailbox = TaskMailbox(services.clock, services.wake)
        self._timers = TaskTimers(services.timers, self._run_timer)
        self._timer_slice = timer_slice_of(services.configuration, services.clock)
        self._contexts = OperatorContexts(
            deployment, services, self._timers, self._timer_slice, self._metrics.group, self._mailbox.post
        )
        #: whether the task leaves in its next step, without finishing its operators: its savepoint is complete
        self._leaves = services.only_ends
        restore = deployment.restore
        #: whether the task had ended its output in the restored snapshot
        self._was_finished = restore is not None and restore.is_finished
        configuration = services.configuration
        self.checkpoints = TaskCheckpoints(
            self.task_id,
            self.name,
            vertex,
            services,
            all(allows_unaligned(edge, configuration) for edge in deployment.in_edges),
            self._run_for_checkpoint,
            lambda: self._input.unread(),
        )
        gates = create_gates(deployment, services.network, self.checkpoints)
        self._writers = [
            create_writer(edge, deployment, services.network, configuration, services.clock)
            for edge in deployment.out_edges
        ]
        leaving = list(zip(deployment.out_edges, self._writers, strict=True))
        exits = [ExitOutput(edge.source_operator, edge.side_output_tag, writer) for edge, writer in leaving]
        self._latency = LatencyStatistics(configuration, self.task_id.subtask_index, services.clock)
        reuse = configuration.get(options.OBJECT_REUSE)
        self.chain = OperatorChain(vertex, exits, self._contexts.context_of, reuse, self._latency.arrived)
        self._input = self._create_input(gates)
        self.checkpoints.connect(
            self.chain,
            gates,
            {edge.edge_id: edge.record_type for edge in deployment.in_edges},
            [TaskOutput(writer, allows_unaligned(edge, configuration)) for edge, writer in leaving],
        )
        head = self.chain.head
        self._source = (
            TaskSource(head, self.chain.records_out[0], services.timers) if isinstance(head, SourceOperator) else None
        )
        operators = self.chain.operators
        is_by_record = any(operator.calls_by_record for operator in operators)
        tries_longer = not is_by_record or any(operator.costs_by_slice for operator in operators)
        self.slice_size = SliceSize.of(configuration, tries_longer)
        #: whether all inputs have ended and the operators are being finished
        self._is_finishing = False
        self._initialization_ms = 0.0

    def _create_input(self, gates: Sequence[InputGate]) -> TaskInput:
        if not gates or ExecutionKind.of(self._services.configuration) is not ExecutionKind.BATCH:
            return TaskInput(gates, self._metrics.records_in)
        types = {edge.input_index: edge.record_type for edge in self.deployment.in_edges}
        operator_id = self.deployment.vertex.head.operator_id
        return BatchInput(
            gates,
            self._metrics.records_in,
            self.chain.head,
            types,
            lambda: self._contexts.working_directory(operator_id),
        )

    def initialize(self) -> None:
        """Restore and open the operators, and take in what was in flight.

        Raises:
            DamagedSnapshotError: a file of the snapshot is missing or not what was written.
            OSError: the snapshot's storage cannot be reached, or is away.
            Exception: whatever an operator raised.
        """
        started = self._clock.monotonic_ms()
        restore = self.deployment.restore
        files = self._services.state_reader(None if restore is None else restore.location)
        self.chain.initialize_state(
            operator_snapshots(
                restore, self.deployment.vertex, self.task_id, files, self._contexts.working_directory, self._clock
            )
        )
        self.chain.open()
        if restore is not None and restore.channels:
            for channel_id, elements in restored_elements(restore, self.deployment, files):
                self._input.take_in(channel_id, elements)
        self._initialization_ms = self._clock.monotonic_ms() - started
        self.state = TaskState.INITIALIZING

    # --- running ------------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Do one slice of work; returns whether anything was done.

        Raises:
            Exception: whatever an operator raised; the task must then be failed.
        """
        self._mailbox.on_step()
        if self.is_suspended:
            return self._step_suspended()
        worked = bool(self._mailbox)
        if worked:
            self.time.switch(Activity.BUSY)
            self._run_timed(self._mailbox.run)
        if self._is_finishing:
            return self._go_on_finishing() or worked
        if not self.chain.is_available():
            self.time.switch(Activity.OUTSIDE if self.chain.has_room() else Activity.BACK_PRESSURED)
            return worked
        self._timer_slice.begin()
        if self.chain.head.is_firing():
            self.time.switch(Activity.BUSY)
            self._run_timed(self.chain.head.fire_on)
            return True
        return self._step_input() or worked

    @property
    def is_source(self) -> bool:
        """Return whether the head is a source."""
        return self._source is not None

    @property
    def is_source_waiting(self) -> bool:
        """Return whether the source has nothing until it is woken."""
        return self._source is not None and self._source.is_waiting

    def ask_source_again(self) -> bool:
        """Have the source asked again if it does not know yet what there is to be read; returns whether that is so."""
        if self._source is None or not self._source.operator.is_looking():
            return False
        self._source.wake()
        return True

    @property
    def num_records_read(self) -> int:
        """Return how many records the source has emitted."""
        return 0 if self._source is None else self._source.num_records

    @property
    def is_ending(self) -> bool:
        """Return whether all inputs have ended: the operators are being finished, or were when they were restored."""
        return self._is_finishing or self._was_finished

    def run_mail(self) -> bool:
        """Run what was posted for the operators, and nothing else; returns whether there was anything.

        Raises:
            Exception: whatever an operator raised.
        """
        has_mail = bool(self._mailbox)
        self._mailbox.run()
        return has_mail

    @property
    def is_suspended(self) -> bool:
        """Return whether the task emits nothing because its savepoint is the last thing that it does."""
        return self._leaves or self.checkpoints.suspended_by is not None

    def _step_suspended(self) -> bool:
        self.time.switch(Activity.IDLE)
        if not self._leaves:
            return False
        self.chain.broadcast(END_OF_INPUT)
        self._end()
        return True

    def _step_input(self) -> bool:
        if self._was_finished:
            # all producers had ended as well, and send nothing but END
            self.chain.broadcast(Watermark(MAX_WATERMARK))
            self.chain.broadcast(END_OF_INPUT)
            self._end()
            return True
        if self._source is not None:
            return self._step_source(self._source)
        gathered = self._input.gather()
        element = self._input.next(self.slice_size.rows)
        if element is None:
            self.time.switch(Activity.BUSY if gathered else Activity.IDLE)
            return gathered
        self.time.switch(Activity.BUSY)
        if isinstance(element, RecordBatch):
            self._process_slice(element)
        else:
            self._process_event(element)
        return True

    def _step_source(self, source: TaskSource) -> bool:
        if source.is_waiting:
            self.time.switch(Activity.IDLE)
            return False
        self.time.switch(Activity.BUSY)
        started = self._clock.monotonic_ms()
        before = source.num_records
        status = source.emit(self.slice_size.rows)
        self._adapt_slice(source.num_records - before, self._clock.monotonic_ms() - started)
        if status is EmitStatus.END_OF_INPUT:
            self._finish()
        elif status is EmitStatus.NOTHING_AVAILABLE:
            self.time.switch(Activity.IDLE)
        return True

    def _process_slice(self, rows: RecordBatch) -> None:
        started = self._clock.monotonic_ms()
        head, num_rows = self.chain.head, rows.num_rows
        head.inputs[self._input.input_index].process_batch(rows)
        rest = head.take_rest()
        if rest is not None:
            self._input.put_back(rest)
            num_rows -= rest.num_rows
        self._adapt_slice(num_rows, self._clock.monotonic_ms() - started)

    def _run_timed(self, action: Callable[[], None]) -> None:
        started = self._clock.monotonic_ms()
        action()
        self.time.ran(self._clock.monotonic_ms() - started)

    def _adapt_slice(self, rows: int, took_ms: float) -> None:
        self.time.ran(took_ms)
        self.slice_size.adapt(rows, took_ms)
        for writer in self._writers:
            writer.flush_after(took_ms)
        if rows and any(writer.overdraft_bytes > OVERDRAFT_BYTES for writer in self._writers):
            self.slice_size.halve(rows)

    def _process_event(self, element: GateElement) -> None:
        target = self.chain.head.inputs[self._input.input_index]
        if isinstance(element, Watermark):
            target.process_watermark(element)
        elif isinstance(element, WatermarkStatus):
            target.process_watermark_status(element)
        elif isinstance(element, LatencyMarker):
            self._latency.arrived(self.deployment.vertex.head.operator_id, element)
            target.process_latency_marker(element)
        elif isinstance(element, EndOfInput):
            self.chain.end_input(self._input.input_index)
            if self._input.has_ended:
                self._finish()

    def _finish(self) -> None:
        self._is_finishing = True
        self._go_on_finishing()

    def _go_on_finishing(self) -> bool:
        """Finish the operators as far as none of them has results pending; returns whether that was all."""
        keep_open = self._services.keeps_finished_open or self.checkpoints.has_triggered
        if not self.chain.finish(keep_open):
            self.time.switch(Activity.IDLE)
            return False
        self._end()
        return True

    def _end(self) -> None:
        """End the output."""
        self._timers.stop()
        # while it can still fail
        self.checkpoints.on_end()
        self.state = TaskState.FINISHED
        self.time.switch(Activity.IDLE)

    def awaits_mail(self) -> bool:
        """Return whether a thread is at work for one of the operators and will post mail."""
        return self.state is TaskState.RUNNING and any(operator.awaits_mail() for operator in self.chain.operators)

    def has_work(self) -> bool:
        """Return whether a step would do something now."""
        if self.state is not TaskState.RUNNING:
            return False
        if self.is_suspended:
            return self._leaves
        if self._mailbox or self._was_finished:
            return True
        if self._is_finishing or not self.chain.is_available():
            return False
        if self._source is not None:
            return not self._source.is_waiting
        return self._input.has_data() or self.chain.head.is_firing()

    def flush_due(self, now_ms: float) -> None:
        """Send what has waited in the writers for the buffer timeout; `now_ms` is monotonic."""
        for writer in self._writers:
            writer.flush_due(now_ms)

    def next_flush_ms(self) -> float | None:
        """Return when `flush_due` has something to do, monotonic ms."""
        return min((at for at in (w.next_flush_ms for w in self._writers) if at is not None), default=None)

    def _run_timer(self, action: Callable[[], None]) -> None:
        if self.state is TaskState.INITIALIZING or (self.state is TaskState.RUNNING and self.is_suspended):
            # other slots are still being deployed, or a savepoint completed: what is due waits, and periodic timers
            # must not break off
            self._mailbox.keep(action)
            return
        if self.state is not TaskState.RUNNING:
            return
        self.time.switch(Activity.BUSY)
        self._mailbox.num_run += 1
        if self.chain.is_available():
            self._timer_slice.begin()
        else:
            # what is due fires in a step, once the output has room
            self._timer_slice.close()
        try:
            with AsTask(self.task_id):
                self._run_timed(action)
        except Exception as error:
            self._services.task_failed(self, error)

    @property
    def chained_operators(self) -> Iterable[tuple[StreamOperator, ChainedOperator]]:
        """Return its operators, and what its graph says of each."""
        return zip(self.chain.operators, self.deployment.vertex.operators, strict=True)

    def hosts(self, operator_id: OperatorId) -> bool:
        """Return whether the operator is part of this task."""
        return any(chained.operator_id == operator_id for chained in self.deployment.vertex.operators)

    def output_to(self, edge: int | OperatorId) -> TaggedOutput | None:
        """Return what leads to an edge.

        Args:
            edge: id of an edge between chains, or the operator of this chain that an edge within it leads to.

        Returns:
            None: the task has no such output.
        """
        if not isinstance(edge, int):
            return self.chain.output_into(edge)
        numbers = (n for n, leaving in enumerate(self.deployment.out_edges) if leaving.edge_id == edge)
        return next((self.chain.output_of_exit(number) for number in numbers), None)

    def unread_columns(self, edge: int | OperatorId) -> frozenset[str]:
        """Return the columns that are null on an edge because nobody reads them; see `output_to`."""
        vertex = self.deployment.vertex
        if isinstance(edge, int):
            sources = [leaving.source_operator for leaving in self.deployment.out_edges if leaving.edge_id == edge]
        else:
            sources = [e.source for e in vertex.chain_edges if vertex.operators[e.target].operator_id == edge]
        return frozenset(name for source in sources for name in vertex.operators[source].unread_columns)

    def late_samples(self, operator_id: OperatorId) -> LateSamples | None:
        """Return samples of the records that an operator of the chain has dropped as late; None: it has none."""
        return self._contexts.late_samples.get(operator_id)

    def handle_event(self, operator_id: OperatorId, event: Any) -> None:
        """Deliver a coordinator's event to the source."""
        if self._source is None or self._source.operator.context.operator_id != operator_id:
            raise LookupError(f"task {self.name} has no source with the operator id {operator_id}")
        self._source.operator.handle_event(event)
        self._source.wake()

    def resync_source(self) -> None:
        """Have the source, if this is one, find out what was lost between it and its coordinator."""
        if self._source is not None:
            self._source.operator.resync()

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def trigger_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Act on a checkpoint that the JobMaster has begun: a source emits the barrier, others wait for it.

        Raises:
            Exception: an operator cannot take its snapshot, and the task must be failed.
        """
        checkpoint_id = barrier.checkpoint_id
        if self.checkpoints.is_over(checkpoint_id):
            return
        if self.state is TaskState.FINISHED:
            if self.chain.is_open:
                self.checkpoints.take_final(barrier)
            else:
                option = options.CHECKPOINTS_AFTER_TASKS_FINISH.key
                self._decline(checkpoint_id, f"it had finished, and its state was not kept: {option} is off")
        elif self.state is not TaskState.RUNNING:
            if not self.state.is_terminal:
                self._decline(checkpoint_id, "it is not running yet")
        elif self.is_suspended:
            self._decline(checkpoint_id, "it has stopped for a savepoint")
        elif self._source is None or self._is_finishing or self._was_finished:
            self.checkpoints.trigger(barrier)
        elif barrier.options.after is AfterSnapshot.DRAIN:
            self.checkpoints.trigger(barrier)
            self._source.operator.drain()
            self._finish()
        else:
            self.checkpoints.take(barrier)

    def checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        """Act on a completed checkpoint: sinks commit; a task that was suspended for it ends in its next step.

        Raises:
            Exception: an operator failed, a commit for example.
        """
        if self.state not in (TaskState.RUNNING, TaskState.FINISHED):
            return
        self.checkpoints.on_complete(checkpoint_id)
        if self.chain.is_open:
            for backend in self._contexts.backends:
                backend.notify_checkpoint_complete(checkpoint_id)
            self.chain.notify_checkpoint_complete(checkpoint_id)
        if self.checkpoints.suspended_by == checkpoint_id:
            self._leaves = True

    def checkpoint_aborted(self, checkpoint_id: CheckpointId) -> None:
        """Act on a checkpoint that was given up."""
        if self.state not in (TaskState.RUNNING, TaskState.FINISHED):
            return
        self.checkpoints.on_aborted(checkpoint_id)
        if self.chain.is_open:
            for backend in self._contexts.backends:
                backend.notify_checkpoint_aborted(checkpoint_id)
            self.chain.notify_checkpoint_aborted(checkpoint_id)

    def savepoints_failed(self, savepoints: Sequence[tuple[Attempt, CheckpointId]]) -> None:
        """Act on savepoints of earlier attempts that have failed: attempt and checkpoint id of each."""
        if self.chain.is_open:
            self.chain.notify_savepoints_failed(savepoints)

    def advance_checkpoints(self) -> bool:
        """Advance checkpoints, between two steps; returns whether anything was done.

        Raises:
            Exception: the snapshot cannot be taken, and the task must be failed.
        """
        if self.state is not TaskState.RUNNING and self.state is not TaskState.FINISHED:
            return False
        return self.checkpoints.advance()

    def _decline(self, checkpoint_id: CheckpointId, why: str) -> None:
        error = CheckpointGivenUp(f"task {self.name} takes no part in checkpoint {checkpoint_id}: {why}")
        self._services.decline(self.task_id, checkpoint_id, error, counts_as_failure=False)

    def _run_for_checkpoint(self, action: Callable[[], None]) -> None:
        if self.state is TaskState.RUNNING or self.state is TaskState.FINISHED:
            try:
                action()
            except Exception as error:
                self._services.task_failed(self, error)

    # --- ending -------------------------------------------------------------------------------------------------------

    def close(self, after_failure: bool) -> None:
        """Release everything the task holds; its channels are the slot's to close."""
        self._timers.stop()
        if self._source is not None:
            self._source.close()
        self._mailbox.clear()
        self.checkpoints.close()
        self.chain.close(after_failure)

    def metrics(self) -> dict[str, object]:
        """Return the flat metrics of the task, Flink's names; rates in ms per second or per second, times in ms."""
        num_records_in = self._input.num_records if self._source is None else self._source.num_records
        values = self._metrics.report(self.chain, self._input, self._writers, num_records_in, self._mailbox.num_run)
        values |= self._latency.metrics()
        values |= self._mailbox.metrics(self.has_work())
        values |= self.checkpoints.metrics()
        values |= {
            "isBackPressured": not self.chain.is_available(),
            "initializationTime": self._initialization_ms,
        }
        return values | self.time.metrics()
