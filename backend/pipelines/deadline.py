"""A deadline for all that is done over some connections, whatever their peers send, or do not send.

Timeouts of sockets are for each read: a peer that sends a byte now and then, or answers for ever, never exceeds one.
When the deadline is over, the sockets are shut down, so that whoever reads from them is told that the peer is gone.
Owns no socket, but copies of descriptors. Any thread.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self


class Deadline:
    """Begins with its creation; to be entered by the thread that connects.

    Args:
        seconds: from now on.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self._timer = threading.Timer(seconds, self._shut_down)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []

    @property
    def left_s(self) -> float:
        """The time that is left; never negative."""
        return max(0.0, self._end - time.monotonic())

    @property
    def is_over(self) -> bool:
        return self.left_s == 0.0

    def watch(self, descriptor: int) -> None:
        """Have a socket shut down when the deadline is over; at once if it is."""
        # a copy: the socket itself may be closed meanwhile, and its number be another's
        copy = socket.socket(fileno=os.dup(descriptor))
        with self._lock:
            self._sockets.append(copy)
        if self.is_over:
            self._shut_down()

    def _shut_down(self) -> None:
        with self._lock:
            for each in self._sockets:
                # the peer may have closed it
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._timer.cancel()
        self._timer.join()
        for each in self._sockets:
            each.close()
