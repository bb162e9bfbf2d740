"""/api/v1/jobs/:id/batches."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from backend.cluster.checkpoint_document import TRACES, trace_document
from backend.cluster.models import Job
from runtime.checkpoint.batch_trace import BatchTrace, SplitPosition
from runtime.checkpoint.trace import CheckpointTrace
from runtime.core.ids import CheckpointId, TaskId, VertexId
from tests.dispatcher import rows

pytestmark = pytest.mark.usefixtures("bus_redis")


def batch(**changed: Any) -> BatchTrace:
    values: dict[str, Any] = {
        "region": rows.SOURCE,
        "number": 6,
        "kind": "data",
        "time_ms": 1_000,
        "num_read": 10_000,
        "num_written": 12,
        "num_splits": 1,
        "has_caught_up": False,
        "plan_ms": 20.04,
        "run_ms": 310.0,
        "store_ms": 15.0,
        "commit_ms": 5.0,
        "spark_ms": {"walCommit": 12.0},
        "positions": [SplitPosition(TaskId(VertexId(rows.SOURCE), 1), "flights.csv", "4096")],
    }
    return BatchTrace(**values | changed)


def job_with(*batches: BatchTrace) -> Job:
    job = rows.running_job()
    document = job.document or {}
    document["checkpoints"]["config"]["micro_batches"] = True
    trace = CheckpointTrace(CheckpointId(7), "CHECKPOINT", 1_000, 1_300, 4, 4, (), 1_340, batches=batches)
    document[TRACES] = {"7": trace_document(trace), **document[TRACES]}
    job.save(update_fields=["document"])
    return job


def test_a_batch_says_what_it_has_read_and_where_its_time_went(db: None, api: APIClient) -> None:
    answer = api.get(f"/api/v1/jobs/{job_with(batch()).id}/batches").json()
    assert answer["micro_batches"] is True
    [told] = answer["batches"]
    assert told == {
        "checkpoint": 7,
        "region": rows.SOURCE,
        "name": "Source: flights -> parse",
        "number": 6,
        "kind": "data",
        "time": 1_000,
        "read_records": 10_000,
        "write_records": 12,
        "splits": 1,
        "caught_up": False,
        "duration": 350.0,
        "phases": {"plan": 20.0, "run": 310.0, "store": 15.0, "commit": 5.0},
        "spark_phases": {"walCommit": 12.0},
        "positions": [
            {
                "vertex": rows.SOURCE,
                "name": "Source: flights -> parse",
                "index": 1,
                "split": "flights.csv",
                "position": "4096",
            }
        ],
    }


def test_a_savepoint_has_no_number(db: None, api: APIClient) -> None:
    job = job_with(batch(number=None, kind="snapshot", spark_ms={}))
    [told] = api.get(f"/api/v1/jobs/{job.id}/batches").json()["batches"]
    assert "number" not in told and told["spark_phases"] == {}


def test_each_region_has_its_own(db: None, api: APIClient) -> None:
    job = job_with(batch(), batch(region=rows.SINK))
    answer = api.get(f"/api/v1/jobs/{job.id}/batches").json()["batches"]
    assert [told["name"] for told in answer] == ["Source: flights -> parse", "window: count -> sink"]


def test_checkpoints_of_a_continuous_job_are_no_batches(db: None, api: APIClient) -> None:
    path = f"/api/v1/jobs/{rows.running_job().id}/batches"
    assert api.get(path).json() == {"micro_batches": False, "batches": []}
    for wrong in ("0", "61", "x"):
        assert api.get(path, {"last": wrong}).status_code == 400
    assert api.get(f"/api/v1/jobs/{'f' * 32}/batches").status_code == 404


def test_phases_of_checkpoints_do_not_repeat_them(db: None, api: APIClient) -> None:
    job = job_with(batch())
    assert "batches" not in api.get(f"/api/v1/jobs/{job.id}/checkpoints/gantt").json()["checkpoints"][0]
