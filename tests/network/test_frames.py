from __future__ import annotations

import pytest

from runtime.core.elements import Watermark
from runtime.core.ids import Attempt, SlotId
from runtime.network.channel import ChannelId
from runtime.network.frame_codec import FrameEncoder
from runtime.network.frames import (
    FrameError,
    FrameKind,
    Hello,
    decode_header,
    decode_hello,
    encode_hello,
    encode_signal,
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


def test_hello_comes_back_and_nothing_else_is_one() -> None:
    hello = Hello(SlotId(1), SlotId(2), 1 << 20, b"secret")
    assert decode_hello(bytes(encode_hello(ATTEMPT, hello))) == (ATTEMPT, hello)
    for other in (b"", b"x" * 60, bytes(encode_signal(FrameKind.BYE, ATTEMPT))):
        with pytest.raises(FrameError):
            decode_hello(other)
