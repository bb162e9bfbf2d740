"""/jobs/:jobid/checkpoints: what is shown of them, and one on demand."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from backend.cluster.models import Job, Operation
from tests.accounts.cast import client_of
from tests.dispatcher import rows

TRIGGER = "0123456789abcdef" * 2


def test_the_overview_tells_all_three_kinds_of_checkpoints(api: APIClient, job: Job) -> None:
    answer = api.get(f"/v1/jobs/{job.id}/checkpoints").json()
    assert answer["counts"] == {"restored": 1, "total": 4, "in_progress": 1, "completed": 2, "failed": 1}
    running, savepoint, failed, completed = answer["history"]
    assert [entry["className"] for entry in answer["history"]] == ["in_progress", "completed", "failed", "completed"]
    assert (savepoint["checkpoint_type"], savepoint["savepointFormat"]) == ("SAVEPOINT", "CANONICAL")
    assert (failed["failure_message"], failed["failure_timestamp"]) == ("it took too long", 2_500)
    assert (completed["external_path"], completed["discarded"]) == ("file:///chk-1", False)
    assert (running["num_acknowledged_subtasks"], running["num_subtasks"]) == (1, 3)
    assert answer["latest"]["restored"]["external_path"] == "file:///chk-1"
    assert answer["summary"]["state_size"]["p50"] == 900


def test_a_job_of_an_earlier_version_has_none(api: APIClient, job: Job) -> None:
    job.document = {name: value for name, value in (job.document or {}).items() if "checkpoint" not in name}
    job.save()
    answer = api.get(f"/jobs/{job.id}/checkpoints").json()
    assert (answer["history"], answer["latest"]["completed"], answer["summary"]["state_size"]["p50"]) == (
        [],
        None,
        "NaN",
    )
    assert api.get(f"/jobs/{job.id}/checkpoints/config").json()["interval"] == 2**63 - 1


def test_details_go_down_to_the_subtasks_of_a_vertex(api: APIClient, job: Job) -> None:
    answer = api.get(f"/jobs/{job.id}/checkpoints/details/4").json()
    assert answer["tasks"][rows.SINK]["num_acknowledged_subtasks"] == 1
    answer = api.get(f"/jobs/{job.id}/checkpoints/details/4/subtasks/{rows.SINK}").json()
    pending, acknowledged = answer["subtasks"]
    assert pending == {"className": "pending", "index": 0, "status": "pending_or_failed"}
    assert acknowledged["checkpoint"] == {"sync": 2, "async": 3}
    assert answer["summary"]["checkpointed_size"]["max"] == 100
    assert api.get(f"/jobs/{job.id}/checkpoints/details/4/subtasks/{rows.SOURCE}").json()["summary"] is None


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("details/99", 404),
        ("details/x", 400),
        (f"details/1/subtasks/{'f' * 32}", 404),
        ("details/1/subtasks/x", 400),
        (TRIGGER, 404),
        ("x", 400),
    ],
)
def test_what_is_not_there_is_refused(api: APIClient, job: Job, path: str, status: int) -> None:
    answer = api.get(f"/jobs/{job.id}/checkpoints/{path}")
    assert (answer.status_code, list(answer.json())) == (status, ["errors"])


def test_a_checkpoint_is_triggered_and_its_end_is_told(api: APIClient, job: Job) -> None:
    answer = api.post(f"/jobs/{job.id}/checkpoints", {"checkpointType": "FULL", "triggerId": TRIGGER}, format="json")
    assert (answer.status_code, answer.json()) == (202, {"request-id": TRIGGER})
    path = f"/jobs/{job.id}/checkpoints/{TRIGGER}"
    assert api.get(path).json() == {"status": {"id": "IN_PROGRESS"}, "operation": None}
    operation = Operation.objects.get()
    assert (operation.kind, operation.parameters) == ("checkpoint", {"type": "FULL"})
    operation.state, operation.result = Operation.State.COMPLETED, {"checkpoint_id": 7, "location": "file:///x"}
    operation.save()
    assert api.get(path).json() == {"status": {"id": "COMPLETED"}, "operation": {"checkpointId": 7}}
    operation.result = {"error": "the job is being stopped"}
    operation.save()
    assert "the job is being stopped" in api.get(path).json()["operation"]["failureCause"]["stack-trace"]


def test_triggering_takes_an_operator_and_a_known_type(api: APIClient, job: Job, victor: User, oscar: User) -> None:
    path = f"/jobs/{job.id}/checkpoints"
    viewer = client_of(victor)
    assert (viewer.post(path).status_code, viewer.get(path).status_code) == (403, 200)
    assert client_of(oscar).post(path).status_code == 202
    assert api.post(path, {"checkpointType": "SOME"}, format="json").status_code == 400
    assert api.post(path, {"triggerId": "zz"}, format="json").status_code == 400
