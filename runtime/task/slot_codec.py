"""What slots send, on the wire: the closed codec of SlotMessage. The JobMaster's side reads nothing else.

A slot runs code of users, who may write anything to its control stream: reading must not run any of it (ADR 36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import pyarrow as pa

from runtime.core.closed_codec import ClosedCodec
from runtime.task.messages import SlotMessage

_CODEC: ClosedCodec[SlotMessage] = ClosedCodec(get_args(SlotMessage))


def encode_slot_messages(messages: Sequence[SlotMessage]) -> bytes:
    """Return messages of a slot for the wire.

    Raises:
        WireError: a field holds what its annotation does not allow.
    """
    return _CODEC.encode(messages)


def decode_slot_messages(data: bytes | pa.Buffer) -> list[SlotMessage]:
    """Return the messages of a slot.

    Raises:
        WireError: they are none.
    """
    return _CODEC.decode(memoryview(data))
