"""`tidemark exceptions`: what it prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.client.fake_cluster import JOB_ID, FakeCluster

Tidemark = Callable[..., int]
Captured = pytest.CaptureFixture[str]
PATH = f"/api/v1/jobs/{JOB_ID}/failures"


def occurrence(attempt: int, *beside: str) -> dict[str, Any]:
    return {
        "timestamp": 1_700_000_000_000 + attempt,
        "attempt": attempt,
        "task_name": "window (1/2)",
        "location": "host:1",
        "message": "no such key",
        "others": 0,
        "beside": [{"kind": "checkpoint", "timestamp": 1_700_000_000_000, "text": text} for text in beside],
    }


GROUP = {
    "name": "KeyError",
    "message": "no such key",
    "vertex": "w",
    "vertex_name": "window",
    "place": "job.py:41",
    "count": 5,
    "first": 1_700_000_000_000,
    "last": 1_700_000_000_009,
    "occurrences": [occurrence(9, "checkpoint 12 failed"), *(occurrence(n) for n in (8, 7, 6, 5))],
}


def test_equal_failures_are_told_once(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.answers = {f"GET {PATH}": (200, {"groups": [GROUP], "kept": 5, "total": 7})}
    assert tidemark("exceptions", "three numbers") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "The newest 5 of 7 failures; older ones are not kept."
    assert lines[1:3] == ["5 x KeyError in window, job.py:41", "  no such key"]
    assert lines[3].startswith("  first 20")
    assert lines[4].endswith("attempt 9 on host:1")
    assert lines[5].endswith("checkpoint 12 failed")
    assert len(lines) == 8, "of a group the newest three are shown"
    assert tidemark("exceptions", "three numbers", "--json") == 0
    assert json.loads(capsys.readouterr().out)["groups"] == [GROUP]


def test_a_job_that_never_failed_says_so(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.answers = {f"GET {PATH}": (200, {"groups": [], "kept": 0, "total": 0})}
    assert tidemark("exceptions", "three numbers") == 0
    assert capsys.readouterr().out == "Nothing has failed in this job.\n"
