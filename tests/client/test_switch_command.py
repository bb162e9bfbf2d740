"""`tidemark switch`: it asks the cluster once, and tells what becomes of the switch."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from runtime.client import watch
from tests.client.fake_cluster import JOB_ID, FakeCluster

Tidemark = Callable[..., int]
Captured = pytest.CaptureFixture[str]
ROUTE = f"/api/v1/jobs/{JOB_ID}/switch"
NEW_ID, OLD_AGAIN = "cd" * 16, "01" * 16


def switch(state: str, **fields: Any) -> dict[str, Any]:
    """An answer about a switch."""
    base = {
        "id": "77" * 16,
        "execution": "micro-batch",
        "state": state,
        "message": "",
        "savepoint": None if state in ("CHECKED", "STOPPING") else "file:///sp",
        "old_job_id": JOB_ID,
        "job_id": None if state in ("CHECKED", "STOPPING") else NEW_ID,
        "goes_on_as": NEW_ID if state in ("SUBMITTED", "RUNNING") else None,
    }
    return base | fields


def posts(cluster: FakeCluster) -> list[tuple[str, Any]]:
    return [(path, body) for method, path, body in cluster.calls if method == "POST"]


def test_it_asks_for_the_switch_and_tells_its_way(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.switches = [switch(state) for state in ("CHECKED", "STOPPING", "STOPPING", "SUBMITTED", "RUNNING")]
    assert tidemark("switch", JOB_ID, "micro-batch", "--json") == 0
    ((path, body),) = posts(cluster)
    assert path == ROUTE and body.pop("execution") == "micro-batch" and len(body.pop("key")) == 32 and not body
    told = capsys.readouterr()
    assert json.loads(told.out) == {
        "jobid": NEW_ID,
        "stopped": JOB_ID,
        "location": "file:///sp",
        "execution": "micro-batch",
    }
    lines = told.err.splitlines()
    assert [line.split()[0] for line in lines] == ["The", "Suspending", "Savepoint:", "Starting"]


def test_a_switch_that_is_rolled_back_says_why_and_what_runs(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured
) -> None:
    why = "the new job has failed: no such table"
    back = {"message": why, "goes_on_as": None}
    cluster.switches = [
        switch("CHECKED"),
        switch("ROLLING_BACK", **back),
        switch("ROLLED_BACK", **back | {"goes_on_as": OLD_AGAIN}),
    ]
    assert tidemark("switch", JOB_ID, "micro-batch") == 1
    told = capsys.readouterr()
    assert why in told.err and OLD_AGAIN in told.err and "file:///sp" in told.err
    assert "Going back" in told.out


@pytest.mark.parametrize("savepoint", [None, "file:///sp"])
def test_a_switch_that_fails_says_where_the_savepoint_is(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured, savepoint: str | None
) -> None:
    cluster.switches = [switch("CHECKED"), switch("FAILED", message="no slots", savepoint=savepoint)]
    assert tidemark("switch", JOB_ID, "micro-batch") == 1
    told = capsys.readouterr().err
    assert "no slots" in told and ("file:///sp" in told) is (savepoint is not None)


def test_what_the_cluster_refuses_is_told(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    why = "The execution of the job is continuous already."
    cluster.answers = {f"POST {ROUTE}": (409, {"errors": [{"code": "conflict", "field": "", "message": why}]})}
    assert tidemark("switch", JOB_ID, "continuous") == 1
    assert why in capsys.readouterr().err and len(posts(cluster)) == 1


def test_a_request_whose_answer_is_lost_is_the_same_when_it_is_sent_again(
    tidemark: Tidemark, cluster: FakeCluster
) -> None:
    cluster.switches = [switch("CHECKED"), switch("RUNNING")]
    cluster.outages = [0, 503]
    assert tidemark("switch", JOB_ID, "micro-batch") == 0
    keys = [body["key"] for _, body in posts(cluster)]
    assert len(keys) == 3 and len(set(keys)) == 1


def test_a_server_that_is_away_while_it_waits_is_borne(tidemark: Tidemark, cluster: FakeCluster) -> None:
    # the request is answered before the outages begin
    cluster.refused_once = {f"POST {ROUTE}": (202, switch("CHECKED"))}
    cluster.switches = [switch("STOPPING"), switch("RUNNING")]
    cluster.outages = [0, 503]
    assert tidemark("switch", JOB_ID, "micro-batch") == 0
    assert len(posts(cluster)) == 1


def test_an_interrupted_command_says_that_the_switch_goes_on(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(watch.StaleNews, "show", interrupted)
    cluster.switches = [switch("CHECKED"), switch("STOPPING")]
    assert tidemark("switch", JOB_ID, "micro-batch") == 130
    assert "goes on without this command" in capsys.readouterr().out
    assert len(posts(cluster)) == 1


def test_another_switch_that_has_followed_is_not_taken_for_this_one(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured
) -> None:
    cluster.switches = [switch("CHECKED"), switch("RUNNING", id="88" * 16)]
    assert tidemark("switch", JOB_ID, "micro-batch") == 1
    assert "another one" in capsys.readouterr().err
