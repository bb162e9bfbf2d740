"""The jobmanager's hints that documents have changed, heard once for all connections of a process. Event loop only.

One channel is a member of the groups of all topics that any connection follows. A channel for each connection would
cost a few tasks and a thread's turn for each hint and connection: with two hundred of them more time than there is.
Hints may be lost; connections look at their documents without them, too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import redis
from channels.layers import get_channel_layer

from backend.live.topics import group_of, source_of

logger = logging.getLogger(__name__)

Hear = Callable[[str, int], None]
"""Gets the topic of a document, and its new version."""

LAYER_TIMEOUT_S = 1.0
"""For joining and leaving a group: a Redis that does not answer must not delay known documents."""
RENEW_S = 30.0
"""Memberships expire, so that those of a dead server do not stay for ever, and a Redis that was restarted has none."""
RETRY_S = 1.0


class Hints:
    """Those who hear hints in one event loop."""

    def __init__(self) -> None:
        self._layer: Any = get_channel_layer()
        self._channel = ""
        #: by topic of a document; none is empty
        self._hearers: dict[str, set[Hear]] = {}
        #: topics whose groups have the channel
        self._joined: set[str] = set()
        #: joining and leaving, in the order in which they were asked for
        self._memberships = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    async def hear(self, topic: str, hear: Hear) -> None:
        """Call a function with each hint at the document that a topic is made of.

        There are none until the group is joined; while Redis does not answer, that has to wait.
        """
        source = source_of(topic)
        self._hearers.setdefault(source, set()).add(hear)
        if not self._channel:
            self._channel = await self._layer.new_channel()
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._receive()), asyncio.create_task(self._renew())]
        async with self._memberships:
            if source not in self._joined:
                await self._join(source)

    async def leave(self, topic: str, hear: Hear) -> None:
        """End what `hear` has begun."""
        source = source_of(topic)
        self._drop(source, hear)
        async with self._memberships:
            if source not in self._hearers and source in self._joined:
                self._joined.discard(source)
                await _within_limit(self._layer.group_discard(group_of(source), self._channel))

    def forget(self, hear: Hear) -> None:
        """End all that `hear` has begun for this function, at once; memberships expire."""
        for source in [source for source, hearers in self._hearers.items() if hear in hearers]:
            self._drop(source, hear)

    def _drop(self, source: str, hear: Hear) -> None:
        hearers = self._hearers.get(source, set())
        hearers.discard(hear)
        if hearers:
            return
        self._hearers.pop(source, None)
        if not self._hearers:
            for task in self._tasks:
                task.cancel()
            self._tasks = []

    async def _join(self, source: str) -> None:
        if await _within_limit(self._layer.group_add(group_of(source), self._channel)):
            self._joined.add(source)

    async def _receive(self) -> None:
        while True:
            try:
                message = await self._layer.receive(self._channel)
            except (redis.RedisError, OSError) as error:
                logger.warning("no hints come: %s", error or type(error).__name__)
                await asyncio.sleep(RETRY_S)
                continue
            for hear in list(self._hearers.get(message["topic"], ())):
                hear(message["topic"], message["version"])

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            for source in list(self._hearers):
                async with self._memberships:
                    await self._join(source)


async def _within_limit(asked: Any) -> bool:
    try:
        await asyncio.wait_for(asked, LAYER_TIMEOUT_S)
    except (redis.RedisError, OSError) as error:  # a TimeoutError is an OSError
        logger.warning("the channel layer does not answer: %s", error or type(error).__name__)
        return False
    return True


#: a channel layer keeps its connections per event loop
_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Hints] = WeakKeyDictionary()


def hints() -> Hints:
    """Return those of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _by_loop:
        _by_loop[loop] = Hints()
    return _by_loop[loop]
