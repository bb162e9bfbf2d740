"""MicroBatchHost: takes the place of all slots of an attempt, and runs the job's tasks in passes.

The JobMaster is the one of a continuous job: it deploys tasks to slots, takes periodic checkpoints, savepoints and
rescalings, restarts after failures. What is different is behind the slots: no task lives between two snapshots. When a
checkpoint begins, a pass (`runtime.execution.passes.job_pass`) restores the tasks from the last one, has the sources
read what is there, and ends with the checkpoint's barrier. So each checkpoint is a batch, and
`execution.checkpointing.interval` says how often there is one; savepoints lie between batches. The loop's thread only.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from runtime.checkpoint.handles import TaskRestore
from runtime.common import options
from runtime.common.accumulators import GROUP as ACCUMULATORS
from runtime.common.accumulators import is_accumulator
from runtime.common.configuration import Configuration
from runtime.common.secrets import Redaction, providing
from runtime.core.checkpoint_options import AfterSnapshot
from runtime.core.clock import Clock
from runtime.core.elements import CheckpointBarrier
from runtime.core.ids import Attempt, CheckpointId, JobId, OperatorId, SlotId, TaskId
from runtime.execution.local_link import LocalControlLink
from runtime.execution.passes.job_pass import JobPass, PassFailedError, PassKind
from runtime.execution.passes.restores import graph_of, restores_of
from runtime.execution.passes.task_run import JobFacts
from runtime.jobmaster.actions import SlotProcess
from runtime.jobmaster.events import JobMasterEvent, SlotLost
from runtime.jobmaster.execution_graph import Region
from runtime.jobmaster.placement import PlacedRegion
from runtime.operators.operator import OperatorFactory
from runtime.operators.source_coordinator import AssignSplit, RequestSplit, SourceCoordinator
from runtime.operators.source_operator import SourceOperatorFactory
from runtime.state.snapshot import OperatorStateSnapshot
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
from runtime.task.operator_chain import OperatorChain
from runtime.task.python_files import add_to_python_path
from runtime.task.slot import MAX_WAIT_MS
from runtime.task.slot_reports import SlotReports
from runtime.task.working_directory import WorkingDirectory

_SLICE_MS = 20.0
"""How long a pass goes on before control messages are looked at, as a slot's slices."""
_SEARCH_POLL_MS = 5.0
"""Time between two looks at what the sources' first searches for splits have found."""
_SPLITS_AHEAD = 8
"""Splits that each subtask of a source may begin in one batch: they are dealt before the batch begins. With fewer,
batches of small files are small; with more, one subtask may get what another has time for."""
_SUMMED = ("numRecordsIn", "numRecordsOut", "numBytesIn", "numBytesOut", "numBuffersOut", "numLateRecordsDropped")
"""Ends of the names of metrics that count: passes are added up."""


class _HostedSlot:
    """What the JobMaster takes for a slot."""

    def __init__(self, slot: SlotId, attempt: Attempt, link: LocalControlLink, clock: Clock) -> None:
        self.slot_id = slot
        self.link = link
        self.reports = SlotReports(link, RegisterSlot(slot, attempt, os.getpid(), "localhost", ""), clock)
        self.tasks: list[TaskId] = []
        self.is_released = False


@dataclass
class _Batch:
    """A pass that is being run, or was run and is not complete."""

    run: JobPass
    work: Iterator[None] | None
    """What is being done; None = the pass waits for the JobMaster."""
    barrier: CheckpointBarrier
    kind: PassKind
    dealt: dict[OperatorId, list[int]] = field(default_factory=dict)
    """Numbers of the splits that sources were given."""


