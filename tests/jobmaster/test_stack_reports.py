"""Samples of stacks: whom a JobMaster asks, and what it makes of the answers."""

from __future__ import annotations

from runtime.core.ids import Attempt, SlotId, TaskId, VertexId
from runtime.jobmaster.stack_reports import ANSWER_TIMEOUT_MS, MAX_REPORTS, StackReports
from runtime.jobmaster.status import TaskSnapshot
from runtime.task.messages import JobMasterMessage, SampledStacks, SampleStacks, StackCount, StacksSampled, TaskState
from runtime.testing.clock import ManualClock

MAP, SINK = VertexId("m" * 32), VertexId("s" * 32)
ONE, TWO = SlotId(0), SlotId(1)
ATTEMPT = Attempt(3)


def task(vertex_id: VertexId, index: int, slot: SlotId, state: TaskState = TaskState.RUNNING) -> TaskSnapshot:
    return TaskSnapshot(TaskId(vertex_id, index), "task", slot, state, {}, ATTEMPT)


TASKS = [task(MAP, 0, ONE), task(MAP, 1, TWO), task(SINK, 0, ONE)]


class Rig:
    def __init__(self) -> None:
        self.clock = ManualClock(0)
        self.sent: list[tuple[SlotId, Attempt, JobMasterMessage]] = []
        self.reports = StackReports(lambda *message: self.sent.append(message), self.clock)

    def answer(self, slot: SlotId, request_id: int, attempt: Attempt = ATTEMPT) -> None:
        stacks = {TaskId(MAP, 0): [StackCount([0], 5, 1)]}
        self.reports.take(StacksSampled(slot, attempt, SampledStacks(request_id, 10, ["f (job.py:1)"], stacks, {})))


def test_each_slot_of_the_vertex_is_asked_once() -> None:
    rig = Rig()
    assert rig.reports.request(MAP, [*TASKS, task(MAP, 2, TWO)], 5_000)
    asked = [(slot, attempt) for slot, attempt, _ in rig.sent]
    assert asked == [(ONE, ATTEMPT), (TWO, ATTEMPT)]
    assert {message for _, _, message in rig.sent} == {SampleStacks(1, 5_000, 10)}


def test_a_report_is_there_when_all_have_answered() -> None:
    rig = Rig()
    rig.reports.request(MAP, TASKS, 5_000)
    rig.answer(ONE, 1)
    assert not rig.reports.reports()
    rig.answer(TWO, 1)
    [report] = rig.reports.reports()
    assert (report.vertex_id, report.number, set(report.slots), report.subtasks) == (
        MAP,
        1,
        {ONE, TWO},
        {0: ONE, 1: TWO},
    )


def test_who_does_not_answer_is_missing_after_a_time() -> None:
    rig = Rig()
    rig.reports.request(MAP, TASKS, 5_000)
    rig.answer(ONE, 1)
    rig.clock.advance(5_000 + ANSWER_TIMEOUT_MS)
    [report] = rig.reports.reports()
    assert set(report.slots) == {ONE}
    # too late
    rig.answer(TWO, 1)
    assert set(rig.reports.reports()[0].slots) == {ONE}


def test_a_vertex_is_sampled_once_at_a_time_and_another_one_beside_it() -> None:
    rig = Rig()
    assert rig.reports.request(MAP, TASKS, 5_000)
    assert not rig.reports.request(MAP, TASKS, 5_000)
    assert rig.reports.request(SINK, TASKS, 5_000)
    rig.clock.advance(5_000 + ANSWER_TIMEOUT_MS)
    assert rig.reports.request(MAP, TASKS, 5_000)


def test_what_does_not_run_is_not_asked() -> None:
    rig = Rig()
    assert not rig.reports.request(MAP, [task(MAP, 0, ONE, TaskState.FINISHED), task(SINK, 0, ONE)], 5_000)
    assert rig.sent == []


def test_answers_of_another_attempt_and_to_other_requests_are_dropped() -> None:
    rig = Rig()
    rig.reports.request(SINK, TASKS, 5_000)
    rig.answer(ONE, 1, Attempt(4))
    rig.answer(TWO, 1)
    rig.answer(ONE, 7)
    assert not rig.reports.reports()


def test_only_the_newest_reports_are_kept() -> None:
    rig = Rig()
    for number in range(MAX_REPORTS + 5):
        vertex = VertexId(f"{number:032}")
        rig.reports.request(vertex, [task(vertex, 0, ONE)], 0)
        rig.answer(ONE, number + 1)
    reports = rig.reports.reports()
    assert [report.number for report in reports] == list(range(6, MAX_REPORTS + 6))
