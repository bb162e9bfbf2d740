"""ClientOutput of a slot: sends `print` and `collect` output to the program that started the job, within a byte window.

The client acknowledges what it has taken; a task whose output is congested waits. Used by the loop's thread, except
that `LineRedirect.write` may be called by any thread of the user's.
"""

from __future__ import annotations

import io
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

#: below ~64 kB every batch of a print sink waits for the client; above some MiB a slow terminal holds much memory
CLIENT_WINDOW_BYTES = 1 << 20


@dataclass(slots=True)
class _Sent:
    """What was sent on one channel, in bytes from its begin."""

    position: int = 0
    """Number of bytes sent."""
    taken: int = 0
    """Number of bytes that the client has taken."""
    unacknowledged: deque[tuple[int, bytes]] = field(default_factory=deque)
    """Position and payload of what it has not taken, oldest first."""


class SlotClientChannel:
    """The slot's end; one for all its tasks. Implements `runtime.operators.operator.ClientChannel`.

    Args:
        send: sends a channel's name, the number of bytes sent on it before, and what follows.
    """

    def __init__(self, send: Callable[[str, int, bytes], None]) -> None:
        self._send = send
        self._channels: dict[str, _Sent] = {}
        self._in_flight = 0
        self._lock = threading.Lock()
        #: takes out of printed and logged lines what nobody may see
        self.redact: Callable[[str], str] = str

    def send(self, channel: str, payload: bytes) -> None:
        with self._lock:
            sent = self._channels.setdefault(channel, _Sent())
            position = sent.position
            sent.position += len(payload)
            self._in_flight += len(payload)
            sent.unacknowledged.append((position, payload))
            self._send(channel, position, payload)

    def acknowledge(self, channel: str, position: int) -> None:
        """Note that the client has taken the first `position` bytes of a channel."""
        with self._lock:
            sent = self._channels.get(channel)
            if sent is None or position <= sent.taken:
                return
            self._in_flight -= position - sent.taken
            sent.taken = position
            waiting = sent.unacknowledged
            while waiting and waiting[0][0] + len(waiting[0][1]) <= position:
                waiting.popleft()

    def send_again(self, first: Callable[[], None]) -> None:
        """Send everything that is not acknowledged to a client that may know none of it.

        Args:
            first: called before, while no thread can send anything.
        """
        with self._lock:
            first()
            for channel, sent in self._channels.items():
                for position, payload in sent.unacknowledged:
                    self._send(channel, position, payload)

    def is_available(self) -> bool:
        return self._in_flight < CLIENT_WINDOW_BYTES


class LineChannel(Protocol):
    """Takes lines for the client."""

    @property
    def redact(self) -> Callable[[str], str]:
        """Return what takes out of lines what nobody may see."""

    def send(self, channel: str, payload: bytes) -> None:
        """Send bytes on a channel."""


class LineRedirect(io.TextIOBase):
    """Stands in for `sys.stdout` or `sys.stderr` in a worker: whole lines go to the client.

    Args:
        channel: the slot's.
        name: "stdout" or "log".
        change: is applied to whole lines before they are redacted.
    """

    def __init__(self, channel: LineChannel, name: str, change: Callable[[str], str] = str) -> None:
        self._channel = channel
        self._name = name
        self._change = change
        self._partial = ""
        self._lock = threading.Lock()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._lock:
            lines, newline, rest = (self._partial + text).rpartition("\n")
            self._partial = rest
            if newline:
                self._send(lines)
        return len(text)

    def flush(self) -> None:
        """Do nothing: whole lines have been sent; a partial one is sent by `finish`."""

    def finish(self) -> None:
        """Send what is left without a line end."""
        with self._lock:
            if self._partial:
                self._send(self._partial)
                self._partial = ""

    def _send(self, lines: str) -> None:
        self._channel.send(self._name, f"{self._channel.redact(self._change(lines))}\n".encode(errors="replace"))
