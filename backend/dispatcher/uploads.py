"""Limit of a request's body, enforced before Django reads it.

Django's ASGI handler reads a request's whole body before it checks path or user. `BodyLimit` in front of it keeps
anyone from filling the disk: only who may upload programs sends as much as one, only who is logged in as much as a
document of a pipeline, and everybody else no more than a MiB. That is known before the body is read, and so is whether
the storage still has room for the user.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.db import Error
from django.http import HttpRequest, parse_cookie
from django.urls import Resolver404, resolve
from rest_framework import exceptions

from backend.accounts.authentication import token_of_header
from backend.accounts.errors import DatabaseAway, headers_of
from backend.accounts.roles import Role, role_of
from backend.accounts.services import limit_session, user_of_token
from backend.accounts.submission import refusal
from backend.accounts.submission_rate import excess
from backend.audit import trail
from backend.audit.middleware import READS, result_of, telling_path
from backend.dispatcher.quota import QuotaExceeded, give_back, set_aside

logger = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
#: loosely typed: Django types its application with Mapping, others use TypedDicts
Application = Callable[[Any, Any, Any], Awaitable[None]]

UPLOAD_PATH = "/jars/upload"
PENDING_UPLOAD = "tidemark.pending_upload"
"""Key of what was set aside for the upload, in the request's ASGI scope."""
MULTIPART_OVERHEAD_BYTES = 64 << 10
"""Boundaries and part headers around the file."""
PIPELINES_PATH = "/api/v1/pipelines"
MAX_DOCUMENT_BODY_BYTES = 5 << 20
"""Limit of requests below `PIPELINES_PATH`: a document of 2 MiB, written with some blanks, and what goes with it."""
MAX_BODY_BYTES = 1 << 20
"""Limit of all other requests."""
MAX_DIGITS = 18
"""Of an announced size; of a longer one, the first that are more."""


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


class Admission(NamedTuple):
    """Sender of a large body."""

    is_known: bool = False
    """Whether the request is logged in."""
    refused: exceptions.APIException | None = None
    """Why no program is taken from its user; None: one is, if it is logged in."""
    pending: str | None = None
    """Part of the user's quota that was set aside."""


Admit = Callable[[Message, int | None], Awaitable[Admission]]
Record = Callable[[Message, int, str], Awaitable[None]]


CLIENT_LEFT: Final = 499
"""Status of the audit event of a request whose client is gone before all of the body has come; nobody gets it."""
LEFT: Final = "the client left before all of the body had come"


class _Refusal(NamedTuple):
    """An answer without the application.

    Attributes:
        note: for the audit event; empty: the status says it.
    """

    status: int
    body: bytes
    headers: Mapping[str, str] = {}
    note: str = ""


async def admit(scope: Message, upload_bytes: int | None) -> Admission:
    """Judge the sender of a large body by the request's headers.

    Args:
        scope: the request's.
        upload_bytes: to be set aside for a program, 0: nothing; None: the body is none.
    """
    headers = [(name.lower(), value) for name, value in scope["headers"]]
    if not any(name in (b"authorization", b"cookie") for name, _ in headers):
        return Admission()
    return await sync_to_async(_admit, thread_sensitive=True)(dict(headers), upload_bytes)


def pending_of(request: Any) -> str | None:
    """Return what was set aside for the upload of a Django or DRF request; None: nothing was."""
    found: str | None = getattr(request, "scope", {}).get(PENDING_UPLOAD)
    return found


async def record_refusal(scope: Message, status: int, note: str) -> None:
    """Leave the audit event of a request that Django never sees."""
    await sync_to_async(_record_refusal, thread_sensitive=True)(scope, status, note)


def _record_refusal(scope: Message, status: int, note: str) -> None:
    try:
        user = _user_of({name.lower(): value for name, value in scope["headers"]})
    except Error:
        user = None
    try:
        # not the path itself, which may hold a secret
        route = resolve(scope["path"]).route
    except Resolver404:
        route = telling_path(scope["path"])
    trail.record(
        f"{scope['method']} {route}",
        user="" if user is None else user.get_username(),
        address=(scope.get("client") or [""])[0],
        result=result_of(status),
        status=status,
        detail={"refused": note} if note else {},
    )


