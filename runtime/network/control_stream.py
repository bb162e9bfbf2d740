"""Transport of control messages: lists of messages in the metadata of a Flight DoExchange.

A long list goes in pieces; heartbeats overtake what is left of it, or a large record would look like a dead process.

Shared by the slot's end (`runtime.task.control_client`) and the JobMaster's (`runtime.jobmaster.control_server`), which
prove themselves to each other as `runtime.network.opening` says.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from runtime.core.ids import Attempt, SlotId
from runtime.network.opening import Opening, new_nonce
from runtime.network.pieces import pieces_of

SLOT_PIECE_BYTES = 256 << 10
"""Of what slots send. The JobMaster takes no larger message of anybody, so what many callers have on their way to it is
little; a slot seldom sends more at once."""
MAX_SLOT_FRAME_BYTES = SLOT_PIECE_BYTES + 1024
"""Of one frame of a slot, a piece or a whole message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello(Opening):
    """Identifies the slot that opens a control stream."""

    KIND: ClassVar[str] = "control"
    SERVER: ClassVar[str] = "the JobMaster"

    slot: SlotId

    @classmethod
    def new(cls, slot: SlotId, attempt: Attempt) -> Hello:
        return cls(slot=slot, attempt=attempt, nonce=new_nonce())


class Outbox:
    """Messages that wait for a writer thread; unbounded, since what fills it is bounded elsewhere.

    Args:
        encode: makes a list of messages into bytes.
        piece_bytes: most bytes of them in one frame; None: as many as pieces usually have.
    """

    def __init__(self, encode: Callable[[Sequence[Any]], bytes], piece_bytes: int | None = None) -> None:
        self._encode = encode
        self._piece_bytes = piece_bytes
        self._queue: deque[Any] = deque()
        #: those that need not wait for the rest of a long list
        self._overtaking: deque[Any] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, message: Any, may_overtake: bool = False) -> None:
        """Queue a message; ignored after `close`.

        Args:
            message: what to send.
            may_overtake: whether it may arrive before others, as heartbeats may.
        """
        with self._changed:
            if not self._closed:
                (self._overtaking if may_overtake else self._queue).append(message)
                self._changed.notify()

    def close(self) -> None:
        """Take no more messages; the writer ends once it has written what is queued."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def write_all(self, write: Callable[[bytes | bytearray], None]) -> None:
        """Write everything that is put, several messages at a time, until closed and empty."""
        for frame in self.frames():
            write(frame)

    def frames(self) -> Iterator[bytes | bytearray]:
        """Return the frames of everything that is put, until closed and empty; waits while there is nothing."""
        while messages := self._wait():
            for index, piece in enumerate(pieces_of(self._encode(messages), self._piece_bytes)):
                if index and (overtaking := self._take(self._overtaking)):
                    yield self._encode(overtaking)
                yield piece

    def _wait(self) -> list[Any]:
        """All that is queued, once there is something; nothing: closed."""
        with self._changed:
            while not self._queue and not self._overtaking and not self._closed:
                self._changed.wait()
            return self._take(self._overtaking) + self._take(self._queue)

    def _take(self, queue: deque[Any]) -> list[Any]:
        with self._changed:
            messages = list(queue)
            queue.clear()
        return messages