class MicroBatchHost:
    """All slots of one attempt.

    Args:
        attempt: of the job.
        slots: with the control stream of each.
        clock: gives each pass its time.
    """

    def __init__(self, attempt: Attempt, slots: Mapping[SlotId, LocalControlLink], clock: Clock) -> None:
        self._attempt = attempt
        self._clock = clock
        self._slots = {slot: _HostedSlot(slot, attempt, link, clock) for slot, link in slots.items()}
        self._deployments: dict[TaskId, TaskDeployment] = {}
        self._slot_of: dict[TaskId, _HostedSlot] = {}
        self._states: dict[TaskId, TaskState] = {}
        self._coordinators: dict[OperatorId, SourceCoordinator] = {}
        self._coordinator_slots: dict[OperatorId, _HostedSlot] = {}
        self._discovery_due_ms: dict[OperatorId, int] = {}
        #: sources whose first search for splits is under way: the first batch waits for what it finds
        self._first_searches: set[OperatorId] = set()
        self._restores: Mapping[TaskId, TaskRestore] = {}
        self._facts: JobFacts | None = None
        self._directory: WorkingDirectory | None = None
        self._max_rows = 1
        self._takes_one = False
        self._started = 0
        self._only_ends = False
        #: snapshots that were asked for while the batch of another one is not complete
        self._queued: list[tuple[_HostedSlot, SnapshotCoordinators | TriggerCheckpoint]] = []
        self._batch: _Batch | None = None
        self._newest = CheckpointId(0)
        #: the last pass, whose sinks are open until the next one begins
        self._last: JobPass | None = None
        #: by task, what its passes so far have counted
        self._counted: dict[TaskId, dict[str, object]] = {}
        #: passes that were completed, and whether the last of them found nothing more to read
        self.num_completed = 0
        self.has_caught_up = False

    @property
    def is_released(self) -> bool:
        """Return whether all slots have left."""
        return all(slot.is_released for slot in self._slots.values())

    @property
    def has_finished(self) -> bool:
        """Return whether every task has ended: the job ends by itself."""
        return bool(self._states) and all(state is TaskState.FINISHED for state in self._states.values())

    @property
    def is_working(self) -> bool:
        """Return whether a pass is being run."""
        return self._batch is not None and self._batch.work is not None

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
            self._first_searches.clear()
            for coordinator in self._coordinators.values():
                coordinator.close()
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
        return self._work() or self._end_first_searches() or worked

    # --- messages -----------------------------------------------------------------------------------------------------

    def _handle(self, slot: _HostedSlot, message: JobMasterMessage) -> None:
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
            case TriggerCheckpoint():
                if not self._has_to_wait(slot, message):
                    self._begin(message)
            case NotifyCheckpointComplete(checkpoint_id):
                self._complete(checkpoint_id)
            case NotifyCheckpointAborted(checkpoint_id):
                self._queued = [(s, m) for s, m in self._queued if s is not slot or m.checkpoint_id != checkpoint_id]
                self._aborted(slot, checkpoint_id)
            case CancelTasks():
                self._cancel(slot)
            case CommitFinished():
                self._commit(slot)
            case ReleaseSlot(is_over):
                if is_over:
                    self._tell_last(OperatorChain.job_finished)
                self.release(slot.slot_id)
            case ClientAck(channel, position):
                slot.reports.client.acknowledge(channel, position)
            case _:
                # resynchronisation with another JobMaster: there is none within a process
                pass

    def _deploy(self, slot: _HostedSlot, deploy: Deploy) -> None:
        configuration = Configuration.from_dict(dict(deploy.configuration))
        if deploy.secrets:
            slot.reports.redact = slot.reports.client.redact = Redaction(deploy.secrets)
        if self._facts is None:
            name = f"{deploy.job_id[:8]}-{self._attempt}-passes"
            self._directory = WorkingDirectory(configuration, name, 0)
            self._max_rows = configuration.get(options.MICRO_BATCH_MAX_ROWS)
            self._takes_one = configuration.get(options.MICRO_BATCH_TRIGGER) == "once"
            self._only_ends = deploy.stopped_by is not None
            compression = "zstd" if configuration.get(options.SNAPSHOT_COMPRESSION) else "none"
            self._facts = JobFacts(
                deploy.job_id,
                self._attempt,
                configuration,
                deploy.job_parameters,
                compression,
                deploy.secrets,
                self._directory.path(),
            )
        for deployment in deploy.tasks:
            # the JobMaster waits for these, whatever becomes of the slot
            self._deployments[deployment.task] = deployment
            self._slot_of[deployment.task] = slot
            self._states[deployment.task] = TaskState.DEPLOYING
            slot.tasks.append(deployment.task)
        try:
            add_to_python_path((configuration.get(options.PYTHON_FILES) or "").split(","))
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
        factory: OperatorFactory = pickle.loads(head.factory)
        if not isinstance(factory, SourceOperatorFactory):
            raise TypeError(f"operator {head.name} is not a source and has no coordinator")
        restored = deploy.coordinator_states.get(head.operator_id)
        coordinator = SourceCoordinator(factory.source, deployment.vertex.parallelism, restored)
        self._coordinators[head.operator_id] = coordinator
        self._coordinator_slots[head.operator_id] = self._slot_of[deployment.task]
        if coordinator.discovery_delay_ms() is not None:
            # the first batch finds what is there
            self._discovery_due_ms[head.operator_id] = self._clock.now_ms()
        if coordinator.is_discovering():
            self._first_searches.add(head.operator_id)

    def _schedule_discovery(self, operator_id: OperatorId) -> None:
        delay_ms = self._coordinators[operator_id].discovery_delay_ms()
        if delay_ms is None:
            self._discovery_due_ms.pop(operator_id, None)
        else:
            self._discovery_due_ms[operator_id] = self._clock.now_ms() + delay_ms

    @property
    def is_searching(self) -> bool:
        """Return whether the first batch waits for the splits that sources are looking for."""
        return bool(self._first_searches)

    def _end_first_searches(self) -> bool:
        """Take what the sources' first searches have found; with the last of them begin what waited for it.

        Returns whether a search has ended.
        """
        ended = [known for known in self._first_searches if self._has_searched(known)]
        self._first_searches.difference_update(ended)
        if ended and not self._first_searches:
            self._handle_queued()
        return bool(ended)

    def _has_searched(self, known: OperatorId) -> bool:
        coordinator = self._coordinators[known]
        try:
            coordinator.discover()
        except Exception as error:
            slot = self._coordinator_slots[known]
            slot.reports.slot_failed(describe_failure(error, slot=slot.slot_id))
            return True
        if coordinator.is_discovering():
            return False
        self._schedule_discovery(known)
        return True

    def _run_tasks(self) -> None:
        for task in self._deployments:
            if not self._states[task].is_terminal:
                self._report(task, TaskState.RUNNING)
        if self._only_ends:
            self._end_only()

    def _end_only(self) -> None:
        """Commit what the savepoint that the job stops with holds, and end; nothing is read or emitted."""
        run = self._new_pass(CheckpointId(0))
        try:
            run.opening_sinks()
        except PassFailedError as failed:
            self._fail(failed)
            return
        self._last = run
        for task in self._deployments:
            self._report(task, TaskState.FINISHED)

    # --- a batch ------------------------------------------------------------------------------------------------------

    def _has_to_wait(self, slot: _HostedSlot, message: SnapshotCoordinators | TriggerCheckpoint) -> bool:
        """Return whether another batch is not complete, or the first one waits for splits: the message then comes
        again.
        """
        batch = self._batch
        if not self._first_searches and (batch is None or batch.barrier.checkpoint_id == message.checkpoint_id):
            return False
        self._queued.append((slot, message))
        return True

    def _snapshot_coordinators(self, slot: _HostedSlot, checkpoint_id: CheckpointId) -> None:
        """Deal splits for the batch, then take the coordinators' snapshots: none is dealt between these and those of
        the readers.
        """
        try:
            states = {
                known: self._dealt_and_snapshotted(known, coordinator)
                for known, coordinator in self._coordinators.items()
                if self._coordinator_slots[known] is slot
            }
        except Exception as error:
            slot.reports.slot_failed(describe_failure(error, slot=slot.slot_id))
            return
        slot.reports.coordinators_snapshotted(checkpoint_id, states)

    def _dealt_and_snapshotted(self, known: OperatorId, coordinator: SourceCoordinator) -> OperatorStateSnapshot:
        due_ms = self._discovery_due_ms.get(known)
        if due_ms is not None and self._clock.now_ms() >= due_ms:
            coordinator.discover()
            self._schedule_discovery(known)
        coordinator.deal_ahead(_SPLITS_AHEAD)
        return coordinator.snapshot()

    def _begin(self, trigger: TriggerCheckpoint) -> None:
        """Begin a pass with the first slot that is told; all of them are."""
        is_over = any(state in (TaskState.FAILED, TaskState.CANCELED) for state in self._states.values())
        if self._batch is not None or is_over or trigger.checkpoint_id <= self._newest or not self._close_last():
            return
        self._newest = trigger.checkpoint_id
        barrier = CheckpointBarrier(trigger.checkpoint_id, trigger.timestamp_ms, trigger.options)
        run, kind = self._new_pass(trigger.checkpoint_id), PassKind.of(trigger.options)
        if kind is PassKind.DATA and self._takes_one and self.num_completed:
            # the next checkpoint was due before the job could stop
            kind = PassKind.IDLE
        self._batch = _Batch(run, run.run(barrier, kind, self._max_rows), barrier, kind)

    def _new_pass(self, checkpoint_id: CheckpointId) -> JobPass:
        assert self._facts is not None
        return JobPass(
            self._facts,
            int(checkpoint_id),
            self._clock.now_ms(),
            self._clock,
            list(self._in_order()),
            self._restores,
            lambda task: self._slot_of[task].reports.client,
            self._ask_coordinator,
            lambda task: self._slot_of[task].slot_id,
        )

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
        batch = self._batch
        if batch is None or batch.work is None:
            return False
        until_ms = self._clock.monotonic_ms() + _SLICE_MS
        try:
            while batch.work is not None:
                if next(batch.work, self) is self:
                    batch.work = None
                    self._acknowledge(batch)
                elif self._clock.monotonic_ms() >= until_ms:
                    break
        except PassFailedError as failed:
            self._fail(failed)
        return True

    def _acknowledge(self, batch: _Batch) -> None:
        checkpoint_id = batch.barrier.checkpoint_id
        for task, acknowledged in batch.run.acknowledged.items():
            reports = self._slot_of[task].reports
            reports.acknowledge(task, checkpoint_id, acknowledged.state, acknowledged.metrics)
        if batch.kind is PassKind.SNAPSHOT and batch.barrier.options.after is AfterSnapshot.GO_ON:
            # nobody tells when it is complete, and its files are its owner's: the next batch begins where it did
            batch.run.abandon()
            self._batch_over()
            return
        for task in batch.run.finished:
            self._report(task, TaskState.FINISHED, self._added_up(task, batch.run.metrics[task]))
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
        if batch is None or batch.barrier.checkpoint_id != checkpoint_id:
            # every slot is told
            return
        assert self._facts is not None
        run, barrier = batch.run, batch.barrier
        for kept in run.kept:
            try:
                kept.task.checkpoint_complete(checkpoint_id)
            except Exception as error:
                info = run.describe(error, kept)
                run.abandon()
                self._fail(PassFailedError(kept.task.task_id, info))
                return
        for operator_id, numbers in batch.dealt.items():
            self._coordinators[operator_id].confirm(numbers)
        self._last = run
        self.num_completed += 1
        self.has_caught_up = run.has_caught_up
        graph = graph_of(JobId(self._facts.job_id), list(self._in_order()))
        states = {task: acknowledged.state for task, acknowledged in run.acknowledged.items()}
        self._restores = restores_of(graph, checkpoint_id, barrier.timestamp_ms, barrier.options, states)
        if barrier.options.after is AfterSnapshot.SUSPEND:
            for task in self._deployments:
                self._report(task, TaskState.FINISHED, self._added_up(task, {}))
        self._batch_over()

    def _aborted(self, slot: _HostedSlot, checkpoint_id: CheckpointId) -> None:
        batch = self._batch
        if batch is None or batch.barrier.checkpoint_id != checkpoint_id:
            return
        self._abandon_batch()
        # what sinks have prepared is known to nobody else; another attempt sweeps it
        why = f"the batch of checkpoint {checkpoint_id} was given up with the checkpoint"
        slot.reports.slot_failed(FailureInfo(why, slot=slot.slot_id))

    # --- splits -------------------------------------------------------------------------------------------------------

    def _ask_coordinator(self, operator_id: OperatorId, subtask: int, payload: bytes) -> None:
        batch = self._batch
        if batch is None or not isinstance(pickle.loads(payload), RequestSplit):
            return
        answer = self._coordinators[operator_id].next_ahead(subtask, batch.dealt.get(operator_id, ()))
        if isinstance(answer, AssignSplit):
            batch.dealt.setdefault(operator_id, []).append(answer.number)
        batch.run.answer(answer)

    # --- ends ---------------------------------------------------------------------------------------------------------

    def _fail(self, failed: PassFailedError) -> None:
        self._batch, self._queued = None, []
        if self._states[failed.task].is_terminal:
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
        if not slot.reports.has_committed:
            for step in (OperatorChain.close_finished, OperatorChain.commit_finished):
                if not self._tell_last(step, slot):
                    return
        slot.reports.committed()

    def _tell_last(self, step: Callable[[OperatorChain], None], slot: _HostedSlot | None = None) -> bool:
        """Call a step of the chains of tasks that are still open; returns whether all went well."""
        for run in () if self._last is None else self._last.kept:
            if slot is not None and self._slot_of[run.task.task_id] is not slot:
                continue
            try:
                step(run.task.chain)
            except Exception as error:
                hosted = self._slot_of[run.task.task_id]
                assert self._last is not None
                hosted.reports.slot_failed(self._last.describe(error, run))
                return False
        return True

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
            metrics = {task: self._added_up(task, run.metrics[task]) for task in slot.tasks}
            slot.link.publish(Heartbeat(slot.slot_id, self._attempt, 0, metrics))
        for task, of_pass in run.metrics.items():
            added_up = self._added_up(task, of_pass)
            self._counted[task] = {name: added_up[name] for name in added_up if _merge_of(name) is not None}

    def _added_up(self, task: TaskId, metrics: Mapping[str, object]) -> dict[str, object]:
        """Return the metrics of a pass, with what earlier passes have counted."""
        counted = self._counted.get(task, {})
        added_up = {**counted, **metrics}
        for name in counted.keys() & metrics.keys():
            merge, before, now = _merge_of(name), counted[name], metrics[name]
            if merge is not None and isinstance(before, (int, float)):
                added_up[name] = merge((before, now)) if isinstance(now, (int, float)) else before
        return added_up


