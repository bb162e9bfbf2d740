"""The limit of what a request may send, kept before Django reads it.

Django's ASGI handler takes a request's whole body before it looks at the path or at who sends it: `BodyLimit` stands
before it, so that no one can fill the disk.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.conf import settings

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
#: Django types its own application with Mapping, others with TypedDicts
Application = Callable[[Any, Any, Any], Awaitable[None]]

UPLOAD_PATH = "/jars/upload"
MULTIPART_OVERHEAD_BYTES = 64 << 10
"""Boundaries and part headers around the file."""
MAX_BODY_BYTES = 1 << 20
"""Of every other request."""


class _TooLarge(Exception):
    """The body has gone over its limit."""


class BodyLimit:
    """ASGI middleware: a body over its limit is answered with 413, as soon as that is known.

    Args:
        application: what answers everything else.
    """

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        limit = self._limit(scope)
        headers = dict(scope["headers"])
        announced = headers.get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > limit:
            await _refuse(send, scope["path"], limit)
            return
        received = 0
        started = False

        async def counting_receive() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise _TooLarge
            return message

        async def watching_send(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._application(scope, counting_receive, watching_send)
        except _TooLarge:
            if not started:
                await _refuse(send, scope["path"], limit)

    def _limit(self, scope: Message) -> int:
        if not scope["path"].endswith(UPLOAD_PATH):
            return MAX_BODY_BYTES
        names = {name for name, _ in scope["headers"]}
        # without either nobody is logged in, and the answer will be 401
        may_upload = b"authorization" in names or b"cookie" in names
        limit: int = settings.TIDEMARK_MAX_UPLOAD_BYTES + MULTIPART_OVERHEAD_BYTES
        return limit if may_upload else MAX_BODY_BYTES


async def _refuse(send: Send, path: str, limit: int) -> None:
    message = f"The request is larger than {limit} bytes."
    is_product = path.startswith("/api/")
    error: Any = {"code": "too_large", "field": "", "message": message} if is_product else message
    body = json.dumps({"errors": [error]}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        # the rest of the body is not read
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": body})
