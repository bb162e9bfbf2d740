"""Task: one subtask of a chain, run step by step by its slot's loop.

A step takes a slice of records (about 20 ms of work) from the input through the whole chain, lets the source emit one,
or fires a slice of the timers that the last watermark has made due: nothing behind that watermark is looked at before
all have fired. It runs only if its output has room, so that operator code never blocks. Checkpoints are taken between
steps (see runtime.task.task_checkpoints). Used by the loop's thread only.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from runtime.checkpoint.state_files import TaskStateReader
from runtime.common import options
from runtime.common.configuration import Configuration
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
from runtime.core.ids import CheckpointId, OperatorId, SlotId
from runtime.graph.job_graph import JobEdge
from runtime.graph.partitioning import Partitioning
from runtime.metrics import MetricRegistry
from runtime.metrics.histogram import Histogram
from runtime.network.channel import ChannelId, InputChannel, NetworkEnvironment, OutputChannel, RecordLimit
from runtime.network.partitioners import create_selector
from runtime.network.record_writer import RecordWriter
from runtime.operators.operator import ClientChannel, OperatorContext
from runtime.operators.source_operator import EmitStatus, SourceOperator
from runtime.state.backend import KeyedStateBackend
from runtime.state.backends import create_keyed_backend
from runtime.state.key_groups import key_group_range
from runtime.state.timer_slice import ENDLESS
from runtime.task.channel_restore import restored_elements
from runtime.task.input_gate import GateElement, InputGate
from runtime.task.io_metrics import io_totals, queue_metrics
from runtime.task.latency import LatencyStatistics
from runtime.task.messages import TaskDeployment, TaskState
from runtime.task.operator_chain import ExitOutput, OperatorChain
from runtime.task.processing_time import TaskTimers
from runtime.task.rates import Rates
from runtime.task.slicing import SliceSize, timer_slice_of
from runtime.task.state_writing import operator_snapshots
from runtime.task.task_checkpoints import (
    CheckpointGivenUp,
    CheckpointServices,
    TaskCheckpoints,
    TaskOutput,
    Unread,
)
from runtime.task.time_accounting import Activity, TimeAccounting

#: What one step may put into a channel beyond its window before the next slices are made smaller: a record that becomes
#: thousands must not fill the memory. Flink's 20 overdraft buffers of 32 KB; below, large batches are cut for nothing.
OVERDRAFT_BYTES = 640 << 10
LATE_RECORDS = ".numLateRecordsDropped"
#: Counters of operators of which there are rates.
_RATED = (".numRecordsIn", ".numRecordsOut", ".numRecordsSend", LATE_RECORDS)


class SlotServices(CheckpointServices, Protocol):
    """Services of the slot that a task needs."""

    configuration: Configuration
    job_parameters: dict[str, str]
    network: NetworkEnvironment
    job_id: str
    keeps_finished_open: bool
    """Whether the state of tasks that have finished is asked for."""

    def state_reader(self, location: str | None) -> TaskStateReader: ...

    def working_directory(self) -> Path:
        """Return the local directory, which exists for as long as the slot lives."""

    @property
    def client(self) -> ClientChannel: ...

    def send_to_coordinator(self, operator_id: OperatorId, subtask_index: int, payload: bytes) -> None: ...

    def task_failed(self, task: Task, error: Exception) -> None: ...

    def wake(self) -> None:
        """Have the loop look at its tasks; any thread."""


class _CoordinatorGateway:
    """Connects an operator to its coordinator."""

    def __init__(self, services: SlotServices, operator_id: OperatorId, subtask_index: int) -> None:
        self._services = services
        self._operator_id = operator_id
        self._subtask_index = subtask_index

    def send_to_coordinator(self, event: object) -> None:
        self._services.send_to_coordinator(self._operator_id, self._subtask_index, pickle.dumps(event))


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
        self._registry = MetricRegistry()
        task_group = self._registry.root()
        self._records_in = task_group.counter("numRecordsIn")
        self._task_group = task_group
        self._rates = Rates(services.clock)
        self._timers = TaskTimers(services.timers, self._run_timer)
        self._timer_slice = timer_slice_of(services.configuration, services.clock)
        self._inputs: list[InputChannel] = []
        self._outputs: list[OutputChannel] = []
        self._writers: list[RecordWriter] = []
        #: of all operators; told what becomes of checkpoints, so that later ones build on those that are complete
        self._backends: list[KeyedStateBackend] = []
        #: the snapshot after which the task leaves, without finishing its operators
        self._leaves = False
        restore = deployment.restore
        #: whether the task had ended its output in the restored snapshot
        self._was_finished = restore is not None and restore.is_finished
        allows_unaligned = services.configuration.get(options.FORCE_UNALIGNED_CHECKPOINTS) or all(
            map(_allows_unaligned, deployment.in_edges)
        )
        self.checkpoints = TaskCheckpoints(
            self.task_id, self.name, vertex, services, allows_unaligned, self._run_for_checkpoint, self._unread
        )
        self._gates = self._create_gates()
        exits = [ExitOutput(e.source_operator, e.side_output_tag, self._create_writer(e)) for e in deployment.out_edges]
        self._latency = LatencyStatistics(services.configuration, self.task_id.subtask_index, services.clock)
        reuse = services.configuration.get(options.OBJECT_REUSE)
        self.chain = OperatorChain(vertex, exits, self._context_of, reuse, self._latency.arrived)
        self.checkpoints.connect(
            self.chain,
            self._gates,
            {edge.edge_id: edge.record_type for edge in deployment.in_edges},
            [
                TaskOutput(
                    writer, services.configuration.get(options.FORCE_UNALIGNED_CHECKPOINTS) or _allows_unaligned(e)
                )
                for writer, e in zip(self._writers, deployment.out_edges, strict=True)
            ],
        )
        head = self.chain.head
        self._source = head if isinstance(head, SourceOperator) else None
        self.slice_size = SliceSize.of(services.configuration)
        #: the batch that is being worked off in slices, and how far it has got
        self._batch: RecordBatch | None = None
        self._batch_gate = 0
        self._batch_input = 0
        self._batch_offset = 0
        #: of the slice before, what lies behind a mark at which timers began to fire
        self._rest: RecordBatch | None = None
        self._next_gate = 0
        self._source_wakeup: Callable[[], None] | None = None
        self._source_waits = False
        #: actions that other threads have for the loop's thread; anyone appends, the loop takes
        self._mails: deque[Callable[[], None]] = deque()
        #: whether all inputs have ended and the operators are being finished
        self._is_finishing = False
        self._num_mails = 0
        self._mail_latency = Histogram()
        #: when a sample of the mailbox's latency was begun; None = there is none
        self._probed_ms: float | None = None
        self._initialization_ms = 0.0
        self._is_open = False

    # --- building -----------------------------------------------------------------------------------------------------

    def _create_gates(self) -> list[InputGate]:
        by_input: dict[int, list[InputChannel]] = {}
        for edge in self.deployment.in_edges:
            for producer, slot in sorted(self.deployment.upstream_slots[edge.edge_id].items()):
                channel_id = ChannelId(edge.edge_id, producer, self.task_id.subtask_index)
                channel = self._services.network.create_input_channel(channel_id, slot, edge.record_type)
                by_input.setdefault(edge.input_index, []).append(channel)
                self._inputs.append(channel)
        gates: list[InputGate] = []
        for index, channels in sorted(by_input.items()):
            gates.append(InputGate(index, channels, self.checkpoints, sum(len(gate.channels) for gate in gates)))
        return gates

    def _create_writer(self, edge: JobEdge) -> RecordWriter:
        subtask = self.task_id.subtask_index
        slots: Mapping[int, SlotId] = self.deployment.downstream_slots[edge.edge_id]
        channels = []
        for consumer, slot in sorted(slots.items()):
            channel_id = ChannelId(edge.edge_id, subtask, consumer)
            channels.append(self._services.network.create_output_channel(channel_id, slot, edge.record_type))
        emitter = self.deployment.vertex.operators[edge.source_operator].name
        limit = RecordLimit(emitter, self._services.configuration.get(options.MAX_RECORD_BYTES))
        for channel in channels:
            channel.limit_records(limit)
        self._outputs.extend(channels)
        selector = create_selector(
            edge.partitioning,
            len(channels),
            subtask,
            None if edge.partitioner is None else pickle.loads(edge.partitioner),
            self.deployment.downstream_max_parallelism[edge.edge_id],
        )
        writer = RecordWriter(selector, channels, edge.buffer_timeout_ms, self._clock)
        self._writers.append(writer)
        return writer

    def _context_of(self, index: int) -> OperatorContext:
        vertex = self.deployment.vertex
        chained = vertex.operators[index]
        subtask = self.task_id.subtask_index

        def create_backend() -> KeyedStateBackend:
            backend = create_keyed_backend(
                self._services.configuration,
                key_group_range(vertex.max_parallelism, vertex.parallelism, subtask),
                vertex.max_parallelism,
                self._clock,
                self._working_directory(chained.operator_id),
                chained.name,
            )
            self._backends.append(backend)
            return backend

        return OperatorContext(
            operator_id=chained.operator_id,
            operator_name=chained.name,
            task_name=vertex.name,
            subtask_index=subtask,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            attempt=self._services.attempt,
            configuration=self._services.configuration,
            clock=self._clock,
            processing_time=self._timers,
            metrics=self._task_group.add_group(chained.name),
            client=self._services.client,
            events=_CoordinatorGateway(self._services, chained.operator_id, subtask),
            create_keyed_backend=create_backend,
            job_parameters=self._services.job_parameters,
            # only a head is interrupted: what is given to an operator behind it is nowhere else
            timer_slice=ENDLESS if index else self._timer_slice,
            mailbox=self._post_mail,
            job_id=self._services.job_id,
        )

    def _working_directory(self, operator_id: str) -> Path:
        return self._services.working_directory() / f"{operator_id}-{self.task_id.subtask_index}"

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
            operator_snapshots(restore, self.deployment.vertex, self.task_id, files, self._working_directory)
        )
        self.chain.open()
        self._is_open = True
        if restore is not None and restore.channels:
            for channel_id, elements in restored_elements(restore, self.deployment, files):
                self._take_in(channel_id, elements)
        self._initialization_ms = self._clock.monotonic_ms() - started
        self.state = TaskState.INITIALIZING

    def _take_in(self, channel_id: ChannelId, elements: list[RecordBatch | Watermark]) -> None:
        for gate in self._gates:
            for index, channel in enumerate(gate.channels):
                if channel.channel_id == channel_id:
                    gate.take_in(index, elements)
                    return
        raise LookupError(f"task {self.name} has no {channel_id} to restore")

    # --- running ------------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Do one slice of work; returns whether anything was done.

        Raises:
            Exception: whatever an operator raised; the task must then be failed.
        """
        if self._probed_ms is not None:
            self._mail_latency.update(self._clock.monotonic_ms() - self._probed_ms)
            self._probed_ms = None
        if self.is_suspended:
            return self._step_suspended()
        worked = bool(self._mails)
        if worked:
            self._run_mails()
        if self._is_finishing:
            return self._go_on_finishing() or worked
        if not self.chain.is_available():
            self.time.switch(Activity.BACK_PRESSURED)
            return worked
        self._timer_slice.begin()
        if self.chain.head.is_firing():
            self.time.switch(Activity.BUSY)
            self.chain.head.fire_on()
            return True
        return self._step_input() or worked

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
        if self._rest is not None:
            self.time.switch(Activity.BUSY)
            rest, self._rest = self._rest, None
            self._process_part(rest)
            return True
        if self._batch is None:
            element = self._poll()
            if element is None:
                self.time.switch(Activity.IDLE)
                return False
            self.time.switch(Activity.BUSY)
            if not isinstance(element, RecordBatch):
                self._process_event(element)
                return True
            self._batch, self._batch_offset = element, 0
            self._records_in.inc(element.num_rows)
        self.time.switch(Activity.BUSY)
        self._process_slice(self._batch)
        return True

    def _step_source(self, source: SourceOperator) -> bool:
        if self._source_waits:
            self.time.switch(Activity.IDLE)
            return False
        self.time.switch(Activity.BUSY)
        started = self._clock.monotonic_ms()
        before = self.chain.records_out[0].get_count()
        status = source.emit_next(self.slice_size.rows)
        self._adapt_slice(self.chain.records_out[0].get_count() - before, self._clock.monotonic_ms() - started)
        if status is EmitStatus.END_OF_INPUT:
            self._finish()
        elif status is EmitStatus.NOTHING_AVAILABLE:
            self._wait_for_source(source)
        return True

    def _wait_for_source(self, source: SourceOperator) -> None:
        self._source_waits = True
        self.time.switch(Activity.IDLE)
        wakeup_ms = source.next_wakeup_ms()
        if wakeup_ms is not None:
            self._source_wakeup = self._services.timers.register_timer(wakeup_ms, lambda _: self.wake_source())

    def wake_source(self) -> None:
        """Ask the source again: its time has come, or an event has arrived for it."""
        if self._source_wakeup is not None:
            self._source_wakeup()
            self._source_wakeup = None
        self._source_waits = False

    def _poll(self) -> GateElement | None:
        count = len(self._gates)
        for step in range(count):
            index = (self._next_gate + step) % count
            element = self._gates[index].poll()
            if element is not None:
                self._next_gate = (index + 1) % count
                self._batch_gate = index
                self._batch_input = self._gates[index].input_index
                return element
        return None

    def _process_slice(self, batch: RecordBatch) -> None:
        start = self._batch_offset
        stop = min(batch.num_rows, start + self.slice_size.rows)
        whole = start == 0 and stop == batch.num_rows
        # move on first: a slice that raises must not be seen again
        if stop == batch.num_rows:
            self._batch = None
        else:
            self._batch_offset = stop
        self._process_part(batch if whole else batch.slice(start, stop))

    def _process_part(self, part: RecordBatch) -> None:
        started = self._clock.monotonic_ms()
        head = self.chain.head
        head.inputs[self._batch_input].process_batch(part)
        self._rest = head.take_rest()
        rows = part.num_rows - (0 if self._rest is None else self._rest.num_rows)
        self._adapt_slice(rows, self._clock.monotonic_ms() - started)

    def _adapt_slice(self, rows: int, took_ms: float) -> None:
        self.slice_size.adapt(rows, took_ms)
        if rows and any(writer.overdraft_bytes > OVERDRAFT_BYTES for writer in self._writers):
            self.slice_size.halve(rows)

    def _process_event(self, element: GateElement) -> None:
        target = self.chain.head.inputs[self._batch_input]
        if isinstance(element, Watermark):
            target.process_watermark(element)
        elif isinstance(element, WatermarkStatus):
            target.process_watermark_status(element)
        elif isinstance(element, LatencyMarker):
            self._latency.arrived(self.deployment.vertex.head.operator_id, element)
            target.process_latency_marker(element)
        elif isinstance(element, EndOfInput):
            self.chain.end_input(self._batch_input)
            if all(gate.has_ended for gate in self._gates):
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

    def _post_mail(self, mail: Callable[[], None]) -> None:
        self._mails.append(mail)
        self._services.wake()

    def _run_mails(self) -> None:
        self.time.switch(Activity.BUSY)
        # those that are there now: what they bring about comes in the next step
        for _ in range(len(self._mails)):
            self._num_mails += 1
            self._mails.popleft()()

    def awaits_mail(self) -> bool:
        """Return whether a thread is at work for one of the operators and will post mail."""
        return self.state is TaskState.RUNNING and any(operator.awaits_mail() for operator in self.chain.operators)

    def has_work(self) -> bool:
        """Return whether a step would do something now."""
        if self.state is not TaskState.RUNNING:
            return False
        if self.is_suspended:
            return self._leaves
        if self._mails or self._was_finished:
            return True
        if self._is_finishing or not self.chain.is_available():
            return False
        if self._source is not None:
            return not self._source_waits
        if self._batch is not None or self._rest is not None or self.chain.head.is_firing():
            return True
        return any(gate.has_data() for gate in self._gates)

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
            self._mails.append(action)
            return
        if self.state is not TaskState.RUNNING:
            return
        self.time.switch(Activity.BUSY)
        self._num_mails += 1
        if self.chain.is_available():
            self._timer_slice.begin()
        else:
            # what is due fires in a step, once the output has room
            self._timer_slice.close()
        try:
            action()
        except Exception as error:
            self._services.task_failed(self, error)

    def hosts(self, operator_id: OperatorId) -> bool:
        """Return whether the operator is part of this task."""
        return any(chained.operator_id == operator_id for chained in self.deployment.vertex.operators)

    def handle_event(self, operator_id: OperatorId, event: Any) -> None:
        """Deliver a coordinator's event to the source."""
        if self._source is None or self._source.context.operator_id != operator_id:
            raise LookupError(f"task {self.name} has no source with the operator id {operator_id}")
        self._source.handle_event(event)
        self.wake_source()

    def resync_source(self) -> None:
        """Have the source, if this is one, find out what was lost between it and its coordinator."""
        if self._source is not None:
            self._source.resync()

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
            self._source.drain()
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
            for backend in self._backends:
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
            for backend in self._backends:
                backend.notify_checkpoint_aborted(checkpoint_id)
            self.chain.notify_checkpoint_aborted(checkpoint_id)

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

    def _unread(self) -> Unread | None:
        elements: list[RecordBatch | Watermark] = []
        if self._rest is not None and self._rest.num_rows:
            elements.append(self._rest)
        elif self._rest is not None:
            elements += [Watermark(watermark) for _, watermark in self._rest.marks]
        if self._batch is not None:
            elements.append(self._batch.slice(self._batch_offset, self._batch.num_rows))
        if not elements:
            return None
        gate = self._gates[self._batch_gate]
        return Unread(gate.first_channel + gate.last_channel, elements)

    # --- ending -------------------------------------------------------------------------------------------------------

    def close(self, after_failure: bool) -> None:
        """Release everything the task holds; its channels are the slot's to close."""
        self._timers.stop()
        if self._source_wakeup is not None:
            self._source_wakeup()
        self._mails.clear()
        self.checkpoints.close()
        self.chain.close(after_failure)

    def metrics(self) -> dict[str, object]:
        """Return the flat metrics of the task, Flink's names; rates in ms per second or per second, times in ms."""
        # a gauge without a value yet is left out
        values = {name: value for name, value in self._registry.snapshot().items() if value is not None}
        received = [c.statistics() for c in self._inputs]
        sent = [c.statistics() for c in self._outputs]
        totals = {
            "numRecordsIn": self._records_received(),
            "numRecordsOut": self.chain.records_sent,
            "numFiredTimers": self._num_fired_timers(),
            **io_totals(received, sent),
        }
        watermarks = [gate.valve.watermark for gate in self._gates]
        values |= self.chain.metrics(totals["numRecordsIn"], watermarks)
        # rates of the operators too: their counts go by "<operator>.numRecordsIn"
        counts = {name: n for name, n in values.items() if name.endswith(_RATED) and isinstance(n, int)}
        rates = self._rates.per_second({**totals, **counts, "mailboxMails": self._num_mails})
        values |= totals
        # Flink names this one's rate differently
        values |= {n.replace(f"{LATE_RECORDS}PerSecond", ".lateRecordsDroppedRate"): v for n, v in rates.items()}
        values |= queue_metrics(received, sent, float(str(rates["numBytesInPerSecond"])))
        values |= self._latency.metrics()
        values |= self._mail_metrics()
        values |= {
            "currentOutputWatermark": self.chain.output_watermark,
            "isBackPressured": not self.chain.is_available(),
            "initializationTime": self._initialization_ms,
            # nanoseconds, as Flink's
            "checkpointAlignmentTime": int(self.checkpoints.alignment_ms * 1_000_000),
            "checkpointStartDelayNanos": int(self.checkpoints.start_delay_ms * 1_000_000),
        }
        if self._gates:
            values["currentInputWatermark"] = min(watermarks)
        if len(self._gates) > 1:
            for gate in self._gates:
                values[f"currentInput{gate.input_index + 1}Watermark"] = gate.valve.watermark
        return values | self.time.metrics()

    def _num_fired_timers(self) -> int:
        if not self._is_open:
            # operators that could not be restored have no timers yet
            return 0
        return sum(operator.num_fired_timers() for operator in self.chain.operators)

    def _mail_metrics(self) -> dict[str, object]:
        """Return the mailbox's metrics; its latency is sampled: how long a mail that comes now would wait."""
        if self.has_work():
            self._probed_ms = self._clock.monotonic_ms()
        else:
            # the loop rests, and mail would wake it
            self._mail_latency.update(0)
        latency = {f"mailboxLatencyMs_{name}": value for name, value in self._mail_latency.report().items()}
        return {"mailboxQueueSize": len(self._mails), **latency}

    def _records_received(self) -> int:
        if self._source is not None:
            return self.chain.records_out[0].get_count()
        return self._records_in.get_count()


def _allows_unaligned(edge: JobEdge) -> bool:
    """Return whether barriers may overtake on an edge, so that overtaken rows can be dealt out at another
    parallelism.
    """
    return not edge.partitioning.is_pointwise and edge.partitioning is not Partitioning.BROADCAST
