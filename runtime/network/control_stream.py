"""Transport of control messages: lists of messages in the metadata of a Flight DoExchange, between two ends that both
know the attempt's token and never send it.

A long list goes in pieces; heartbeats overtake what is left of it, or a large record would look like a dead process.

Shared by the slot's end (`runtime.task.control_client`) and the JobMaster's (`runtime.jobmaster.control_server`). A
stream opens in three steps, each an HMAC under the token over what it is for, the slot, the attempt and the nonces so
far: the slot's *hello* goes in the call's headers, where it is refused before any message is read; the JobMaster's
*challenge* proves who it is, and adds a nonce; the slot's *answer* proves that its hello was no repetition.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.core.ids import Attempt, SlotId
from runtime.network.pieces import pieces_of

HELLO_HEADER = "tidemark-hello"
"""Header of the call that opens a stream."""
MAX_HELLO_BYTES = 1024
"""Far more than a hello has."""
NONCE_BYTES = 16


class ControlStreamError(Exception):
    """The peer did not follow the protocol."""


@dataclass(frozen=True, slots=True)
class Hello:
    """Identifies the slot that opens a control stream."""

    slot: SlotId
    attempt: Attempt
    nonce: str
    """Hex; the slot's own, new for every stream."""

    @classmethod
    def new(cls, slot: SlotId, attempt: Attempt) -> Hello:
        return cls(slot, attempt, os.urandom(NONCE_BYTES).hex())

    def encode(self, token: str) -> bytes:
        """Return the hello for a header, with the proof that its sender knows the token."""
        fields = {"slot": self.slot, "attempt": self.attempt, "nonce": self.nonce}
        fields["proof"] = self._proof("hello", token)
        return base64.b64encode(json.dumps(fields).encode())

    @staticmethod
    def decode(data: bytes, token_of: Callable[[Attempt], str]) -> Hello:
        """Read and check a hello.

        Args:
            data: from `encode`.
            token_of: returns the secret of an attempt.

        Raises:
            ControlStreamError: it is malformed, or its sender does not know the attempt's token.
        """
        if len(data) > MAX_HELLO_BYTES:
            raise ControlStreamError("malformed opening of a control stream")
        try:
            fields = json.loads(base64.b64decode(data, validate=True))
            hello = Hello(SlotId(int(fields["slot"])), Attempt(int(fields["attempt"])), str(fields["nonce"]))
            proof = str(fields["proof"])
        except (ValueError, KeyError, TypeError, RecursionError, binascii.Error) as error:
            raise ControlStreamError("malformed opening of a control stream") from error
        if not _equal(proof, hello._proof("hello", token_of(hello.attempt))):
            raise ControlStreamError("wrong token")
        return hello

    def challenge(self, token: str) -> tuple[bytes, str]:
        """Return the JobMaster's first message, and the answer that it waits for."""
        nonce = os.urandom(NONCE_BYTES).hex()
        proof = self._proof(f"jobmaster {nonce}", token)
        return f"{nonce} {proof}".encode(), self._proof(f"slot {nonce}", token)

    def answer(self, challenge: bytes, token: str) -> bytes:
        """Return the slot's answer to a challenge.

        Raises:
            ControlStreamError: who has sent it does not know the token.
        """
        nonce, _, proof = challenge[:MAX_HELLO_BYTES].decode(errors="replace").partition(" ")
        if not _equal(proof, self._proof(f"jobmaster {nonce}", token)):
            raise ControlStreamError("whoever answers is not the JobMaster: it does not know the token")
        return self._proof(f"slot {nonce}", token).encode()

    def _proof(self, role: str, token: str) -> str:
        text = json.dumps([role, self.slot, self.attempt, self.nonce]).encode()
        return hmac.new(token.encode(), text, hashlib.sha256).hexdigest()


def is_answer(received: bytes, expected: str) -> bool:
    """Return whether a slot's first message is the answer to the challenge."""
    return hmac.compare_digest(received, expected.encode())


def _equal(text: str, other: str) -> bool:
    return hmac.compare_digest(text.encode(errors="replace"), other.encode())


class Outbox:
    """Messages that wait for a writer thread; unbounded, since what fills it is bounded elsewhere.

    Args:
        encode: makes a list of messages into bytes.
    """

    def __init__(self, encode: Callable[[Sequence[Any]], bytes]) -> None:
        self._encode = encode
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
            for index, piece in enumerate(pieces_of(self._encode(messages))):
                if index and (overtaking := self._take(self._overtaking)):
                    write(self._encode(overtaking))
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
