"""AttemptRun: the slots and tasks of a job's current attempt, and what is said to them. Pure.

Every step up or down is taken for some slots: all of the job's, or those of a region that is restarted alone. A region
remembers the attempt that it was deployed with, and a message counts if it names that one. *When* a step is due is
decided by JobMasterMachine and RegionRestarts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from runtime.checkpoint.assignment import Assignment
from runtime.core.ids import Attempt, CheckpointId, OperatorId, SlotId, TaskId
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.actions import KillSlots, RecordPlacement, ReleaseAttempt, RequestSlots, SendToSlot, SlotProcess
from runtime.jobmaster.execution_graph import ExecutionGraph, ExecutionTask, Region
from runtime.jobmaster.journal import Journal
from runtime.jobmaster.phases import DEPLOYED, TEARDOWN, Phase
from runtime.jobmaster.placement import PlacedRegion, PlacedSlot
from runtime.jobmaster.slot_registry import SlotEntry, SlotRegistry
from runtime.jobmaster.status import SlotSnapshot, Stall, TaskSnapshot
from runtime.task.messages import (
    CancelTasks,
    Deploy,
    Heartbeat,
    JobMasterMessage,
    ReleaseSlot,
    Start,
    TaskReport,
    TaskState,
)

#: stalls of a slot that begin closer together than this are one: a call is shown only after more seconds
SAME_CALL_MS = 2_000.0
#: states of tasks that no slot knows of yet
_NOT_DEPLOYED = (TaskState.CREATED, TaskState.SCHEDULED)


class AttemptRun:
    """Slots and tasks of one attempt, whose regions may have gone on to later ones.

    Args:
        graph: the job.
        attempt: its number.
        journal: of the machine.
    """

    def __init__(self, graph: JobGraph, attempt: Attempt, journal: Journal) -> None:
        self.phase = Phase.IDLE
        #: when the phase, or the wait for a restart, is over at the latest
        self.deadline_ms: float | None = None
        #: what each slot has read of snapshots, as last heard
        self.restored_bytes: dict[SlotId, int] = {}
        self.execution = ExecutionGraph(graph, attempt)
        self.slots = SlotRegistry(self.execution.slots)
        #: slots that have committed, at the end of the job
        self.committed: set[SlotId] = set()
        self._graph = graph
        self._journal = journal
        self._first = attempt
        #: by region
        self._attempts = {region.index: attempt for region in self.regions}
        #: epochs of the leaders that have deployed adopted regions
        self._epochs: dict[int, int] = {}
        #: regions whose stages are over
        self._released: set[int] = set()
        self._killed: set[SlotId] = set()
        self._stalls: dict[SlotId, Stall] = {}

    @property
    def regions(self) -> Sequence[Region]:
        return self.execution.regions

    @property
    def tasks(self) -> Mapping[TaskId, ExecutionTask]:
        return self.execution.tasks

    @property
    def coordinator_slots(self) -> Mapping[OperatorId, SlotId]:
        return self.execution.coordinator_slots

    @property
    def attempts(self) -> frozenset[Attempt]:
        """Return the attempts that the regions belong to."""
        return frozenset(self._attempts.values())

    @property
    def oldest(self) -> Attempt:
        """Return the oldest of the regions' attempts."""
        return min(self._attempts.values(), default=self._first)

    @property
    def oldest_epoch(self) -> int | None:
        """Return the oldest epoch of a leader that has deployed an adopted region; None: none is adopted."""
        return min(self._epochs.values(), default=None)

    @property
    def is_torn_down(self) -> bool:
        """Return whether all of it goes down."""
        return self.phase in TEARDOWN

    def attempt_of(self, slot: SlotId) -> Attempt:
        """Return the attempt that a slot belongs to."""
        return self._attempts[self.execution.region_of(slot).index]

    def is_current(self, attempt: Attempt, slot: SlotId | None) -> bool:
        """Return whether a slot's message with that attempt is current; for an unknown slot: whether any could be."""
        if self.phase is Phase.IDLE:
            return False
        if slot is None or slot not in self.slots:
            return attempt in self._attempts.values()
        return attempt == self.attempt_of(slot)

    def transition(self, task: TaskId, state: TaskState) -> bool:
        """Move a task forward; returns whether that was legal."""
        return self.execution.transition(task, state, self._journal.now_ms)

    def task_snapshots(self) -> tuple[TaskSnapshot, ...]:
        return tuple(
            TaskSnapshot(t.task, t.name, t.slot, t.state, t.metrics, self.attempt_of(t.slot), t.started_ms, t.ended_ms)
            for t in self.tasks.values()
        )

    def heartbeat(self, message: Heartbeat) -> None:
        """Note that a slot lives, and what it reports of its tasks."""
        now_ms, slot, call = self._journal.now_ms, message.slot, message.stalled_in
        self.slots.heartbeat(slot, now_ms)
        self.restored_bytes[slot] = message.restored_bytes
        for task in self.execution.tasks_in(slot):
            if task.task in message.metrics and not task.state.is_terminal:
                task.metrics = message.metrics[task.task]
        before = self._stalls.pop(slot, None)
        if call is None:
            return
        since_ms = now_ms - message.stalled_ms
        if before is not None and abs(since_ms - before.since_ms) < SAME_CALL_MS:
            # the same call: messages do not all take the same time
            since_ms = before.since_ms
        name = next((t.name for t in self.execution.tasks_in(slot) if t.task == call.task), "")
        self._stalls[slot] = Stall(slot, message.attempt, call.task, name, since_ms, call.stack, call.in_user_code)

    def stalls(self) -> tuple[Stall, ...]:
        """Return the calls that have not returned, of live slots."""
        return tuple(self._stalls[slot] for slot in self.slots.live() if slot in self._stalls)

    def slot_snapshots(self) -> tuple[SlotSnapshot, ...]:
        restored = self.restored_bytes
        return tuple(
            SlotSnapshot(e.slot, e.status, e.pid, e.host, restored.get(e.slot, 0)) for e in self.slots.entries()
        )

    # --- up -----------------------------------------------------------------------------------------------------------

    def request(self, attempt: Attempt, regions: Sequence[Region]) -> None:
        """Ask for the slots of these regions; what an earlier attempt left in their places is forgotten."""
        for region in regions:
            self._attempts[region.index] = attempt
            self._epochs.pop(region.index, None)
            self._released.discard(region.index)
            self._killed.difference_update(region.slots)
            for slot in region.slots:
                self.restored_bytes.pop(slot, None)
            self.slots.expect_again(region.slots)
            self.execution.reset(region.slots)
            for slot in region.slots:
                self._stalls.pop(slot, None)
            for task in region.tasks:
                self.transition(task, TaskState.SCHEDULED)
        self._journal.act(RequestSlots(attempt, regions))

    def place(self, placed: PlacedRegion) -> None:
        """Expect the slots of a region that an earlier JobMaster has deployed."""
        self._attempts[placed.region] = placed.attempt
        self._epochs[placed.region] = placed.epoch
        for slot in placed.slots:
            self.slots.place(slot.slot, slot.pid, slot.host, slot.data_address)

    def adopt_task(self, report: TaskReport) -> None:
        """Note the state of a task that an earlier JobMaster has deployed; an unknown one means nothing."""
        task = self.tasks.get(report.task)
        if task is None:
            return
        now_ms = self._journal.now_ms
        task.state, task.failure, task.metrics = report.state, report.failure, report.metrics
        task.started_ms = now_ms - report.age_ms
        task.ended_ms = None if report.ended_ms_ago is None else now_ms - report.ended_ms_ago

    def record_placement(self, regions: Sequence[Region]) -> None:
        """Have it recorded where these regions run: all their slots have registered."""
        parallelism = {v.vertex_id: v.parallelism for v in self._graph.vertices}
        placed = []
        for region in regions:
            entries = [self.slots.entry(slot) for slot in region.slots]
            slots = tuple(PlacedSlot(e.slot, e.pid or 0, e.host, e.data_address) for e in entries)
            placed.append(PlacedRegion(region.index, self._attempts[region.index], slots, parallelism))
        self._journal.act(RecordPlacement(tuple(placed)))

    def deploy(
        self, slots: Iterable[SlotId], assignment: Assignment | None, stopped_by: CheckpointId | None = None
    ) -> None:
        """Have the slots make their tasks.

        Args:
            slots: have registered.
            assignment: the state that tasks restore.
            stopped_by: the savepoint that this is, if the job stops with it: the tasks only end.
        """
        for task in list(self.execution.tasks_of(slots)):
            self.transition(task.task, TaskState.DEPLOYING)
        for slot in slots:
            deploy = Deploy(
                job_id=self._graph.job_id,
                job_name=self._graph.name,
                attempt=self.attempt_of(slot),
                configuration=self._graph.configuration,
                job_parameters=self._graph.job_parameters,
                tasks=self.execution.deployments(slot, assignment.tasks if assignment is not None else None),
                coordinator_slots=self.coordinator_slots,
                coordinator_states=assignment.coordinators if assignment is not None else {},
                stopped_by=stopped_by,
            )
            self.send((slot,), deploy)

    def start(self, slots: Iterable[SlotId]) -> None:
        """Have the slots run their tasks, which are made."""
        self.slots.renew(slots, self._journal.now_ms)
        self.send(self.slots.live(slots), Start(self.slots.peers()))

    # --- down ---------------------------------------------------------------------------------------------------------

    def cancel(self, slots: Sequence[SlotId]) -> None:
        """Have the slots stop their tasks."""
        deployed = [
            slot
            for slot in self.slots.live(slots)
            if any(task.state not in _NOT_DEPLOYED for task in self.execution.tasks_in(slot))
        ]
        for task in self.execution.tasks_of(slots):
            is_nowhere = task.state in _NOT_DEPLOYED
            self.transition(task.task, TaskState.CANCELED if is_nowhere else TaskState.CANCELING)
        self.send(deployed, CancelTasks())

    def have_stopped(self, slots: Sequence[SlotId]) -> bool:
        """Return whether none of their tasks runs any more."""
        return all(task.state.is_terminal for task in self.execution.tasks_of(slots))

    def give_up(self, slot: SlotId, end: TaskState, left: bool = False) -> None:
        """Expect nothing more from a slot; its unfinished tasks end with it, as `end`."""
        if left:
            self.slots.mark_left(slot)
        else:
            self._journal.tell(f"slot {slot} is lost")
            self.slots.mark_lost(slot)
        for task in self.execution.tasks_in(slot):
            self.transition(task.task, end)

    def give_up_hanging(self, slots: Sequence[SlotId]) -> None:
        """Expect nothing more from slots whose tasks have not stopped, and kill them."""
        hanging = [s for s in self.slots.live(slots) if not self.have_stopped((s,))]
        for slot in hanging:
            self.give_up(slot, TaskState.CANCELED)
        self._kill(self.slots.entry(slot) for slot in hanging)

    def release(self, slots: Sequence[SlotId], is_over: bool = False) -> None:
        """Have the slots leave.

        Args:
            slots: those that are there.
            is_over: whether the job has finished, and every slot has committed.
        """
        self.send(self.slots.live(slots), ReleaseSlot(is_over))

    def end(self, regions: Sequence[Region] | None = None) -> None:
        """End these regions, or all, once nobody is left: kill what may live, end the stages."""
        slots = None if regions is None else [slot for region in regions for slot in region.slots]
        self._kill(self.slots.may_live(slots))
        if regions is None and not self._released and self.oldest == max(self._attempts.values(), default=self._first):
            self._journal.act(ReleaseAttempt(self.oldest))
            return
        for region in self.regions if regions is None else regions:
            if region.index not in self._released:
                self._released.add(region.index)
                self._journal.act(ReleaseAttempt(self._attempts[region.index], (region,)))
            for slot in self.slots.missing(region.slots):
                # a process that comes now has no stage to live in
                self.slots.mark_lost(slot)

    # --- small things -------------------------------------------------------------------------------------------------

    def send(self, slots: Iterable[SlotId], message: JobMasterMessage) -> None:
        for slot in slots:
            self._journal.act(SendToSlot(slot, self.attempt_of(slot), message))

    def describe_missing(self, slots: Sequence[SlotId], timeout_ms: float) -> str:
        """Describe why the requested slots count as unavailable."""
        missing = self.slots.missing(slots)
        return (
            f"{len(missing)} of {len(slots)} slots did not register within {timeout_ms / 1000:g} s: "
            f"{missing[:10]}; does the cluster have that many free cores?"
        )

    def describe_late(self, slots: Sequence[SlotId]) -> str:
        """Describe which tasks were not made in time."""
        late = [t.name for t in self.execution.tasks_of(slots) if t.state not in DEPLOYED]
        return f"{len(late)} tasks were not deployed in time: {', '.join(late[:10])}"

    def _kill(self, entries: Iterable[SlotEntry]) -> None:
        by_attempt: dict[Attempt, list[SlotProcess]] = {}
        for e in entries:
            if e.pid is not None and e.slot not in self._killed:
                self._killed.add(e.slot)
                by_attempt.setdefault(self.attempt_of(e.slot), []).append(SlotProcess(e.slot, e.pid, e.host))
        for attempt, processes in by_attempt.items():
            self._journal.act(KillSlots(attempt, tuple(processes)))
