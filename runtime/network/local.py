"""Channels inside one process: a queue; nothing is serialised, mutable records are copied, sizes are estimated.

A LocalNetwork is what the slots of one process share (MiniCluster); each slot has its LocalNetworkEnvironment. The two
ends of a channel may be used by two threads: totals have one writer each, and the queue is a deque.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import RecordBatch
from runtime.core.elements import EndOfInput, StreamElement
from runtime.core.ids import SlotId
from runtime.network.channel import (
    ChannelFailure,
    ChannelId,
    ChannelStatistics,
    InputChannel,
    NetworkEnvironment,
    OutputChannel,
)
from runtime.network.credit import DEFAULT_WINDOW_BYTES
from runtime.network.isolation import Isolator
from runtime.network.sizes import SizeEstimator

_CONTROL_BYTES = 32
"""What an element other than a batch counts, so that a stream of watermarks alone is held back too."""


class _Queued(NamedTuple):
    element: StreamElement
    size: int
    rows: int


class LocalChannel(OutputChannel, InputChannel):
    """Both ends of a channel.

    Args:
        producer, consumer: environments whose listeners are told of space and of data.
    """

    def __init__(
        self,
        channel_id: ChannelId,
        window_bytes: int,
        producer: LocalNetworkEnvironment,
        consumer: LocalNetworkEnvironment,
        record_type: TypeInformation | None = None,
    ) -> None:
        self.channel_id = channel_id
        self._isolator = Isolator(record_type)
        self._window_bytes = window_bytes
        self._producer, self._consumer = producer, consumer
        self._queue: deque[_Queued] = deque()
        self._sizes = SizeEstimator()
        #: written by the producer's thread only
        self._added_bytes = 0
        #: written by the producer's thread only
        self._added_rows = 0
        #: written by the producer's thread only
        self._added_batches = 0
        #: written by the producer's thread only
        self.ended = False
        #: written by the consumer's thread only
        self._taken_bytes = 0

    def add(self, element: StreamElement) -> None:
        size, rows = _CONTROL_BYTES, 0
        if isinstance(element, RecordBatch):
            # before it waits: the producer may change what it has emitted, and a broadcast batch has several takers
            element = self._isolator.isolated(element)
            size, rows = size + self._sizes.size_of(element), element.num_rows
            self._added_batches += 1
            self._added_rows += rows
        elif isinstance(element, EndOfInput):
            self.ended = True
        self._added_bytes += size
        self._queue.append(_Queued(element, size, rows))
        # a longer queue is being worked off already: its consumer was told when it began
        if len(self._queue) == 1:
            self._consumer.notify()

    def is_available(self) -> bool:
        return self._added_bytes - self._taken_bytes < self._window_bytes

    @property
    def overdraft_bytes(self) -> int:
        return max(0, self._added_bytes - self._taken_bytes - self._window_bytes)

    def poll(self) -> StreamElement | None:
        if not self._queue:
            return None
        queued = self._queue.popleft()
        taken_before = self._taken_bytes
        self._taken_bytes = taken_before + queued.size
        # read behind the write above: a producer that adds later sees the new total by itself
        added = self._added_bytes
        if added - taken_before >= self._window_bytes > added - self._taken_bytes:
            self._producer.notify()
        return queued.element

    def has_data(self) -> bool:
        return bool(self._queue)

    def statistics(self) -> ChannelStatistics:
        queued_bytes = max(0, self._added_bytes - self._taken_bytes)
        return ChannelStatistics(
            self._added_bytes,
            self._added_batches,
            self._added_rows,
            queued_bytes,
            remote=False,
            queued_elements=len(self._queue),
            window_bytes=self._window_bytes,
        )


class LocalNetwork:
    """The channels of all slots of one process, for one attempt of a job.

    Args:
        window_bytes: bytes a channel may hold before its producer has to wait.
    """

    def __init__(self, window_bytes: int = DEFAULT_WINDOW_BYTES) -> None:
        self._window_bytes = window_bytes
        self._environments: dict[SlotId, LocalNetworkEnvironment] = {}
        self._channels: dict[ChannelId, tuple[LocalChannel, SlotId, SlotId]] = {}
        self._lock = threading.Lock()

    def environment(self, slot: SlotId) -> LocalNetworkEnvironment:
        """The environment of a slot, made at the first call."""
        with self._lock:
            return self._environment(slot)

    def channel(
        self,
        channel_id: ChannelId,
        producer_slot: SlotId,
        consumer_slot: SlotId,
        record_type: TypeInformation | None = None,
    ) -> LocalChannel:
        """The channel of this id, made by whichever end asks first.

        Raises:
            ValueError: the two ends disagree about the slots.
        """
        with self._lock:
            there = self._channels.get(channel_id)
            if there is None:
                channel = LocalChannel(
                    channel_id,
                    self._window_bytes,
                    self._environment(producer_slot),
                    self._environment(consumer_slot),
                    record_type,
                )
                self._channels[channel_id] = (channel, producer_slot, consumer_slot)
                return channel
            if there[1:] != (producer_slot, consumer_slot):
                raise ValueError(
                    f"{channel_id} joins slots {there[1]} and {there[2]}, not {producer_slot} and {consumer_slot}"
                )
            return there[0]

    def leave(self, slot: SlotId) -> None:
        """A slot has closed its environment: to the others, its channels that have not ended are broken."""
        told = set()
        with self._lock:
            for channel, producer, consumer in self._channels.values():
                if slot in (producer, consumer) and producer != consumer and not channel.ended:
                    other = consumer if slot == producer else producer
                    told.add(other)
            for other in sorted(told):
                self._environment(other).fail(f"slot {slot} closed before its channels had ended", slot)

    def _environment(self, slot: SlotId) -> LocalNetworkEnvironment:
        if slot not in self._environments:
            self._environments[slot] = LocalNetworkEnvironment(self, slot)
        return self._environments[slot]


class LocalNetworkEnvironment(NetworkEnvironment):
    """One slot's part of a LocalNetwork; made by `LocalNetwork.environment`."""

    def __init__(self, network: LocalNetwork, slot: SlotId) -> None:
        self._network = network
        self._slot = slot
        self._failures: deque[ChannelFailure] = deque()
        self._on_change: Callable[[], None] | None = None
        self._closed = False

    @property
    def address(self) -> str:
        return ""

    def create_output_channel(
        self, channel_id: ChannelId, consumer_slot: SlotId, record_type: TypeInformation | None
    ) -> OutputChannel:
        return self._network.channel(channel_id, self._slot, consumer_slot, record_type)

    def create_input_channel(
        self, channel_id: ChannelId, producer_slot: SlotId, record_type: TypeInformation | None
    ) -> InputChannel:
        return self._network.channel(channel_id, producer_slot, self._slot, record_type)

    def connect(self, peers: Mapping[SlotId, str]) -> None:
        """Nothing to do: both ends of every channel are here."""

    def poll_failures(self) -> list[ChannelFailure]:
        failures = []
        while self._failures:
            failures.append(self._failures.popleft())
        return failures

    def set_listener(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._on_change = None
            self._network.leave(self._slot)

    def notify(self) -> None:
        """Tell the slot that something has changed; any thread."""
        on_change = self._on_change
        if on_change is not None:
            on_change()

    def fail(self, cause: str, peer: SlotId) -> None:
        """Record a failure; any thread."""
        if not self._closed:
            self._failures.append(ChannelFailure(cause, peer))
            self.notify()
