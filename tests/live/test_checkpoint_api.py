"""/api/v1/jobs/:id/checkpoints/gantt."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rest_framework.test import APIClient

from backend.cluster import bus
from backend.cluster.checkpoint_document import TRACES
from backend.cluster.models import Job
from backend.live.checkpoint_api import text_of
from tests.dispatcher import rows

pytestmark = pytest.mark.usefixtures("bus_redis")

SUBTASKS = [{"name": "window", "index": 3}, {"name": "window", "index": 1}]


def path(job: Job) -> str:
    return f"/api/v1/jobs/{job.id}/checkpoints/gantt"


def text(**changed: Any) -> str:
    trace = {"status": "COMPLETED", "num_subtasks": 4, "num_acknowledged_subtasks": 4, "duration": 4_200}
    return text_of(trace | changed, SUBTASKS)


def test_the_last_checkpoints_come_newest_first_with_the_slowest_subtask_first(db: None, api: APIClient) -> None:
    answer = api.get(path(rows.running_job())).json()["checkpoints"]
    assert [(c["id"], c["status"]) for c in answer] == [
        (4, "IN_PROGRESS"),
        (3, "COMPLETED"),
        (2, "FAILED"),
        (1, "COMPLETED"),
    ]
    first = answer[3]
    assert [(s["name"], s["index"], s["end_to_end_duration"]) for s in first["subtasks"]] == [
        ("window: count -> sink", 0, 40),
        ("Source: flights -> parse", 0, 30),
        ("window: count -> sink", 1, 20),
    ]
    assert first["subtasks"][0]["phases"] == {
        "start-delay": 2.0,
        "alignment": 0.0,
        "sync": 1.6,
        "async": 3.2,
        "rest": 33.2,
    }
    assert (first["duration"], first["commit_duration"]) == (55, 15)
    assert first["lost_in"] == {"phase": "rest", "duration": 33.2}
    running, failed = answer[0], answer[2]
    assert "duration" not in running and "lost_in" not in running
    assert (failed["failure_message"], failed["duration"]) == ("it took too long", 500)
    assert failed["subtasks"][0] == {
        "vertex": rows.SOURCE,
        "name": "Source: flights -> parse",
        "index": 0,
        "is_unaligned": False,
        "phases": {},
    }


def test_fewer_can_be_asked_for(db: None, api: APIClient) -> None:
    job = rows.running_job()
    assert [c["id"] for c in api.get(path(job), {"last": 2}).json()["checkpoints"]] == [4, 3]
    for wrong in ("0", "61", "x"):
        assert api.get(path(job), {"last": wrong}).status_code == 400


def test_what_the_leader_publishes_counts_before_what_was_saved(db: None, api: APIClient, bus_redis: object) -> None:
    job = rows.running_job()
    [newest, *_] = sorted((job.document or {})[TRACES].values(), key=lambda trace: -trace["id"])
    key = bus.TRACES_KEY.format(job.id)
    try:
        bus.client().hset(key, "12", json.dumps(newest | {"id": 12}))
        assert [c["id"] for c in api.get(path(job)).json()["checkpoints"]] == [12]
    finally:
        bus.client().delete(key)


def test_a_job_without_checkpoints_has_none(db: None, api: APIClient) -> None:
    assert api.get(path(rows.submitted_job())).json() == {"checkpoints": []}
    assert api.get("/api/v1/jobs/" + "f" * 32 + "/checkpoints/gantt").status_code == 404


def test_the_sentence_says_where_the_time_was_lost() -> None:
    alignment, commit = ({"phase": phase, "duration": 3_912.3} for phase in ("alignment", "commit"))
    assert text(lost_in=alignment) == (
        "3.9 s of 4.2 s in subtask 3 of window, until the barriers of all its inputs were there"
    )
    assert text(lost_in=commit) == "3.9 s of 4.2 s after the last acknowledgement, until it was recorded"
    assert text(status="FAILED") == "all subtasks had acknowledged; it was not recorded"
    assert text(status="IN_PROGRESS") == "all subtasks have acknowledged; it is being recorded"


def test_the_sentence_says_who_has_not_acknowledged() -> None:
    assert text(num_acknowledged_subtasks=3, status="IN_PROGRESS") == "subtask 3 of window has not acknowledged yet"
    assert text(num_acknowledged_subtasks=1, status="IN_PROGRESS") == (
        "subtask 3 of window and 2 more have not acknowledged yet"
    )
    assert text(num_acknowledged_subtasks=2, status="FAILED") == "subtask 3 of window and 1 more had not acknowledged"
