"""Transport of control messages: pickled lists of messages in the metadata of a Flight DoExchange, behind a token.

A long list goes in pieces; heartbeats overtake what is left of it, or a large record would look like a dead process.

Shared by the slot's end (`runtime.task.control_client`) and the JobMaster's (`runtime.jobmaster.control_server`). The
opening descriptor carries slot, attempt and token as JSON; nothing is unpickled before the token was compared.
"""

from __future__ import annotations

import hmac
import json
import pickle
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from runtime.core.ids import Attempt, SlotId
from runtime.network.pieces import pieces_of


class ControlStreamError(Exception):
    """The peer did not follow the protocol."""


@dataclass(frozen=True, slots=True)
class Hello:
    """Identifies the slot that opens a control stream."""

    slot: SlotId
    attempt: Attempt
    token: str

    def encode(self) -> bytes:
        return json.dumps({"slot": self.slot, "attempt": self.attempt, "token": self.token}).encode()

    @staticmethod
    def decode(data: bytes, token_of: Callable[[Attempt], str]) -> Hello:
        """Read and check an opening.

        Args:
            data: from `encode`.
            token_of: returns the secret of an attempt.

        Raises:
            ControlStreamError: it is malformed, or the token is not the job's.
        """
        try:
            fields = json.loads(data)
            hello = Hello(SlotId(int(fields["slot"])), Attempt(int(fields["attempt"])), str(fields["token"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ControlStreamError("malformed opening of a control stream") from error
        if not hmac.compare_digest(hello.token.encode(), token_of(hello.attempt).encode()):
            raise ControlStreamError("wrong token")
        return hello


def encode_messages(messages: Sequence[Any]) -> bytes:
    return pickle.dumps(list(messages), protocol=pickle.HIGHEST_PROTOCOL)


def decode_messages(data: bytes | pa.Buffer) -> list[Any]:
    messages: list[Any] = pickle.loads(data)
    return messages


class Outbox:
    """Messages that wait for a writer thread; unbounded, since what fills it is bounded elsewhere."""

    def __init__(self) -> None:
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
        while messages := self._wait():
            for index, piece in enumerate(pieces_of(encode_messages(messages))):
                if index and (overtaking := self._take(self._overtaking)):
                    write(encode_messages(overtaking))
                write(piece)

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
