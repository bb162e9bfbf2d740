"""Authentication of WebSockets by a token in the header or in a subprotocol, else by the session cookie.

Every client offers the subprotocol `tidemark.live.3`, the version of the messages and documents. A browser cannot set
headers on a WebSocket; a page without a session also offers `tidemark.token.<token>`. The credentials found at the
start are checked again while the connection is open.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from channels.auth import get_user
from channels.db import database_sync_to_async
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.contrib.auth.models import User as AccountUser
from django.contrib.sessions.backends.db import SessionStore

from backend.accounts.authentication import token_of_header
from backend.accounts.services import limit_session, user_of_token

#: asks the client to log in; from the application range (a browser refused before the handshake sees 403 instead)
CLOSE_UNAUTHORIZED = 4401
SUBPROTOCOL = "tidemark.live.3"
TOKEN_SUBPROTOCOL = "tidemark.token."

Scope = dict[str, Any]
User = AbstractBaseUser | AnonymousUser
FindUser = Callable[[], Awaitable[User]]
#: loosely typed: the middleware only passes these arguments on
Application = Callable[[Any, Any, Any], Awaitable[Any]]


class LiveAuthentication:
    """ASGI middleware inside Channels' session middleware: refuses anonymous connections and other versions with 403;
    for the rest it sets `user`, and `find_user` to check again later."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> Any:
        find_user = _finder(scope)
        user = await find_user()
        # a page of an older build does not understand the documents: refused, it keeps reading its own over REST
        if not user.is_authenticated or SUBPROTOCOL not in scope.get("subprotocols", ()):
            # refused before a consumer is created, which would cost a reader in Redis
            await receive()
            await send({"type": "websocket.close", "code": CLOSE_UNAUTHORIZED})
            return None
        return await self._application(scope | {"user": user, "find_user": find_user}, receive, send)


def _finder(scope: Scope) -> FindUser:
    token = _token(scope)
    session_key = scope["session"].session_key

    async def by_token() -> User:
        return await database_sync_to_async(user_of_token)(token or "") or AnonymousUser()

    async def by_session() -> User:
        # a new store each time: the one in the scope caches what it has read
        session = SessionStore(session_key)
        user: User = await get_user(cast("Any", {"session": session}))
        if not isinstance(user, AccountUser) or not user.is_active:
            return AnonymousUser()
        return user if await database_sync_to_async(limit_session)(session, user) else AnonymousUser()

    return by_session if token is None else by_token


def _token(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"authorization":
            return token_of_header(value.decode("latin-1"))
    for protocol in scope.get("subprotocols", ()):
        if protocol.startswith(TOKEN_SUBPROTOCOL):
            return str(protocol).removeprefix(TOKEN_SUBPROTOCOL)
    return None
