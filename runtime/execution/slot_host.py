"""SlotHost: takes the place of all slots of an attempt, and runs the job's tasks in passes.

The JobMaster is the one of a continuous job: it deploys tasks to slots, takes periodic checkpoints, savepoints and
rescalings, restarts after failures. What is different is behind the slots: no task lives between two snapshots. When a
checkpoint begins, a pass (`runtime.execution.passes.job_pass`) restores the tasks from the last one, has the sources
read what is there, and ends with the checkpoint's barrier. So each checkpoint is a batch; the host asks for one when
`due_batches` says that there is something to do, `execution.checkpointing.interval` behind the last one at the soonest.
Savepoints lie between batches. A job of the kind BATCH has one pass and no checkpoint. The loop's thread only.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runtime.checkpoint.batch_trace import BatchTrace
from runtime.checkpoint.handles import TaskRestore
from runtime.checkpoint.settings import CheckpointSettings
from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.common.execution_kind import ExecutionKind
from runtime.common.references import all_filled
from runtime.common.secrets import providing
from runtime.core.checkpoint_options import AfterSnapshot, CheckpointOptions
from runtime.core.clock import Clock
from runtime.core.elements import CheckpointBarrier
from runtime.core.ids import Attempt, CheckpointId, JobId, OperatorId, SlotId, TaskId
from runtime.execution.attempt_passes import AttemptPasses, LocalPasses
from runtime.execution.batch_size import BatchSize
from runtime.execution.batch_sources import BatchSources
from runtime.execution.due_batches import DueBatches
from runtime.execution.passes.counts import PassCounts
from runtime.execution.passes.job_pass import JobPass
from runtime.execution.passes.plan import JobFacts, PassFailedError, PassKind, PassPlan, TaskOutcome
from runtime.execution.passes.restores import graph_of, restores_of
from runtime.execution.passes.task_run import Turn
from runtime.execution.passes.traces import PhaseTimes, trace_of
from runtime.operators.operator import ClientChannel
from runtime.state.snapshot import OperatorStateSnapshot
from runtime.task.control_link import ControlLink, LeaderChanged
from runtime.task.failures import describe_failure
from runtime.task.messages import (
    CancelTasks,
    ClientAck,
    CommitFinished,
    Deploy,
    FailureInfo,
    Heartbeat,
    JobMasterMessage,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    RegisterSlot,
    ReleaseSlot,
    SnapshotCoordinators,
    Start,
    TaskDeployment,
    TaskState,
    TriggerCheckpoint,
)
from runtime.task.python_files import import_files
from runtime.task.slot import MAX_WAIT_MS
from runtime.task.slot_redaction import redaction_of
from runtime.task.slot_reports import SlotReports
from runtime.task.working_directory import WorkingDirectory

logger = logging.getLogger(__name__)

_SLICE_MS = 20.0
"""How long a pass goes on before control messages are looked at, as a slot's slices."""
_POLL_MS = 5.0
"""Time between two looks at what is done elsewhere: the sources' first searches for splits, calls of functions."""
_ASK_AGAIN_MS = 200.0
"""Time after which the JobMaster is asked again for what it has not begun: while regions restart it takes nothing."""


class _HostedSlot:
    """A slot as the JobMaster sees it."""

    def __init__(self, slot: SlotId, attempt: Attempt, link: ControlLink, host: str, clock: Clock) -> None:
        self.slot_id = slot
        self.link = link
        self.reports = SlotReports(link, RegisterSlot(slot, attempt, os.getpid(), host, ""), clock)
        self.tasks: list[TaskId] = []
        self.is_released = False
        self._heartbeat = Heartbeat(slot, attempt, 0, {})

    def publish(self, metrics: Mapping[TaskId, Mapping[str, object]] | None = None) -> None:
        """Say that the host is at work, and what its tasks have counted; None: as before."""
        if metrics is not None:
            self._heartbeat = Heartbeat(self.slot_id, self._heartbeat.attempt, 0, metrics)
        self.link.publish(self._heartbeat)


