"""Tells a view whether its client is still connected.

A view runs in a thread and cannot be interrupted. `ClientWatch`, in front of Django, notes the disconnect that Django's
handler receives while the view works; long work asks `has_left` now and then, and ends when nobody wants its result.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from backend.dispatcher.uploads import Application, Message, Receive, Send

CLIENT_LEFT = "tidemark.client_left"
"""Key of the event in the request's ASGI scope."""


class ClientWatch:
    """ASGI middleware that notes when a request's client disconnects.

    Args:
        application: the application that handles the requests.
    """

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        left = threading.Event()

        async def noting_receive() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                left.set()
            return message

        await self._application({**scope, CLIENT_LEFT: left}, noting_receive, send)


def has_left(request: Any) -> Callable[[], bool]:
    """Return a function, for any thread, that tells whether the client of a Django or DRF request has disconnected;
    always False where `ClientWatch` does not see the request.
    """
    left: threading.Event | None = getattr(request, "scope", {}).get(CLIENT_LEFT)
    return (lambda: False) if left is None else left.is_set
