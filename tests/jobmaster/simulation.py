"""Slots without processes: what a JobMasterMachine asks for is recorded, and answered as the test says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from runtime.core.ids import Attempt, JobId, SlotId, TaskId
from runtime.graph.chaining import create_job_graph
from runtime.graph.job_graph import JobGraph
from runtime.graph.partitioning import Partitioning
from runtime.graph.stream_graph import StreamEdge, StreamGraph, StreamNode
from runtime.jobmaster.actions import JobMasterAction, JobStateChanged, KillSlots, RequestSlots, SendToSlot
from runtime.jobmaster.events import JobMasterEvent, SlotMessageReceived, Submitted, Tick
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.life_cycle import JobMasterMachine
from runtime.jobmaster.options import JobMasterOptions
from runtime.jobmaster.restart_strategy import NoRestart, RestartStrategy
from runtime.task.messages import (
    CancelTasks,
    CommitFinished,
    Deploy,
    FailureInfo,
    Heartbeat,
    HeartbeatRequest,
    JobMasterMessage,
    RegisterSlot,
    ReleaseSlot,
    SlotCommitted,
    SlotLeaving,
    SlotMessage,
    Start,
    TaskState,
    TaskStateChanged,
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


@dataclass
class SimulatedSlot:
    """A slot that answers like a real one; a silent one answers nothing."""

    slot: SlotId
    attempt: Attempt
    tasks: list[TaskId] = field(default_factory=list)
    silent: bool = False
    gone: bool = False

    def register(self) -> RegisterSlot:
        return RegisterSlot(self.slot, self.attempt, 1000 + self.slot, "host", f"grpc://host:{self.slot}")

    def states(self, state: TaskState) -> list[SlotMessage]:
        return [TaskStateChanged(self.slot, self.attempt, task, state) for task in self.tasks]

    def answer(self, message: JobMasterMessage) -> list[SlotMessage]:
        if self.silent or self.gone:
            return []
        match message:
            case Deploy(tasks=tasks):
                self.tasks = [t.task for t in tasks]
                return self.states(TaskState.INITIALIZING)
            case Start():
                return self.states(TaskState.RUNNING)
            case CancelTasks():
                return self.states(TaskState.CANCELED)
            case CommitFinished():
                return [SlotCommitted(self.slot, self.attempt)]
            case ReleaseSlot():
                self.gone = True
                return [SlotLeaving(self.slot, self.attempt)]
            case HeartbeatRequest(sequence):
                return [Heartbeat(self.slot, self.attempt, sequence, {})]
        return []


class Simulation:
    """A machine, its slots and a clock.

    `deliver` hands in one event and queues what slots answer; `settle` goes on until nobody has anything to say.
    """

    def __init__(self, graph: JobGraph | None = None, strategy: RestartStrategy | None = None) -> None:
        self.graph = graph or keyed_job()
        self.machine = JobMasterMachine(self.graph, JobMasterOptions(), strategy or NoRestart())
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
                case RequestSlots(attempt, regions):
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
        self.actions.extend(actions)
        return actions

    def say(self, message: SlotMessage) -> list[JobMasterAction]:
        return self.deliver(SlotMessageReceived(message))

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

    def finish_tasks(self) -> None:
        for slot in list(self.slots.values()):
            if slot.attempt == self.machine.attempt:
                self.queue.extend(map(SlotMessageReceived, slot.states(TaskState.FINISHED)))

    def fail_task(self, slot: int = 0, message: str = "ValueError: bad record") -> list[JobMasterAction]:
        failing = self.current(slot)
        task = failing.tasks[0]
        failure = FailureInfo(message, task=task, slot=failing.slot)
        return self.say(TaskStateChanged(failing.slot, failing.attempt, task, TaskState.FAILED, failure))

    def current(self, slot: int) -> SimulatedSlot:
        return self.slots[self.machine.attempt, SlotId(slot)]

    def sent(self, kind: type[JobMasterMessage]) -> list[int]:
        """Slots that were sent such a message, in order."""
        return [a.slot for a in self.actions if isinstance(a, SendToSlot) and isinstance(a.message, kind)]

    def killed(self) -> Sequence[int]:
        return [p.slot for a in self.actions if isinstance(a, KillSlots) for p in a.slots]
