"""Frames: what travels between slots, and the transport's own messages.

A frame is a fixed header (kind, attempt, channel, sequence number, backlog, CRC) and a body. The bodies of stream
elements are encoded by runtime.network.frame_codec. Pure: no thread.
"""

from __future__ import annotations

import enum
import struct
import zlib
from typing import NamedTuple

import pyarrow as pa

from runtime.core.ids import Attempt
from runtime.network.channel import ChannelId, Frame
from runtime.network.credit import Credit

MAGIC = 0x7D02
"""Marks a frame; the low byte is the version of the layout."""

_HEADER = struct.Struct("<HBBIIHHQII")
HEADER_BYTES = _HEADER.size
_CRC_OFFSET = HEADER_BYTES - 4
_KIND_OFFSET = 2
_SEQUENCE_OFFSET = 16
_BACKLOG_OFFSET = HEADER_BYTES - 8
_BACKLOG = struct.Struct("<I")
_UINT64 = struct.Struct("<Q")
_MAX_UINT32 = 2**32 - 1


class FrameError(Exception):
    """Bytes that are not a valid frame, or a frame that does not belong where it came."""


class FrameKind(enum.IntEnum):
    """Content of a frame. The first seven are stream elements of a channel, the rest is the transport's own."""

    DATA_ARROW = 1
    DATA_OBJECT = 2
    WATERMARK = 3
    STATUS = 4
    LATENCY_MARKER = 5
    BARRIER = 6
    END = 7
    CREDIT = 8
    HEARTBEAT = 9
    BYE = 11
    """The sender leaves; it ends the connection but no channel."""
    BACKLOG = 12
    """The producer has frames that no credit covers, and none that could announce them."""


class FrameHeader(NamedTuple):
    """The fixed part of a frame."""

    kind: FrameKind
    flags: int
    attempt: Attempt
    channel_id: ChannelId
    sequence: int
    """Stream elements: 0-based position in the channel. CREDIT: total of bytes consumed. Else 0."""
    backlog_bytes: int
    """Bytes that the producer has queued behind this frame, at most 2**32 - 1. Only advice, so the CRC leaves it
    out.
    """


_NO_CHANNEL = ChannelId(0, 0, 0)


def make_frame(
    kind: FrameKind, flags: int, attempt: int, channel_id: ChannelId, sequence: int, body: bytes
) -> bytearray:
    """Return a frame with this body."""
    frame = bytearray(HEADER_BYTES)
    frame += body
    return seal(frame, kind, flags, attempt, channel_id, sequence)


def seal(
    frame: bytearray, kind: FrameKind, flags: int, attempt: int, channel_id: ChannelId, sequence: int
) -> bytearray:
    """Fill in the header of a frame whose body is in place."""
    edge_id, producer, consumer = channel_id.edge_id, channel_id.producer, channel_id.consumer
    _HEADER.pack_into(frame, 0, MAGIC, kind, flags, attempt, edge_id, producer, consumer, sequence, 0, 0)
    _BACKLOG.pack_into(frame, _CRC_OFFSET, _crc(frame))
    return frame


def _crc(frame: bytearray | memoryview) -> int:
    view = memoryview(frame)
    return zlib.crc32(view[HEADER_BYTES:], zlib.crc32(view[:_BACKLOG_OFFSET]))


def set_backlog(frame: bytearray, backlog_bytes: int) -> None:
    """Write the producer's backlog into a frame that is about to be sent."""
    _BACKLOG.pack_into(frame, _BACKLOG_OFFSET, min(backlog_bytes, _MAX_UINT32))


def is_barrier(frame: bytearray) -> bool:
    """Return whether a frame carries a checkpoint barrier."""
    return frame[_KIND_OFFSET] == FrameKind.BARRIER


def is_channel_state(frame: Frame) -> bool:
    """Return whether a frame of a stream element has to be kept when a barrier overtakes it.

    Status, latency markers and the end are not: their producers say them again after a restore.
    """
    return memoryview(frame)[_KIND_OFFSET] <= FrameKind.WATERMARK


def sequence_of(frame: bytearray) -> int:
    """Return the position of a stream element's frame in its channel."""
    sequence: int = _UINT64.unpack_from(frame, _SEQUENCE_OFFSET)[0]
    return sequence


def set_sequence(frame: bytearray, sequence: int) -> None:
    """Give a stream element's frame, other than END, another position in its channel."""
    _UINT64.pack_into(frame, _SEQUENCE_OFFSET, sequence)
    _BACKLOG.pack_into(frame, _CRC_OFFSET, _crc(frame))


# --- the transport's own frames ---------------------------------------------------------------------------------------


def encode_credit(attempt: Attempt, channel_id: ChannelId, credit: Credit) -> bytearray:
    """Return a CREDIT frame: how much of the channel was consumed and may have been sent since it was made."""
    return make_frame(FrameKind.CREDIT, 0, attempt, channel_id, credit.consumed_bytes, _UINT64.pack(credit.limit_bytes))


def decode_credit(header: FrameHeader, frame: pa.Buffer | bytes | bytearray) -> Credit:
    """Return the content of a CREDIT frame whose header was read by `decode_header`.

    Raises:
        FrameError: the body is not a limit.
    """
    if len(memoryview(frame)) != HEADER_BYTES + _UINT64.size:
        raise FrameError("malformed CREDIT frame")
    return Credit(header.sequence, _UINT64.unpack_from(frame, HEADER_BYTES)[0])


def encode_backlog(attempt: Attempt, channel_id: ChannelId, backlog_bytes: int) -> bytearray:
    """Return a BACKLOG frame: that much is queued at the producer."""
    frame = make_frame(FrameKind.BACKLOG, 0, attempt, channel_id, 0, b"")
    set_backlog(frame, backlog_bytes)
    return frame


def encode_signal(kind: FrameKind, attempt: Attempt) -> bytearray:
    """Return a HEARTBEAT or BYE frame."""
    return make_frame(kind, 0, attempt, _NO_CHANNEL, 0, b"")


def decode_header(frame: bytes | bytearray | memoryview) -> FrameHeader:
    """Read and verify the header, and the CRC of the whole frame.

    Raises:
        FrameError: these bytes are no frame, one of another version, or damaged.
    """
    view = memoryview(frame)
    if len(view) < HEADER_BYTES:
        raise FrameError(f"{len(view)} bytes are too few for a frame")
    magic, kind, flags, attempt, edge_id, producer, consumer, sequence, backlog, crc = _HEADER.unpack_from(view)
    if magic != MAGIC:
        raise FrameError(f"not a frame of this version: starts with {magic:#06x}, not {MAGIC:#06x}")
    if _crc(view) != crc:
        raise FrameError(f"damaged frame of {len(view)} bytes: its CRC does not match")
    try:
        frame_kind = FrameKind(kind)
    except ValueError:
        raise FrameError(f"unknown kind of frame: {kind}") from None
    channel_id = ChannelId(edge_id, producer, consumer)
    return FrameHeader(frame_kind, flags, Attempt(attempt), channel_id, sequence, backlog)
