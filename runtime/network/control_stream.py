"""How control messages travel: pickled lists of messages in the metadata of a Flight DoExchange, behind a token.

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

from runtime.core.ids import Attempt, SlotId


class ControlStreamError(Exception):
    """The peer did not follow the protocol."""


@dataclass(frozen=True, slots=True)
class Hello:
    """Who opens a control stream."""

    slot: SlotId
    attempt: Attempt
    token: str

    def encode(self) -> bytes:
        return json.dumps({"slot": self.slot, "attempt": self.attempt, "token": self.token}).encode()

    @staticmethod
    def decode(data: bytes, expected_token: str) -> Hello:
        """Read and check an opening.

        Raises:
            ControlStreamError: it is malformed, or the token is not the job's.
        """
        try:
            fields = json.loads(data)
            hello = Hello(SlotId(int(fields["slot"])), Attempt(int(fields["attempt"])), str(fields["token"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ControlStreamError("malformed opening of a control stream") from error
        if not hmac.compare_digest(hello.token.encode(), expected_token.encode()):
            raise ControlStreamError("wrong token")
        return hello


def encode_messages(messages: Sequence[Any]) -> bytes:
    return pickle.dumps(list(messages), protocol=pickle.HIGHEST_PROTOCOL)


def decode_messages(data: bytes) -> list[Any]:
    messages: list[Any] = pickle.loads(data)
    return messages


class Outbox:
    """Messages that wait for a writer thread; unbounded, since what fills it is bounded elsewhere."""

    def __init__(self) -> None:
        self._queue: deque[Any] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, message: Any) -> None:
        """Queue a message; ignored after `close`."""
        with self._changed:
            if not self._closed:
                self._queue.append(message)
                self._changed.notify()

    def close(self) -> None:
        """No more messages; the writer ends once it has written what is queued."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def write_all(self, write: Callable[[bytes], None]) -> None:
        """Write everything that is put, several messages at a time, until closed and empty."""
        while True:
            with self._changed:
                while not self._queue and not self._closed:
                    self._changed.wait()
                if not self._queue:
                    return
                messages = list(self._queue)
                self._queue.clear()
            write(encode_messages(messages))
