from __future__ import annotations

from runtime.core.elements import Watermark
from runtime.core.ids import Attempt
from runtime.network.channel import ChannelId
from runtime.network.frame_codec import FrameEncoder
from runtime.network.frames import (
    FrameKind,
    decode_header,
    set_backlog,
)

CHANNEL = ChannelId(7, 3, 65535)
ATTEMPT = Attempt(9)


def test_header_says_where_a_frame_belongs() -> None:
    encoder = FrameEncoder(CHANNEL, ATTEMPT, None)
    encoder.encode(Watermark(1))
    frame = encoder.encode(Watermark(2))
    set_backlog(frame, 2**40)
    header = decode_header(frame)
    assert header == (FrameKind.WATERMARK, 0, ATTEMPT, CHANNEL, 1, 2**32 - 1)
