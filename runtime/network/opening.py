"""The opening of a stream between two ends that both know the attempt's token and never send it.

Three steps, each an HMAC under the token over the kind of stream, the step, who is to talk, and the nonces so far: the
client's *hello* goes in the call's headers, where it is refused before any message is read; the server's *challenge*
proves who it is, and adds a nonce; the client's *answer* proves that its hello was no repetition. What follows carries
no proof: the opening costs one round trip, and a record nothing.

Control streams (`runtime.network.control_stream`) and data streams (`runtime.network.data_stream`) each say who is to
talk. Any thread.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Self

from runtime.core.ids import Attempt

HELLO_HEADER = "tidemark-hello"
"""Header of the call that opens a stream."""
MAX_HELLO_BYTES = 1024
"""Far more than a hello has."""
NONCE_BYTES = 16


class OpeningError(Exception):
    """The peer did not follow the protocol, or does not know the token."""


def new_nonce() -> str:
    """Return a nonce in hex."""
    return os.urandom(NONCE_BYTES).hex()


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Who opens a stream, to whom; subclasses add fields, all of them numbers."""

    #: of the stream; no proof of one kind is one of another
    KIND: ClassVar[str] = ""
    #: who answers, for messages
    SERVER: ClassVar[str] = ""

    attempt: Attempt
    nonce: str
    """Hex; the client's own, new for every stream."""

    def encode(self, token: str) -> bytes:
        """Return the hello for a header, with the proof that its sender knows the token."""
        return base64.b64encode(json.dumps(asdict(self) | {"proof": self._proof("hello", token)}).encode())

    @classmethod
    def read(cls, data: bytes) -> tuple[Self, str]:
        """Read a hello and its proof, which is not checked.

        Raises:
            OpeningError: it is malformed.
        """
        try:
            if len(data) > MAX_HELLO_BYTES:
                raise ValueError("too long")
            said = json.loads(base64.b64decode(data, validate=True))
            numbers: dict[str, Any] = {f.name: int(said[f.name]) for f in fields(cls) if f.name != "nonce"}
            return cls(**numbers, nonce=str(said["nonce"])), str(said["proof"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError, binascii.Error) as error:
            raise OpeningError(f"malformed opening of a {cls.KIND} stream") from error

    def check(self, proof: str, token: str) -> None:
        """Check the proof of a hello.

        Raises:
            OpeningError: its sender does not know the token.
        """
        if not _equal(proof, self._proof("hello", token)):
            raise OpeningError("wrong token")

    def challenge(self, token: str) -> tuple[bytes, str]:
        """Return the server's first message, and the answer that it waits for."""
        nonce = new_nonce()
        proof = self._proof(f"server {nonce}", token)
        return f"{nonce} {proof}".encode(), self._proof(f"client {nonce}", token)

    def answer(self, challenge: bytes, token: str) -> bytes:
        """Return the client's answer to a challenge.

        Raises:
            OpeningError: who has sent it does not know the token.
        """
        nonce, _, proof = challenge[:MAX_HELLO_BYTES].decode(errors="replace").partition(" ")
        if not _equal(proof, self._proof(f"server {nonce}", token)):
            raise OpeningError(f"whoever answers is not {self.SERVER}: it does not know the token")
        return self._proof(f"client {nonce}", token).encode()

    def _proof(self, step: str, token: str) -> str:
        text = json.dumps([self.KIND, step, asdict(self)], sort_keys=True).encode()
        return hmac.new(token.encode(), text, hashlib.sha256).hexdigest()


def is_answer(received: bytes, expected: str) -> bool:
    """Return whether a client's first message is the answer to the challenge."""
    return hmac.compare_digest(received, expected.encode())


def _equal(text: str, other: str) -> bool:
    return hmac.compare_digest(text.encode(errors="replace"), other.encode())
