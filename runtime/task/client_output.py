"""ClientOutput of a slot: sends `print` and `collect` output to the program that started the job, within a byte window.

The client acknowledges what it has taken; a task whose output is congested waits. Used by the loop's thread, except
that `LineRedirect.write` may be called by any thread of the user's.
"""

from __future__ import annotations

import io
import threading
from collections import deque
from collections.abc import Callable

#: below ~64 kB every batch of a print sink waits for the client; above some MiB a slow terminal holds much memory
CLIENT_WINDOW_BYTES = 1 << 20


class SlotClientChannel:
    """The slot's end; one for all its tasks. Implements `runtime.operators.operator.ClientChannel`."""

    def __init__(self, send: Callable[[str, bytes], None]) -> None:
        self._send = send
        self._in_flight = 0
        #: oldest first; what the client has not taken
        self._unacknowledged: deque[tuple[str, bytes]] = deque()
        #: bytes of the first of them that the client has taken
        self._taken = 0
        self._lock = threading.Lock()

    def send(self, channel: str, payload: bytes) -> None:
        with self._lock:
            self._in_flight += len(payload)
            self._unacknowledged.append((channel, payload))
            self._send(channel, payload)

    def acknowledge(self, size_bytes: int) -> None:
        """Note that the client has taken that many bytes."""
        with self._lock:
            self._in_flight -= size_bytes
            self._taken += size_bytes
            while self._unacknowledged and self._taken >= len(self._unacknowledged[0][1]):
                self._taken -= len(self._unacknowledged.popleft()[1])

    def send_again(self, first: Callable[[], None]) -> None:
        """Send everything that is not acknowledged to a client that knows none of it.

        Args:
            first: called before, while no thread can send anything.
        """
        with self._lock:
            first()
            self._in_flight += self._taken
            self._taken = 0
            for channel, payload in self._unacknowledged:
                self._send(channel, payload)

    def is_available(self) -> bool:
        return self._in_flight < CLIENT_WINDOW_BYTES


class LineRedirect(io.TextIOBase):
    """Stands in for `sys.stdout` or `sys.stderr` in a worker: whole lines go to the client.

    Args:
        channel: the slot's.
        name: "stdout" or "log".
    """

    def __init__(self, channel: SlotClientChannel, name: str) -> None:
        self._channel = channel
        self._name = name
        self._partial = ""
        self._lock = threading.Lock()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._lock:
            lines, newline, rest = (self._partial + text).rpartition("\n")
            self._partial = rest
            if newline:
                self._channel.send(self._name, f"{lines}\n".encode(errors="replace"))
        return len(text)

    def flush(self) -> None:
        """Do nothing: whole lines have been sent; a partial one is sent by `finish`."""

    def finish(self) -> None:
        """Send what is left without a line end."""
        with self._lock:
            if self._partial:
                self._channel.send(self._name, f"{self._partial}\n".encode(errors="replace"))
                self._partial = ""
