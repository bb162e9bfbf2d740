"""The exact requests of Flink's own clients, against a real server: flink-rest-client 1.0.8 and the Java client."""

from __future__ import annotations

import http.client
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from backend.accounts.services import ensure_admin
from backend.cluster.models import Operation
from tests.dispatcher import rows

TOKEN = "a-token-of-the-tests-that-nobody-guesses"
BASIC = {"Authorization": "Basic " + b64encode(f"token:{TOKEN}".encode()).decode()}
JAVA = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", "Connection": "close"}

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def server(live_server: LiveServer) -> str:
    ensure_admin(TOKEN)
    return live_server.url.removeprefix("http://")


def call(server: str, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(server, timeout=10)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_the_python_client_reads_and_cancels_with_its_token_in_the_address(server: str) -> None:
    job = rows.running_job()
    assert call(server, "GET", "/v1/jobs", None, BASIC) == (200, {"jobs": [{"id": job.id, "status": "RUNNING"}]})
    status, body = call(server, "PATCH", f"/v1/jobs/{job.id}", None, BASIC)
    # it takes exactly 202 with an empty object for success
    assert (status, body) == (202, {})
    assert Operation.objects.count() == 1
    assert call(server, "POST", "/v1/jars/nothing.py/plan", None, BASIC)[0] == 404
    assert call(server, "GET", "/v1/datasets", None, BASIC) == (200, {"dataSets": []})
    assert "errors" in call(server, "GET", "/v1/no-such-route", None, BASIC)[1]


def test_the_java_client_sends_bodies_with_its_gets(server: str) -> None:
    job = rows.running_job()
    status, body = call(server, "GET", "/v1/jobs/overview", b"{}", JAVA)
    assert status == 200
    [entry] = body["jobs"]
    needed = {"jid", "name", "start-time", "end-time", "duration", "state", "last-modification", "tasks"}
    assert needed <= entry.keys() and entry["tasks"]["total"] == 4
    assert call(server, "PATCH", f"/v1/jobs/{job.id}?mode=cancel", b"{}", JAVA) == (202, {})
    status, body = call(server, "PATCH", f"/v1/jobs/{'f' * 32}?mode=cancel", b"{}", JAVA)
    # anything but "errors" would be read as a cancellation that went well
    assert (status, list(body)) == (404, ["errors"])


def test_the_java_client_takes_savepoints_and_stops(server: str, settings: Settings, tmp_path: Path) -> None:
    settings.TIDEMARK_HOME = tmp_path
    job = rows.running_job()
    asked = (
        ("savepoints", {"target-directory": None, "cancel-job": False, "formatType": "CANONICAL", "triggerId": None}),
        ("stop", {"targetDirectory": None, "drain": False, "formatType": "CANONICAL", "triggerId": None}),
        ("checkpoints", {"checkpointType": "CONFIGURED", "triggerId": None}),
    )
    for route, body in asked:
        status, answer = call(server, "POST", f"/v1/jobs/{job.id}/{route}", json.dumps(body).encode(), JAVA)
        assert status == 202
        polled = "checkpoints" if route == "checkpoints" else "savepoints"
        path = f"/v1/jobs/{job.id}/{polled}/{answer['request-id']}"
        assert call(server, "GET", path, b"{}", JAVA) == (200, {"status": {"id": "IN_PROGRESS"}, "operation": None})
