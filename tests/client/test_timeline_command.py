"""`tidemark timeline`: what it prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.client.fake_cluster import JOB_ID, FakeCluster

Tidemark = Callable[..., int]
Captured = pytest.CaptureFixture[str]
BEGIN = 1_700_000_000_000
TIMELINE: dict[str, Any] = {
    "begin": BEGIN,
    "is_cut": False,
    "now": BEGIN + 90_000,
    "states": [
        {"state": "CREATED", "attempt": None, "begin": BEGIN, "end": BEGIN + 2_000, "cause": ""},
        {"state": "FAILING", "attempt": 0, "begin": BEGIN + 40_000, "end": BEGIN + 41_000, "cause": "no such key"},
        {"state": "RUNNING", "attempt": 1, "begin": BEGIN + 41_000, "end": None, "cause": ""},
    ],
    "events": [
        {"kind": "savepoint", "begin": BEGIN + 10_000, "end": BEGIN + 13_000, "text": "savepoint", "is_failed": False}
    ],
}


def test_states_and_events_are_told_in_their_order(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.answers = {f"GET /api/v1/jobs/{JOB_ID}/timeline": (200, TIMELINE)}
    assert tidemark("timeline", "three numbers") == 0
    created, savepoint, failing, running = capsys.readouterr().out.splitlines()
    assert "CREATED, " in created
    assert "savepoint, took" in savepoint
    assert failing.endswith("no such key") and "FAILING, attempt 0" in failing
    assert "RUNNING, attempt 1, so far" in running
    assert tidemark("timeline", "three numbers", "--json") == 0
    assert json.loads(capsys.readouterr().out) == TIMELINE


def test_it_says_that_it_does_not_tell_of_the_whole_job(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured
) -> None:
    cluster.answers = {f"GET /api/v1/jobs/{JOB_ID}/timeline": (200, TIMELINE | {"is_cut": True})}
    assert tidemark("timeline", "three numbers") == 0
    first, created, *_ = capsys.readouterr().out.splitlines()
    assert first.endswith("what was before is no longer kept")
    assert "CREATED, " in created
