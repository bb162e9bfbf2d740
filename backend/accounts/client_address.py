"""The address of a request's client, behind the proxies that TIDEMARK_TRUSTED_PROXIES names. Pure.

What connects is the client, unless it is such a proxy. Each of them adds the address that had connected to it at the
right end of X-Forwarded-For, so that is read from there, and no further than the first address that is none of them:
what stands left of it may be anybody's invention. The ASGI middleware puts the result in the place of the address that
connected, for all that reads `REMOTE_ADDR` or the scope's `client`: the limit on logins and the audit trail.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from backend.config.environment import UNIX_SOCKET, Network

Application = Callable[[Any, Any, Any], Awaitable[None]]
_HEADER = b"x-forwarded-for"


class ForwardedClients:
    """ASGI middleware; outermost of all, for HTTP and WebSockets.

    Args:
        application: the rest.
        proxies: networks of the proxies, and `unix` for whatever connects through a socket of this machine.
    """

    def __init__(self, application: Application, proxies: Sequence[Network | str]) -> None:
        self._application = application
        self._proxies = proxies

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._proxies and scope["type"] in ("http", "websocket"):
            host, port = scope.get("client") or ("", 0)
            forwarded = b",".join(value for name, value in scope["headers"] if name.lower() == _HEADER)
            client = client_address(host, forwarded.decode("latin-1"), self._proxies)
            scope = {**scope, "client": (client, port if client == host else 0)}
        await self._application(scope, receive, send)


def client_address(peer: str, forwarded: str, proxies: Sequence[Network | str]) -> str:
    """Return the address of a client.

    Args:
        peer: what is at the other end of the connection; "": a socket of this machine.
        forwarded: X-Forwarded-For, all of them joined by commas.
        proxies: see `ForwardedClients`.
    """
    client = peer
    for entry in reversed([entry.strip() for entry in forwarded.split(",") if entry.strip()]):
        if not _is_proxy(client, proxies):
            break
        told = _address(entry)
        if told is None:
            # a proxy that hides its clients ("unknown"), or writes what nobody can read
            break
        client = told
    return client


def network_of_client(address: str) -> str:
    """Return what one client has for itself alone: an address of version 4, a /64 of version 6."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((int(found), 64), strict=False))


def _is_proxy(address: str, proxies: Sequence[Network | str]) -> bool:
    if not address:
        return UNIX_SOCKET in proxies
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if found.version == 6 and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    # an address is in no network of the other version
    return any(found in proxy for proxy in proxies if not isinstance(proxy, str))


def _address(entry: str) -> str | None:
    """Return the address of an entry, which may have a port: 192.0.2.1:80, [2001:db8::1]:80; None: it has none."""
    host = entry
    if entry.startswith("["):
        host = entry[1:].partition("]")[0]
    elif entry.count(":") == 1:
        host = entry.partition(":")[0]
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return None
