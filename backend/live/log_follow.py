"""LogFollower: what a job's log gets, for a page that follows it over its WebSocket. Event loop only.

A part is sent when the page has taken the one before; until then nothing is read, so a slow page costs no memory and
holds up neither the job nor its log. Nothing is lost meanwhile: parts go on by cursor. It ends with the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from channels.db import database_sync_to_async
from rest_framework.exceptions import APIException

from backend.cluster.services import JobUnknownError
from backend.live.log_query import JobLogSearch

MAX_FOLLOWED: Final = 4
"""Of a connection. More: each is read again and again."""
MAX_QUERY_ITEMS: Final = 20
PART_ENTRIES: Final = 500
"""Fewer: a page that is behind stays so; more: a frame keeps ticks waiting."""

Query = Mapping[str, str]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class FollowRefused(Exception):
    """A message does not say what is to be followed."""


class LogFollower:
    """The log that a page follows.

    Args:
        name: what the page calls it.
        job_id: whose log it is.
        query: what is wanted of it, with the cursor after which it is followed.
        send: sends a message to the page.
        pause_s: between looks.
    """

    def __init__(self, name: str, job_id: str, query: Query, send: Send, pause_s: float) -> None:
        self._name = name
        self._job_id = job_id
        self._query = {**query, "order": "oldest", "limit": str(PART_ENTRIES)}
        self._send = send
        self._pause_s = pause_s
        self._is_taken = asyncio.Event()
        self._is_taken.set()

    def take(self) -> None:
        """Note that the page has taken the last part."""
        self._is_taken.set()

    async def run(self) -> None:
        """Send parts until this is cancelled, or the log cannot be followed any more."""
        while True:
            await self._is_taken.wait()
            try:
                part = await self._next()
            except (APIException, JobUnknownError) as error:
                await self._send({"type": "log-ended", "id": self._name, "message": _message_of(error)})
                return
            if part["cursor"] is not None:
                self._query["cursor"] = part["cursor"]
            if part["entries"]:
                self._is_taken.clear()
                await self._send({"type": "log", "id": self._name, "part": part})
            await asyncio.sleep(self._pause_s)

    async def _next(self) -> dict[str, Any]:
        search = await database_sync_to_async(JobLogSearch.of)(self._job_id, self._query)
        # on a thread of its own: the one for the database serves all connections
        return await asyncio.to_thread(search.look)


def follower_of(message: Mapping[str, Any], send: Send, pause_s: float) -> LogFollower:
    """Return the follower that a message "follow" asks for.

    Raises:
        FollowRefused: it has other members than `messages.Follow`.
    """
    name, job_id, query = (message.get(key) for key in ("id", "job", "query"))
    if not isinstance(name, str) or not isinstance(job_id, str) or len(name) > 100:
        raise FollowRefused("A log is followed by id, job and query.")
    if not isinstance(query, dict) or len(query) > MAX_QUERY_ITEMS or "cursor" not in query:
        raise FollowRefused("The query of a log that is followed has a cursor.")
    if not all(type(value) in (str, int) for value in query.values()):
        raise FollowRefused("A query has texts and whole numbers.")
    return LogFollower(name, job_id, {key: str(value) for key, value in query.items()}, send, pause_s)


def _message_of(error: APIException | JobUnknownError) -> str:
    if not isinstance(error, APIException):
        return str(error)
    detail = error.detail
    return str(next(iter(detail.values())) if isinstance(detail, dict) else detail)
