"""Lets only the page of this very server open WebSockets: scheme aside, its origin is the host and port that it asks.

Browsers send cookies along with WebSockets whatever page opens them, and no CSRF token: the origin is all there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import split_domain_port, validate_host

#: loosely typed: Channels' stack has a type of its own
Application = Any
_PORTS = {"http": "80", "https": "443"}


class SameOrigin:
    """ASGI middleware: refuses connections from pages of other origins with 403."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> Any:
        if is_same_origin(scope["headers"]):
            return await self._application(scope, receive, send)
        await receive()
        await send({"type": "websocket.close"})
        return None


def is_same_origin(headers: Any) -> bool:
    """Return whether a request comes from a page of the host that it asks, or from a trusted origin.

    Args:
        headers: (name, value) pairs of bytes, names in lower case.
    """
    given = {name: value.decode("latin-1") for name, value in headers if name in (b"origin", b"host")}
    origin = given.get(b"origin")
    if origin is None:
        return False
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    try:
        parts = urlsplit(origin)
        port = str(parts.port or "") or _PORTS[parts.scheme]
    except (ValueError, KeyError):
        return False
    if not parts.hostname or not validate_host(_bracketed(parts.hostname), settings.ALLOWED_HOSTS):
        return False
    asked = given.get(b"host")
    if asked is None:
        # HTTP/1.0, which no browser speaks
        return True
    host, asked_port = split_domain_port(asked)
    return host == _bracketed(parts.hostname) and (asked_port or _PORTS[parts.scheme]) == port


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
