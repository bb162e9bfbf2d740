"""A job's failures by cause, and the route that answers them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

import runtime
from backend.cluster.models import Operation
from backend.live.failure_groups import MAX_OCCURRENCES, Event, class_of, failure_groups, place_of
from tests.dispatcher import rows

WINDOW, SINK = "a" * 32, "b" * 32
VERTICES = [{"id": WINDOW, "name": "window"}, {"id": SINK, "name": "sink"}]
TRACE = """Traceback (most recent call last):
  File "job.py", line 41, in pick
    return flights[key]
KeyError: 'dep'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "{engine}/operators/mapping.py", line 9, in process
runtime.operators.errors.UserFunctionError: operator 'window' (subtask 1/2) failed on record 7: KeyError: 'dep'
operator 'window' is defined at job.py:12"""


def engine() -> str:
    return str(runtime.__path__[0])


def failure(attempt: int, at: int, **changed: Any) -> dict[str, Any]:
    return {
        "timestamp": at,
        "name": "runtime.operators.errors.UserFunctionError",
        "message": "operator 'window' failed\nand more",
        "stacktrace": TRACE.replace("{engine}", engine()),
        "task_name": "window (1/2)",
        "vertex": WINDOW,
        "location": "host:1",
        "attempt": attempt,
        "suppressed": [],
        **changed,
    }


def groups_of(*failures: dict[str, Any], events: tuple[Event, ...] = (), **document: Any) -> list[dict[str, Any]]:
    return failure_groups(
        {"vertices": VERTICES, "exceptions": failures, "start_time": 0, "failures": len(failures)} | document, events
    )


def test_a_failure_is_told_by_the_users_error_and_line() -> None:
    assert class_of(failure(1, 0)) == "KeyError"
    assert place_of(failure(1, 0)) == "job.py:41"


def test_without_a_line_of_the_users_it_is_that_of_the_definition_and_else_unknown() -> None:
    assert (
        place_of(failure(1, 0, stacktrace="", message="it broke (operator 'x' is defined at a/b.py:3)")) == "a/b.py:3"
    )
    assert place_of(failure(1, 0, stacktrace="", message="slot 1 was lost")) == ""
    assert class_of(failure(1, 0, name="SlotLost", stacktrace="slot 1 was lost")) == "SlotLost"


def test_equal_failures_are_one_group_and_the_newest_comes_first() -> None:
    other = failure(3, 300, name="SlotLost", stacktrace="slot 0 was lost", task_name="", vertex="")
    found = groups_of(failure(4, 400), other, failure(2, 200), failure(1, 100))
    assert [(g["name"], g["count"], g["first"], g["last"]) for g in found] == [
        ("KeyError", 3, 100, 400),
        ("SlotLost", 1, 300, 300),
    ]
    assert (found[0]["vertex_name"], found[0]["place"]) == ("window", "job.py:41")
    assert [o["attempt"] for o in found[0]["occurrences"]] == [4, 2, 1]
    assert found[0]["message"] == "operator 'window' failed"
    assert (found[1]["vertex"], found[1]["vertex_name"], found[1]["place"]) == ("", "", "")


def test_another_line_or_vertex_is_another_group() -> None:
    elsewhere = failure(2, 200, stacktrace=failure(1, 0)["stacktrace"].replace("line 41", "line 42"))
    assert len(groups_of(failure(1, 100), elsewhere, failure(3, 300, vertex=SINK))) == 3


def test_a_failure_that_an_earlier_leader_noted_is_known_by_the_name_of_its_task() -> None:
    old = {name: value for name, value in failure(1, 100).items() if name != "vertex"}
    [group] = groups_of(old, failure(2, 200))
    assert (group["count"], group["vertex"]) == (2, WINDOW)
    same = [{"id": WINDOW, "name": "window"}, {"id": SINK, "name": "window"}]
    [guessed] = groups_of(old, vertices=same)
    assert (guessed["vertex"], guessed["vertex_name"]) == ("", "window (1/2)")


def test_what_went_on_in_the_attempt_stands_beside_the_failure() -> None:
    lost = {"name": "SlotLost", "message": "slot 2 was lost", "task_name": ""}
    events = (
        Event("rescale", 150, 160, "rescaling"),
        Event("savepoint", 10, 50, "of the attempt before"),
        Event("checkpoint", 5_000, 5_100, "checkpoint 3 completed"),
        Event("checkpoint", 9_500, 10_000, "checkpoint 4 failed"),
        Event("checkpoint", 9_900, None, "checkpoint 5 in progress"),
        Event("stop", 20_000, None, "later"),
    )
    first, second = failure(1, 100), failure(2, 10_000, suppressed=[lost])
    [group] = groups_of(second, first, events=events)
    newest, oldest = group["occurrences"]
    assert [b["text"] for b in newest["beside"]] == [
        "slot 2 was lost",
        "checkpoint 5 in progress",
        "checkpoint 4 failed",
        "rescaling",
    ]
    assert [b["text"] for b in oldest["beside"]] == ["of the attempt before"]


def test_nothing_is_said_of_an_attempt_whose_begin_is_not_known() -> None:
    events = (Event("savepoint", 10, 50, "long before"), Event("rescale", 90, None, "goes on"))
    [group] = groups_of(failure(7, 100), events=events, failures=9)
    assert [b["text"] for b in group["occurrences"][0]["beside"]] == ["goes on"]


def test_a_document_of_many_failures_is_bounded() -> None:
    events = tuple(Event("rescale", 0, None, "x" * 300) for _ in range(200))
    many = [failure(n, n, message="m" * 10_000, stacktrace=TRACE + f"\n{n}" * 3_000) for n in range(116, 0, -1)]
    [group] = groups_of(*many, events=events)
    assert (group["count"], len(group["occurrences"])) == (116, MAX_OCCURRENCES)
    assert len(json.dumps(group)) < 100_000


@pytest.mark.usefixtures("bus_redis")
def test_the_route_answers_groups_with_the_operations_beside_them(db: None, api: APIClient, alice: User) -> None:
    job = rows.running_job()
    path = f"/api/v1/jobs/{job.id}/failures"
    assert api.get(path).json() == {"groups": [], "kept": 0, "total": 0}
    told = [failure(n, n, vertex=rows.SINK) for n in (job.created_at + 2_000, job.created_at + 1_000)]
    for attempt, each in zip((2, 1), told, strict=True):
        each["attempt"] = attempt
    job.document = (job.document or {}) | {"exceptions": told, "failures": 5}
    job.save()
    parameters = {"parallelism": {rows.SINK: 3}}
    Operation.objects.create(
        job=job, kind="rescale", parameters=parameters, created_at=job.created_at + 1_500, requested_by=alice
    )
    answer = api.get(path).json()
    assert (answer["kept"], answer["total"]) == (2, 5)
    [group] = answer["groups"]
    assert (group["count"], group["vertex_name"]) == (2, "window: count -> sink")
    assert [b["text"] for b in group["occurrences"][0]["beside"] if b["kind"] == "rescale"] == [
        f"rescaling of window: count -> sink to 3, asked for by {alice.username}, goes on"
    ]
    assert api.get("/api/v1/jobs/" + "f" * 32 + "/failures").status_code == 404
