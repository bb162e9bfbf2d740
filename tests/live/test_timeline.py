"""A job's timeline, and the route that answers it."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from backend.cluster.models import Job, JobException, Operation, Scaling
from backend.cluster.state_history import MAX_CHANGES, STATES
from backend.cluster.vertex_runs import RUNS
from backend.live.failure_groups import Event
from backend.live.job_events import failures_of, operation_event
from backend.live.timeline import MAX_EVENTS, timeline
from tests.dispatcher import rows

RUNNING: dict[str, Any] = {"start_time": 1_000, "end_time": -1, "now": 9_000, "exceptions": []}
CHANGES: list[dict[str, Any]] = [
    {"state": "RUNNING", "attempt": 0, "begin": 2_000, "cause": ""},
    {"state": "RESTARTING", "attempt": 0, "begin": 5_000, "cause": "broke"},
    {"state": "RUNNING", "attempt": 1, "begin": 6_000, "cause": ""},
]


def spans(told: dict[str, Any]) -> list[tuple[str, int | None, int, int | None]]:
    return [(s["state"], s["attempt"], s["begin"], s["end"]) for s in told["states"]]


def test_each_state_lasts_until_the_next_one_and_the_last_one_goes_on() -> None:
    times = {"INITIALIZING": 1_000, "RUNNING": 6_020, "RESTARTING": 5_010}
    told = timeline(RUNNING, CHANGES, times, (), 9_500)
    assert (told["begin"], told["now"]) == (1_000, 9_500)
    assert spans(told) == [
        ("INITIALIZING", None, 1_000, 2_000),
        ("RUNNING", 0, 2_000, 5_000),
        ("RESTARTING", 0, 5_000, 6_000),
        ("RUNNING", 1, 6_000, None),
    ]
    assert told["states"][2]["cause"] == "broke"


def test_it_begins_with_the_oldest_change_that_is_kept() -> None:
    """Of what was before, the times at which states were last entered tell nothing: it was no CREATED for hours."""
    hour = 3_600_000
    changes: list[dict[str, Any]] = [
        {"state": state, "attempt": n, "begin": 11 * hour + 1_000 * n + ms, "cause": ""}
        for n in range(MAX_CHANGES // 2)
        for state, ms in (("RUNNING", 0), ("RESTARTING", 500))
    ]
    earlier = {"state": "RESTARTING", "attempt": 0, "begin": 11 * hour - 500, "cause": ""}
    begin, last = changes[0]["begin"], changes[-1]["begin"]
    times = {"INITIALIZING": 1_000, "CREATED": 1_500, "RUNNING": last - 490, "RESTARTING": last + 10}
    events = [Event("savepoint", 5_000, 5_100, "early"), Event("stop", begin - 10, begin + 10, "across")]
    told = timeline(RUNNING, [earlier, *changes], times, events, 12 * hour)
    assert (told["begin"], told["is_cut"]) == (begin, True)
    assert [span[2] for span in spans(told)] == [change["begin"] for change in changes]
    assert [event["text"] for event in told["events"]] == ["across"]
    # a state that only the row knows pushes out the oldest one
    suspended = timeline(RUNNING, [earlier, *changes], times | {"SUSPENDED": last + 5_000}, events, 12 * hour)
    assert (len(suspended["states"]), suspended["begin"]) == (MAX_CHANGES, changes[1]["begin"])
    whole = timeline(RUNNING, changes, times, events, 12 * hour)
    assert (whole["begin"], whole["is_cut"], len(whole["events"])) == (1_000, False, 2)
    assert [span[0] for span in spans(whole)][:3] == ["INITIALIZING", "CREATED", "RUNNING"]


def test_a_job_that_ended_without_a_state_machine_has_its_last_state() -> None:
    told = timeline(RUNNING | {"end_time": 8_000}, CHANGES, {"FAILED": 8_000}, (), 99_000)
    assert spans(told)[-2:] == [("RUNNING", 1, 6_000, 8_000), ("FAILED", None, 8_000, 8_000)]
    assert told["now"] == 8_000


def test_a_job_that_nobody_has_taken_yet_has_its_row_only() -> None:
    assert spans(timeline(RUNNING, [], {}, (), 9_000)) == []
    assert spans(timeline(RUNNING, [], {"INITIALIZING": 1_000}, (), 9_000)) == [("INITIALIZING", None, 1_000, None)]


def test_events_are_told_in_order_and_bounded() -> None:
    events = [Event("stop", 7_000, None, "stop, failed", is_failed=True), Event("savepoint", 4_000, 4_100, "savepoint")]
    told = timeline(RUNNING, CHANGES, {}, events, 9_000)["events"]
    assert [(e["kind"], e["begin"], e["end"], e["is_failed"]) for e in told] == [
        ("savepoint", 4_000, 4_100, False),
        ("stop", 7_000, None, True),
    ]
    many = [Event("savepoint", n, n, "") for n in range(300)]
    bounded = timeline(RUNNING, CHANGES, {}, many, 9_000)["events"]
    assert (len(bounded), bounded[-1]["begin"]) == (MAX_EVENTS, 299)


def test_all_failures_that_are_kept_are_told_and_those_that_are_in_no_row_yet(db: None) -> None:
    job = rows.running_job()
    for number in range(31):
        JobException.objects.create(
            job=job, name="ValueError", stacktrace="", timestamp=1_000 + number, attempt=number, task_name="map (1/2)"
        )
    in_document = [
        {"name": "KeyError", "stacktrace": "", "timestamp": 1_000 + number, "attempt": number, "task_name": ""}
        for number in (29, 30, 31)
    ]
    told = sorted(failures_of(job, {"exceptions": in_document}), key=lambda event: event.begun)
    assert len(told) == 32 and all(event.is_failed for event in told)
    assert told[0].text == "attempt 0 failed: ValueError in map (1/2)"
    assert told[-1].text == "attempt 31 failed: KeyError"


@pytest.mark.parametrize(
    ("before", "text"),
    [
        ({"m": 2}, "rescaling of map from 2 to 4"),
        # requested of an earlier release
        ({}, "rescaling of map to 4"),
    ],
    ids=["told", "not told"],
)
def test_a_rescaling_tells_what_was_before(db: None, before: dict[str, int], text: str) -> None:
    parameters = {"parallelism": {"m": 4}} | ({"before": before} if before else {})
    row = Operation(kind="rescale", parameters=parameters, created_at=10, finished_at=30, state="COMPLETED", result={})
    event = operation_event(row, {"m": "map"})
    assert (event.text, event.ended) == (text, 30)


def run_of(job: Job, attempt: int) -> dict[str, Any]:
    begin = job.state_times["RUNNING"]
    return {"vertex": rows.SINK, "attempt": attempt, "state": "FAILED", "begin": begin, "end": begin + 100}


@pytest.mark.usefixtures("bus_redis")
def test_runs_of_earlier_attempts_are_told(db: None, api: APIClient) -> None:
    job = rows.running_job()
    document = job.document or {}
    for vertex in document["vertices"]:
        vertex["subtasks"] = [subtask | {"attempt": 2} for subtask in vertex["subtasks"]]
    job.document = document | {RUNS: [run_of(job, 0), run_of(job, 1), run_of(job, 2)]}
    job.save()
    told = api.get(f"/api/v1/jobs/{job.id}/timeline").json()["runs"]
    assert told == [run_of(job, 0), run_of(job, 1)]


@pytest.mark.usefixtures("bus_redis")
def test_the_route_answers_operations_and_rescalings(db: None, api: APIClient, alice: User) -> None:
    job = rows.running_job()
    job.document = (job.document or {}) | {
        STATES: [{"state": "RUNNING", "attempt": 0, "begin": job.state_times["RUNNING"], "cause": ""}],
        RUNS: [run_of(job, 0)],
    }
    job.save()
    Operation.objects.create(
        job=job,
        kind="savepoint",
        created_at=job.created_at + 10,
        finished_at=job.created_at + 30,
        state="COMPLETED",
        result={"error": "no space"},
    )
    change = {"name": "sink", "before": 1, "after": 2, "reason": "Busy."}
    Scaling.objects.create(
        job=job, decided_at=job.created_at + 20, stamp="2026-01-01T00:00Z", reason="", changes={"x": change}, cost_ms=5
    )
    path = f"/api/v1/jobs/{job.id}/timeline"
    told = api.get(path).json()
    assert [(s["state"], s["attempt"]) for s in told["states"]] == [
        ("INITIALIZING", None),
        ("CREATED", None),
        ("RUNNING", 0),
    ]
    # that of the newest attempt is in the live document
    assert told["runs"] == []
    assert [(e["kind"], e["text"], e["is_failed"]) for e in told["events"]] == [
        ("savepoint", "savepoint, failed: no space", True),
        ("autoscaler", "autoscaler: sink from 1 to 2", False),
    ]
    assert api.get("/api/v1/jobs/" + "f" * 32 + "/timeline").status_code == 404
