"""Peeks at a job: whom a JobMaster asks, what it keeps of the answers, and for how long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runtime.common import Types
from runtime.core.ids import Attempt, OperatorId, SlotId, TaskId, VertexId
from runtime.jobmaster.peeks import (
    MAX_CHARS,
    MAX_ELEMENTS,
    MAX_KNOWN,
    JobPeeks,
    PeekRequest,
    PeekView,
)
from runtime.jobmaster.status import TaskSnapshot
from runtime.task.messages import (
    EdgePeeked,
    JobMasterMessage,
    PeekedElement,
    StartPeek,
    StopPeek,
    TaskState,
)
from runtime.task.peek_values import MAX_ROW_CHARS
from runtime.task.peeks import MAX_PEEKS
from runtime.testing.clock import ManualClock
from tests.execution.jobs import numbers
from tests.task.rigs import environment

ONE, TWO = SlotId(0), SlotId(1)
ATTEMPT = Attempt(3)
LEASE_MS = 30_000


def row(text: str = "1", kind: str = "row") -> PeekedElement:
    return PeekedElement(kind, 0, 7, None, None, text, "", False)


class Rig:
    """A job of two chained operators in two subtasks, and an edge behind them."""

    def __init__(self, options: dict[str, str] | None = None) -> None:
        env = environment(2, options)
        mapped = numbers(env, 9).map(abs, Types.LONG()).name("map")
        mapped.rebalance().map(abs, Types.LONG()).print()
        graph = env.create_job_graph("job")
        self.writer, self.reader = graph.vertices[0].vertex_id, graph.vertices[1].vertex_id
        self.edge = graph.edges[0].edge_id
        self.chained = graph.vertices[0].operators[1].operator_id
        self.clock = ManualClock(5_000)
        self.sent: list[tuple[SlotId, Attempt, JobMasterMessage]] = []
        self.peeks = JobPeeks(graph, lambda *message: self.sent.append(message), self.clock)

    def tasks(self, attempt: Attempt = ATTEMPT, state: TaskState = TaskState.RUNNING) -> list[TaskSnapshot]:
        places = [(self.writer, 0, ONE), (self.writer, 1, TWO), (self.reader, 0, ONE), (self.reader, 1, TWO)]
        return [TaskSnapshot(TaskId(vertex, index), "task", slot, state, {}, attempt) for vertex, index, slot in places]

    def renew(
        self, peek_id: str = "p", edge: Any = None, tasks: list[TaskSnapshot] | None = None, **changed: Any
    ) -> PeekView | None:
        fields: dict[str, Any] = {"subtasks": (), "rows_per_second": 20, "lease_ms": LEASE_MS} | changed
        request = PeekRequest(peek_id, self.edge if edge is None else edge, **fields)
        self.peeks.renew(request, self.tasks() if tasks is None else tasks)
        return next((view for view in self.peeks.views() if view.peek_id == peek_id), None)

    def answer(self, *elements: PeekedElement, slot: SlotId = ONE, attempt: Attempt = ATTEMPT) -> PeekView:
        self.peeks.take(EdgePeeked(slot, attempt, "p", elements, 100, 1))
        return self.peeks.views()[0]


def test_each_slot_that_writes_to_the_edge_is_asked_and_the_rows_are_shared_out() -> None:
    rig = Rig()
    view = rig.renew()
    assert view is not None and (view.subtasks, view.problem) == ([0, 1], "")
    asked = [(slot, attempt) for slot, attempt, _ in rig.sent]
    assert asked == [(ONE, ATTEMPT), (TWO, ATTEMPT)]
    message = rig.sent[0][2]
    assert isinstance(message, StartPeek)
    assert (message.vertex_id, message.edge, message.subtasks) == (rig.writer, rig.edge, (0, 1))
    # of two subtasks ten rows a second each
    assert (message.interval_ms, message.lease_ms) == (100.0, LEASE_MS)


def test_an_edge_of_a_chain_is_known_by_the_operator_that_it_leads_to() -> None:
    rig = Rig()
    rig.renew(edge=rig.chained, subtasks=(1,), rows_per_second=5)
    [(slot, _, message)] = rig.sent
    assert isinstance(message, StartPeek)
    assert (slot, message.vertex_id, message.edge, message.interval_ms) == (TWO, rig.writer, rig.chained, 200.0)


def test_a_rate_beyond_the_limit_is_the_limit() -> None:
    rig = Rig()
    rig.renew(subtasks=(0,), rows_per_second=1_000_000, lease_ms=10**9)
    [(_, _, message)] = rig.sent
    assert isinstance(message, StartPeek) and (message.interval_ms, message.lease_ms) == (50.0, 30_000)


def test_elements_are_numbered_on_from_leader_to_leader() -> None:
    rig = Rig()
    rig.renew()
    view = rig.answer(row("1"), row("2", "watermark"))
    assert [number for number, _ in view.elements] == [5_000, 5_001]
    assert (view.num_rows, view.num_dropped) == (100, 1)
    later = Rig()
    later.clock.advance(60_000)
    later.renew()
    assert later.answer(row()).elements[0].number > 5_001


def test_only_the_newest_are_kept() -> None:
    rig = Rig()
    rig.renew()
    for _ in range(10):
        view = rig.answer(*[row() for _ in range(100)])
    assert [number for number, _ in view.elements] == list(range(6_000 - MAX_ELEMENTS, 6_000))
    for _ in range(100):
        view = rig.answer(row("x" * MAX_ROW_CHARS))
    assert sum(len(element.text) for _, element in view.elements) <= MAX_CHARS


def test_what_no_slot_of_ours_would_say_is_dropped() -> None:
    rig = Rig()
    rig.renew()
    strange = [replace(row(), row_kind="+I" * 1_000_000), replace(row(), subtask=2)]
    view = rig.answer(row("x", "<script>"), row("x" * (MAX_ROW_CHARS + 1)), *strange, row())
    assert (len(view.elements), view.num_dropped) == (1, 5)


@pytest.mark.parametrize("stranger", [{"attempt": Attempt(4)}, {"slot": SlotId(9)}])
def test_who_was_not_asked_is_not_heard(stranger: dict[str, Any]) -> None:
    rig = Rig()
    rig.renew()
    assert rig.answer(row(), **stranger).elements == []


def test_a_peek_ends_with_its_lease_and_without_a_word_to_the_slots() -> None:
    rig = Rig()
    rig.renew()
    rig.clock.advance(LEASE_MS - 1)
    rig.renew()
    rig.clock.advance(LEASE_MS - 1)
    assert [view.lease_ms for view in rig.peeks.views()] == [1.0]
    rig.clock.advance(1)
    assert not rig.peeks.views()
    assert {type(message) for _, _, message in rig.sent} == {StartPeek}


def test_a_peek_that_is_stopped_ends_in_the_slots() -> None:
    rig = Rig()
    rig.renew()
    rig.sent.clear()
    rig.peeks.stop("p")
    rig.peeks.stop("p")
    assert rig.sent == [(ONE, ATTEMPT, StopPeek("p")), (TWO, ATTEMPT, StopPeek("p"))]
    assert not rig.peeks.views()


def test_the_next_renewal_asks_the_slots_of_a_new_attempt() -> None:
    rig = Rig()
    rig.renew()
    rig.answer(row())
    view = rig.renew(tasks=rig.tasks(state=TaskState.CANCELED))
    assert view is not None and view.problem == "none of the subtasks runs"
    rig.sent.clear()
    view = rig.renew(tasks=rig.tasks(Attempt(4)))
    assert view is not None and view.problem == ""
    assert [attempt for _, attempt, _ in rig.sent] == [4, 4]
    # what was seen before is still there
    assert len(rig.answer(row(), attempt=Attempt(4)).elements) == 2


@pytest.mark.parametrize("edge", [99, OperatorId("f" * 32), VertexId("")])
def test_an_edge_that_is_not_there_is_said(edge: Any) -> None:
    rig = Rig()
    view = rig.renew(edge=edge)
    assert view is not None and view.problem == "the job has no such edge"
    assert rig.sent == []


@pytest.mark.parametrize("options", [{"web.peek.enable": "false"}, {"execution.mode": "micro-batch"}])
def test_a_job_that_cannot_be_looked_into_says_so(options: dict[str, str]) -> None:
    rig = Rig(options)
    view = rig.renew()
    assert view is not None and view.problem != "" and rig.sent == []


def test_a_peek_waits_for_others_to_end_if_there_are_many() -> None:
    rig = Rig()
    for number in range(MAX_PEEKS):
        rig.renew(str(number))
    view = rig.renew("p")
    assert view is not None and view.problem.startswith(f"{MAX_PEEKS} peeks at this job are open")
    rig.peeks.stop("0")
    view = rig.renew("p")
    assert view is not None and view.problem == ""
    for number in range(2 * MAX_KNOWN):
        rig.renew(f"more {number}")
    assert len(rig.peeks.views()) == MAX_KNOWN
