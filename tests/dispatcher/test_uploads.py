"""The limit on request bodies, in front of Django."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pytest_django import Settings

from backend.dispatcher.uploads import MAX_BODY_BYTES, MULTIPART_OVERHEAD_BYTES, BodyLimit

LIMIT = 2 * MAX_BODY_BYTES


@pytest.fixture(autouse=True)
def small_uploads(settings: Settings) -> None:
    settings.TIDEMARK_MAX_UPLOAD_BYTES = LIMIT - MULTIPART_OVERHEAD_BYTES


async def status_of(path: str, sizes: list[int], *headers: tuple[bytes, bytes]) -> tuple[int, int]:
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

    scope = {"type": "http", "path": path, "headers": list(headers)}
    await BodyLimit(application)(scope, receive, send)
    if sent[0]["status"] == 413:
        assert list(json.loads(sent[1]["body"])) == ["errors"]
    return sent[0]["status"], taken


TOKEN = (b"authorization", b"Bearer x")


async def test_a_body_that_says_how_large_it_is_is_not_read_at_all() -> None:
    announced = (b"content-length", str(LIMIT + 1).encode())
    assert await status_of("/v1/jars/upload", [LIMIT + 1], TOKEN, announced) == (413, 0)


async def test_a_body_that_does_not_say_is_read_up_to_the_limit() -> None:
    chunk = MAX_BODY_BYTES
    assert await status_of("/v1/jars/upload", [chunk] * 100, TOKEN) == (413, 3 * chunk)
    assert await status_of("/v1/jars/upload", [chunk] * 2, TOKEN) == (200, 2 * chunk)


async def test_only_uploads_of_somebody_may_be_large() -> None:
    assert (await status_of("/v1/jars/upload", [LIMIT]))[0] == 413
    assert (await status_of("/api/v1/session", [LIMIT], TOKEN))[0] == 413
    assert (await status_of("/api/v1/session", [100]))[0] == 200
