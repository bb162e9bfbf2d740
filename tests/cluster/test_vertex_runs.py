"""Runs of the vertices of a job, attempt by attempt, as its live documents show them."""

from __future__ import annotations

from typing import Any

from backend.cluster.vertex_runs import MAX_RUNS, RUNS, VertexRuns, earlier_runs


def vertex(attempt: int, begin: int, end: int = -1, state: str = "RUNNING", name: str = "map") -> dict[str, Any]:
    subtasks = [{"attempt": attempt}, {"attempt": attempt}]
    return {"id": name, "state": state, "start_time": begin, "end_time": end, "subtasks": subtasks}


def document(now: int, *vertices: dict[str, Any]) -> dict[str, Any]:
    return {"now": now, "vertices": list(vertices)}


def run(attempt: int, begin: int, end: int | None, state: str) -> dict[str, Any]:
    return {"vertex": "map", "attempt": attempt, "state": state, "begin": begin, "end": end}


def test_a_run_is_over_when_a_later_attempt_begins() -> None:
    runs = VertexRuns(None)
    runs.note(document(110, vertex(0, 100)))
    runs.note(document(200, vertex(0, 100, 190, "FAILED")))
    # waits for slots
    runs.note(document(210, vertex(1, -1, state="CREATED")))
    assert runs.document() == [run(0, 100, 190, "FAILED")]
    runs.note(document(310, vertex(1, 300)))
    assert runs.document() == [run(0, 100, 190, "FAILED"), run(1, 300, None, "RUNNING")]


def test_what_ended_unseen_has_been_cancelled_by_the_next_attempt() -> None:
    runs = VertexRuns(None)
    runs.note(document(110, vertex(0, 100)))
    runs.note(document(310, vertex(1, 300)))
    assert runs.document()[0] == run(0, 100, 310, "CANCELED")


def test_a_region_that_restarts_alone_leaves_the_others_as_they_are() -> None:
    runs = VertexRuns(None)
    runs.note(document(110, vertex(0, 100), vertex(0, 101, name="other")))
    runs.note(document(300, vertex(1, 290), vertex(0, 101, name="other")))
    assert [(each["vertex"], each["attempt"]) for each in runs.document()] == [("map", 0), ("map", 1), ("other", 0)]


def test_the_next_leader_goes_on() -> None:
    first = VertexRuns(None)
    first.note(document(110, vertex(0, 100)))
    second = VertexRuns({RUNS: first.document()})
    second.note(document(120, vertex(0, 100)))
    assert second.document() == [run(0, 100, None, "RUNNING")]
    second.note(document(310, vertex(1, 300)))
    assert [each["attempt"] for each in second.document()] == [0, 1]


def test_only_the_newest_are_kept() -> None:
    runs = VertexRuns(None)
    for attempt in range(2 * MAX_RUNS):
        runs.note(document(10 * attempt, vertex(attempt, 10 * attempt)))
    kept = runs.document()
    assert len(kept) == MAX_RUNS + 1 and kept[-1]["attempt"] == 2 * MAX_RUNS - 1
    assert len(VertexRuns({RUNS: kept}).document()) == MAX_RUNS + 1


def test_the_run_of_the_newest_attempt_is_no_earlier_one() -> None:
    saved = {RUNS: [run(1, 300, None, "RUNNING"), run(0, 100, 190, "FAILED")]}
    assert earlier_runs(saved, document(310, vertex(1, 300))) == [run(0, 100, 190, "FAILED")]
    assert earlier_runs(None, document(310, vertex(1, 300))) == []
