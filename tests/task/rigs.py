"""Slots of a job without a JobMaster: the test says what they are told, and sees what they say."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self, TypeVar

from runtime.checkpoint.assignment import Assignment
from runtime.common.configuration import Configuration
from runtime.core.ids import Attempt, SlotId
from runtime.datastream import StreamExecutionEnvironment
from runtime.jobmaster.execution_graph import ExecutionGraph
from runtime.network.channel import NetworkEnvironment
from runtime.network.local import LocalNetwork
from runtime.task.control_link import ControlLostError, LeaderChanged
from runtime.task.messages import (
    DeliverOperatorEvent,
    Deploy,
    Heartbeat,
    JobMasterMessage,
    OperatorEvent,
    SlotMessage,
    Start,
    TaskState,
    TaskStateChanged,
)
from runtime.task.slot import Slot
from runtime.task.stalls import LoopWatch
from runtime.task.task import Task
from runtime.task.uploads import InlineUploads
from runtime.testing.clock import ManualClock

ATTEMPT = Attempt(3)
M = TypeVar("M")


@dataclass
class FakeControlLink:
    """The slot's end of a control stream whose other end is the test."""

    inbox: deque[JobMasterMessage | LeaderChanged] = field(default_factory=deque)
    sent: list[SlotMessage] = field(default_factory=list)
    heartbeat: Heartbeat | None = None
    lost: bool = False
    lost_for_good: bool = False
    closed: bool = False
    dropped: bool = False

    def poll(self) -> JobMasterMessage | LeaderChanged | None:
        if self.lost:
            raise ControlLostError("the JobMaster is gone", self.lost_for_good)
        return self.inbox.popleft() if self.inbox else None

    def send(self, message: SlotMessage) -> None:
        assert not self.closed
        self.sent.append(message)

    def publish(self, heartbeat: Heartbeat) -> None:
        self.heartbeat = heartbeat

    def set_listener(self, on_message: Callable[[], None]) -> None:
        pass

    def set_watch(self, watch: LoopWatch, redact: Callable[[str], str]) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def drop(self) -> None:
        self.dropped = True

    def all(self, kind: type[M]) -> list[M]:
        """Return the slot's sent messages of one kind."""
        return [message for message in self.sent if isinstance(message, kind)]


def environment(parallelism: int = 1, options: dict[str, str] | None = None) -> StreamExecutionEnvironment:
    """For the program whose tasks a rig runs."""
    configuration = Configuration.from_dict(options or {})
    configuration.set_integer("parallelism.default", parallelism)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


class SlotRig:
    """All slots of a program's job.

    Args:
        env: has the program; its configuration is the job's.
        window_bytes: of each channel.
        network: makes the environment of a slot; None = all slots are of one process.
    """

    def __init__(
        self,
        env: StreamExecutionEnvironment,
        window_bytes: int = 1 << 20,
        network: Callable[[SlotId], NetworkEnvironment] | None = None,
    ) -> None:
        self.graph = env.create_job_graph("job")
        self.execution = ExecutionGraph(self.graph, ATTEMPT)
        self.clock = ManualClock(1_000_000)
        network = network or LocalNetwork(window_bytes).environment
        self.links = {slot: FakeControlLink() for slot in self.execution.slots}
        self.slots = {
            slot: Slot(slot, ATTEMPT, "localhost", network(slot), link, self.clock, InlineUploads())
            for slot, link in self.links.items()
        }
        self.assignment: Assignment | None = None
        self._routed = dict.fromkeys(self.slots, 0)

    @property
    def link(self) -> FakeControlLink:
        """The one of the first slot."""
        return self.links[SlotId(0)]

    @property
    def slot(self) -> Slot:
        """The first slot."""
        return self.slots[SlotId(0)]

    def task(self, index: int = 0, slot: int = 0) -> Task:
        """A task of a slot, in topological order."""
        return self.slots[SlotId(slot)]._tasks.all[index]

    def tell(self, message: JobMasterMessage | LeaderChanged) -> None:
        """Send a message to every slot and let them take it."""
        for link in self.links.values():
            link.inbox.append(message)
        for slot in self.slots.values():
            slot._take_messages()

    def deploy(self) -> Self:
        for slot in self.slots:
            restore = () if self.assignment is None else (self.assignment.tasks,)
            self.links[slot].inbox.append(
                Deploy(
                    job_id=self.graph.job_id,
                    job_name=self.graph.name,
                    attempt=ATTEMPT,
                    configuration=self.graph.configuration,
                    job_parameters=self.graph.job_parameters,
                    tasks=self.execution.deployments(slot, *restore),
                    coordinator_slots=self.execution.coordinator_slots,
                    coordinator_states={} if self.assignment is None else self.assignment.coordinators,
                )
            )
            self.slots[slot]._take_messages()
        return self

    def start(self) -> Self:
        self.deploy()
        self.tell(Start({slot: running.network.address for slot, running in self.slots.items()}))
        return self

    def step(self) -> bool:
        """Run one turn of every slot, then deliver messages between coordinators and readers."""
        busy = False
        for slot in self.slots.values():
            busy = slot.step() or busy
        return self.route() or busy

    def route(self) -> bool:
        """Do the JobMaster's part for operator events."""
        routed = False
        for slot, link in self.links.items():
            fresh, self._routed[slot] = link.sent[self._routed[slot] :], len(link.sent)
            for message in fresh:
                if isinstance(message, OperatorEvent):
                    target = self.execution.operator_slot(message.operator_id, message.target_subtask)
                    assert target is not None
                    self.links[target].inbox.append(DeliverOperatorEvent(message))
                    routed = True
        return routed

    def run(self, limit: int = 10_000) -> None:
        """Step until nothing is left to do, without any time passing."""
        for _ in range(limit):
            if not self.step():
                return
        raise AssertionError(f"still busy after {limit} steps")

    def states(self, slot: int = 0) -> list[TaskState]:
        """The states that the slot has reported, in order."""
        return [message.state for message in self.links[SlotId(slot)].all(TaskStateChanged)]

    def failure(self) -> str:
        """The message of the first task failure that the first slot has reported."""
        failures = [m.failure for m in self.link.all(TaskStateChanged) if m.failure is not None]
        return failures[0].message

    def release(self) -> None:
        for slot in self.slots.values():
            slot.release()
