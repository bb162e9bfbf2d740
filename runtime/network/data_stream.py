"""The opening of a data stream: which consumer wants the frames of which producer. Any thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from runtime.core.ids import Attempt, SlotId
from runtime.network.opening import Opening, new_nonce


@dataclass(frozen=True, slots=True, kw_only=True)
class DataHello(Opening):
    """Identifies the slot that connects to a producer."""

    KIND: ClassVar[str] = "data"
    SERVER: ClassVar[str] = "the producer"

    consumer_slot: SlotId
    producer_slot: SlotId
    window_bytes: int

    @classmethod
    def new(cls, consumer: SlotId, producer: SlotId, attempt: Attempt, window_bytes: int) -> DataHello:
        return cls(
            attempt=attempt,
            nonce=new_nonce(),
            consumer_slot=consumer,
            producer_slot=producer,
            window_bytes=window_bytes,
        )
