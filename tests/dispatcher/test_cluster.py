"""/config, /taskmanagers, /jobmanager."""

from __future__ import annotations

from rest_framework.test import APIClient

from backend.cluster.models import Job, TaskManager
from tests.dispatcher import rows
from tests.support.between_reads import after_read


def test_the_page_is_told_what_it_may_do(api: APIClient) -> None:
    config = api.get("/config").json()
    assert config["features"] == {"web-submit": True, "web-cancel": True, "web-rescale": False, "web-history": False}
    assert config["flink-version"].startswith("2.")


def test_taskmanagers_say_what_runs_on_them(api: APIClient, job: Job, taskmanager: TaskManager) -> None:
    [entry] = api.get("/v1/taskmanagers").json()["taskmanagers"]
    assert (entry["id"], entry["slotsNumber"], entry["assignedTasks"]) == (rows.TASKMANAGER, 4, 4)
    assert entry["hardware"]["physicalMemory"] == 24 << 30
    detail = api.get(f"/v1/taskmanagers/{rows.TASKMANAGER}").json()
    assert [slot["assignedTasks"] for slot in detail["allocatedSlots"]] == [2, 2]
    assert {slot["jobId"] for slot in detail["allocatedSlots"]} == {job.id}


def test_a_job_that_is_deleted_meanwhile_runs_on_no_taskmanager(
    api: APIClient, job: Job, taskmanager: TaskManager
) -> None:
    # the third read is of the ids, before the documents
    with after_read(3, "cluster_job", Job.objects.filter(id=job.id).delete):
        detail = api.get(f"/v1/taskmanagers/{rows.TASKMANAGER}")
    assert (detail.status_code, detail.json()["allocatedSlots"]) == (200, [])


def test_a_taskmanager_that_is_lost_is_not_listed(api: APIClient, taskmanager: TaskManager) -> None:
    TaskManager.objects.update(state="LOST")
    assert api.get("/v1/taskmanagers").json() == {"taskmanagers": []}
    assert api.get("/v1/overview").json()["slots-total"] == 0


def test_metrics_of_taskmanagers(api: APIClient, taskmanager: TaskManager) -> None:
    path = f"/v1/taskmanagers/{rows.TASKMANAGER}/metrics"
    assert api.get(f"{path}?get=taskSlotsTotal").json() == [{"id": "taskSlotsTotal", "value": "4"}]
    [figures] = api.get("/v1/taskmanagers/metrics?get=taskSlotsTotal").json()
    assert figures == {"id": "taskSlotsTotal", "min": 4.0, "max": 4.0, "avg": 4.0, "sum": 4.0}
    assert api.get("/v1/taskmanagers/metrics?get=taskSlotsTotal&taskmanagers=other").json() == []


def test_the_jobmanager_shows_its_configuration_and_metrics(api: APIClient, job: Job) -> None:
    keys = {entry["key"] for entry in api.get("/v1/jobmanager/config").json()}
    assert {"spark.master", "taskmanager.numberOfTaskSlots"} <= keys
    [running] = api.get("/v1/jobmanager/metrics?get=numRunningJobs").json()
    assert running == {"id": "numRunningJobs", "value": "1"}
