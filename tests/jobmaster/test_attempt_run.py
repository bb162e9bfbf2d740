"""AttemptRun by itself: whose messages count, who is told what, and what is killed and ended, each once."""

from __future__ import annotations

import pytest

from runtime.core.ids import Attempt, SlotId, TaskId
from runtime.jobmaster.actions import JobMasterAction, KillSlots, RecordPlacement, ReleaseAttempt, SendToSlot
from runtime.jobmaster.attempt_run import AttemptRun
from runtime.jobmaster.journal import Journal
from runtime.jobmaster.phases import Phase
from runtime.jobmaster.placement import PlacedRegion, PlacedSlot
from runtime.jobmaster.slot_registry import SlotStatus
from runtime.task.messages import CancelTasks, Heartbeat, StalledCall, TaskReport, TaskState
from tests.jobmaster.simulation import two_pipelines

FIRST, LATER = Attempt(3), Attempt(4)
LEFT, RIGHT = SlotId(0), SlotId(1)
BOTH = (LEFT, RIGHT)


class Run:
    """An attempt of a job with two regions, of one slot each."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.of = AttemptRun(two_pipelines(), FIRST, self.journal)
        self.now(0)
        self.of.request(FIRST, self.of.regions)
        self.of.phase = Phase.STARTED

    def now(self, ms: float) -> list[JobMasterAction]:
        """An event begins; returns the list of its actions."""
        return self.journal.begin(ms)

    def register(self, *slots: SlotId, pid: int = 100) -> None:
        for slot in slots:
            assert self.of.slots.register(slot, pid + slot, "host", f"grpc://{pid + slot}", self.journal.now_ms)

    def deploy(self, *slots: SlotId) -> None:
        self.of.deploy(slots, None)

    def tasks(self, slot: SlotId) -> list[TaskId]:
        return [task.task for task in self.of.execution.tasks_in(slot)]

    def states(self, slot: SlotId) -> set[TaskState]:
        return {task.state for task in self.of.execution.tasks_in(slot)}


@pytest.fixture
def run() -> Run:
    return Run()


def killed(actions: list[JobMasterAction]) -> list[tuple[int, list[int]]]:
    """Attempt and pids of each kill."""
    return [(of.attempt, [slot.pid for slot in of.slots]) for of in actions if isinstance(of, KillSlots)]


def released(actions: list[JobMasterAction]) -> list[tuple[int, list[int] | None]]:
    """Attempt and regions of each release."""
    found = [action for action in actions if isinstance(action, ReleaseAttempt)]
    return [(of.attempt, None if of.regions is None else [r.index for r in of.regions]) for of in found]


# --- whose messages count ---------------------------------------------------------------------------------------------


def test_a_message_counts_if_it_names_the_attempt_that_its_region_runs_with(run: Run) -> None:
    run.of.request(LATER, run.of.regions[1:])
    assert [run.of.is_current(FIRST, slot) for slot in BOTH] == [True, False]
    assert [run.of.is_current(LATER, slot) for slot in BOTH] == [False, True]
    # nobody knows which region it would belong to
    assert run.of.is_current(FIRST, None) and run.of.is_current(LATER, SlotId(99))
    assert not run.of.is_current(Attempt(2), None)
    assert (run.of.oldest, run.of.attempts) == (FIRST, {FIRST, LATER})


def test_nothing_counts_before_and_after_an_attempt(run: Run) -> None:
    run.of.phase = Phase.IDLE
    assert not any(run.of.is_current(FIRST, slot) for slot in (LEFT, None))


def test_a_region_that_is_requested_again_forgets_what_was_in_its_place_and_no_other_does(run: Run) -> None:
    call = StalledCall(None, "stack")
    run.register(*BOTH)
    run.deploy(*BOTH)
    for slot in BOTH:
        run.of.heartbeat(Heartbeat(slot, FIRST, 1, {}, 5_000, call, restored_bytes=7))
    run.now(10)
    run.of.request(LATER, run.of.regions[1:])
    assert run.of.restored_bytes == {LEFT: 7}
    assert [stall.slot for stall in run.of.stalls()] == [LEFT]
    assert [run.of.slots.entry(slot).status for slot in BOTH] == [SlotStatus.LIVE, SlotStatus.EXPECTED]
    assert run.states(LEFT) == {TaskState.DEPLOYING} and run.states(RIGHT) == {TaskState.SCHEDULED}
    run.register(RIGHT, pid=200)
    assert {snapshot.pid for snapshot in run.of.slot_snapshots()} == {100, 201}
    assert [stall.slot for stall in run.of.stalls()] == [LEFT], "the new process says nothing of the kind"


def test_an_adopted_region_has_the_epoch_of_who_deployed_it_until_it_is_requested_again(run: Run) -> None:
    for region, epoch in ((0, 5), (1, 6)):
        placed = [PlacedSlot(SlotId(region), 100, "host", "grpc://1")]
        run.of.place(PlacedRegion(region, Attempt(region + 1), placed, {}, epoch, 1))
    assert (run.of.oldest_epoch, run.of.oldest, run.of.attempt_of(RIGHT)) == (5, 1, 2)
    run.of.request(LATER, run.of.regions[:1])
    assert (run.of.oldest_epoch, run.of.oldest) == (6, 2)
    run.of.request(LATER, run.of.regions[1:])
    assert (run.of.oldest_epoch, run.of.oldest) == (None, LATER)


# --- what slots report ------------------------------------------------------------------------------------------------


def test_what_a_task_has_reported_last_stays_when_it_has_ended(run: Run) -> None:
    run.register(LEFT)
    run.deploy(LEFT)
    source, sink = run.tasks(LEFT)
    run.of.heartbeat(Heartbeat(LEFT, FIRST, 1, {source: {"rows": 1}, sink: {"rows": 1}}))
    run.of.transition(source, TaskState.FINISHED)
    # sent before the slot heard of the end, and of a task that is elsewhere
    run.of.heartbeat(Heartbeat(LEFT, FIRST, 2, {source: {}, sink: {"rows": 2}, run.tasks(RIGHT)[0]: {"rows": 3}}))
    metrics = {task.task: task.metrics for task in run.of.task_snapshots()}
    assert (metrics[source], metrics[sink], metrics[run.tasks(RIGHT)[0]]) == ({"rows": 1}, {"rows": 2}, {})


def test_the_same_call_is_one_stall_and_a_later_one_another(run: Run) -> None:
    run.register(LEFT)
    call = StalledCall(run.tasks(LEFT)[0], "stack")

    def since(now_ms: float, stalled_ms: int) -> float:
        run.now(now_ms)
        run.of.heartbeat(Heartbeat(LEFT, FIRST, 1, {}, stalled_ms, call))
        [stall] = run.of.stalls()
        return stall.since_ms

    assert since(10_000, 4_000) == 6_000
    # messages do not all take the same time
    assert since(12_500, 4_600) == since(14_000, 9_000) == 6_000
    assert since(30_000, 4_000) == 26_000
    run.of.give_up(LEFT, TaskState.FAILED)
    assert run.of.stalls() == (), "whoever is gone stands still for ever"


def test_reports_of_tasks_that_the_job_does_not_have_mean_nothing(run: Run) -> None:
    run.now(10_000)
    before = run.of.task_snapshots()
    unknown = TaskId(run.tasks(LEFT)[0].vertex_id, 9)
    run.of.adopt_task(TaskReport(unknown, TaskState.RUNNING, None, {}, 1_000, None))
    assert run.of.task_snapshots() == before
    run.of.adopt_task(TaskReport(run.tasks(LEFT)[0], TaskState.FINISHED, None, {"rows": 1}, 9_000, 2_000))
    adopted = run.of.task_snapshots()[0]
    assert (adopted.state, adopted.started_ms, adopted.ended_ms) == (TaskState.FINISHED, 1_000, 8_000)


def test_where_regions_run_is_recorded_with_the_attempt_of_each(run: Run) -> None:
    run.register(LEFT)
    run.of.request(LATER, run.of.regions[1:])
    run.register(RIGHT, pid=200)
    actions = run.now(1)
    run.of.record_placement(run.of.regions)
    [recorded] = actions
    assert isinstance(recorded, RecordPlacement)
    assert [(of.region, of.attempt, [slot.pid for slot in of.slots]) for of in recorded.regions] == [
        (0, FIRST, [100]),
        (1, LATER, [201]),
    ]


# --- down -------------------------------------------------------------------------------------------------------------


def test_only_slots_that_have_tasks_are_told_to_cancel_them(run: Run) -> None:
    run.register(*BOTH)
    run.deploy(LEFT)
    actions = run.now(1)
    run.of.cancel(BOTH)
    assert actions == [SendToSlot(LEFT, FIRST, CancelTasks())]
    assert run.states(LEFT) == {TaskState.CANCELING} and run.states(RIGHT) == {TaskState.CANCELED}
    assert not run.of.have_stopped(BOTH) and run.of.have_stopped((RIGHT,))


def test_a_slot_that_is_gone_takes_its_unfinished_tasks_with_it_and_no_finished_one(run: Run) -> None:
    run.register(*BOTH)
    run.deploy(*BOTH)
    source, sink = run.tasks(LEFT)
    run.of.transition(source, TaskState.FINISHED)
    run.of.give_up(LEFT, TaskState.FAILED)
    run.of.give_up(RIGHT, TaskState.CANCELED, left=True)
    assert (run.of.tasks[source].state, run.of.tasks[sink].state) == (TaskState.FINISHED, TaskState.FAILED)
    # late news changes nothing
    assert not run.of.transition(sink, TaskState.FINISHED)
    actions = run.now(1)
    run.of.cancel(BOTH)
    run.of.release(BOTH)
    assert actions == [], "nobody is there to be told"
    run.of.end()
    assert killed(actions) == [(FIRST, [100])], "who has left in good order is not killed"


def test_only_slots_whose_tasks_have_not_stopped_are_killed_and_once(run: Run) -> None:
    run.register(*BOTH)
    run.deploy(*BOTH)
    run.of.cancel(BOTH)
    for task in run.tasks(LEFT):
        run.of.transition(task, TaskState.CANCELED)
    actions = run.now(1)
    run.of.give_up_hanging(BOTH)
    assert killed(actions) == [(FIRST, [101])]
    assert run.of.have_stopped(BOTH) and run.of.slots.live() == [LEFT]
    run.of.give_up_hanging(BOTH)
    run.of.give_up(LEFT, TaskState.CANCELED, left=True)
    run.of.end()
    assert killed(actions) == [(FIRST, [101])]


def test_a_process_is_killed_under_the_attempt_that_it_belongs_to(run: Run) -> None:
    run.register(LEFT)
    run.of.request(LATER, run.of.regions[1:])
    run.register(RIGHT, pid=200)
    actions = run.now(1)
    run.of.end()
    assert sorted(killed(actions)) == [(FIRST, [100]), (LATER, [201])]
    assert released(actions) == [(FIRST, [0]), (LATER, [1])]


def test_an_attempt_that_is_over_in_all_its_regions_is_ended_as_one(run: Run) -> None:
    actions = run.now(1)
    run.of.end()
    assert released(actions) == [(FIRST, None)]


def test_a_region_is_ended_once_and_nobody_comes_to_it_any_more(run: Run) -> None:
    actions = run.now(1)
    run.of.end(run.of.regions[1:])
    run.of.end(run.of.regions[1:])
    assert released(actions) == [(FIRST, [1])]
    # its process was on its way
    assert not run.of.slots.register(RIGHT, 101, "host", "grpc://101", 1)
    run.register(LEFT)
    run.of.give_up(LEFT, TaskState.CANCELED, left=True)
    run.of.end()
    assert released(actions) == [(FIRST, [1]), (FIRST, [0])]
    run.of.request(LATER, run.of.regions)
    run.register(*BOTH, pid=200)
    actions = run.now(2)
    run.of.end()
    assert (killed(actions), released(actions)) == ([(LATER, [200, 201])], [(LATER, None)])
