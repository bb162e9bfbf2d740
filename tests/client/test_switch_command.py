"""`tidemark switch`: what it asks for, in which order, and what becomes of the job if that is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.client.fake_cluster import JOB_ID, FakeCluster, document

Tidemark = Callable[..., int]
Captured = pytest.CaptureFixture[str]
PIPELINE = f"GET /api/v1/pipelines/jobs/{JOB_ID}"
RUN = "POST /v1/jars/counts.py/run"
PROGRAM = {
    "id": "counts.py",
    "name": "counts.py",
    "args": ["--rate", "5"],
    "entry": None,
    "parallelism": 2,
    "configuration": {"pipeline.name": "counts", "python.requirements": "six==1.17.0\nidna==3.11"},
    "hidden": [],
}


@pytest.fixture
def running(cluster: FakeCluster) -> FakeCluster:
    """A continuous job of an uploaded program."""
    cluster.answers = {PIPELINE: (200, {"drawn": None})}
    offer(cluster)
    cluster.batches = {"micro_batches": False, "batches": []}
    cluster.operations = [{"state": "COMPLETED", "result": {"location": "file:///sp", "checkpoint_id": 3}}]
    cluster.documents = [document(), document("FINISHED")]
    return cluster


def offer(cluster: FakeCluster, **program: Any) -> None:
    points: dict[str, Any] = {"program": PROGRAM | program if program.get("id", "") is not None else None, "points": []}
    cluster.answers[f"GET /api/v1/jobs/{JOB_ID}/restore-points"] = (200, points)


def posts(cluster: FakeCluster) -> list[tuple[str, Any]]:
    return [(path, body) for method, path, body in cluster.calls if method == "POST"]


def test_it_stops_the_job_and_starts_its_program_from_the_savepoint(
    tidemark: Tidemark, running: FakeCluster, capsys: Captured
) -> None:
    assert tidemark("switch", JOB_ID, "micro-batch", "--json") == 0
    (stop, _), (run, body) = posts(running)
    assert stop.endswith(f"{JOB_ID}/stop") and run.endswith("counts.py/run")
    job_id = body.pop("jobId")
    assert body == {
        "programArgsList": ["--rate", "5"],
        "parallelism": 2,
        "flinkConfiguration": {"pipeline.name": "counts", "execution.mode": "micro-batch"},
        "pythonRequirements": ["six==1.17.0", "idna==3.11"],
        "savepointPath": "file:///sp",
        "allowNonRestoredState": False,
        "claimMode": "NO_CLAIM",
    }
    told = json.loads(capsys.readouterr().out)
    assert told == {"jobid": job_id, "stopped": JOB_ID, "location": "file:///sp", "execution": "micro-batch"}


def test_a_refused_start_leaves_the_job_as_it_was(tidemark: Tidemark, running: FakeCluster, capsys: Captured) -> None:
    running.refused_once[RUN] = (400, {"errors": ["micro-batches are switched off"]})
    assert tidemark("switch", JOB_ID, "micro-batch") == 1
    *_, (_, refused), (_, again) = posts(running)
    assert refused["flinkConfiguration"]["execution.mode"] == "micro-batch"
    assert "execution.mode" not in again["flinkConfiguration"] and again["savepointPath"] == "file:///sp"
    told = capsys.readouterr().err
    assert "switched off" in told and f"job {again['jobId']}" in told


def test_who_cannot_start_it_again_is_told_where_its_savepoint_is(
    tidemark: Tidemark, running: FakeCluster, capsys: Captured
) -> None:
    running.answers[RUN] = (400, {"errors": ["no more jobs are taken"]})
    assert tidemark("switch", JOB_ID, "micro-batch") == 1
    told = capsys.readouterr().err
    assert "no more jobs are taken" in told and "savepoint: file:///sp" in told


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ({"hidden": ["s3.secret-key"]}, "s3.secret-key"),
        ({"args": ["--password", "******"]}, "an argument"),
        ({"id": None}, "has been deleted"),
    ],
)
def test_what_cannot_be_started_again_is_not_stopped(
    tidemark: Tidemark, running: FakeCluster, capsys: Captured, program: dict[str, Any], why: str
) -> None:
    offer(running, **program)
    assert tidemark("switch", JOB_ID, "micro-batch") == 1
    assert why in capsys.readouterr().err and not posts(running)


def test_a_job_that_is_executed_so_already_is_left_alone(
    tidemark: Tidemark, running: FakeCluster, capsys: Captured
) -> None:
    assert tidemark("switch", JOB_ID, "continuous") == 1
    assert "already" in capsys.readouterr().err and not posts(running)


def test_a_drawn_job_is_redeployed_instead(tidemark: Tidemark, running: FakeCluster, capsys: Captured) -> None:
    running.answers[PIPELINE] = (200, {"drawn": {"pipeline": "p", "version": 1}})
    assert tidemark("switch", JOB_ID, "micro-batch") == 1
    assert "redeploy" in capsys.readouterr().err and not posts(running)
