"""PatientHttp: uvicorn's HTTP protocol, with an end to the patience with clients that say nothing.

A connection without a request costs nothing but a file, of which a process has some thousands: whoever opens enough of
them, or takes no answers, would have the page and the API refuse everybody. Connections that wait for their client have
a time, and a number.
"""

from __future__ import annotations

import asyncio
import logging
import math
import resource
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

logger = logging.getLogger(__name__)

HEAD_S: Final = 20.0
"""Time for the head of a request. Shorter: bad lines of telephones do not get in."""
BODY_S: Final = 60.0
"""Time between two pieces of a body."""
READ_S: Final = 60.0
"""Time in which a client takes something of an answer."""
LOOK_S: Final = 1.0
"""Time between two looks at those that wait."""
LOG_S: Final = 60.0
"""Time between two lines of the log about connections that were closed."""
_SHARE: Final = 4
"""One of so many files of the process is for connections that wait."""


class PatientHttp(HttpToolsProtocol):
    """One connection. On the loop's thread only."""

    #: bytes of answers that the client had not taken when that was last looked at
    _untaken: float = math.inf
    _answered: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        WAITING.add(self, HEAD_S)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        WAITING.add(self, BODY_S)

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        WAITING.add(self, BODY_S)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if self.cycle is None or not self.cycle.response_complete:
            WAITING.remove(self)
        else:
            # it was answered before its body was there
            WAITING.add(self, HEAD_S)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and self.cycle.response_complete:
            WAITING.add(self, HEAD_S)

    def pause_writing(self) -> None:
        super().pause_writing()
        WAITING.add(self, READ_S)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.cycle is not None and not self.cycle.response_complete:
            if self.cycle.more_body:
                WAITING.add(self, BODY_S)
            else:
                WAITING.remove(self)
        else:
            WAITING.add(self, HEAD_S)

    def handle_websocket_upgrade(self) -> None:
        WAITING.remove(self)
        super().handle_websocket_upgrade()

    def connection_lost(self, exc: Exception | None) -> None:
        WAITING.remove(self)
        self._leave()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def _leave(self) -> None:
        """Tell the application that the client is gone: uvicorn tells it of the last request, not of the one before."""
        self.pipeline.clear()
        if self._answered is not None:
            self._answered.disconnected = True
            self._answered.message_event.set()

    def is_excused(self) -> bool:
        """Return whether a client is waited for on: it may not send, or has taken something since it was last asked."""
        before, self._untaken = self._untaken, self.transport.get_write_buffer_size()
        if self._untaken:
            return self._untaken < before
        return bool(self.flow.read_paused)

    def end(self) -> None:
        """Close the connection, without an answer."""
        self._leave()
        self.transport.abort()


class WaitingConnections:
    """The connections of a process that wait for their clients.

    Args:
        limit: of their number: the one that has waited for longest is closed for another.
        clock: seconds.
        call_later: has a function called after some seconds.
    """

    def __init__(
        self,
        limit: int,
        clock: Callable[[], float] = time.monotonic,
        call_later: Callable[[float, Callable[[], None]], object] | None = None,
    ) -> None:
        self._limit = limit
        self._clock = clock
        self._call_later = call_later
        #: connection → since when, and for how long; by the former
        self._waiting: OrderedDict[PatientHttp, tuple[float, float]] = OrderedDict()
        self._is_looking = False
        self._closed = 0
        self._told_s = float("-inf")

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, connection: PatientHttp, wait_s: float) -> None:
        """Have a connection wait from now on, for so long."""
        self._waiting[connection] = (self._clock(), wait_s)
        self._waiting.move_to_end(connection)
        if len(self._waiting) > self._limit:
            self._end(next(iter(self._waiting)))
        self._look_later()

    def remove(self, connection: PatientHttp) -> None:
        """Note that a connection does not wait. Idempotent."""
        self._waiting.pop(connection, None)

    def _look_later(self) -> None:
        if not self._is_looking and self._waiting:
            self._is_looking = True
            (self._call_later or asyncio.get_running_loop().call_later)(LOOK_S, self._look)

    def _look(self) -> None:
        self._is_looking = False
        now, late = self._clock(), []
        for connection, (since, wait_s) in self._waiting.items():
            if now - since < HEAD_S:
                break
            if now - since >= wait_s:
                late.append(connection)
        for connection in late:
            if connection.is_excused():
                self.add(connection, self._waiting[connection][1])
            else:
                self._end(connection)
        self._look_later()

    def _end(self, connection: PatientHttp) -> None:
        self.remove(connection)
        connection.end()
        self._closed += 1
        if self._clock() - self._told_s >= LOG_S:
            self._told_s = self._clock()
            logger.warning(
                "connections on which no request came were closed: %d by now; %d wait", self._closed, len(self._waiting)
            )


WAITING: Final = WaitingConnections(max(64, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE))
