"""A task's view of the network: output channels, input channels, and the environment that makes and connects them.

A channel joins one producer subtask to one consumer subtask of one edge. Elements arrive in order, once, or the channel
fails; an end of stream that was not said with EndOfInput is a failure. All methods are called by the slot's loop thread
and never block; transports have threads of their own inside.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.common import options
from runtime.common.typeinfo import TypeInformation
from runtime.core.elements import CheckpointBarrier, StreamElement
from runtime.core.ids import CheckpointId, SlotId

Frame = bytes | bytearray | memoryview
"""An encoded stream element, see runtime.network.frames; not to be changed any more."""
BarrierListener = Callable[[CheckpointBarrier], None]


@dataclass(frozen=True, slots=True, order=True)
class ChannelId:
    """A channel of a job."""

    edge_id: int
    producer: int
    """Subtask index of the producer."""
    consumer: int
    """Subtask index of the consumer."""


@dataclass(frozen=True, slots=True)
class ChannelFailure:
    """A channel or a whole connection broke."""

    cause: str
    peer: SlotId | None
    channel: ChannelId | None = None


@dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """Counters since the channel was made."""

    bytes: int
    """Payload bytes; for a channel inside a process an estimate."""
    batches: int
    rows: int
    queued_bytes: int
    remote: bool
    """Whether the bytes left the process."""
    queued_elements: int = 0
    """Elements that wait at this end: batches or frames, and whatever else travels in a channel."""
    window_bytes: int = 0
    """Exclusive credit."""
    floating_bytes: int = 0
    """Consumer's end: borrowed from the gate's pool."""
    pool_bytes: int = 0
    """Consumer's end: size of the gate's pool, which its channels share."""


class RecordTooLargeError(Exception):
    """A record is larger than may go from slot to slot.

    Attributes:
        operator_name: of the operator that emitted it.
        record_bytes: what it takes on the wire.
        max_bytes: what it may take.
    """

    #: the message names the operator: reports add neither the task nor this class
    is_self_explanatory = True

    def __init__(self, operator_name: str, record_bytes: int, max_bytes: int) -> None:
        self.operator_name = operator_name
        self.record_bytes = record_bytes
        self.max_bytes = max_bytes
        super().__init__(
            f"operator {operator_name!r} emitted a record of {record_bytes:,} bytes; {options.MAX_RECORD_BYTES.key} "
            f"allows {max_bytes:,}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.operator_name, self.record_bytes, self.max_bytes)


@dataclass(frozen=True, slots=True)
class RecordLimit:
    """Maximum size of the records that an operator sends to other processes."""

    operator_name: str
    max_bytes: int

    def check(self, record_bytes: int) -> None:
        """Raise RecordTooLargeError if a record takes more."""
        if record_bytes > self.max_bytes:
            raise RecordTooLargeError(self.operator_name, record_bytes, self.max_bytes)


class OutputChannel(ABC):
    """Producer's end."""

    channel_id: ChannelId

    def limit_records(self, limit: RecordLimit) -> None:  # nothing to do where nothing is encoded
        """Refuse larger records from now on, if this channel encodes them; `add` raises RecordTooLargeError."""

    @abstractmethod
    def add(self, element: StreamElement) -> None:
        """Queue an element. Always accepted: the writer checks `is_available` between steps; a step may overdraw."""

    @abstractmethod
    def add_overtaking(self, barrier: CheckpointBarrier) -> Sequence[Frame]:
        """Queue a barrier before everything that has not left this end, but behind other barriers.

        Returns:
            What it has overtaken here, batches and watermarks only. A channel inside a process has no such part: the
            consumer finds the barrier in the queue that both ends share.
        """

    @abstractmethod
    def holds_barrier(self, checkpoint_id: CheckpointId) -> bool:
        """Return whether that barrier was added and has not left this end."""

    @abstractmethod
    def expedite(self, barrier: CheckpointBarrier) -> Sequence[Frame]:
        """Move a barrier that was added in order before everything else, like `add_overtaking`.

        Returns:
            What it has overtaken here; nothing if the one that was added has left in the meantime.
        """

    @abstractmethod
    def is_available(self) -> bool:
        """Return whether what is queued and not yet covered by credit is below the window."""

    @property
    def overdraft_bytes(self) -> int:
        """Return how far the last steps have gone beyond the window; 0 while the channel is available."""
        return 0

    @abstractmethod
    def statistics(self) -> ChannelStatistics: ...


class InputChannel(ABC):
    """Consumer's end."""

    channel_id: ChannelId

    @abstractmethod
    def poll(self) -> StreamElement | None:
        """Return the next element; taking it gives its bytes back to the producer as credit."""

    @abstractmethod
    def has_data(self) -> bool:
        """Return whether `poll` would return an element."""

    @abstractmethod
    def set_barrier_listener(self, on_barrier: BarrierListener) -> None:
        """Call `on_barrier` (from any thread) when a barrier has come into the queue, however far behind."""

    @abstractmethod
    def start_recording(self) -> None:
        """Record the batches and watermarks that `poll` returns from now on."""

    @abstractmethod
    def take_barrier(self, checkpoint_id: CheckpointId) -> None:
        """Take that barrier out of the queue: `poll` will not give it. What is queued before it is recorded, and is
        still to be polled; recording ends with it."""

    @abstractmethod
    def stop_recording(self) -> Sequence[Frame]:
        """Return what was recorded, and forget it."""

    @abstractmethod
    def statistics(self) -> ChannelStatistics: ...


class NetworkEnvironment(ABC):
    """Makes the channels of one slot and connects them to other slots."""

    @property
    @abstractmethod
    def address(self) -> str:
        """Return the address at which other slots reach this one; "" if they share its process."""

    @abstractmethod
    def create_output_channel(
        self, channel_id: ChannelId, consumer_slot: SlotId, record_type: TypeInformation | None
    ) -> OutputChannel: ...

    @abstractmethod
    def create_input_channel(
        self, channel_id: ChannelId, producer_slot: SlotId, record_type: TypeInformation | None
    ) -> InputChannel: ...

    @abstractmethod
    def connect(self, peers: Mapping[SlotId, str]) -> None:
        """Start the transport to the slots at these addresses; call once, after all channels of all slots exist."""

    @abstractmethod
    def poll_failures(self) -> list[ChannelFailure]:
        """Return what broke since the last call."""

    @abstractmethod
    def set_listener(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` (from any thread) when data arrived, space became free or something broke."""

    @abstractmethod
    def close(self) -> None:
        """Tear everything down within 2 s, whatever the peers do; idempotent."""
