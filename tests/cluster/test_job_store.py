"""Rows of jobs: what users' code says comes into them, whatever it is. `test_postgresql` runs this, too."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from backend.cluster import services
from backend.cluster.job_store import JobStore
from backend.cluster.leadership import LeadershipLostError
from backend.cluster.models import Job, Operation
from backend.cluster.open_stops import left_stop
from backend.cluster.storable import storable
from tests.cluster.graphs import graph_json
from tests.cluster.leading import take_leadership

pytestmark = pytest.mark.django_db

BAD = "bad \0 and \ud800 record"
STORED = "bad \ufffd and \ufffd record"


def failure(attempt: int) -> dict[str, Any]:
    return {
        "timestamp": 1,
        "name": BAD,
        "message": BAD,
        "stacktrace": BAD,
        "task_name": BAD,
        "location": "",
        "taskmanager": "",
        "attempt": attempt,
        "suppressed": [{"name": BAD, "message": BAD, "task_name": BAD}],
    }


def test_the_row_of_a_job_takes_every_text_and_every_number(home: Path) -> None:
    store, job = JobStore(take_leadership("leader")), services.submit_job(graph_json(1), None, [], {}, None)
    asked = services.request_operation(job, Operation.Kind.SAVEPOINT, {}, None)
    assert store.take(job)
    job.state, job.ended_at, job.waiting_for = "FAILED", 5, BAD
    job.failure = {"message": BAD, "stacktrace": BAD, "timestamp": 5}
    job.document = {"id": job.id, "failure": BAD, "shares": [math.nan, {BAD: math.inf}], "lag": -math.inf, "ok": 1.5}
    assert store.save(job, [failure(0)], {asked.trigger_id: {"error": BAD}})
    row = Job.objects.get(id=job.id)
    assert (row.state, row.waiting_for) == ("FAILED", STORED)
    assert row.failure == {"message": STORED, "stacktrace": STORED, "timestamp": 5}
    shares = ["NaN", {STORED: "Infinity"}]
    assert row.document == {"id": job.id, "failure": STORED, "shares": shares, "lag": "-Infinity", "ok": 1.5}
    [known] = store.known_exceptions(row)
    assert {known[name] for name in ("name", "message", "stacktrace", "task_name")} == {STORED}
    assert known["suppressed"] == [{"name": STORED, "message": STORED, "task_name": STORED}]
    asked.refresh_from_db()
    assert asked.result == {"error": STORED}


def test_failures_are_in_the_order_of_attempts_whatever_the_clocks_of_leaders_said() -> None:
    store, job = JobStore(take_leadership("leader")), services.submit_job(graph_json(1), None, [], {}, None)
    assert store.take(job)
    assert store.save(job, [failure(0) | {"timestamp": 3_600_000}, failure(1), failure(2) | {"timestamp": 60_000}])
    assert [entry["attempt"] for entry in store.known_exceptions(job)] == [2, 1, 0]
    assert [row.attempt for row in services.list_exceptions(job)] == [2, 1, 0]


def test_what_can_be_stored_stays_as_it_is() -> None:
    document = {"a": [None, True, 3, 2.5, "\U0001f30a"], "b": {"c": ""}}
    assert storable(document) == document
    assert storable((1, {2: Path("x")})) == [1, {"2": "x"}]


def test_a_stop_whose_savepoint_was_given_up_is_no_later_leaders_until_it_begins_anew(home: Path) -> None:
    store, job = JobStore(take_leadership("leader")), services.submit_job(graph_json(1), None, [], {}, None)
    assert store.take(job)
    store.give_up_stop(job.id)
    asked = services.request_operation(job, Operation.Kind.STOP, {}, None)
    asked.progress = {"directory": "file:///saved/savepoint-1", "attempt": 0}
    assert store.begin(asked) and left_stop(job.id) == "file:///saved/savepoint-1"
    store.give_up_stop(job.id)
    assert left_stop(job.id) is None
    asked.refresh_from_db()
    assert asked.progress["directory"] == "file:///saved/savepoint-1", "what is left of it is looked at all the same"
    asked.progress = {"directory": "file:///saved/savepoint-2", "attempt": 1}
    assert store.begin(asked) and left_stop(job.id) == "file:///saved/savepoint-2"
    take_leadership("another leader")
    with pytest.raises(LeadershipLostError):
        store.give_up_stop(job.id)
    assert left_stop(job.id) == "file:///saved/savepoint-2"