def _merge_of(name: str) -> Callable[[tuple[float, float]], float] | None:
    """Return how the values of a metric in two passes make one; None: the later one counts."""
    if is_accumulator(name):
        part = name.partition(f".{ACCUMULATORS}.")[2].split(".", 2)[1]
        return {"minimum": min, "maximum": max}.get(part, sum)
    return sum if name.endswith(_SUMMED) else None


class MicroBatchSlots:
    """Implements SlotProvider: hosts the tasks of each region, instead of slots.

    Args:
        post: takes events for the JobMaster.
        clock: gives each pass its time.
        wake: has the loop look again.
    """

    def __init__(self, post: Callable[[JobMasterEvent], None], clock: Clock, wake: Callable[[], None]) -> None:
        self._post = post
        self._clock = clock
        self._wake = wake
        self._hosts: dict[tuple[SlotId, Attempt], tuple[MicroBatchHost, LocalControlLink]] = {}

    @property
    def hosts(self) -> Sequence[MicroBatchHost]:
        """Return the hosts that have not left."""
        return list({id(host): host for host, _ in self._hosts.values()}.values())

    def request_slots(self, attempt: Attempt, regions: Sequence[Region]) -> None:
        for region in regions:
            links = {slot: LocalControlLink(slot, attempt, self._post) for slot in region.slots}
            host = MicroBatchHost(attempt, links, self._clock)
            for slot, link in links.items():
                self._hosts[slot, attempt] = (host, link)

    def send(self, slot: SlotId, attempt: Attempt, message: JobMasterMessage) -> None:
        entry = self._hosts.get((slot, attempt))
        if entry is not None:
            entry[1].deliver(message)
            self._wake()

    def refuse(self, slot: SlotId, attempt: Attempt, cause: str) -> None:
        self._remove(slot, attempt)

    def record_placement(self, regions: Sequence[PlacedRegion]) -> None:
        """Do nothing: the slots of an application end with it."""

    def adopt_slots(self, regions: Sequence[PlacedRegion]) -> None:
        """Do nothing: there is nobody to adopt."""

    def kill_slots(self, attempt: Attempt, processes: Sequence[SlotProcess]) -> None:
        for process in processes:
            self._remove(process.slot, attempt)

    def release_attempt(self, attempt: Attempt, regions: Sequence[Region] | None = None) -> None:
        over = None if regions is None else {slot for region in regions for slot in region.slots}
        for slot, of_attempt in list(self._hosts):
            if of_attempt == attempt and (over is None or slot in over):
                self._remove(slot, attempt)

    def close(self) -> None:
        for slot, attempt in list(self._hosts):
            self._remove(slot, attempt)

    def step(self) -> bool:
        """Take one turn of every host. Returns whether anything was done."""
        worked = False
        for host in self.hosts:
            try:
                worked = host.step() or worked
            except Exception as error:
                # an error of the host itself is a bug of ours: its slots are lost
                worked = True
                for (slot, attempt), (owner, _) in list(self._hosts.items()):
                    if owner is host:
                        self._remove(slot, attempt)
                        self._post(SlotLost(slot, attempt, f"{type(error).__name__}: {error}"))
        for key, (host, _) in list(self._hosts.items()):
            if host.has_left(key[0]):
                del self._hosts[key]
        return worked

    def awaits_mail(self) -> bool:
        """Return False: no thread is at work for an operator between two turns."""
        return False

    def idle_ms(self) -> float:
        """Return how long there is nothing to do if no message comes."""
        if any(host.is_working for host in self.hosts):
            return 0.0
        return _SEARCH_POLL_MS if any(host.is_searching for host in self.hosts) else MAX_WAIT_MS

    def _remove(self, slot: SlotId, attempt: Attempt) -> None:
        entry = self._hosts.pop((slot, attempt), None)
        if entry is not None:
            entry[0].release(slot)


class MicroBatchStop:
    """Says when a job that takes one batch, or what is there now, is to stop with a savepoint.

    Args:
        trigger: "once" or "available-now".
        slots: of the job.
    """

    def __init__(self, trigger: str, slots: MicroBatchSlots) -> None:
        self._trigger = trigger
        self._slots = slots
        self._has_been_due = False

    @classmethod
    def of(cls, configuration: Configuration, slots: MicroBatchSlots) -> MicroBatchStop | None:
        """Return one for a job that stops by itself, else None."""
        trigger = configuration.get(options.MICRO_BATCH_TRIGGER)
        return None if trigger == "processing-time" else cls(trigger, slots)

    def is_due(self) -> bool:
        """Return whether the job is to stop now; True at most once."""
        hosts = self._slots.hosts
        if self._has_been_due or not hosts:
            return False
        self._has_been_due = all(
            host.num_completed > 0 and (self._trigger == "once" or host.has_caught_up) and not host.has_finished
            for host in hosts
        )
        return self._has_been_due
