"""The path that a proxy has before all of this server's own (TIDEMARK_BASE_PATH), and where the page is below it.

A proxy may hand it on or take it away, and who asks the server directly may leave it out: the outer middleware takes it
away if it is there, so that what is between the two sees the server's own paths. Django gets it back, and has it in its
links, redirects and cookies. Both do nothing without a base path.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from django.conf import settings

Application = Callable[[Any, Any, Any], Awaitable[None]]
_PAGE: Final = "/ui/"


def page_route() -> str:
    """Return the path of the page: "/ui/", "/tidemark/ui/"."""
    return f"{settings.TIDEMARK_BASE_PATH}{_PAGE}"


class WithoutBasePath:
    """ASGI middleware, for HTTP and WebSockets: takes the base path from the paths that begin with it.

    Args:
        application: the rest.
        base_path: see `environment.base_path`.
    """

    def __init__(self, application: Application, base_path: str) -> None:
        self._application = application
        self._base_path = base_path

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._base_path and scope["type"] in ("http", "websocket"):
            scope = {**scope, "path": without(self._base_path, scope["path"]), "root_path": ""}
        await self._application(scope, receive, send)


class WithBasePath:
    """ASGI middleware: puts the base path before paths, as Django expects it where it is mounted below one.

    Args:
        application: Django.
        base_path: see `environment.base_path`.
    """

    def __init__(self, application: Application, base_path: str) -> None:
        self._application = application
        self._base_path = base_path

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._base_path and scope["type"] == "http":
            scope = {**scope, "path": f"{self._base_path}{scope['path']}", "root_path": self._base_path}
        await self._application(scope, receive, send)


def without(base_path: str, path: str) -> str:
    """Return a path without the base path, which it may have or not."""
    if path == base_path:
        return "/"
    return path.removeprefix(base_path) if path.startswith(f"{base_path}/") else path
