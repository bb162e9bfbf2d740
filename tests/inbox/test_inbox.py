"""/api/v1/inbox: what has happened since a user last looked."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from backend.audit import trail
from backend.cluster import bus, services
from backend.cluster.cluster_document import cluster_document, job_entry
from backend.cluster.models import Job, Operation, TaskManager
from backend.dispatcher.models import ExecutionSwitch
from backend.inbox import happenings
from backend.inbox.models import ReadMarker
from backend.pipelines.models import Deployment, Pipeline, Version
from tests.accounts.cast import client_of
from tests.dispatcher import rows
from tests.support import bus_contents

pytestmark = pytest.mark.usefixtures("bus_redis")

URL = "/api/v1/inbox"


def texts(answer: Any) -> list[tuple[str, str]]:
    return [(happening["kind"], happening["text"]) for happening in answer.json()["happenings"]]


def savepoint_of(job: Job, finished_at: int, result: dict[str, Any], **changes: Any) -> Operation:
    given = {"kind": Operation.Kind.SAVEPOINT, "state": Operation.State.COMPLETED, "created_at": finished_at - 10}
    return Operation.objects.create(job=job, finished_at=finished_at, result=result, **given | changes)


def deployment_of(alice: User, state: Deployment.State, at: int) -> Deployment:
    pipeline = Pipeline.objects.create(name="delays", owner=alice, created_at=at, updated_at=at)
    version = Version.objects.create(pipeline=pipeline, number=3, document="{}", created_at=at, author=alice)
    return Deployment.objects.create(
        pipeline=pipeline,
        version=version,
        state=state,
        state_times={state: at},
        message="its state does not fit",
        graph={},
        idempotency_key="k",
        created_by=alice,
        created_at=at,
    )


def test_nothing_has_happened_on_a_quiet_cluster(api: APIClient) -> None:
    assert api.get(URL).json() == {"happenings": [], "is_cut": False, "read_at": 0, "unread": 0}


def test_failures_and_restarts_of_jobs_are_told(api: APIClient) -> None:
    job = rows.running_job()
    rows.failure_of(job, 0)
    assert texts(api.get(URL)) == [("failure", "attempt 0 failed: ValueError in window: count -> sink (1/2)")]
    job.attempt, job.state = 1, "RESTARTING"
    job.save()
    # nobody knows yet whether it will run again
    assert [kind for kind, _ in texts(api.get(URL))] == ["failure"]
    job.state, job.state_times = "RUNNING", {**job.state_times, "RUNNING": services.now_ms() + 1_000}
    job.save()
    [restart] = api.get(URL).json()["happenings"]
    assert restart["kind"] == "restart" and restart["text"].endswith("; the job was restarted")
    assert (restart["subject"], restart["name"], restart["is_bad"]) == (job.id, "flights", True)


def test_a_job_that_restarts_all_the_time_does_not_hide_the_others(
    api: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, flapping = rows.ended_job("FAILED", "tides"), rows.running_job()
    for attempt in range(1, 8):
        rows.failure_of(flapping, attempt)
    told = api.get(URL).json()
    assert [each["kind"] for each in told["happenings"]] == ["failure", "failure", "failure", "failed"]
    assert told["happenings"][2]["text"].endswith("; 4 earlier failures of the job")
    assert told["is_cut"] is False
    monkeypatch.setattr(happenings, "MAX_HAPPENINGS", 2)
    cut = api.get(URL).json()
    assert [each["kind"] for each in cut["happenings"]] == ["failure", "failed"]
    assert (cut["happenings"][1]["subject"], cut["is_cut"]) == (failed.id, True)


def test_a_job_that_ended_badly_is_told_and_one_that_ended_well_is_not(api: APIClient) -> None:
    rows.ended_job("FINISHED")
    failed = rows.ended_job("FAILED", "tides")
    [told] = api.get(URL).json()["happenings"]
    assert (told["kind"], told["subject"], told["text"]) == ("failed", failed.id, "FAILED: ValueError: no year")


def test_the_failure_that_a_job_ends_with_is_told_once(api: APIClient) -> None:
    failed = rows.ended_job("FAILED", "tides")
    rows.failure_of(failed, 0)
    last = rows.failure_of(failed, 1)
    failed.failure = {**(failed.failure or {}), "timestamp": last.timestamp}
    failed.save()
    assert {text for _, text in texts(api.get(URL))} == {
        "FAILED: ValueError: no year",
        "attempt 0 failed: ValueError in window: count -> sink (1/2)",
    }


def test_savepoints_are_told_once_whoever_has_asked_for_them(api: APIClient) -> None:
    job, now = rows.running_job(), services.now_ms()
    first = savepoint_of(job, now - 30, {"location": "file:///s/1", "checkpoint_id": 3})
    savepoint_of(job, now - 30, {"location": "file:///s/1"}, follows=first)
    savepoint_of(job, now - 20, {"error": "the disk\nis full"})
    savepoint_of(job, now - 10, {"location": "file:///s/2"}, kind=Operation.Kind.STOP)
    savepoint_of(job, now, {}, kind=Operation.Kind.CANCEL)
    savepoint_of(job, now, {}, state=Operation.State.IN_PROGRESS)
    answer = api.get(URL)
    assert texts(answer) == [
        ("savepoint", "stopped with savepoint file:///s/2"),
        ("savepoint", "savepoint failed: the disk is full"),
        ("savepoint", "savepoint file:///s/1"),
    ]
    assert [happening["is_bad"] for happening in answer.json()["happenings"]] == [False, True, False]


def test_deployments_that_were_rolled_back_are_told(api: APIClient, alice: User) -> None:
    now = services.now_ms()
    deployment = deployment_of(alice, Deployment.State.ROLLED_BACK, now)
    [told] = api.get(URL).json()["happenings"]
    text = "deployment of version 3 was rolled back: its state does not fit"
    assert (told["kind"], told["subject"], told["name"], told["text"]) == (
        "deployment",
        deployment.pipeline_id,
        "delays",
        text,
    )
    deployment.state = Deployment.State.RUNNING
    deployment.save()
    assert texts(api.get(URL)) == []


def test_switches_of_the_execution_that_were_rolled_back_are_told(api: APIClient, alice: User) -> None:
    job, now = rows.running_job(), services.now_ms()
    ExecutionSwitch.objects.create(
        state="ROLLED_BACK",
        old_job_id=job.id,
        execution="micro-batch",
        message="no slots",
        idempotency_key="k",
        created_by=alice,
        created_at=now,
    )
    [told] = api.get(URL).json()["happenings"]
    text = "switch to the execution micro-batch was rolled back: no slots"
    assert (told["kind"], told["subject"], told["name"], told["text"]) == ("switch", job.id, job.name, text)
    ExecutionSwitch.objects.update(state="RUNNING")
    assert texts(api.get(URL)) == []


def test_another_leader_is_told_and_is_nothing_bad(api: APIClient) -> None:
    trail.record("leader.elected", object="epoch=4", detail={"jobmanager": "host:17"})
    trail.record("POST v1/jobs/<str:job_id>/stop")
    [told] = api.get(URL).json()["happenings"]
    assert (told["kind"], told["subject"], told["is_bad"]) == ("leader", "host:17", False)


def test_a_taskmanager_that_was_lost_is_told_and_one_that_signed_off_is_not(api: APIClient) -> None:
    now = services.now_ms()
    for name, state in (("host:1-aa", TaskManager.State.LOST), ("host:2-bb", TaskManager.State.GONE)):
        TaskManager.objects.create(
            id=name, worker_name=name, host="host", pid=1, slots=2, registered_at=1, last_heartbeat=now, state=state
        )
    [told] = api.get(URL).json()["happenings"]
    assert (told["kind"], told["subject"], told["is_bad"]) == ("taskmanager", "host:1-aa", True)
    assert told["text"] == "was lost: no sign of it from host"


def test_the_latest_failed_checkpoint_of_a_job_is_told(api: APIClient) -> None:
    job, now = rows.running_job(), services.now_ms()
    entry = job_entry(job.document or {})
    assert entry["failed_checkpoint"] == {
        "id": 2,
        "at": 2_500,
        "message": "it took too long",
        "is_savepoint": False,
        "since": 2_500,
        "in_a_row": 1,
    }
    failed = {"id": 7, "at": now, "message": "it took too long"}
    cluster = cluster_document([], [entry | {"failed_checkpoint": failed}], now, now)
    bus_contents.put_document(bus.CLUSTER_KEY, cluster)
    bus_contents.beat()
    assert texts(api.get(URL)) == [("checkpoint", "checkpoint 7 failed: it took too long")]
    # a row of them is news once, at its first one
    row = failed | {"since": now - 60_000, "in_a_row": 9}
    bus_contents.put_document(bus.CLUSTER_KEY, cluster_document([], [entry | {"failed_checkpoint": row}], now, now))
    (told,) = api.get(URL).json()["happenings"]
    assert (told["at"], told["text"]) == (
        now - 60_000,
        "9 in a row have failed; the latest: checkpoint 7 failed: it took too long",
    )
    # a savepoint's is told once, as the result of its operation
    savepoint_of(job, now, {"error": "it took too long"})
    cluster = cluster_document([], [entry | {"failed_checkpoint": failed | {"is_savepoint": True}}], now, now)
    bus_contents.put_document(bus.CLUSTER_KEY, cluster)
    assert texts(api.get(URL)) == [("savepoint", "savepoint failed: it took too long")]


def test_what_was_read_is_read_for_its_user_alone(api: APIClient, victor: User) -> None:
    job = rows.running_job()
    for attempt in range(3):
        rows.failure_of(job, attempt)
    newest, middle, _ = (happening["at"] for happening in api.get(URL).json()["happenings"])
    # the server's clock is not ahead of what it has seen
    answer = api.put(URL, {"read_at": middle}, format="json")
    assert answer.json()["read_at"] <= middle
    ReadMarker.objects.update(read_at=middle)
    assert (api.get(URL).json()["read_at"], api.get(URL).json()["unread"]) == (middle, 1)
    # what was read stays read
    assert api.put(URL, {"read_at": 5}, format="json").json()["read_at"] == middle
    assert client_of(victor).get(URL).json()["unread"] == 3
    ReadMarker.objects.update(read_at=newest)
    assert api.get(URL).json()["unread"] == 0
    assert ReadMarker.objects.count() == 1


@pytest.mark.parametrize("body", [{}, [], {"read_at": "now"}, {"read_at": -1}, {"read_at": True}, {"read_at": 2**60}])
def test_a_time_that_is_none_is_refused(api: APIClient, body: Any) -> None:
    assert api.put(URL, body, format="json").status_code == 400
    assert not ReadMarker.objects.exists()


def test_a_time_in_the_future_does_not_hide_what_comes(api: APIClient) -> None:
    read_at = api.put(URL, {"read_at": 2**50}, format="json").json()["read_at"]
    assert read_at <= services.now_ms()


def test_only_the_newest_are_told_and_none_of_long_ago(api: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(happenings, "MAX_HAPPENINGS", 2)
    job, now = rows.running_job(), services.now_ms()
    for age in (0, 10, 20, happenings.KEPT_MS + 1_000):
        savepoint_of(job, now - age, {"location": f"file:///{age}"})
    assert [text for _, text in texts(api.get(URL))] == ["savepoint file:///0", "savepoint file:///10"]


def test_without_redis_what_rows_have_is_told(api: APIClient, bus_redis: redis.Redis, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    bus.disconnect()
    rows.failure_of(rows.running_job(), 0)
    assert len(texts(api.get(URL))) == 1


def test_a_marker_goes_with_its_user(api: APIClient, alice: User) -> None:
    api.put(URL, {"read_at": 1}, format="json")
    alice.delete()
    assert not ReadMarker.objects.exists()
