"""Slots without processes: what a JobMasterMachine asks for is recorded, and answered as the test says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from runtime.checkpoint.completed_store import CompletedCheckpoint
from runtime.checkpoint.coordinator import CheckpointCoordinator
from runtime.checkpoint.handles import CheckpointMetrics, OperatorSubtaskState, TaskStateHandle
from runtime.checkpoint.messages import (
    DeleteFiles,
    ForgetCheckpoints,
    ForgetDamaged,
    Forgotten,
    NotStored,
    StoreCheckpoint,
    Stored,
)
from runtime.checkpoint.settings import CheckpointSettings
from runtime.core.checkpoint_options import AfterSnapshot, CheckpointOptions
from runtime.core.ids import Attempt, CheckpointId, JobId, OperatorId, SlotId, TaskId
from runtime.graph.chaining import create_job_graph
from runtime.graph.job_graph import JobGraph
from runtime.graph.partitioning import Partitioning
from runtime.graph.stream_graph import StreamEdge, StreamGraph, StreamNode
from runtime.jobmaster.actions import (
    AdoptSlots,
    JobMasterAction,
    JobStateChanged,
    KillSlots,
    RecordPlacement,
    RequestAnswered,
    RequestSlots,
    SendToSlot,
)
from runtime.jobmaster.events import JobMasterEvent, SlotMessageReceived, StorageAnswered, Submitted, Tick
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.life_cycle import FIRST_ATTEMPT, JobMasterMachine
from runtime.jobmaster.options import JobMasterOptions
from runtime.jobmaster.placement import PlacedRegion
from runtime.jobmaster.restart_strategy import FixedDelay, NoRestart, RestartStrategy
from runtime.state.handles import FileHandle, KeyedStateHandle
from runtime.state.key_groups import KeyGroupRange
from runtime.task.checkpoint_ledger import NONE
from runtime.task.messages import (
    AcknowledgeCheckpoint,
    CancelTasks,
    CommitFinished,
    CoordinatorsSnapshotted,
    Deploy,
    FailureInfo,
    Heartbeat,
    HeartbeatRequest,
    JobMasterMessage,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    RegisterSlot,
    ReleaseSlot,
    SlotCommitted,
    SlotLeaving,
    SlotMessage,
    SlotReport,
    SnapshotCoordinators,
    Start,
    TaskReport,
    TaskState,
    TaskStateChanged,
    TriggerCheckpoint,
)


def keyed_job(parallelism: int = 2) -> JobGraph:
    """Source → keyed window → sink: two vertices, one slot-sharing group."""
    graph = StreamGraph("flights", {}, buffer_timeout_ms=100)
    graph.nodes[1] = StreamNode(1, "flights", "factory", parallelism, is_source=True)
    graph.nodes[2] = StreamNode(2, "Window", "factory", parallelism, is_stateful=True, uid="window")
    graph.nodes[3] = StreamNode(3, "out", "factory", parallelism, is_sink=True)
    graph.edges.append(StreamEdge(1, 2, Partitioning.KEY_GROUP, partitioner=abs))
    graph.edges.append(StreamEdge(2, 3, None))
    return create_job_graph(graph, JobId("f" * 32))


def two_pipelines(parallelism: int = 1) -> JobGraph:
    """Twice source → keyed sink, each in a slot-sharing group of its own: two regions."""
    graph = StreamGraph("pipelines", {}, buffer_timeout_ms=100)
    for i, group in enumerate(("left", "right")):
        source, sink = 2 * i + 1, 2 * i + 2
        graph.nodes[source] = StreamNode(
            source, f"{group} in", "factory", parallelism, is_source=True, slot_sharing_group=group
        )
        graph.nodes[sink] = StreamNode(
            sink, f"{group} out", "factory", parallelism, is_sink=True, slot_sharing_group=group
        )
        graph.edges.append(StreamEdge(source, sink, Partitioning.KEY_GROUP, partitioner=abs))
    return create_job_graph(graph, JobId("e" * 32))


@dataclass
class SimulatedSlot:
    """A slot that answers like a real one; a silent one answers nothing."""

    slot: SlotId
    attempt: Attempt
    tasks: list[TaskId] = field(default_factory=list)
    silent: bool = False
    gone: bool = False
    #: whether checkpoints are acknowledged
    acknowledges: bool = True
    #: whether tasks stop when they are cancelled; not while user code does not return
    stops: bool = True
    deploy: Deploy | None = None
    suspended_by: CheckpointId | None = None
    #: of its tasks, as it has told them last
    state: TaskState = TaskState.CREATED
    #: failures of the slot as a whole
    failures: list[FailureInfo] = field(default_factory=list)
    pending: dict[CheckpointId, CheckpointOptions] = field(default_factory=dict)
    last_seen: CheckpointId = NONE
    stopped_by: CheckpointId | None = None
    acknowledged: list[SlotMessage] = field(default_factory=list)
    committed: bool = False
    #: what it was told of checkpoints, in order
    told: list[tuple[str, int]] = field(default_factory=list)

    def register(self) -> RegisterSlot:
        return RegisterSlot(self.slot, self.attempt, 1000 + self.slot, "host", f"grpc://host:{self.slot}")

    def report(self) -> list[SlotMessage]:
        """Return its report to a JobMaster that adopts it."""
        tasks = [TaskReport(task, self.state, None, {}, 5_000.0, None) for task in self.tasks]
        own = self.register()
        report = SlotReport(
            own, tasks, self.failures, dict(self.pending), self.last_seen, self.stopped_by, self.committed
        )
        return [report, *self.acknowledged]

    def states(self, state: TaskState) -> list[SlotMessage]:
        self.state = state
        return [TaskStateChanged(self.slot, self.attempt, task, state) for task in self.tasks]

    def answer(self, message: JobMasterMessage) -> list[SlotMessage]:
        if self.silent or self.gone:
            return []
        self._note(message)
        match message:
            case Deploy(tasks=tasks):
                self.deploy = message
                self.tasks = [t.task for t in tasks]
                return self.states(TaskState.INITIALIZING)
            case Start() if self.deploy is not None and self.deploy.stopped_by is not None:
                return [*self.states(TaskState.RUNNING), *self.states(TaskState.FINISHED)]
            case Start():
                return self.states(TaskState.RUNNING)
            case CancelTasks():
                return self.states(TaskState.CANCELED) if self.stops else []
            case SnapshotCoordinators(checkpoint_id):
                return [CoordinatorsSnapshotted(self.slot, self.attempt, checkpoint_id, {})]
            case TriggerCheckpoint():
                return self.checkpoint(message) if self.acknowledges else []
            case NotifyCheckpointComplete(checkpoint_id) if checkpoint_id == self.suspended_by:
                return self.states(TaskState.FINISHED)
            case CommitFinished():
                return [SlotCommitted(self.slot, self.attempt)]
            case ReleaseSlot():
                self.gone = True
                return [SlotLeaving(self.slot, self.attempt)]
            case HeartbeatRequest(sequence):
                return [Heartbeat(self.slot, self.attempt, sequence, {})]
        return []

    def _note(self, message: JobMasterMessage) -> None:
        match message:
            case Deploy(stopped_by=stopped_by):
                self.stopped_by = stopped_by
            case TriggerCheckpoint(checkpoint_id, _, options):
                self.pending[checkpoint_id] = options
                self.last_seen = max(self.last_seen, checkpoint_id)
            case NotifyCheckpointComplete(checkpoint_id):
                self.told.append(("complete", checkpoint_id))
                if checkpoint_id == self.suspended_by:
                    self.stopped_by = checkpoint_id
                self.pending = {n: options for n, options in self.pending.items() if n > checkpoint_id}
                self.acknowledged = []
            case NotifyCheckpointAborted(checkpoint_id):
                self.told.append(("aborted", checkpoint_id))
                self.pending.pop(checkpoint_id, None)
            case CommitFinished():
                self.committed = True

    def checkpoint(self, trigger: TriggerCheckpoint) -> list[SlotMessage]:
        """Every task acknowledges, with one file."""
        drains = trigger.options.after is AfterSnapshot.DRAIN
        if trigger.options.after is AfterSnapshot.SUSPEND:
            self.suspended_by = trigger.checkpoint_id
        self.acknowledged = [self.ack(trigger, t) for t in self.tasks]
        return [*(self.states(TaskState.FINISHED) if drains else ()), *self.acknowledged]

    def ack(self, trigger: TriggerCheckpoint, task: TaskId) -> AcknowledgeCheckpoint:
        uri = f"{trigger.options.directory}/{task.vertex_id}-{task.subtask_index}"
        handle = KeyedStateHandle("test", KeyGroupRange(0, 127), 128, {"keyed": FileHandle(uri, 1, "0" * 64)})
        state = TaskStateHandle({OperatorId(task.vertex_id): OperatorSubtaskState(handle)})
        return AcknowledgeCheckpoint(
            self.slot, self.attempt, task, trigger.checkpoint_id, state, CheckpointMetrics(state_bytes=1)
        )


EVERY_SECOND = CheckpointSettings(interval_ms=1_000, savepoint_directory="file:///saved", rescale_cooldown_ms=10_000)


class Simulation:
    """A machine, its slots, a storage and a clock.

    `deliver` hands in one event and queues what slots answer; `settle` goes on until nobody has anything to say.
    """

    def __init__(
        self,
        graph: JobGraph | None = None,
        strategy: RestartStrategy | None = None,
        settings: CheckpointSettings | None = None,
        max_slots: int | None = None,
        options: JobMasterOptions | None = None,
        epoch: int = 0,
        placement: Sequence[PlacedRegion] = (),
        first_attempt: Attempt = FIRST_ATTEMPT,
        was_suspended: bool = False,
        has_run: bool = False,
    ) -> None:
        self.graph = graph or keyed_job()
        self.epoch = epoch
        self.settings = settings or CheckpointSettings()
        self.strategy = strategy or NoRestart()
        names = iter(f"{i:012x}" for i in range(10**6))
        coordinator = CheckpointCoordinator(
            self.settings, self.graph.job_id, "file:///checkpoints", epoch, lambda: next(names)
        )
        self.machine = JobMasterMachine(
            self.graph,
            options or JobMasterOptions(),
            self.strategy,
            first_attempt,
            coordinator=coordinator,
            max_slots=max_slots,
            placement=placement,
            was_suspended=was_suspended,
            has_run=has_run,
        )
        #: where regions run, as it is recorded
        self.placement: dict[int, PlacedRegion] = {}
        #: what recovery would find
        self.recorded: dict[CheckpointId, CompletedCheckpoint] = {}
        #: checkpoints that recovery would find
        self.completed: list[CheckpointId] = []
        #: what the storage was asked and has not answered yet; it answers by itself unless it is slow
        self.storing: list[StoreCheckpoint] = []
        self.storage_is_slow = False
        self.forgetting: list[CheckpointId] = []
        self.deleted: list[str] = []
        self.answers: dict[str, RequestAnswered] = {}
        self.now_ms = 0.0
        self.slots: dict[tuple[Attempt, SlotId], SimulatedSlot] = {}
        self.queue: list[JobMasterEvent] = []
        self.actions: list[JobMasterAction] = []
        self.register_automatically = True
        self.states: list[JobState] = []

    def deliver(self, event: JobMasterEvent) -> list[JobMasterAction]:
        actions = self.machine.handle(event, self.now_ms)
        self.machine.check_invariants()
        for action in actions:
            match action:
                case RecordPlacement(regions):
                    for placed in regions:
                        self.placement[placed.region] = replace(placed, epoch=self.epoch)
                case AdoptSlots(regions):
                    for placed in regions:
                        for known in (self.slots[placed.attempt, of.slot] for of in placed.slots):
                            if not (known.silent or known.gone):
                                self.queue.extend(map(SlotMessageReceived, known.report()))
                case RequestSlots(attempt, regions):
                    for region in regions:
                        self.placement.pop(region.index, None)
                    for slot in (slot for region in regions for slot in region.slots):
                        self.slots[attempt, slot] = SimulatedSlot(slot, attempt)
                        if self.register_automatically:
                            self.queue.append(SlotMessageReceived(self.slots[attempt, slot].register()))
                case SendToSlot(slot, attempt, message):
                    self.queue.extend(map(SlotMessageReceived, self.slots[attempt, slot].answer(message)))
                case KillSlots(attempt, processes):
                    for process in processes:
                        self.slots[attempt, process.slot].gone = True
                case JobStateChanged(state=state):
                    self.states.append(state)
                case StoreCheckpoint():
                    self.storing.append(action)
                    if not self.storage_is_slow:
                        self.answer_storage()
                case ForgetCheckpoints(checkpoint_ids):
                    self.completed = [n for n in self.completed if n not in checkpoint_ids]
                case ForgetDamaged(checkpoint_id):
                    self.forgetting.append(checkpoint_id)
                    if not self.storage_is_slow:
                        self.record_damage()
                case DeleteFiles(_, directories):
                    self.deleted.extend(directories)
                case RequestAnswered(request_id):
                    assert request_id not in self.answers
                    self.answers[request_id] = action
        self.actions.extend(actions)
        return actions

    def say(self, message: SlotMessage) -> list[JobMasterAction]:
        return self.deliver(SlotMessageReceived(message))

    def answer_storage(self, error: str | None = None) -> None:
        """Have the storage answer its oldest question; the answer is queued."""
        action = self.storing.pop(0)
        checkpoint_id = action.metadata.checkpoint_id
        if error is not None:
            self.queue.append(StorageAnswered(NotStored(checkpoint_id, error)))
            return
        if action.is_recorded:
            self.completed.append(checkpoint_id)
            self.recorded[checkpoint_id] = CompletedCheckpoint(action.metadata, is_owned=action.is_owned)
        self.queue.append(StorageAnswered(Stored(checkpoint_id)))

    def record_damage(self, *, is_fenced: bool = False) -> None:
        """Have the oldest damaged checkpoint recorded, or refused; the answer is queued."""
        checkpoint_id = self.forgetting.pop(0)
        if not is_fenced:
            self.completed.remove(checkpoint_id)
        self.queue.append(StorageAnswered(Forgotten(checkpoint_id, is_fenced)))

    def settle(self) -> None:
        while self.queue:
            self.deliver(self.queue.pop(0))

    def advance(self, ms: float) -> None:
        """Let time pass; ticks come when they are due, and slots answer at once."""
        end_ms = self.now_ms + ms
        while (due_ms := self.machine.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.deliver(Tick())
            self.settle()
        self.now_ms = end_ms

    def run_to_running(self) -> None:
        self.deliver(Submitted())
        self.settle()
        assert self.machine.state is JobState.RUNNING

    def successor(self, was_suspended: bool = False, has_run: bool = False) -> Simulation:
        """Return the JobMaster of the next leader, with the same slots and what is recorded, before it is submitted."""
        placement = tuple(self.placement.values())
        next_attempt = Attempt(self.machine.attempt + 1)
        successor = Simulation(
            self.machine.graph,
            self.strategy,
            self.settings,
            epoch=self.epoch + 1,
            placement=placement,
            first_attempt=next_attempt,
            was_suspended=was_suspended,
            has_run=has_run,
        )
        successor.slots, successor.now_ms = self.slots, self.now_ms
        successor.placement, successor.recorded = self.placement, self.recorded
        successor.completed = self.completed
        return successor

    def take_over(self) -> None:
        """Submit the job with what is recorded, and let everybody answer."""
        self.deliver(Submitted(tuple(self.recorded[n] for n in self.completed)))
        self.settle()

    def finish_tasks(self) -> None:
        for number in sorted({slot.slot for slot in self.slots.values()}):
            self.queue.extend(map(SlotMessageReceived, self.current(number).states(TaskState.FINISHED)))

    def deliver_registration(self, slot: int) -> None:
        """A slot comes that was not to come by itself; what it answers is queued."""
        self.say(self.current(slot).register())

    def fail_task(self, slot: int = 0, message: str = "ValueError: bad record") -> list[JobMasterAction]:
        failing = self.current(slot)
        task = failing.tasks[0]
        failure = FailureInfo(message, task=task, slot=failing.slot)
        return self.say(TaskStateChanged(failing.slot, failing.attempt, task, TaskState.FAILED, failure))

    def current(self, slot: int) -> SimulatedSlot:
        """The slot of that number that was asked for last."""
        return max((s for s in self.slots.values() if s.slot == slot), key=lambda s: s.attempt)

    def sent(self, kind: type[JobMasterMessage]) -> list[int]:
        """Slots that were sent such a message, in order."""
        return [a.slot for a in self.actions if isinstance(a, SendToSlot) and isinstance(a.message, kind)]

    def killed(self) -> Sequence[int]:
        return [p.slot for a in self.actions if isinstance(a, KillSlots) for p in a.slots]

    def sent_to(self, slot: int, *kinds: type[JobMasterMessage]) -> list[JobMasterMessage]:
        """Messages of these kinds that a slot was sent, in order."""
        sent = [a for a in self.actions if isinstance(a, SendToSlot) and a.slot == slot]
        return [a.message for a in sent if isinstance(a.message, kinds)]

    def restored_from(self, slot: int = 0) -> list[int | None]:
        """Return the state that each task of a slot was told to restore; empty: none."""
        deploy = self.current(slot).deploy
        assert deploy is not None
        return [t.restore.checkpoint_id for t in deploy.tasks if t.restore is not None]

    def error_of(self, request: str = "r") -> str:
        """Return the error of a request; empty: it has not failed."""
        return self.answers[request].error or ""


def saving_job(
    settings: CheckpointSettings = EVERY_SECOND, restarts: int = 5, max_slots: int | None = None
) -> Simulation:
    """A job with checkpoints that runs."""
    simulation = Simulation(strategy=FixedDelay(restarts, 1_000), settings=settings, max_slots=max_slots)
    simulation.run_to_running()
    return simulation
