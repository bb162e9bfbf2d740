"""Presence of a request's client, as a view in its thread asks for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from backend.dispatcher.presence import ClientWatch, has_left


async def test_a_view_learns_that_its_client_has_disconnected() -> None:
    messages = [{"type": "http.request", "body": b"", "more_body": False}, {"type": "http.disconnect"}]
    told: list[bool] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        raise AssertionError("nobody is there")

    async def application(scope: Any, receive: Any, send: Any) -> None:
        left = has_left(SimpleNamespace(scope=scope))
        for _ in range(2):
            await receive()
            told.append(left())

    await ClientWatch(application)({"type": "http"}, receive, send)
    assert told == [False, True]


def test_a_request_that_nobody_watches_is_taken_for_one_whose_client_is_there() -> None:
    assert not has_left(SimpleNamespace(scope={}))()
    assert not has_left(SimpleNamespace())()
