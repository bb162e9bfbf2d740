"""A WebSocket client that talks to the application without a socket. (Channels' own wants another server installed.)"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from asgiref.testing import ApplicationCommunicator

from backend.live.authentication import SUBPROTOCOL
from backend.live.routing import websocket_application


class WebSocket(ApplicationCommunicator):
    """A connection to /ws/live."""

    def __init__(self, *headers: tuple[bytes, bytes], subprotocols: Sequence[str] = (SUBPROTOCOL,)) -> None:
        scope = {
            "type": "websocket",
            "path": "/ws/live",
            "query_string": b"",
            "headers": list(headers),
            "subprotocols": list(subprotocols),
        }
        super().__init__(websocket_application, scope)

    async def connect(self) -> bool:
        """Connect; returns whether the connection was accepted."""
        await self.send_input({"type": "websocket.connect"})
        answer = await self.receive_output(5)
        return bool(answer["type"] == "websocket.accept")

    async def disconnect(self) -> None:
        """Leave, and wait for the application to notice."""
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(5)

    async def send_text(self, text: str) -> None:
        await self.send_input({"type": "websocket.receive", "text": text})

    async def send_json(self, message: Any) -> None:
        await self.send_text(json.dumps(message))

    async def receive_json(self) -> dict[str, Any]:
        """The next message.

        Raises:
            AssertionError: the connection was closed instead.
        """
        frame = await self.receive_output(5)
        assert frame["type"] == "websocket.send", frame
        message: dict[str, Any] = json.loads(frame["text"])
        return message
