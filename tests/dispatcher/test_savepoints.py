"""Savepoints, stops and disposals: what is asked for becomes an operation, once; its end is told in Flink's shape."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings
from rest_framework.test import APIClient

from backend.audit.models import AuditEvent
from backend.cluster.models import Job, Operation
from backend.dispatcher.shapes.throwables import throwable
from tests.accounts.cast import client_of
from tests.cluster.snapshots import completed
from tests.dispatcher import rows

TRIGGER = "0123456789abcdef" * 2
SAVEPOINT = {"target-directory": None, "cancel-job": False, "formatType": "CANONICAL", "triggerId": None}


def finish(trigger_id: str, result: dict[str, Any]) -> None:
    Operation.objects.filter(trigger_id=trigger_id).update(state=Operation.State.COMPLETED, result=result)


def test_a_savepoint_is_an_operation_until_the_leader_has_done_it(api: APIClient, job: Job, home: Path) -> None:
    answer = api.post(f"/v1/jobs/{job.id}/savepoints", SAVEPOINT, format="json")
    assert answer.status_code == 202
    trigger_id = answer.json()["request-id"]
    path = f"/v1/jobs/{job.id}/savepoints/{trigger_id}"
    assert api.get(path).json() == {"status": {"id": "IN_PROGRESS"}, "operation": None}
    assert Operation.objects.get().parameters == {"target_directory": None, "cancel_job": False, "format": "CANONICAL"}
    finish(trigger_id, {"location": "file:///sp", "checkpoint_id": 3})
    assert api.get(path).json() == {"status": {"id": "COMPLETED"}, "operation": {"location": "file:///sp"}}


def test_a_failed_savepoint_says_why_to_java_clients_too(api: APIClient, job: Job) -> None:
    trigger_id = api.post(f"/jobs/{job.id}/savepoints").json()["request-id"]
    finish(trigger_id, {"error": "the disk is full"})
    cause = api.get(f"/jobs/{job.id}/savepoints/{trigger_id}").json()["operation"]["failure-cause"]
    assert cause["stack-trace"].endswith("the disk is full")
    serialized = b64decode(cause["serialized-throwable"])
    assert serialized.startswith(b"\xac\xed\x00\x05sr\x00\x29org.apache.flink.util.SerializedThrowable")
    assert b"the disk is full" in serialized


def test_a_throwable_takes_every_message() -> None:
    serialized = b64decode(throwable("ü\0\U0001f6eb" + "é" * 200_000)["serialized-throwable"])
    # the form of Java: NUL in two bytes, what lies outside of the basic plane as two surrogates
    assert "ü".encode() + b"\xc0\x80\xed\xa0\xbd\xed\xbb\xab" + "éé".encode() in serialized
    # a length of eight bytes where two are not enough
    assert b"|\0\0\0\0\0\x03" in serialized
    assert len(serialized) < 1 << 19


def test_one_trigger_id_is_one_savepoint(api: APIClient, job: Job) -> None:
    for _ in range(2):
        answer = api.post(f"/jobs/{job.id}/savepoints", {"triggerId": TRIGGER}, format="json")
        assert (answer.status_code, answer.json()) == (202, {"request-id": TRIGGER})
    assert Operation.objects.count() == 1
    assert api.post(f"/jobs/{job.id}/stop", {"triggerId": TRIGGER}, format="json").status_code == 409


def test_a_stop_is_asked_for_as_a_savepoint(api: APIClient, job: Job) -> None:
    body = {"targetDirectory": None, "drain": True, "formatType": "NATIVE", "triggerId": None}
    trigger_id = api.post(f"/v1/jobs/{job.id}/stop", body, format="json").json()["request-id"]
    operation = Operation.objects.get()
    assert (operation.kind, operation.parameters["drain"], operation.parameters["format"]) == ("stop", True, "NATIVE")
    told = AuditEvent.objects.latest("pk").detail
    assert (told["operation"], told["parameters"]) == ("stop", operation.parameters)
    # a double click
    assert api.post(f"/v1/jobs/{job.id}/stop", body, format="json").json()["request-id"] == trigger_id
    finish(trigger_id, {"location": "file:///sp", "checkpoint_id": 3})
    assert api.get(f"/v1/jobs/{job.id}/savepoints/{trigger_id}").json()["operation"] == {"location": "file:///sp"}


def test_savepoints_and_checkpoints_of_a_user_are_limited_and_stops_are_not(
    api: APIClient, oscar: User, job: Job, settings: Settings
) -> None:
    settings.TIDEMARK_SAVEPOINTS_PER_MINUTE = 2
    assert api.post(f"/jobs/{job.id}/savepoints", {}, format="json").status_code == 202
    assert api.post(f"/jobs/{job.id}/checkpoints", {}, format="json").status_code == 202
    for path in ("savepoints", "checkpoints"):
        refused = api.post(f"/v1/jobs/{job.id}/{path}", {}, format="json")
        assert refused.status_code == 429 and int(refused["Retry-After"]) > 0
        assert "TIDEMARK_SAVEPOINTS_PER_MINUTE" in refused.json()["errors"][0]
        event = AuditEvent.objects.latest("pk")
        assert (event.result, event.status) == ("denied", 429)
    assert {operation.kind for operation in Operation.objects.all()} == {"savepoint", "checkpoint"}
    # each user alone
    assert client_of(oscar).post(f"/v1/jobs/{job.id}/savepoints", {}, format="json").status_code != 429
    assert api.post(f"/v1/jobs/{job.id}/stop", {}, format="json").status_code != 429


def test_places_are_checked(api: APIClient, job: Job, home: Path) -> None:
    def asked(path: str, body: dict[str, Any]) -> tuple[int, str]:
        answer = api.post(path, body, format="json")
        return answer.status_code, "".join(answer.json().get("errors", []))

    inside, outside = str(home / "savepoints" / "mine"), str(home / "savepoints" / ".." / ".." / "elsewhere")
    assert asked(f"/jobs/{job.id}/savepoints", {"target-directory": inside})[0] == 202
    assert Operation.objects.get().parameters["target_directory"] == Path(inside).as_uri()
    for path, field in (
        (f"/jobs/{job.id}/savepoints", "target-directory"),
        (f"/jobs/{job.id}/stop", "targetDirectory"),
        ("/savepoint-disposal", "savepoint-path"),
    ):
        for place in (outside, "/etc", "ftp://somewhere/x", "s3://bucket/x", "file://elsewhere/x"):
            status, error = asked(path, {field: place})
            assert status == 400 and error.startswith(field), place
    assert Operation.objects.count() == 1


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("savepoints", {"cancel-job": 1}),
        ("savepoints", {"formatType": "XML"}),
        ("savepoints", {"target-directory": 7}),
        ("savepoints", []),
        ("stop", {"drain": "yes"}),
        ("stop", {"formatType": "XML"}),
        ("stop", {"triggerId": "zz"}),
    ],
)
def test_requests_that_make_no_sense_are_refused(api: APIClient, job: Job, route: str, body: Any) -> None:
    answer = api.post(f"/jobs/{job.id}/{route}", body, format="json")
    assert (answer.status_code, list(answer.json())) == (400, ["errors"])
    assert not Operation.objects.exists()


def test_nothing_is_asked_of_a_job_that_has_ended(api: APIClient, db: None) -> None:
    job = rows.ended_job("FINISHED")
    for route in ("savepoints", "stop", "checkpoints"):
        answer = api.post(f"/jobs/{job.id}/{route}")
        assert (answer.status_code, list(answer.json())) == (409, ["errors"])
    assert api.post(f"/jobs/{'f' * 32}/savepoints").status_code == 404


def test_a_disposal_has_an_operation_that_is_no_null(api: APIClient, home: Path) -> None:
    location = completed(home / "savepoints", "c" * 32, 1).location
    answer = api.post("/v1/savepoint-disposal", {"savepoint-path": location}, format="json")
    assert answer.status_code == 200
    trigger_id = answer.json()["request-id"]
    path = f"/v1/savepoint-disposal/{trigger_id}"
    assert api.get(path).json()["status"] == {"id": "IN_PROGRESS"}
    finish(trigger_id, {"location": location})
    assert api.get(path).json() == {"status": {"id": "COMPLETED"}, "operation": {}}
    assert api.post("/savepoint-disposal").status_code == 400
    assert api.get("/savepoint-disposal/" + "f" * 32).status_code == 404


def test_who_may_ask(job: Job, victor: User, oscar: User) -> None:
    viewer, operator = client_of(victor), client_of(oscar)
    for route in (f"/jobs/{job.id}/savepoints", f"/jobs/{job.id}/stop", "/savepoint-disposal"):
        refused = viewer.post(route)
        assert (refused.status_code, refused.json()) == (403, {"errors": ["Requires the role operator."]})
        assert operator.post(route).status_code != 403
