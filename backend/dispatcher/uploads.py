"""Limit of a request's body, enforced before Django reads it.

Django's ASGI handler reads a request's whole body before it checks path or user. `BodyLimit` in front of it keeps
anyone from filling the disk: only who may upload programs sends as much as one, only who is logged in as much as a
document of a pipeline, and everybody else no more than a MiB. That is known before the body is read.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest, parse_cookie
from django.urls import Resolver404, resolve

from backend.accounts.authentication import token_of_header
from backend.accounts.roles import Role, role_of
from backend.accounts.services import limit_session, user_of_token
from backend.accounts.submission import refusal
from backend.audit import trail
from backend.audit.middleware import result_of

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
#: loosely typed: Django types its application with Mapping, others use TypedDicts
Application = Callable[[Any, Any, Any], Awaitable[None]]

UPLOAD_PATH = "/jars/upload"
MULTIPART_OVERHEAD_BYTES = 64 << 10
"""Boundaries and part headers around the file."""
PIPELINES_PATH = "/api/v1/pipelines"
MAX_DOCUMENT_BODY_BYTES = 5 << 20
"""Limit of requests below `PIPELINES_PATH`: a document of 2 MiB, written with some blanks, and what goes with it."""
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


NOT_LOGGED_IN = json.dumps({"errors": ["Log in, or send a valid token, to upload a program."]}).encode()
NOT_LOGGED_IN_FOR_DOCUMENTS = json.dumps(
    {
        "errors": [
            {
                "code": "not_authenticated",
                "field": "",
                "message": f"Log in, or send a valid token, to send more than {MAX_BODY_BYTES} bytes.",
            }
        ]
    }
).encode()
NOT_ALLOWED = "Requires the role developer."
MayUpload = Callable[[Message], Awaitable[tuple[bool, bool]]]
Record = Callable[[Message, int], Awaitable[None]]


async def may_upload(scope: Message) -> tuple[bool, bool]:
    """Return (whether a request is logged in, whether its user may upload programs), from its headers."""
    headers = [(name.lower(), value) for name, value in scope["headers"]]
    if not any(name in (b"authorization", b"cookie") for name, _ in headers):
        return False, False
    return await sync_to_async(_may_upload, thread_sensitive=True)(dict(headers))


async def record_refusal(scope: Message, status: int) -> None:
    """Leave the audit event of a request that Django never sees."""
    await sync_to_async(_record_refusal, thread_sensitive=True)(scope, status)


def _record_refusal(scope: Message, status: int) -> None:
    user = _user_of({name.lower(): value for name, value in scope["headers"]})
    try:
        # not the path itself, which may hold a secret
        route = resolve(scope["path"]).route
    except Resolver404:
        route = scope["path"]
    refused = refusal() if user is not None and status == 403 else None
    trail.record(
        f"{scope['method']} {route}",
        user="" if user is None else user.get_username(),
        address=(scope.get("client") or [""])[0],
        result=result_of(status),
        status=status,
        detail={} if refused is None else {"refused": str(refused.detail)},
    )


def _may_upload(headers: Mapping[bytes, bytes]) -> tuple[bool, bool]:
    user = _user_of(headers)
    if user is None:
        return False, False
    return True, role_of(user) >= Role.DEVELOPER and refusal() is None


def _user_of(headers: Mapping[bytes, bytes]) -> User | None:
    request = HttpRequest()
    token = token_of_header(headers.get(b"authorization", b"").decode("latin-1"))
    user: User | None
    if token is not None:
        user = user_of_token(token)
    else:
        cookies = parse_cookie(headers.get(b"cookie", b"").decode("latin-1"))
        request.session = SessionStore(cookies.get(settings.SESSION_COOKIE_NAME))
        found = get_user(request)
        user = found if isinstance(found, User) and limit_session(request.session, found) else None
    return user


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
        may_upload: returns (whether a request is logged in, whether its user may upload programs).
        record: writes down that a request was refused, with its status.
    """

    def __init__(
        self,
        application: Application,
        drain: Drain = Drain(),
        may_upload: MayUpload = may_upload,
        record: Record = record_refusal,
    ) -> None:
        self._application = application
        self._drain = drain
        self._may_upload = may_upload
        self._record = record

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        limit = MAX_BODY_BYTES
        refused: tuple[int, bytes] | None = None
        headers = dict(scope["headers"])
        announced = headers.get(b"content-length", b"0")
        is_small = announced.isdigit() and len(announced) <= MAX_DIGITS and int(announced) <= MAX_BODY_BYTES
        if not (is_small and b"content-length" in headers):
            if scope["path"].endswith(UPLOAD_PATH):
                is_known, may_upload = await self._may_upload(scope)
                if may_upload:
                    limit = settings.TIDEMARK_MAX_UPLOAD_BYTES + MULTIPART_OVERHEAD_BYTES
                else:
                    refused = (403, _not_allowed()) if is_known else (401, NOT_LOGGED_IN)
            elif _may_hold_document(scope):
                # who may write one is the route's to say
                is_known, _ = await self._may_upload(scope)
                if is_known:
                    limit = MAX_DOCUMENT_BODY_BYTES
                else:
                    refused = (401, NOT_LOGGED_IN_FOR_DOCUMENTS)
        # int() fails on thousands of digits
        if announced.isdigit() and (len(announced) > MAX_DIGITS or int(announced) > limit):
            await self._refuse(scope, receive, send, refused or _refusal(scope, limit), has_more=True)
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
                await self._refuse(scope, receive, send, refused or _refusal(scope, limit), error.has_more)

    async def _refuse(
        self, scope: Message, receive: Receive, send: Send, refusal: tuple[int, bytes], has_more: bool
    ) -> None:
        status, body = refusal
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        # complete for the client, but not yet for the server, which would close the connection after the last part
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await self._record(scope, status)
        if has_more:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._drain.seconds):
                    await _read_on(receive, self._drain.max_bytes)
        await send({"type": "http.response.body", "body": b""})


def _may_hold_document(scope: Message) -> bool:
    # the others have no body, and so announce none: they are not to cost a query each
    is_writing = scope["method"] in ("POST", "PUT", "PATCH")
    return is_writing and f"{scope['path']}/".startswith(f"{PIPELINES_PATH}/")


def _not_allowed() -> bytes:
    refused = refusal()
    return json.dumps({"errors": [NOT_ALLOWED if refused is None else str(refused.detail)]}).encode()


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
