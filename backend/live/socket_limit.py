"""Limits how many WebSockets a user has open at a time, before a consumer is created for one more."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings

from backend.live.authentication import Application, Scope
from backend.live.open_sockets import RENEW_S, OpenSockets

logger = logging.getLogger(__name__)

#: asks the client to close others first, where the server cannot refuse with a status; from the application range
CLOSE_TOO_MANY = 4429
RETRY_AFTER_S = 10
"""A tab that is closed makes room at once; one whose machine is gone after a minute or so."""
REFUSE_WITH_STATUS = "websocket.http.response"
"""Extension of ASGI."""


class SocketLimit:
    """ASGI middleware inside `LiveAuthentication`: answers 429 where a user has as many sockets as are allowed.

    Args:
        application: the application that handles the other connections.
        sockets: those that are open.
        renew_s: interval at which the lease of an open one is renewed.
    """

    def __init__(self, application: Application, sockets: OpenSockets | None = None, renew_s: float = RENEW_S) -> None:
        self._application = application
        self._sockets = sockets or OpenSockets()
        self._renew_s = renew_s

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> Any:
        limit: int = settings.TIDEMARK_SOCKETS_PER_USER
        if not limit:
            return await self._application(scope, receive, send)
        user, socket = scope["user"].pk, secrets.token_hex(8)
        renewing: asyncio.Task[None] | None = None
        try:
            if not await sync_to_async(self._sockets.take)(user, socket, limit):
                logger.warning("a WebSocket of %s is refused: %d are open", scope["user"], limit)
                await receive()
                await _refuse(scope, send, limit)
                return None
            renewing = asyncio.create_task(self._renew_for_ever(user, socket))
            return await self._application(scope, receive, send)
        finally:
            if renewing is not None:
                renewing.cancel()
            await sync_to_async(self._sockets.release)(user, socket)

    async def _renew_for_ever(self, user: int, socket: str) -> None:
        while True:
            await asyncio.sleep(self._renew_s)
            await sync_to_async(self._sockets.renew)(user, socket)


async def _refuse(scope: Scope, send: Any, limit: int) -> None:
    if REFUSE_WITH_STATUS not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": CLOSE_TOO_MANY})
        return
    message = (
        f"You have {limit} live connections open, as many as this cluster holds for one user "
        "(TIDEMARK_SOCKETS_PER_USER): close other tabs of the page."
    )
    body = json.dumps({"errors": [{"code": "too_many_sockets", "field": "", "message": message}]}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"retry-after", str(RETRY_AFTER_S).encode()),
    ]
    await send({"type": f"{REFUSE_WITH_STATUS}.start", "status": 429, "headers": headers})
    await send({"type": f"{REFUSE_WITH_STATUS}.body", "body": body})