def _admit(headers: Mapping[bytes, bytes], upload_bytes: int | None) -> Admission:
    user = _user_of(headers)
    if user is None or upload_bytes is None:
        return Admission(user is not None)
    if role_of(user) < Role.DEVELOPER:
        return Admission(True, exceptions.PermissionDenied(NOT_ALLOWED))
    refused = refusal() or excess(user)
    if refused is not None or not upload_bytes:
        return Admission(True, refused)
    try:
        return Admission(True, pending=set_aside(user, upload_bytes))
    except QuotaExceeded as error:
        return Admission(True, error)


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
        admit: judges who sends a large body.
        record: writes down that a request was refused, or not sent whole, with its status and what else there is to
            say.
    """

    def __init__(
        self,
        application: Application,
        drain: Drain = Drain(),
        admit: Admit = admit,
        record: Record = record_refusal,
    ) -> None:
        self._application = application
        self._drain = drain
        self._admit = admit
        self._record = record

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        limit = MAX_BODY_BYTES
        refused: _Refusal | None = None
        admission = Admission()
        size = _announced(scope)
        if size is None or size > MAX_BODY_BYTES:
            if scope["path"].endswith(UPLOAD_PATH):
                most = settings.TIDEMARK_MAX_UPLOAD_BYTES + MULTIPART_OVERHEAD_BYTES
                needed = most if size is None else size
                admission = await self._admission(scope, needed if needed <= most else 0)
                if not admission.is_known:
                    refused = _Refusal(401, NOT_LOGGED_IN)
                elif admission.refused is not None:
                    refused = _refusal_by(admission.refused)
                else:
                    limit = most
            elif _may_hold_document(scope):
                # who may write one is the route's to say
                admission = await self._admission(scope, None)
                if admission.refused is not None:
                    refused = _refusal_by(admission.refused)
                elif admission.is_known:
                    limit = MAX_DOCUMENT_BODY_BYTES
                else:
                    refused = _Refusal(401, NOT_LOGGED_IN_FOR_DOCUMENTS)
        if size is not None and size > limit:
            await self._refuse(scope, receive, send, refused or _refusal(scope, limit), has_more=True)
            return
        if admission.pending is None:
            await self._pass_on(scope, receive, send, limit, refused)
            return
        try:
            await self._pass_on({**scope, PENDING_UPLOAD: admission.pending}, receive, send, limit, refused)
        finally:
            await sync_to_async(give_back, thread_sensitive=True)(admission.pending)

    async def _admission(self, scope: Message, upload_bytes: int | None) -> Admission:
        try:
            return await self._admit(scope, upload_bytes)
        except Error as error:
            logger.warning("the sender of a large body is not known: %s", error)
            return Admission(True, DatabaseAway())

    async def _pass_on(
        self, scope: Message, receive: Receive, send: Send, limit: int, refused: _Refusal | None
    ) -> None:
        """Hand the request to the application, and refuse it as soon as more than `limit` bytes have come."""
        received = 0
        started = is_whole = has_left = False

        async def counting_receive() -> Message:
            nonlocal received, is_whole, has_left
            message = await receive()
            has_left = has_left or (message["type"] == "http.disconnect" and not is_whole)
            is_whole = is_whole or not message.get("more_body", False)
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
            if has_left and not started and scope["method"] not in READS:
                await self._record(scope, CLIENT_LEFT, LEFT)
        except _TooLarge as error:
            if not started:
                await self._refuse(scope, receive, send, refused or _refusal(scope, limit), error.has_more)

    async def _refuse(self, scope: Message, receive: Receive, send: Send, refusal: _Refusal, has_more: bool) -> None:
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(refusal.body)).encode()),
            (b"connection", b"close"),
            *((name.lower().encode(), value.encode()) for name, value in refusal.headers.items()),
        ]
        await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        # complete for the client, but not yet for the server, which would close the connection after the last part
        await send({"type": "http.response.body", "body": refusal.body, "more_body": True})
        await self._record(scope, refusal.status, refusal.note)
        if has_more:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._drain.seconds):
                    await _read_on(receive, self._drain.max_bytes)
        await send({"type": "http.response.body", "body": b""})


def _announced(scope: Message) -> int | None:
    """Return the size that a body is announced with; None: it is not, or not with a number."""
    text = dict(scope["headers"]).get(b"content-length", b"")
    if not text.isdigit():
        return None
    # int() fails on thousands of digits
    return int(text[: MAX_DIGITS + 1])


def _may_hold_document(scope: Message) -> bool:
    # the others have no body, and so announce none: they are not to cost a query each
    is_writing = scope["method"] in ("POST", "PUT", "PATCH")
    return is_writing and f"{scope['path']}/".startswith(f"{PIPELINES_PATH}/")


def _refusal_by(error: exceptions.APIException) -> _Refusal:
    text = str(error.detail)
    # of roles, the status says enough
    note = "" if text == NOT_ALLOWED else text
    return _Refusal(error.status_code, json.dumps({"errors": [text]}).encode(), headers_of(error), note)


async def _read_on(receive: Receive, max_bytes: int) -> None:
    left = max_bytes
    while left > 0:
        message = await receive()
        if not message.get("more_body", False):
            return
        left -= len(message.get("body", b""))


def _refusal(scope: Message, limit: int) -> _Refusal:
    path = scope["path"]
    status, message = 413, f"The request is larger than {limit} bytes."
    if scope["method"] == "POST" and path.removeprefix("/v1") == JOBS_PATH:
        status, message = 405, NO_JOB_GRAPHS
    elif path.endswith(UPLOAD_PATH) and limit > MAX_BODY_BYTES:
        most = settings.TIDEMARK_MAX_UPLOAD_BYTES
        message = f"The program is too large: at most {most} bytes ({most / (1 << 20):.4g} MiB) are allowed."
    error: Any = {"code": "too_large", "field": "", "message": message} if path.startswith("/api/") else message
    return _Refusal(status, json.dumps({"errors": [error]}).encode())
