"""The limit on request bodies, in front of Django."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pytest_django import Settings

from backend.dispatcher.uploads import MAX_BODY_BYTES, MULTIPART_OVERHEAD_BYTES, BodyLimit, Drain

LIMIT = 2 * MAX_BODY_BYTES


@pytest.fixture(autouse=True)
def small_uploads(settings: Settings) -> None:
    settings.TIDEMARK_MAX_UPLOAD_BYTES = LIMIT - MULTIPART_OVERHEAD_BYTES


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
    await BodyLimit(application, Drain(max_bytes=5 * LIMIT))(scope, receive, send)
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
    await BodyLimit(application, Drain(seconds=0.01))(scope, receive, send)
    assert len(sent) == 3


async def test_a_body_within_the_limit_is_the_applications() -> None:
    assert await status_of("/v1/jars/upload", [LIMIT // 2] * 2, TOKEN) == (200, LIMIT)


async def test_only_uploads_of_somebody_may_be_large() -> None:
    assert (await status_of("/v1/jars/upload", [LIMIT]))[0] == 413
    assert (await status_of("/api/v1/session", [LIMIT], TOKEN))[0] == 413
    assert (await status_of("/api/v1/session", [100]))[0] == 200


@pytest.mark.parametrize("path", ["/jobs", "/v1/jobs"])
async def test_job_graphs_of_flink_are_no_method_of_jobs(path: str) -> None:
    assert (await status_of(path, [LIMIT], TOKEN))[0] == 405
