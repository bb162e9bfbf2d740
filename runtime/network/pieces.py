"""Pieces: how a large message travels over a Flight stream, so that the peer is heard from while it does.

A message above PIECE_BYTES is cut; each piece says how long the whole is and where in it the piece belongs. Other
messages may come between the pieces of one: heartbeats overtake a plan or a printed record of hundreds of megabytes,
which takes longer than the heartbeat timeouts allow on a busy machine. It also lifts gRPC's limit of 2 GiB. Every byte
is copied once at either end. Pure: no thread.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

PIECE_BYTES = 4 << 20
"""Messages up to this size travel whole. Far below it the cost per piece shows; a machine that carries 1 MB/s needs 4 s
for one, still less than the heartbeat timeouts."""

MAX_RECEIVED_BYTES = PIECE_BYTES + 1024
"""Of one frame, a piece or a whole message; who sends a larger one is broken, or no peer."""

_MAGIC = 0x7D50
_HEAD = struct.Struct("<HxxxxxxQQ")
_NOTHING = pa.py_buffer(b"")
_NO_BYTES: npt.NDArray[np.uint8] = np.empty(0, np.uint8)


class PieceError(Exception):
    """A piece that does not continue the current message."""


def pieces_of(message: bytes | bytearray, piece_bytes: int | None = None) -> Iterator[bytes | bytearray]:
    """Return the frames to send for a message: itself, or its pieces of so many bytes (None: PIECE_BYTES)."""
    total, piece_bytes = len(message), piece_bytes or PIECE_BYTES
    if total <= piece_bytes:
        yield message
        return
    view = memoryview(message)
    for offset in range(0, total, piece_bytes):
        yield b"".join((_HEAD.pack(_MAGIC, total, offset), view[offset : offset + piece_bytes]))


class PieceAssembler:
    """Puts the messages of one stream together again. For one thread.

    Args:
        max_bytes: of one message; None: as many as there is memory for.
    """

    __slots__ = ("_bytes", "_have", "_max_bytes", "_message")

    def __init__(self, max_bytes: int | None = None) -> None:
        self._max_bytes = max_bytes
        self._message = _NOTHING
        self._bytes = _NO_BYTES
        #: received bytes of the current message; 0 = there is none
        self._have = 0

    def add(self, received: pa.Buffer) -> pa.Buffer | None:
        """The message that is complete with what was received; None if pieces are missing.

        Raises:
            PieceError: a piece does not continue its message, or there are too many bytes of it.
        """
        if self._max_bytes is not None and received.size > self._max_bytes:
            raise PieceError(f"a message of {received.size} bytes: more than {self._max_bytes}")
        if received.size < _HEAD.size:
            return received
        magic, total, offset = _HEAD.unpack_from(received)
        if magic != _MAGIC:
            return received
        if self._have == 0:
            if self._max_bytes is not None and total > self._max_bytes:
                raise PieceError(f"a message of {total} bytes: more than {self._max_bytes}")
            # at 4 modulo 8, as gRPC hands out metadata: frames are laid out for it
            whole = pa.allocate_buffer(total + 4)
            self._message, self._bytes = whole.slice(4), np.frombuffer(whole, np.uint8)[4:]
        end = offset + received.size - _HEAD.size
        if offset != self._have or total != self._bytes.size or not offset < end <= total:
            raise PieceError(f"a piece at byte {offset} of {total} where byte {self._have} was expected")
        self._bytes[offset:end] = np.frombuffer(received, np.uint8, offset=_HEAD.size)
        if end < total:
            self._have = end
            return None
        message, self._message, self._bytes, self._have = self._message, _NOTHING, _NO_BYTES, 0
        return message
