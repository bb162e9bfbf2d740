"""The limit on request bodies, in front of Django."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import SyncToAsync, sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth.models import User
from django.core.asgi import get_asgi_application
from django.db import OperationalError, connections
from django.test import Client
from pytest_django import Settings

from backend.accounts.roles import Role, set_role
from backend.accounts.services import create_token
from backend.accounts.submission import OFF
from backend.accounts.submission_rate import note_submission
from backend.audit.models import AuditEvent
from backend.dispatcher.uploads import (
    MAX_BODY_BYTES,
    MAX_DOCUMENT_BODY_BYTES,
    MULTIPART_OVERHEAD_BYTES,
    Admission,
    BodyLimit,
    Drain,
)
from backend.pipelines.models import Version
from runtime.pipeline.document import MAX_BYTES
from tests.pipelines_server.documents import document

LIMIT = 2 * MAX_BODY_BYTES


@pytest.fixture(autouse=True)
def small_uploads(settings: Settings) -> None:
    settings.TIDEMARK_MAX_UPLOAD_BYTES = LIMIT - MULTIPART_OVERHEAD_BYTES


async def everybody_with_a_token(scope: Any, upload_bytes: int | None) -> Admission:
    return Admission(TOKEN in scope["headers"])


async def nowhere(scope: Any, status: int, note: str) -> None:
    """Where a refusal is recorded that no test asks for."""


async def status_of(
    path: str, sizes: list[int], *headers: tuple[bytes, bytes], method: str = "POST"
) -> tuple[int, int]:
    """Status, and how many bytes of the body were taken, of a request whose body comes in chunks of these sizes."""
    sent: list[dict[str, Any]] = []
    taken = 0
    chunks = list(sizes)

    async def receive() -> dict[str, Any]:
        nonlocal taken
        size = chunks.pop(0)
        taken += size
        return {"type": "http.request", "body": b"x" * size, "more_body": bool(chunks)}

    async def send(message: Any) -> None:
        sent.append(message)

    async def application(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})

    scope = {"type": "http", "method": method, "path": path, "headers": list(headers)}
    recorded: list[int] = []

    async def record(scope: Any, status: int, note: str) -> None:
        recorded.append(status)

    await BodyLimit(application, Drain(max_bytes=5 * LIMIT), everybody_with_a_token, record)(scope, receive, send)
    assert recorded == [sent[0]["status"]] * (sent[0]["status"] != 200)
    if sent[0]["status"] != 200:
        assert list(json.loads(sent[1]["body"])) == ["errors"]
        # the client has its answer before the rest is read, and the connection is closed behind that
        assert sent[1]["more_body"] and sent[2] == {"type": "http.response.body", "body": b""}
    return sent[0]["status"], taken


TOKEN = (b"authorization", b"Bearer x")


async def test_the_rest_of_a_body_that_is_too_large_is_read_and_thrown_away() -> None:
    """Or its client would see a reset connection and no answer."""
    announced = (b"content-length", str(LIMIT + 1).encode())
    assert await status_of("/v1/jars/upload", [LIMIT, 1], TOKEN, announced) == (413, LIMIT + 1)


@pytest.mark.parametrize(("path", "method"), [("/v1/jars/upload", "POST"), ("/api/v1/pipelines", "PUT")])
async def test_a_large_body_while_the_database_is_away_is_answered_as_any_other(path: str, method: str) -> None:
    async def admit(scope: Any, upload_bytes: int | None) -> Admission:
        raise OperationalError("database is locked")

    sent: list[Any] = []
    recorded: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    async def record(scope: Any, status: int, note: str) -> None:
        recorded.append(status)

    async def application(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("it is not asked")

    headers = [TOKEN, (b"content-length", str(MAX_BODY_BYTES + 1).encode())]
    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    await BodyLimit(application, Drain(), admit, record)(scope, receive, send)
    assert sent[0]["status"] == 503 and recorded == [503]
    assert (b"retry-after", b"2") in sent[0]["headers"]
    assert "try again" in json.dumps(json.loads(sent[1]["body"])["errors"])


async def test_a_size_of_thousands_of_digits_is_too_large() -> None:
    announced = (b"content-length", b"9" * 10_000)
    assert (await status_of("/v1/jars/upload", [1, 1], TOKEN, announced))[0] == 413


async def test_no_more_is_read_than_is_bearable() -> None:
    endless = (b"content-length", str(100 * LIMIT).encode())
    assert await status_of("/v1/jars/upload", [LIMIT] * 100, TOKEN, endless) == (413, 5 * LIMIT)
    # of a body that does not say how large it is, up to the limit besides
    assert await status_of("/v1/jars/upload", [LIMIT // 2] * 100, TOKEN) == (413, LIMIT // 2 * 3 + 5 * LIMIT)


async def test_a_client_that_sends_nothing_more_does_not_hold_the_connection_for_ever() -> None:
    async def receive() -> dict[str, Any]:
        return await asyncio.Event().wait()  # type: ignore[return-value]

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def application(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("it is not asked")

    announced = (b"content-length", str(LIMIT + 1).encode())
    scope = {"type": "http", "method": "POST", "path": "/v1/jars/upload", "headers": [TOKEN, announced]}
    await BodyLimit(application, Drain(seconds=0.01), everybody_with_a_token, nowhere)(scope, receive, send)
    assert len(sent) == 3


async def test_a_body_within_the_limit_is_the_applications() -> None:
    assert await status_of("/v1/jars/upload", [LIMIT // 2] * 2, TOKEN) == (200, LIMIT)


async def test_only_uploads_of_somebody_may_be_large() -> None:
    assert (await status_of("/v1/jars/upload", [LIMIT]))[0] == 401
    assert (await status_of("/api/v1/session", [LIMIT], TOKEN))[0] == 413
    assert (await status_of("/api/v1/session", [100]))[0] == 200


@pytest.mark.parametrize("path", ["/api/v1/pipelines", "/api/v1/pipelines/import", "/api/v1/pipelines/x/draft"])
async def test_documents_of_pipelines_may_be_large(path: str) -> None:
    sizes = [MAX_DOCUMENT_BODY_BYTES - 1, 1]
    announced = (b"content-length", str(MAX_DOCUMENT_BODY_BYTES).encode())
    for headers in ((TOKEN,), (TOKEN, announced)):
        assert await status_of(path, sizes, *headers, method="PUT") == (200, MAX_DOCUMENT_BODY_BYTES)
        assert (await status_of(path, sizes, *headers[1:], method="PUT"))[0] == 401
    assert (await status_of(path, [*sizes, 1], TOKEN))[0] == 413
    # its body is nobody's
    assert (await status_of(path, sizes, TOKEN, method="GET"))[0] == 413
    assert (await status_of(path.replace("pipelines", "pipelines-x"), sizes, TOKEN))[0] == 413


@pytest.mark.parametrize("path", ["/jobs", "/v1/jobs"])
async def test_job_graphs_of_flink_are_no_method_of_jobs(path: str) -> None:
    assert (await status_of(path, [LIMIT], TOKEN))[0] == 405


# --- who may ----------------------------------------------------------------------------------------------------------


def scope_with(*headers: tuple[bytes, bytes]) -> dict[str, Any]:
    announced = (b"content-length", str(256 << 20).encode())
    return {"type": "http", "method": "POST", "path": "/jars/upload", "headers": [announced, *headers]}


async def status_and_taken(scope: dict[str, Any]) -> tuple[int, int]:
    """Status of a request of 256 MiB, and how much of it had been taken when the answer was there."""
    taken = answered_after = 0
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        nonlocal taken
        taken += 64 << 10
        return {"type": "http.request", "body": b"x" * (64 << 10), "more_body": taken < 256 << 20}

    async def send(message: Any) -> None:
        nonlocal answered_after
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
            answered_after = taken

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    await BodyLimit(application, Drain(max_bytes=0))(scope, receive, send)
    return statuses[0], answered_after


@pytest.fixture(autouse=True, scope="module")
def sync_thread() -> Iterator[None]:
    """asgiref's one thread for synchronous code lives as long as the process: no test's own. Its connections do not."""
    SyncToAsync.single_thread_executor.submit(int).result()
    yield
    SyncToAsync.single_thread_executor.submit(connections.close_all).result()


@pytest.fixture
def large_uploads(settings: Settings) -> None:
    settings.TIDEMARK_MAX_UPLOAD_BYTES = 256 << 20


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("large_uploads")
class TestAuthentication:
    @pytest.mark.parametrize(
        "header",
        [
            (b"authorization", b"Bearer x"),
            (b"authorization", b"Basic eDp4"),
            (b"authorization", b"Negotiate x"),
            (b"cookie", b"tidemark-session=x"),
            (b"cookie", b"a=b"),
        ],
    )
    async def test_credentials_that_are_none_fill_nothing(self, header: tuple[bytes, bytes]) -> None:
        assert await status_and_taken(scope_with(header)) == (401, 0)

    async def test_a_body_without_a_length_is_checked_as_well(self) -> None:
        scope = scope_with((b"cookie", b"a=b"))
        scope["headers"] = scope["headers"][1:]
        status, taken = await status_and_taken(scope | {"path": "/v1/jars/upload"})
        assert status == 200 and taken <= MAX_BODY_BYTES

    async def test_who_may_not_upload_fills_nothing(self) -> None:
        token = await sync_to_async(_token_of)(Role.OPERATOR)
        assert await status_and_taken(scope_with((b"authorization", b"Bearer " + token))) == (403, 0)
        assert await sync_to_async(_latest_event)() == ("somebody", "POST jars/upload", "denied", 403, {})

    async def test_where_nothing_is_submitted_nothing_is_received(self, settings: Settings) -> None:
        settings.TIDEMARK_SUBMIT = False
        token = await sync_to_async(_token_of)(Role.ADMIN)
        assert await status_and_taken(scope_with((b"authorization", b"Bearer " + token))) == (403, 0)
        assert await sync_to_async(_latest_event)() == ("somebody", "POST jars/upload", "denied", 403, {"refused": OFF})

    async def test_of_who_has_submitted_too_much_nothing_is_received(self, settings: Settings) -> None:
        settings.TIDEMARK_SUBMISSIONS_PER_MINUTE = 1
        token = await sync_to_async(_token_of)(Role.DEVELOPER)
        scope = scope_with((b"authorization", b"Bearer " + token))
        # what is refused or received is counted by the route
        for _ in range(3):
            assert (await status_and_taken(scope))[0] == 200
        await sync_to_async(lambda: note_submission(User.objects.get()))()
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def nothing(*_: Any) -> Any:
            raise AssertionError("it is neither read nor passed on")

        with pytest.raises(AssertionError):
            await BodyLimit(nothing, Drain(max_bytes=1))(scope, nothing, send)
        assert sent[0]["status"] == 429
        assert 0 < int(dict(sent[0]["headers"])[b"retry-after"]) <= 60
        event = await sync_to_async(_latest_event)()
        assert event[:4] == ("somebody", "POST jars/upload", "denied", 429)
        assert "TIDEMARK_SUBMISSIONS_PER_MINUTE" in event[4]["refused"]

    async def test_a_refusal_that_django_never_sees_is_recorded_without_secrets_of_the_path(self) -> None:
        scope = scope_with() | {"path": "/login/the-secret", "client": ("10.0.0.7", 1)}
        assert await status_and_taken(scope) == (413, 0)
        assert await sync_to_async(_latest_event)() == ("", "POST login/<str:secret>", "failed", 413, {})

    @pytest.mark.parametrize(
        ("method", "path", "num_events"),
        [("POST", "/jars/upload", 1), ("PATCH", "/jobs/x", 1), ("POST", "/login/s/", 1), ("GET", "/jobs", 0)],
    )
    async def test_who_leaves_in_mid_body_leaves_an_event(self, method: str, path: str, num_events: int) -> None:
        token = await sync_to_async(_token_of)(Role.DEVELOPER)
        bearer = (b"authorization", b"Bearer " + token)
        scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": [bearer]}
        before = await sync_to_async(AuditEvent.objects.count)()
        communicator = ApplicationCommunicator(BodyLimit(get_asgi_application()), scope)
        await communicator.send_input({"type": "http.request", "body": b"{", "more_body": True})
        await communicator.send_input({"type": "http.disconnect"})
        await communicator.wait(20)
        assert await communicator.receive_nothing()
        assert await sync_to_async(AuditEvent.objects.count)() == before + num_events
        if num_events:
            user, action, result, status, detail = await sync_to_async(_latest_event)()
            assert (user, result, status) == ("somebody", "failed", 499) and "left" in detail["refused"]
            assert action.startswith(method) and "/s/" not in action

    async def test_who_may_upload_does(self) -> None:
        token = await sync_to_async(_token_of)(Role.DEVELOPER)
        assert (await status_and_taken(scope_with((b"authorization", b"Bearer " + token))))[0] == 200

    async def test_a_document_of_nearly_two_mib_is_saved(self) -> None:
        """Through all of Django: every limit on the way is above that of the document."""
        token = await sync_to_async(_token_of)(Role.DEVELOPER)
        written = document()
        written["nodes"]["n2"]["params"] = {"label": "x" * (MAX_BYTES - 4096)}
        body = json.dumps({"document": written}).encode()
        headers = [
            (b"host", b"localhost"),
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"authorization", b"Bearer " + token),
        ]
        scope = {"type": "http", "method": "POST", "path": "/api/v1/pipelines", "query_string": b"", "headers": headers}
        talk = ApplicationCommunicator(BodyLimit(get_asgi_application()), scope)
        await talk.send_input({"type": "http.request", "body": body, "more_body": False})
        answer = await talk.receive_output(30)
        assert answer["status"] == 201
        await talk.wait()
        assert await sync_to_async(lambda: len(Version.objects.get().document) > MAX_BYTES - 4096)()

    async def test_the_pages_session_does_too(self) -> None:
        key = await sync_to_async(_session_of)(Role.DEVELOPER)
        assert (await status_and_taken(scope_with((b"cookie", b"tidemark-session=" + key))))[0] == 200


def _latest_event() -> Any:
    return AuditEvent.objects.values_list("user", "action", "result", "status", "detail").latest("pk")


def _user_with(role: Role) -> User:
    user = User.objects.create_user("somebody", password="x")
    set_role(user, role)
    return user


def _token_of(role: Role) -> bytes:
    return create_token(_user_with(role), "test").encode()


def _session_of(role: Role) -> bytes:
    client = Client()
    client.force_login(_user_with(role))
    return client.cookies["tidemark-session"].value.encode()
