"""/ws/live: one connection of a page, which subscribes to topics and gets a snapshot of each, then numbered changes.

A hint of the jobmanager (`hints`) marks a topic as due; one task per connection sends due topics, each at most twice a
second. Each change is computed from the document sent last, so a slow or lost hint delays a change but never corrupts
it. Every second a tick reports the documents' ages. A client that does not accept a message in time is dropped. It can
also follow logs of jobs (`log_follow`). Frames are text: JSON objects with a "type".
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, cast

from channels.db import database_sync_to_async
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from uvicorn.protocols.utils import ClientDisconnected

from backend.accounts.roles import Role, role_of
from backend.cluster import services
from backend.cluster.database_clock import CLOCK
from backend.live.authentication import CLOSE_UNAUTHORIZED, SUBPROTOCOL, FindUser, User
from backend.live.documents import read_document
from backend.live.feed import Feed, Message, frame_text, tick_message
from backend.live.hints import hints
from backend.live.log_follow import MAX_FOLLOWED, FollowRefused, LogFollower, follower_of
from backend.live.topics import VertexUnknownError, is_topic, preview_of_topic, source_of

logger = logging.getLogger(__name__)

MAX_TOPICS = 32
MAX_MESSAGE_BYTES = 16 << 10
"""From the client. Smaller: the cursor of a job with many logs finds no room."""
#: codes of RFC 6455
CLOSE_POLICY, CLOSE_TOO_BIG, CLOSE_ERROR = 1008, 1009, 1011


@dataclass(frozen=True, slots=True)
class Pace:
    """Intervals and limits of a connection, in seconds."""

    between_changes_s: float = 0.5
    between_lines_s: float = 1.0
    """Between looks at a log that is followed."""
    tick_s: float = 1.0
    """Documents are also read at this interval without a hint: hints can be lost, and a document that is no longer
    written ages. A page calls itself stale after 3 s without a frame."""
    check_user_s: float = 30.0
    send_timeout_s: float = 10.0
    max_messages_per_s: float = 20.0
    """From the client; bursts may be twice as large."""


class LiveConsumer(AsyncWebsocketConsumer):
    """The consumer of one WebSocket connection.

    Args:
        pace: its intervals and limits.
    """

    #: hints come by `hints`: a channel of its own would cost each connection tasks and threads
    channel_layer_alias = ""

    def __init__(self, pace: Pace = Pace()) -> None:
        super().__init__()
        self._pace = pace
        self._feeds: dict[str, Feed] = {}
        #: when a change of a topic was sent last, monotonic
        self._sent_at: dict[str, float] = {}
        #: logs that are followed, by the client's names
        self._logs: dict[str, tuple[LogFollower, asyncio.Task[None]]] = {}
        self._wake = asyncio.Event()
        #: one message at a time, in the order of the documents it is computed from
        self._sending = asyncio.Lock()
        self._sender: asyncio.Task[None] | None = None
        self._connection: asyncio.Task[Any] | None = None
        self._find_user: FindUser
        #: as of the last look
        self._user: User
        self._is_dropped = False
        self._allowance = 2 * pace.max_messages_per_s
        self._allowance_at = 0.0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self._connection = asyncio.current_task()
        try:
            await super().__call__(scope, receive, send)
        except asyncio.CancelledError:
            # returning without a close frame makes the server drop the connection at once
            if not self._is_dropped:
                raise
        finally:
            # runs even if the server shuts down without a disconnect
            hints().forget(self._hear)
            if self._sender is not None:
                self._sender.cancel()
            for _, following in self._logs.values():
                following.cancel()

    # --- from the client ----------------------------------------------------------------------------------------------

    async def connect(self) -> None:
        """Accept the connection; LiveAuthentication lets only logged-in users with this protocol through."""
        scope = cast("dict[str, Any]", self.scope)
        self._find_user, self._user = scope["find_user"], scope["user"]
        await self.accept(SUBPROTOCOL)
        self._sender = asyncio.create_task(self._ended_with(self._send_what_is_due()))

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Handle a message: one of `messages.ClientMessage`."""
        if len(text_data or bytes_data or "") > MAX_MESSAGE_BYTES:
            await self.close(CLOSE_TOO_BIG)
            return
        if not self._is_within_allowance():
            await self.close(CLOSE_POLICY)
            return
        try:
            message = json.loads(text_data or "")
        except (ValueError, RecursionError):
            # brackets nest more deeply than a message may be long
            message = None
        kind = message.get("type") if isinstance(message, dict) else None
        if kind == "ping":
            await self._send({"type": "pong", "now": CLOCK.now_ms()})
        elif kind in ("subscribe", "unsubscribe"):
            topic = message.get("topic")
            if not is_topic(topic):
                await self._send_error(str(topic)[:100], "There is no such topic.")
            elif kind == "subscribe":
                await self._subscribe(topic)
            else:
                await self._unsubscribe(topic)
        elif kind == "follow":
            await self._follow(message)
        elif kind == "took":
            if (known := self._logs.get(str(message.get("id")))) is not None:
                known[0].take()
        elif kind == "unfollow":
            self._unfollow(str(message.get("id")))
        else:
            await self._send_error("", "The message was not understood.")

    async def disconnect(self, code: int) -> None:
        for name in list(self._logs):
            self._unfollow(name)
        for topic in list(self._feeds):
            await self._unsubscribe(topic)

    # --- to the client ------------------------------------------------------------------------------------------------

    async def _subscribe(self, topic: str) -> None:
        if topic not in self._feeds and len(self._feeds) >= MAX_TOPICS:
            await self._send_error(topic, f"At most {MAX_TOPICS} topics can be subscribed to.")
            return
        if not await self._may_see(topic):
            await self._send_error(topic, "Previews are for developers.")
            return
        # first, so that changes made while the snapshot is read are hinted at
        await hints().hear(topic, self._hear)
        # a client that missed a version subscribes again to get a new snapshot
        self._feeds[topic] = Feed(topic)
        await self._publish(self._feeds[topic])

    async def _may_see(self, topic: str) -> bool:
        """Return whether the user's role is enough for a topic; previews have rows, as their route has."""
        is_preview = preview_of_topic(topic) is not None
        return not is_preview or await database_sync_to_async(role_of)(self._user) >= Role.DEVELOPER

    async def _unsubscribe(self, topic: str) -> None:
        self._sent_at.pop(topic, None)
        if self._feeds.pop(topic, None) is not None and source_of(topic) not in map(source_of, self._feeds):
            await hints().leave(topic, self._hear)

    async def _follow(self, message: Message) -> None:
        name = str(message.get("id"))
        self._unfollow(name)
        try:
            if len(self._logs) >= MAX_FOLLOWED:
                raise FollowRefused(f"At most {MAX_FOLLOWED} logs can be followed.")
            follower = follower_of(message, self._send, self._pace.between_lines_s)
        except FollowRefused as error:
            await self._send({"type": "log-ended", "id": name[:100], "message": str(error)})
            return
        following = asyncio.create_task(self._ended_with(follower.run()), name=f"follow {name[:100]}")
        self._logs[name] = (follower, following)

    def _unfollow(self, name: str) -> None:
        known = self._logs.pop(name, None)
        if known is not None:
            known[1].cancel()

    def _hear(self, source: str, version: int) -> None:
        """Take a hint of the jobmanager; where none come, the ticks stand in for them."""
        for feed in self._feeds.values():
            if source_of(feed.topic) == source:
                feed.hint(version)
                self._wake.set()

    async def _publish(self, feed: Feed) -> None:
        try:
            read = await read_document(feed.topic, feed.hinted_version)
            preview = preview_of_topic(feed.topic)
            if preview is not None and read.document["owner"] != self._user.pk:
                raise services.PreviewUnknownError(preview)
            document = read.of(feed.topic)
        except (services.JobUnknownError, services.PreviewUnknownError, VertexUnknownError) as error:
            await self._unsubscribe(feed.topic)
            if feed.sent is None:
                await self._send_error(feed.topic, str(error))
            else:
                await self._send({"type": "gone", "topic": feed.topic})
            return
        async with self._sending:
            if self._feeds.get(feed.topic) is not feed:
                return
            message = feed.next_message(document, read.freshness_now, read)
            if message is not None:
                if message["type"] == "change":
                    # not after a snapshot: what has happened since then may be what the page waits for
                    self._sent_at[feed.topic] = time.monotonic()
                await self._write(message)

    async def _ended_with(self, work: Coroutine[Any, Any, None]) -> None:
        """Do some work; if it fails, the connection ends."""
        try:
            await work
        except (asyncio.CancelledError, StopConsumer):
            raise
        except ClientDisconnected:
            # the page has gone, which the connection is told next
            return
        except Exception:
            logger.exception("live connection failed")
            await self.close(CLOSE_ERROR)

    async def _send_what_is_due(self) -> None:
        pace = self._pace
        started = time.monotonic()
        tick_at, check_at = started + pace.tick_s, started + pace.check_user_s
        while True:
            due_at = min((self._due_at(feed) for feed in self._feeds.values()), default=math.inf)
            await self._wait(max(0.0, min(tick_at, due_at) - time.monotonic()))
            now = time.monotonic()
            is_tick = now >= tick_at
            if now >= check_at:
                check_at = now + pace.check_user_s
                self._user = await self._find_user()
                if not self._user.is_authenticated:
                    await self.close(CLOSE_UNAUTHORIZED)
                    return
                for topic in [topic for topic in self._feeds if not await self._may_see(topic)]:
                    await self._unsubscribe(topic)
                    await self._send({"type": "gone", "topic": topic})
            for feed in [feed for feed in self._feeds.values() if is_tick or now >= self._due_at(feed)]:
                await self._publish(feed)
            if is_tick:
                tick_at = now + pace.tick_s
                await self._send(tick_message(self._feeds.values(), CLOCK.now_ms()))

    def _due_at(self, feed: Feed) -> float:
        """Return when a topic's next change is to be sent, monotonic: at once, unless one was sent just before."""
        return self._sent_at.get(feed.topic, 0.0) + self._pace.between_changes_s if feed.is_due else math.inf

    async def _wait(self, timeout_s: float) -> None:
        try:
            # no wait_for, whose tasks cost as much as the rest of a small change
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    async def _send_error(self, topic: str, message: str) -> None:
        await self._send({"type": "error", "topic": topic, "message": message})

    async def _send(self, message: Message) -> None:
        async with self._sending:
            await self._write(message)

    async def _write(self, message: Message) -> None:
        text = frame_text(message)
        try:
            async with asyncio.timeout(self._pace.send_timeout_s):
                await self.send(text_data=text)
        except TimeoutError:
            # a close frame would wait behind the stuck message, so end the connection without one
            logger.warning("a live client took no message for %.0f s and was dropped", self._pace.send_timeout_s)
            self._is_dropped = True
            if self._connection is not None and self._connection is not asyncio.current_task():
                self._connection.cancel()
            raise StopConsumer from None

    def _is_within_allowance(self) -> bool:
        now = time.monotonic()
        rate = self._pace.max_messages_per_s
        self._allowance = min(2 * rate, self._allowance + (now - self._allowance_at) * rate)
        self._allowance_at = now
        if self._allowance < 1.0:
            return False
        self._allowance -= 1.0
        return True
