"""Limit of a request's body, enforced before Django reads it.

Django's ASGI handler reads a request's whole body before it checks path or user. `BodyLimit` in front of it keeps
anyone from filling the disk.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.conf import settings

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
#: loosely typed: Django types its application with Mapping, others use TypedDicts
Application = Callable[[Any, Any, Any], Awaitable[None]]

UPLOAD_PATH = "/jars/upload"
MULTIPART_OVERHEAD_BYTES = 64 << 10
"""Boundaries and part headers around the file."""
MAX_BODY_BYTES = 1 << 20
"""Limit of all other requests."""
MAX_DIGITS = 18
"""Of an announced size."""


JOBS_PATH = "/jobs"
NO_JOB_GRAPHS = (
    "POST /jobs takes the Java program of `flink run`, which cannot be run here. Submit a Python program with "
    "`tidemark run program.py`, on the page, or with POST /jars/upload and POST /jars/:jarid/run."
)


@dataclass(frozen=True, slots=True)
class Drain:
    """Limits of reading a body after the response. Less: more clients see a reset; more: it occupies connections."""

    seconds: float = 30.0
    max_bytes: int = 1 << 30


class _TooLarge(Exception):
    """The body exceeds its limit.

    Attributes:
        has_more: whether more of the body follows.
    """

    def __init__(self, has_more: bool) -> None:
        super().__init__()
        self.has_more = has_more


class BodyLimit:
    """ASGI middleware that answers a body over its limit with 413 as soon as that is known.

    After the response, the rest of the body is read, within limits, and discarded: closing a connection while its
    client still sends resets it, and the client would never see the response.

    Args:
        application: the application that handles all other requests.
        drain: limits on reading after a response.
    """

    def __init__(self, application: Application, drain: Drain = Drain()) -> None:
        self._application = application
        self._drain = drain

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        limit = self._limit(scope)
        headers = dict(scope["headers"])
        announced = headers.get(b"content-length", b"0")
        # int() fails on thousands of digits
        if announced.isdigit() and (len(announced) > MAX_DIGITS or int(announced) > limit):
            await self._refuse(scope, receive, send, limit, has_more=True)
            return
        received = 0
        started = False

        async def counting_receive() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise _TooLarge(message.get("more_body", False))
            return message

        async def watching_send(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._application(scope, counting_receive, watching_send)
        except _TooLarge as error:
            if not started:
                await self._refuse(scope, receive, send, limit, error.has_more)

    def _limit(self, scope: Message) -> int:
        if not scope["path"].endswith(UPLOAD_PATH):
            return MAX_BODY_BYTES
        names = {name for name, _ in scope["headers"]}
        # without either, no user is logged in and the response will be 401
        may_upload = b"authorization" in names or b"cookie" in names
        limit: int = settings.TIDEMARK_MAX_UPLOAD_BYTES + MULTIPART_OVERHEAD_BYTES
        return limit if may_upload else MAX_BODY_BYTES

    async def _refuse(self, scope: Message, receive: Receive, send: Send, limit: int, has_more: bool) -> None:
        status, body = _refusal(scope, limit)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        # complete for the client, but not yet for the server, which would close the connection after the last part
        await send({"type": "http.response.body", "body": body, "more_body": True})
        if has_more:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._drain.seconds):
                    await _read_on(receive, self._drain.max_bytes)
        await send({"type": "http.response.body", "body": b""})


async def _read_on(receive: Receive, max_bytes: int) -> None:
    left = max_bytes
    while left > 0:
        message = await receive()
        if not message.get("more_body", False):
            return
        left -= len(message.get("body", b""))


def _refusal(scope: Message, limit: int) -> tuple[int, bytes]:
    path = scope["path"]
    status, message = 413, f"The request is larger than {limit} bytes."
    if scope["method"] == "POST" and path.removeprefix("/v1") == JOBS_PATH:
        status, message = 405, NO_JOB_GRAPHS
    elif path.endswith(UPLOAD_PATH) and limit > MAX_BODY_BYTES:
        most = settings.TIDEMARK_MAX_UPLOAD_BYTES
        message = f"The program is too large: at most {most} bytes ({most / (1 << 20):.4g} MiB) are allowed."
    error: Any = {"code": "too_large", "field": "", "message": message} if path.startswith("/api/") else message
    return status, json.dumps({"errors": [error]}).encode()