@dataclass
class _Batch:
    """A pass that is being run, or was run and is not complete."""

    run: JobPass
    work: Iterator[Turn] | None
    """What is being done; None = the pass waits for the JobMaster."""
    then: Callable[[_Batch], None]
    """What comes when that is done."""
    times: PhaseTimes
    since_ms: float
    """Monotonic time at which its present phase began."""
    is_waiting: bool = False
    """Whether the work cannot go on before another thread, or the client, has done something."""

    def phase_over(self, now_ms: float) -> float:
        """Return how long a phase has taken that is over now."""
        took, self.since_ms = now_ms - self.since_ms, now_ms
        return took

    @property
    def checkpoint_id(self) -> CheckpointId:
        return self.run.plan.barrier.checkpoint_id


MakePasses = Callable[["SlotHost"], AttemptPasses]


class SlotHost:
    """All slots of one attempt.

    Args:
        attempt: of the job.
        slots: with the control stream of each.
        clock: gives each pass its time.
        make_passes: says where the tasks run.
        host: name of the machine.
    """

    def __init__(
        self,
        attempt: Attempt,
        slots: Mapping[SlotId, ControlLink],
        clock: Clock,
        make_passes: MakePasses = LocalPasses,
        host: str = "localhost",
    ) -> None:
        self._attempt = attempt
        self.clock = clock
        self._slots = {slot: _HostedSlot(slot, attempt, link, host, clock) for slot, link in slots.items()}
        self._deployments: dict[TaskId, TaskDeployment] = {}
        self._slot_of: dict[TaskId, _HostedSlot] = {}
        self._states: dict[TaskId, TaskState] = {}
        self._sources = BatchSources(clock)
        self._coordinator_slots: dict[OperatorId, _HostedSlot] = {}
        self._restores: Mapping[TaskId, TaskRestore] = {}
        self._facts: JobFacts | None = None
        self._directory: WorkingDirectory | None = None
        self._size = BatchSize(1, grows=False)
        self._takes_one = False
        self._started = 0
        self._only_ends = self._is_bounded = self._is_over = False
        #: messages that have to wait until the batch of another snapshot is over
        self._queued: list[tuple[_HostedSlot, JobMasterMessage]] = []
        self._batch: _Batch | None = None
        self._newest = CheckpointId(0)
        #: the last pass, whose sinks are open until the next one begins
        self._last: JobPass | None = None
        self._counts = PassCounts()
        #: None: nothing is deployed, or the job is no stream
        self._due: DueBatches | None = None
        #: whether it was said that a batch is due, and none has read since
        self._has_said_due = False
        #: batches that were completed, and whether the last of them found nothing more to read
        self.num_completed = 0
        self.has_caught_up = False
        #: when the JobMaster is asked again to stop the job; None: there are more batches
        self._ask_to_stop_at_ms: float | None = None
        #: monotonic time at which the next batch was due, once it is
        self._due_since_ms: float | None = None
        #: the last batch that has read, as the JobMaster was told
        self._told: tuple[CheckpointId, BatchTrace] | None = None
        self._passes = make_passes(self)

    def ask_for_checkpoint(self) -> None:
        """Tell the JobMaster that a batch can begin: it has a checkpoint begin, soon or never."""
        self._is_due()
        self._first_slot.reports.checkpoint_due()

    def spark_took(self, phases_ms: Mapping[str, float]) -> None:
        """Note where the time of the last batch went on the side of Spark, which says so late."""
        if self._told is not None and phases_ms:
            checkpoint_id, trace = self._told
            self._tell(checkpoint_id, replace(trace, spark_ms=phases_ms))

    @property
    def _first_slot(self) -> _HostedSlot:
        """Return the slot that speaks for what is no slot's."""
        return next(iter(self._slots.values()))

    def publish(self) -> None:
        """Say to the JobMaster that this thread is not held up."""
        for slot in self._slots.values():
            if not slot.is_released:
                slot.publish()

    def client_of(self, task: TaskId) -> ClientChannel:
        """Return the way of a task's prints to the client."""
        return self._slot_of[task].reports.client

    def local_directory(self) -> Path:
        """Return the directory for local files."""
        assert self._directory is not None
        return self._directory.path()

    @property
    def facts(self) -> JobFacts:
        """Return what is known of the job, once it is deployed."""
        assert self._facts is not None
        return self._facts

    def failed(self, failure: FailureInfo) -> None:
        """Note that what drives the batches has failed."""
        self._abandon_batch()
        self._first_slot.reports.slot_failed(failure)

    @property
    def is_released(self) -> bool:
        """Return whether all slots have left."""
        return all(slot.is_released for slot in self._slots.values())

    @property
    def has_finished(self) -> bool:
        """Return whether every task has ended: the job ends by itself."""
        return bool(self._states) and all(state is TaskState.FINISHED for state in self._states.values())

    @property
    def has_more(self) -> bool:
        """Return whether there is another batch, as `execution.micro-batch.trigger` says."""
        if self.has_finished:
            return False
        match self.facts.configuration.get(options.MICRO_BATCH_TRIGGER):
            case "once":
                return self.num_completed == 0
            case "available-now":
                return not self.has_caught_up
            case _:
                return True

    @property
    def is_batch_due(self) -> bool:
        """Return whether the next batch has something to do, as far as that is known."""
        return self.has_more and self._due is not None and self._due.is_due

    @property
    def is_working(self) -> bool:
        """Return whether something of a pass can be done now."""
        return self._batch is not None and self._batch.work is not None and not self._batch.is_waiting

    @property
    def is_waiting(self) -> bool:
        """Return whether a pass, or the first batch, waits for what is done elsewhere."""
        waits = self._batch is not None and self._batch.work is not None and self._batch.is_waiting
        return waits or bool(self._sources.first_searches)

    def idle_ms(self) -> float:
        """Return how long there is nothing to do if no message comes."""
        if self.is_working:
            return 0.0
        wait_ms = min(_POLL_MS if self.is_waiting else MAX_WAIT_MS, self._passes.wait_ms())
        if self._due is None or self._has_said_due or not self._is_between_batches:
            return wait_ms
        return min(wait_ms, self._due.wait_ms())

    @property
    def awaits_mail(self) -> bool:
        """Return whether another thread is at work for an operator of a pass."""
        return self._batch is not None and self._batch.run.awaits_mail

    def has_left(self, slot_id: SlotId) -> bool:
        """Return whether a slot is closed."""
        return self._slots[slot_id].is_released

    def release(self, slot_id: SlotId) -> None:
        """Close a slot, and with the last one everything."""
        slot = self._slots[slot_id]
        if slot.is_released:
            return
        slot.is_released = True
        if self.is_released:
            self._abandon_batch()
            self._close_last()
            if self._due is not None:
                self._due.close()
            self._sources.close()
            self._passes.close()
            if self._directory is not None:
                self._directory.close()
        slot.reports.leaving()

    def step(self) -> bool:
        """Take one turn: messages, then a slice of the pass. Returns whether anything was done."""
        worked = False
        for slot in list(self._slots.values()):
            while not slot.is_released and (message := slot.link.poll()) is not None:
                worked = True
                self._handle(slot, message)
        self._passes.tick()
        if self._ask_to_stop_at_ms is not None and self.clock.monotonic_ms() >= self._ask_to_stop_at_ms:
            self._ask_to_stop_at_ms = None
            if not self.has_finished and not self.is_released:
                self._ask_to_stop()
        return self._work() or self._end_first_searches() or self._look_out() or worked

    @property
    def _is_between_batches(self) -> bool:
        """Return whether all tasks run, and none is in a pass."""
        return self._batch is None and self._started == len(self._slots) and not self._has_failed and self.has_more

    @property
    def _has_failed(self) -> bool:
        return any(state in (TaskState.FAILED, TaskState.CANCELED) for state in self._states.values())

    def _look_out(self) -> bool:
        """Say that a batch is due if it is; returns whether that was said."""
        if self._due is None or self._has_said_due or not self._is_between_batches:
            return False
        try:
            is_due = self._due.look(list(self._coordinator_slots))
        except Exception as error:
            slot = self._first_slot
            self._due = None
            slot.reports.slot_failed(describe_failure(error, slot=slot.slot_id))
            return True
        if is_due:
            self._has_said_due = True
            self._passes.batch_due()
        return is_due

    # --- messages -----------------------------------------------------------------------------------------------------

    def _handle(self, slot: _HostedSlot, message: JobMasterMessage | LeaderChanged) -> None:
        match message:
            case Deploy():
                self._deploy(slot, message)
            case Start():
                self._started += 1
                if self._started == len(self._slots):
                    self._run_tasks()
            case SnapshotCoordinators(checkpoint_id):
                if not self._has_to_wait(slot, message):
                    self._snapshot_coordinators(slot, checkpoint_id)
            case TriggerCheckpoint(checkpoint_id, _, checkpoint_options):
                slot.reports.ledger.triggered(checkpoint_id, checkpoint_options)
                if not self._has_to_wait(slot, message):
                    self._begin(message)
            case NotifyCheckpointComplete(checkpoint_id):
                slot.reports.ledger.completed(checkpoint_id)
                self._complete(checkpoint_id)
            case NotifyCheckpointAborted(checkpoint_id):
                slot.reports.ledger.aborted(checkpoint_id)
                self._queued = [(s, m) for s, m in self._queued if s is not slot or _snapshot_of(m) != checkpoint_id]
                self._aborted(slot, checkpoint_id)
            case CancelTasks():
                self._cancel(slot)
            case CommitFinished():
                if self._batch is None:
                    self._commit(slot)
                else:
                    self._queued.append((slot, message))
            case ReleaseSlot(is_over):
                if is_over:
                    self._job_finished()
                self.release(slot.slot_id)
            case ClientAck(channel, position):
                slot.reports.client.acknowledge(channel, position)
            case _:
                # what concerns tasks that live, or another JobMaster: slots in micro-batches end with theirs
                pass

    def _deploy(self, slot: _HostedSlot, deploy: Deploy) -> None:
        configuration = Configuration.from_dict(dict(deploy.configuration))
        slot.reports.redact = slot.reports.client.redact = redaction_of(deploy.secrets)
        if self._facts is None:
            name = f"{deploy.job_id[:8]}-{self._attempt}-passes"
            self._directory = WorkingDirectory(configuration, name, 0)
            self._size = BatchSize(configuration.get(options.MICRO_BATCH_MAX_ROWS), not self._passes.keeps_frames)
            self._takes_one = configuration.get(options.MICRO_BATCH_TRIGGER) == "once"
            self._only_ends = deploy.stopped_by is not None
            self._is_bounded = ExecutionKind.of(configuration) is ExecutionKind.BATCH
            compression = "zstd" if configuration.get(options.SNAPSHOT_COMPRESSION) else "none"
            self._facts = JobFacts(
                deploy.job_id,
                self._attempt,
                configuration,
                all_filled(deploy.job_parameters, deploy.secrets),
                compression,
                deploy.secrets,
            )
            interval_ms = CheckpointSettings.from_configuration(configuration).interval_ms
            if not (self._is_bounded or self._only_ends):
                self._due = DueBatches(self._sources, self.clock, configuration, interval_ms or 0)
        for deployment in deploy.tasks:
            # the JobMaster waits for these, whatever becomes of the slot
            self._deployments[deployment.task] = deployment
            self._slot_of[deployment.task] = slot
            self._states[deployment.task] = TaskState.DEPLOYING
            slot.tasks.append(deployment.task)
        try:
            import_files(configuration)
            with providing(deploy.secrets):
                for deployment in deploy.tasks:
                    self._create_coordinator(deployment, deploy)
        except Exception as error:
            slot.reports.slot_failed(describe_failure(error, slot=slot.slot_id))
            return
        restores = dict(self._restores)
        for deployment in deploy.tasks:
            if deployment.restore is not None:
                restores[deployment.task] = deployment.restore
            self._report(deployment.task, TaskState.INITIALIZING)
        self._restores = restores

    def _create_coordinator(self, deployment: TaskDeployment, deploy: Deploy) -> None:
        head = deployment.vertex.head
        if deployment.in_edges or head.operator_id not in deploy.coordinator_slots or deployment.task.subtask_index:
            return
        self._coordinator_slots[head.operator_id] = self._slot_of[deployment.task]
        self._sources.add(deployment, deploy.coordinator_states.get(head.operator_id))

    def _end_first_searches(self) -> bool:
        """Take what the sources' first searches have found; with the last of them begin what waited for it.

        Returns whether a search has ended.
        """
        ended = False
        for known in self._sources.first_searches:
            try:
                ended = self._sources.ends_first_search(known) or ended
            except Exception as error:
                ended = True
                slot = self._coordinator_slots[known]
                slot.reports.slot_failed(describe_failure(error, slot=slot.slot_id))
        if ended and not self._sources.first_searches:
            self._handle_queued()
            if self._is_bounded and self._started == len(self._slots):
                self._read_all()
        return ended

    def _run_tasks(self) -> None:
        for task in self._deployments:
            if not self._states[task].is_terminal:
                self._report(task, TaskState.RUNNING)
        if self._only_ends:
            self._end_only()
        elif self._is_bounded:
            self._read_all()
        else:
            self._passes.running()

    def _end_only(self) -> None:
        """Commit what the savepoint that the job stops with holds, and end; nothing is read or emitted."""
        run = self._new_pass(_no_barrier(self.clock), PassKind.SNAPSHOT)
        self._batch = self._new_batch(run, run.commit_restored(), self._ended_only)

    def _ended_only(self, batch: _Batch) -> None:
        self._last = batch.run
        for task in self._deployments:
            self._report(task, TaskState.FINISHED)
        self._batch_over()

    # --- a batch that is the whole job --------------------------------------------------------------------------------

    def _read_all(self) -> None:
        """Begin the only pass, once the sources have found their splits."""
        if self._sources.first_searches or any(state.is_terminal for state in self._states.values()):
            return
        for known, slot in self._coordinator_slots.items():
            try:
                self._sources.deal_all(known)
            except Exception as error:
                slot.reports.slot_failed(describe_failure(error, slot=slot.slot_id))
                return
        run = self._new_pass(_no_barrier(self.clock), PassKind.BOUNDED)
        self._batch = self._new_batch(run, run.run(), self._all_read)

    def tasks_ended(self, outcomes: Sequence[TaskOutcome]) -> None:
        """Tell the JobMaster of tasks of a batch that have ended while others run, so that it knows how far that is.

        It is told of the last one when the outcomes of all are here: with it the job has finished, and sinks commit.
        """
        if self._batch is None or not self._is_bounded:
            return
        for outcome in outcomes:
            if any(not state.is_terminal for task, state in self._states.items() if task != outcome.task):
                self._report(outcome.task, TaskState.FINISHED, outcome.metrics)

    def _all_read(self, batch: _Batch) -> None:
        run = batch.run
        self._restore_from(run)
        for task, outcome in run.outcomes.items():
            self._report(task, TaskState.FINISHED, outcome.metrics)
        self._publish(run)
        self._last = run
        self._batch_over()

    # --- a batch ------------------------------------------------------------------------------------------------------

    def _has_to_wait(self, slot: _HostedSlot, message: SnapshotCoordinators | TriggerCheckpoint) -> bool:
        """Return whether another batch is not complete, or the first one waits for splits: the message then comes
        again.
        """
        batch = self._batch
        if not self._sources.first_searches and (batch is None or batch.checkpoint_id == message.checkpoint_id):
            return False
        self._queued.append((slot, message))
        return True

    def _snapshot_coordinators(self, slot: _HostedSlot, checkpoint_id: CheckpointId) -> None:
        """Deal splits for the batch, then take the coordinators' snapshots: none is dealt between these and those of
        the readers.
        """
        try:
            states: dict[OperatorId, OperatorStateSnapshot] = {
                known: self._sources.deal(known)
                for known, of_slot in self._coordinator_slots.items()
                if of_slot is slot
            }
        except Exception as error:
            slot.reports.slot_failed(describe_failure(error, slot=slot.slot_id))
            return
        self._is_due()
        slot.reports.coordinators_snapshotted(checkpoint_id, states)

    def _begin(self, trigger: TriggerCheckpoint) -> None:
        """Begin a pass with the first slot that is told; all of them are."""
        if (
            self._batch is not None
            or self._has_failed
            or trigger.checkpoint_id <= self._newest
            or not self._close_last()
        ):
            return
        self._newest = trigger.checkpoint_id
        kind = self._passes.kind_of(trigger)
        if kind is PassKind.DATA and self._takes_one and self.num_completed:
            # the next checkpoint was due before the job could stop
            kind = PassKind.IDLE
        run = self._new_pass(CheckpointBarrier(trigger.checkpoint_id, trigger.timestamp_ms, trigger.options), kind)
        self._batch = self._new_batch(run, run.run(), self._acknowledge)

    def _is_due(self) -> None:
        if self._due_since_ms is None:
            self._due_since_ms = self.clock.monotonic_ms()

    def _new_batch(self, run: JobPass, work: Iterator[Turn], then: Callable[[_Batch], None]) -> _Batch:
        now_ms, due_ms = self.clock.monotonic_ms(), self._due_since_ms
        self._due_since_ms = None
        return _Batch(run, work, then, PhaseTimes(0.0 if due_ms is None else now_ms - due_ms), now_ms)

    def _new_pass(self, barrier: CheckpointBarrier, kind: PassKind) -> JobPass:
        deployments = list(self._in_order())
        plan = PassPlan(
            facts=self.facts,
            number=int(barrier.checkpoint_id),
            now_ms=self.clock.now_ms(),
            barrier=barrier,
            kind=kind,
            max_rows=self._size.rows,
            deployments=deployments,
            restores=self._restores,
            shares=self._sources.shares() if kind in (PassKind.DATA, PassKind.BOUNDED) else {},
            slots={deployment.task: self._slot_of[deployment.task].slot_id for deployment in deployments},
        )
        return self._passes.begin(plan)

    def _in_order(self) -> Iterator[TaskDeployment]:
        """Yield all tasks, producers before consumers."""
        by_vertex: dict[str, list[TaskDeployment]] = {}
        for deployment in self._deployments.values():
            by_vertex.setdefault(deployment.vertex.vertex_id, []).append(deployment)
        done: set[str] = set()
        while len(done) < len(by_vertex):
            for vertex_id, deployments in by_vertex.items():
                if vertex_id not in done and all(edge.source in done for edge in deployments[0].in_edges):
                    done.add(vertex_id)
                    yield from sorted(deployments, key=lambda deployment: deployment.task.subtask_index)

    def _work(self) -> bool:
        """Go on with the batch for a while; returns whether anything was done."""
        batch = self._batch
        if batch is None or batch.work is None:
            return False
        until_ms = self.clock.monotonic_ms() + _SLICE_MS
        try:
            while True:
                turn = next(batch.work, None)
                if turn is None:
                    batch.work = None
                    batch.then(batch)
                    return True
                was_waiting, batch.is_waiting = batch.is_waiting, turn is Turn.WAITS
                if batch.is_waiting:
                    return not was_waiting
                if self.clock.monotonic_ms() >= until_ms:
                    return True
        except PassFailedError as failed:
            self._fail(failed)
            return True

    def _acknowledge(self, batch: _Batch) -> None:
        plan = batch.run.plan
        checkpoint_id = plan.barrier.checkpoint_id
        batch.times.run = batch.phase_over(self.clock.monotonic_ms())
        for task, outcome in batch.run.outcomes.items():
            self._slot_of[task].reports.acknowledge(task, checkpoint_id, outcome.state, outcome.checkpoint)
        if plan.kind is PassKind.SNAPSHOT and plan.barrier.options.after is AfterSnapshot.GO_ON:
            # nobody tells when it is complete, and its files are its owner's: the next batch begins where it did
            batch.run.abandon()
            self._batch_over()
            return
        for task, outcome in batch.run.outcomes.items():
            if outcome.is_finished:
                self._report(task, TaskState.FINISHED, self._counts.with_earlier(task, outcome.metrics))
        self._publish(batch.run)

    def _batch_over(self) -> None:
        self._batch = None
        self._handle_queued()

    def _handle_queued(self) -> None:
        queued, self._queued = self._queued, []
        for slot, message in queued:
            self._handle(slot, message)

    def _complete(self, checkpoint_id: CheckpointId) -> None:
        batch = self._batch
        if batch is None or batch.checkpoint_id != checkpoint_id or batch.then != self._acknowledge:
            # every slot is told, the last one perhaps when another has gone on to the job's end
            return
        batch.times.store = batch.phase_over(self.clock.monotonic_ms())
        self._restore_from(batch.run)
        batch.work, batch.then = batch.run.commit(checkpoint_id, self._restores), self._committed

    def _restore_from(self, run: JobPass) -> None:
        """Have what comes next restore what the tasks of a pass have ended with."""
        barrier = run.plan.barrier
        graph = graph_of(JobId(self.facts.job_id), list(self._in_order()))
        states = {task: outcome.state for task, outcome in run.outcomes.items()}
        self._restores = restores_of(graph, barrier.checkpoint_id, barrier.timestamp_ms, barrier.options, states)

    def _committed(self, batch: _Batch) -> None:
        run = batch.run
        for task, outcome in run.outcomes.items():
            if outcome.splits:
                self._sources.confirm(self._deployments[task].vertex.head.operator_id, outcome.splits)
        batch.times.commit = batch.phase_over(self.clock.monotonic_ms())
        self.has_caught_up = run.has_caught_up and not self._have_run_out(run)
        if self._due is not None and run.plan.kind is PassKind.DATA:
            sources = [deployment for deployment in self._in_order() if not deployment.in_edges]
            self._due.read(run.outcomes, self.has_caught_up, sources, self._restores)
            self._has_said_due = False
        trace = trace_of(run, batch.times, self._first_slot.reports.redact)
        if run.plan.kind is PassKind.DATA:
            took_ms = trace.run_ms + trace.store_ms + trace.commit_ms
            self._size.batch_over(trace.num_read, took_ms, self.has_caught_up)
        self._tell(batch.checkpoint_id, replace(trace, has_caught_up=self.has_caught_up))
        self._last = run
        self.num_completed += 1
        if run.plan.barrier.options.after is AfterSnapshot.SUSPEND:
            for task in self._deployments:
                self._report(task, TaskState.FINISHED, self._counts.with_earlier(task, {}))
        self._passes.completed(run)
        if run.plan.kind is PassKind.DATA and not (self.has_more or self.has_finished):
            self._ask_to_stop()
        self._batch_over()

    def _have_run_out(self, run: JobPass) -> bool:
        """Return whether a source has read all splits that it was dealt, and there may be more."""
        heads = {
            self._deployments[task].vertex.head.operator_id
            for task, outcome in run.outcomes.items()
            if outcome.splits and outcome.has_caught_up
        }
        # each is told, for its next batch
        return sum(self._sources.ran_out(known) for known in sorted(heads)) > 0

    def _tell(self, checkpoint_id: CheckpointId, trace: BatchTrace) -> None:
        if trace.kind == PassKind.DATA.value:
            self._told = checkpoint_id, trace
        self._first_slot.reports.batch_completed(checkpoint_id, trace)

    def _aborted(self, slot: _HostedSlot, checkpoint_id: CheckpointId) -> None:
        batch = self._batch
        if batch is None or batch.checkpoint_id != checkpoint_id:
            return
        self._abandon_batch()
        # what sinks have prepared is known to nobody else; another attempt sweeps it
        why = f"the batch of checkpoint {checkpoint_id} was given up with the checkpoint"
        slot.reports.slot_failed(FailureInfo(why, slot=slot.slot_id))

    # --- ends ---------------------------------------------------------------------------------------------------------

    def _fail(self, failed: PassFailedError) -> None:
        self._batch, self._queued = None, []
        if failed.task is None:
            self._first_slot.reports.slot_failed(failed.info)
        elif self._states[failed.task].is_terminal:
            # it had ended, and could not commit or close
            self._slot_of[failed.task].reports.slot_failed(failed.info)
        else:
            self._report(failed.task, TaskState.FAILED, failure=failed.info)

    def _cancel(self, slot: _HostedSlot) -> None:
        self._abandon_batch()
        for task in slot.tasks:
            if not self._states[task].is_terminal:
                self._report(task, TaskState.CANCELED)

    def _commit(self, slot: _HostedSlot) -> None:
        """Commit what tasks of a slot hold back until the job has finished; again for who asks again."""
        run = self._last
        if slot.reports.has_committed or run is None:
            slot.reports.committed()
            return

        def committed(_: _Batch) -> None:
            slot.reports.committed()
            self._batch_over()

        self._batch = self._new_batch(run, run.commit_finished(slot.tasks, self._restores), committed)

    def _job_finished(self) -> None:
        is_told, self._is_over = self._is_over, True
        if self._last is not None and not is_told:
            try:
                self._last.job_finished()
            except PassFailedError as failed:
                # all of the result is visible; what is left over harms nobody
                logger.warning("%s was not cleaned up completely", failed.info.task_name, exc_info=True)

    def _ask_to_stop(self) -> None:
        """Tell the JobMaster, until it acts, that there is no other batch."""
        self._ask_to_stop_at_ms = self.clock.monotonic_ms() + _ASK_AGAIN_MS
        for slot in self._slots.values():
            slot.reports.stop_due()

    def _abandon_batch(self) -> None:
        batch, self._batch, self._queued = self._batch, None, []
        if batch is not None:
            batch.run.abandon()

    def _close_last(self) -> bool:
        """Close the sinks of the last pass; returns whether that went well."""
        last, self._last = self._last, None
        if last is not None:
            try:
                last.close()
            except PassFailedError as failed:
                last.abandon()
                self._fail(failed)
                return False
        return True

    # --- reports ------------------------------------------------------------------------------------------------------

    def _report(
        self,
        task: TaskId,
        state: TaskState,
        metrics: Mapping[str, object] | None = None,
        failure: FailureInfo | None = None,
    ) -> None:
        if task in self._states and self._states[task].is_terminal:
            return
        self._states[task] = state
        self._slot_of[task].reports.task_state(task, state, failure, metrics or {})

    def _publish(self, run: JobPass) -> None:
        for slot in self._slots.values():
            slot.publish({task: self._counts.with_earlier(task, run.outcomes[task].metrics) for task in slot.tasks})
        for task, outcome in run.outcomes.items():
            self._counts.add(task, outcome.metrics)


def _no_barrier(clock: Clock) -> CheckpointBarrier:
    """Return what stands for a barrier where no snapshot is taken."""
    return CheckpointBarrier(CheckpointId(0), clock.now_ms(), CheckpointOptions("", ""))


def _snapshot_of(message: JobMasterMessage) -> CheckpointId | None:
    match message:
        case SnapshotCoordinators(checkpoint_id) | TriggerCheckpoint(checkpoint_id):
            return checkpoint_id
    return None
