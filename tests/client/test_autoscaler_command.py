"""`tidemark autoscaler`: what it asks, what it prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.client.fake_cluster import JOB_ID, FakeCluster

Tidemark = Callable[..., int]
Captured = pytest.CaptureFixture[str]
PATH = f"/api/v1/jobs/{JOB_ID}/autoscaler"
OFF: dict[str, Any] = {"enabled": False, "switched": False, "reason": "", "vertices": {}, "decisions": []}
DECIDED = {
    "id": 7,
    "decided_at": 1_700_000_000_000,
    "reason": "rescaling map from 1 to 2",
    "cost_ms": 2_140.0,
    "changes": {"ef" * 16: {"name": "map", "before": 1, "after": 2, "reason": "Busy 95%."}},
}
ON = {
    "enabled": True,
    "switched": None,
    "reason": "cooldown: 12 s left",
    "vertices": {"cd" * 16: {"wanted": 3, "reason": "Busy 97%."}},
    "decisions": [DECIDED],
}


def test_the_decision_is_shown_with_its_reasons(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.answers = {f"GET {PATH}": (200, ON)}
    assert tidemark("autoscaler", "three numbers") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "The autoscaler is on: cooldown: 12 s left."
    assert lines[1] == "  Source: numbers -> Sink: print: 3. Busy 97%."
    assert lines[2].endswith("rescaling map from 1 to 2, which took 2.1 s")
    assert lines[3] == "  map: Busy 95%."


@pytest.mark.parametrize(("word", "sent"), [("on", True), ("off", False), ("auto", None)])
def test_it_is_switched(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured, word: str, sent: bool | None
) -> None:
    cluster.answers = {f"PUT {PATH}": (200, OFF)}
    assert tidemark("autoscaler", JOB_ID, word) == 0
    assert ("PUT", PATH, {"enabled": sent}) in cluster.calls
    assert capsys.readouterr().out == "The autoscaler is off.\n"


def test_json_is_the_servers_answer(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.answers = {f"GET {PATH}": (200, ON)}
    assert tidemark("autoscaler", JOB_ID, "--json") == 0
    assert json.loads(capsys.readouterr().out) == ON


def test_a_refusal_is_one_line(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.answers = {f"PUT {PATH}": (409, {"errors": [{"message": "the job has ended"}]})}
    assert tidemark("autoscaler", JOB_ID, "on") == 1
    assert capsys.readouterr().err == "tidemark: the job has ended\n"
