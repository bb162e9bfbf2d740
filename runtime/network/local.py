"""Channels inside one process: a queue; nothing is serialised, mutable records are copied, sizes are estimated.

A LocalNetwork is what the slots of one process share (MiniCluster); each slot has its LocalNetworkEnvironment. The two
ends of a channel may be used by two threads: totals have one writer each, and the queue is a deque.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import RecordBatch
from runtime.core.elements import CheckpointBarrier, EndOfInput, StreamElement, Watermark
from runtime.core.ids import Attempt, CheckpointId, SlotId
from runtime.network.channel import (
    BarrierListener,
    ChannelFailure,
    ChannelId,
    ChannelStatistics,
    Frame,
    InputChannel,
    NetworkEnvironment,
    OutputChannel,
)
from runtime.network.credit import DEFAULT_WINDOW_BYTES
from runtime.network.frame_codec import FrameEncoder
from runtime.network.frames import FrameError
from runtime.network.isolation import Isolator
from runtime.network.sizes import SizeEstimator

_CONTROL_BYTES = 32
"""Bytes that an element other than a batch counts, so that a stream of watermarks alone is held back too."""


class _Queued(NamedTuple):
    element: StreamElement
    size: int
    rows: int


class LocalChannel(OutputChannel, InputChannel):
    """Both ends of a channel.

    Args:
        producer, consumer: environments whose listeners are notified of space and of data.
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
        self._record_type = record_type
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
        #: called by the producer's thread
        self._on_barrier: BarrierListener | None = None
        #: what was polled since recording began; consumer's thread only, as the next three
        self._recorded: list[Frame] | None = None
        self._recording_error: FrameError | None = None
        self._recorder: FrameEncoder | None = None
        #: barriers that were taken out, and are still in the queue
        self._taken_barriers: set[CheckpointId] = set()

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
        if isinstance(element, CheckpointBarrier):
            # it may be of use long before it is reached
            if self._on_barrier is not None:
                self._on_barrier(element)
            self._consumer.notify()
        # a longer queue is being worked off already: its consumer was told when it began
        elif len(self._queue) == 1:
            self._consumer.notify()

    def add_overtaking(self, barrier: CheckpointBarrier) -> Sequence[Frame]:
        self.add(barrier)
        return ()

    def holds_barrier(self, checkpoint_id: CheckpointId) -> bool:
        return False

    def expedite(self, barrier: CheckpointBarrier) -> Sequence[Frame]:
        return ()

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
        element = queued.element
        if self._recorded is not None:
            self._record(element)
        if self._taken_barriers and isinstance(element, CheckpointBarrier):
            return self._not_taken(element)
        return element

    def _not_taken(self, barrier: CheckpointBarrier) -> StreamElement | None:
        if barrier.checkpoint_id not in self._taken_barriers:
            return barrier
        self._taken_barriers.discard(barrier.checkpoint_id)
        return self.poll()

    def has_data(self) -> bool:
        return bool(self._queue)

    def set_barrier_listener(self, on_barrier: BarrierListener) -> None:
        self._on_barrier = on_barrier

    def start_recording(self) -> None:
        self._recorded, self._recording_error = [], None

    def take_barrier(self, checkpoint_id: CheckpointId) -> None:
        self._taken_barriers.add(checkpoint_id)
        for queued in list(self._queue):
            if isinstance(queued.element, CheckpointBarrier) and queued.element.checkpoint_id == checkpoint_id:
                return
            self._record(queued.element)
        raise LookupError(f"the barrier of checkpoint {checkpoint_id} is not in {self.channel_id}")

    def stop_recording(self) -> Sequence[Frame]:
        """Return what was recorded, and forget it.

        Raises:
            FrameError: some of it cannot be pickled; nothing of it is lost to the consumer.
        """
        recorded, self._recorded = self._recorded, None
        error, self._recording_error = self._recording_error, None
        if error is not None:
            raise error
        return recorded or ()

    def _record(self, element: StreamElement) -> None:
        if self._recorded is None or not isinstance(element, RecordBatch | Watermark):
            return
        if self._recorder is None:
            self._recorder = FrameEncoder(self.channel_id, Attempt(0), self._record_type)
        try:
            # at once: the consumer may change what it is given
            if isinstance(element, RecordBatch):
                self._recorded.extend(self._recorder.encode_sliced(element, DEFAULT_WINDOW_BYTES))
            else:
                self._recorded.append(self._recorder.encode(element))
        except FrameError as error:
            self._recording_error = error

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
        """Return the environment of a slot, made at the first call."""
        with self._lock:
            return self._environment(slot)

    def channel(
        self,
        channel_id: ChannelId,
        producer_slot: SlotId,
        consumer_slot: SlotId,
        record_type: TypeInformation | None = None,
    ) -> LocalChannel:
        """Return the channel of this id, made by whichever end asks first.

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
        """Note that a slot has closed its environment: to the others, its channels that have not ended are broken."""
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
    """Part of a LocalNetwork that belongs to one slot; made by `LocalNetwork.environment`."""

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
        """Do nothing: both ends of every channel are here."""

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
