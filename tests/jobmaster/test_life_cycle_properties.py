"""The machine under random events: whatever comes, it keeps its invariants and always comes to an end."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from runtime.checkpoint.settings import CheckpointSettings
from runtime.core.ids import Attempt, CheckpointId, OperatorId, SlotId, TaskId
from runtime.jobmaster.actions import JobMasterAction, ReleaseAttempt, RequestSlots, SendToSlot
from runtime.jobmaster.events import (
    AfterSavepoint,
    CancelRequested,
    CheckpointRequested,
    JobMasterEvent,
    ParallelismOffered,
    RescaleRequested,
    SavepointRequested,
    SlotLost,
    SlotMessageReceived,
    StageEnded,
    StorageAnswered,
    Submitted,
)
from runtime.jobmaster.phases import Phase
from runtime.jobmaster.restart_strategy import FixedDelay
from runtime.task.messages import (
    ClientOutput,
    DeclineCheckpoint,
    FailureInfo,
    OperatorEvent,
    SlotCommitted,
    SlotFailed,
    SlotLeaving,
    SlotMessage,
    TaskState,
    TaskStateChanged,
)
from tests.jobmaster.simulation import SimulatedSlot, Simulation, keyed_job, two_pipelines

SETTINGS = st.builds(
    CheckpointSettings,
    interval_ms=st.sampled_from([None, 400, 1_000]),
    timeout_ms=st.sampled_from([600_000, 2_000]),
    tolerable_failures=st.sampled_from([0, 1, 50]),
    num_retained=st.integers(1, 2),
    savepoint_directory=st.just("file:///saved"),
    rescale_cooldown_ms=st.sampled_from([0, 2_000]),
)
SLOTS = st.sampled_from([0, 0, 0, 1, 1, 1, 2, -1]).map(SlotId)


class JobLife(RuleBasedStateMachine):
    """Slots behave, freeze, die, lie and come too late."""

    #: two vertices of parallelism 2, or four of 1
    graph = keyed_job(2)

    def __init__(self) -> None:
        super().__init__()
        self.tasks = [TaskId(v.vertex_id, i) for v in self.graph.vertices for i in range(v.parallelism)]
        #: region → the attempt that its slots are of
        self.active: dict[int, Attempt] = {}
        self.region_of: dict[SlotId, int] = {}

    @initialize(
        attempts=st.integers(0, 3),
        delay_ms=st.sampled_from([0, 1_000, 20_000]),
        start=st.sampled_from(["submitted", "running", "committing", "leaving"]),
        settings=SETTINGS,
        storage_is_slow=st.booleans(),
    )
    def submit(
        self, attempts: int, delay_ms: int, start: str, settings: CheckpointSettings, storage_is_slow: bool
    ) -> None:
        """Begin anywhere on the way: few random walks would ever come to the commit."""
        self.simulation = Simulation(self.graph, FixedDelay(attempts, delay_ms), settings, max_slots=6)
        self.asked = 0
        deliver = self.simulation.deliver

        def checked(event: JobMasterEvent) -> list[JobMasterAction]:
            actions = deliver(event)
            self.check(actions)
            return actions

        self.simulation.deliver = checked  # type: ignore[method-assign]
        self.simulation.deliver(Submitted())
        if start == "submitted":
            return
        self.simulation.settle()
        target = {"running": Phase.STARTED, "committing": Phase.COMMITTING, "leaving": Phase.LEAVING}[start]
        if target is not Phase.STARTED:
            self.simulation.finish_tasks()
        while self.simulation.machine.phase is not target:
            self.simulation.deliver(self.simulation.queue.pop(0))
        self.simulation.storage_is_slow = storage_is_slow

    def check(self, actions: list[JobMasterAction]) -> None:
        """Check that one attempt runs at a time, and that no message goes to another one."""
        for action in actions:
            match action:
                case RequestSlots(attempt, regions):
                    for region in regions:
                        assert region.index not in self.active
                        self.active[region.index] = attempt
                        self.region_of.update(dict.fromkeys(region.slots, region.index))
                case ReleaseAttempt(attempt, regions):
                    for index in list(self.active) if regions is None else [region.index for region in regions]:
                        assert self.active.pop(index) == attempt
                case SendToSlot(slot, attempt):
                    assert self.active[self.region_of[slot]] == attempt

    def find(self, slot: int) -> SimulatedSlot | None:
        """The slot of that number that was asked for last."""
        known = [s for s in self.simulation.slots.values() if s.slot == slot]
        return max(known, key=lambda s: s.attempt, default=None)

    def attempts(self, slot: int, age: int) -> Attempt:
        found = self.find(slot)
        return Attempt(max(0, (self.simulation.machine.attempt if found is None else found.attempt) - age))

    @rule(data=st.data())
    def deliver_some(self, data: Any) -> None:
        """Messages of different slots overtake each other."""
        queue = self.simulation.queue
        for _ in range(data.draw(st.integers(1, 8))):
            if queue:
                self.simulation.deliver(queue.pop(data.draw(st.integers(0, len(queue) - 1))))

    @rule()
    def settle(self) -> None:
        self.simulation.settle()

    @rule(ms=st.sampled_from([1, 500, 1_000, 3_000, 6_000, 400_000]))
    def time_passes(self, ms: int) -> None:
        self.simulation.advance(ms)

    @rule(ms=st.integers(0, 10_000))
    def master_sleeps(self, ms: int) -> None:
        self.simulation.now_ms += ms

    @rule(slot=st.integers(0, 1), silent=st.booleans())
    def freeze(self, slot: int, silent: bool) -> None:
        found = self.find(slot)
        if found is not None:
            found.silent = silent

    @rule(slot=SLOTS, age=st.integers(0, 1))
    def lose(self, slot: SlotId, age: int) -> None:
        self.simulation.deliver(SlotLost(slot, self.attempts(slot, age), "connection reset"))

    @rule(age=st.integers(0, 1), region=st.sampled_from([0, 0, 0, 1, -1]), error=st.none() | st.just("executor lost"))
    def end_stage(self, age: int, region: int, error: str | None) -> None:
        slot = next((slot for slot, index in self.region_of.items() if index == region), SlotId(-1))
        self.simulation.deliver(StageEnded(region, self.attempts(slot, age), error))

    @rule(slot=SLOTS, age=st.integers(0, 1), task=st.integers(0, 3), state=st.sampled_from(TaskState))
    def task_state(self, slot: SlotId, age: int, task: int, state: TaskState) -> None:
        self.say(TaskStateChanged(slot, self.attempts(slot, age), self.tasks[task], state))

    @rule(slot=st.integers(0, 1), index=st.integers(0, 1), with_cause=st.booleans())
    def fail_task(self, slot: int, index: int, with_cause: bool) -> None:
        found = self.find(slot)
        if found is not None and index < len(found.tasks):
            failure = FailureInfo("ValueError") if with_cause else None
            self.say(TaskStateChanged(found.slot, found.attempt, found.tasks[index], TaskState.FAILED, failure))

    @rule()
    def finish_tasks(self) -> None:
        self.simulation.finish_tasks()

    @rule(slot=SLOTS, age=st.integers(0, 1), kind=st.integers(0, 4))
    def other_message(self, slot: SlotId, age: int, kind: int) -> None:
        attempt = self.attempts(slot, age)
        messages: list[SlotMessage] = [
            SlotFailed(slot, attempt, FailureInfo("connection broke")),
            SlotCommitted(slot, attempt),
            SlotLeaving(slot, attempt),
            ClientOutput(slot, attempt, "stdout", 0, b""),
            OperatorEvent(attempt, OperatorId("nobody"), slot, None, b""),
        ]
        self.say(messages[kind])

    def say(self, message: SlotMessage) -> None:
        machine = self.simulation.machine
        refused = machine.status().refused_messages
        if isinstance(message, OperatorEvent):
            is_old = message.attempt not in self.active.values()
        else:
            is_old = self.active.get(self.region_of.get(message.slot, -1)) != message.attempt
        actions = self.simulation.deliver(SlotMessageReceived(message))
        if is_old:
            assert (actions, machine.status().refused_messages) == ([], refused + 1)

    @rule(after=st.sampled_from([AfterSavepoint.GO_ON, *AfterSavepoint]))
    def ask_for_a_savepoint(self, after: AfterSavepoint) -> None:
        self.simulation.deliver(SavepointRequested(self.request(), after=after))

    @rule()
    def ask_for_a_checkpoint(self) -> None:
        self.simulation.deliver(CheckpointRequested(self.request()))

    @rule(parallelism=st.integers(0, 7))
    def ask_for_another_parallelism(self, parallelism: int) -> None:
        wanted = {v.vertex_id: parallelism for v in self.graph.vertices}
        self.simulation.deliver(RescaleRequested(self.request(), wanted))

    @rule(parallelism=st.integers(1, 3))
    def offer(self, parallelism: int) -> None:
        self.simulation.deliver(ParallelismOffered({v.vertex_id: parallelism for v in self.graph.vertices}))

    def request(self) -> str:
        self.asked += 1
        return str(self.asked)

    @rule(error=st.none() | st.just("disk full"))
    def answer_storage(self, error: str | None) -> None:
        if self.simulation.storing:
            self.simulation.answer_storage(error)

    @rule(slot=st.integers(0, 1), acknowledges=st.booleans())
    def acknowledge(self, slot: int, acknowledges: bool) -> None:
        found = self.find(slot)
        if found is not None:
            found.acknowledges = acknowledges

    @rule(slot=SLOTS, age=st.integers(0, 1), behind=st.integers(0, 2), counts=st.booleans())
    def decline(self, slot: SlotId, age: int, behind: int, counts: bool) -> None:
        latest = self.simulation.machine.status().checkpoints.counts.total
        checkpoint_id = CheckpointId(max(1, latest - behind))
        message = DeclineCheckpoint(slot, self.attempts(slot, age), None, checkpoint_id, FailureInfo("no"), counts)
        self.simulation.deliver(SlotMessageReceived(message))

    @rule()
    def cancel(self) -> None:
        self.simulation.deliver(CancelRequested())

    @invariant()
    def consistent(self) -> None:
        if hasattr(self, "simulation"):
            self.simulation.machine.check_invariants()
            assert self.simulation.machine.state.is_terminal <= (not self.active)

    def teardown(self) -> None:
        """After a cancellation time alone brings the end, even if nobody ever answers again."""
        if not hasattr(self, "simulation"):
            return
        # what the storage has answered is not lost: it is told by this process itself
        self.simulation.queue = [event for event in self.simulation.queue if isinstance(event, StorageAnswered)]
        for slot in self.simulation.slots.values():
            slot.silent = True
        self.simulation.deliver(CancelRequested())
        self.simulation.advance(10_000)
        assert self.simulation.machine.state.is_terminal
        assert self.simulation.machine.next_deadline_ms() is None
        # a storage always answers in the end
        while self.simulation.storing:
            self.simulation.answer_storage()
        self.simulation.settle()
        assert len(self.simulation.answers) == self.asked, "somebody waits for ever"
        assert self.simulation.completed == []


class RegionsLife(JobLife):
    """The same, with two regions."""

    graph = two_pipelines(1)


TestJobLife = JobLife.TestCase
TestRegionsLife = RegionsLife.TestCase
TestJobLife.settings = TestRegionsLife.settings = settings(
    max_examples=200, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
