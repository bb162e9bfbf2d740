"""Channels of a pass: the producer's end gives frames away, the consumer's is given them later.

A pass runs a vertex when all that is upstream of it has been run, so that nobody waits for credit and nothing is in
flight when a snapshot is taken. Each task has an environment of its own. The task's thread only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import RecordBatch
from runtime.core.elements import CheckpointBarrier, StreamElement
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
    RecordLimit,
)
from runtime.network.frame_codec import FrameDecoder, FrameEncoder
from runtime.network.frames import decode_header

FRAME_BYTES = 1 << 20
"""Size at which a batch is cut, as on the wire: Arrow and Spark like neither tiny rows nor ones of many MiB."""

TakeFrame = Callable[[ChannelId, bytes], None]


class PassOutput(OutputChannel):
    """Producer's end.

    Args:
        channel_id: of the channel.
        attempt: written into the frames.
        record_type: of the edge.
        take: is given every frame, in order.
    """

    def __init__(
        self, channel_id: ChannelId, attempt: Attempt, record_type: TypeInformation | None, take: TakeFrame
    ) -> None:
        self.channel_id = channel_id
        self._encoder = FrameEncoder(channel_id, attempt, record_type)
        self._take = take
        self._bytes = self._rows = 0

    def limit_records(self, limit: RecordLimit) -> None:
        self._encoder.limit_records(limit)

    def add(self, element: StreamElement) -> None:
        if isinstance(element, RecordBatch):
            self._rows += element.num_rows
            for frame in self._encoder.encode_sliced(element, FRAME_BYTES):
                self._give(frame)
        else:
            self._give(self._encoder.encode(element))

    def add_overtaking(self, barrier: CheckpointBarrier) -> Sequence[Frame]:
        raise NotImplementedError("nothing is in flight in a pass that a barrier could overtake")

    def holds_barrier(self, checkpoint_id: CheckpointId) -> bool:
        return False

    def expedite(self, barrier: CheckpointBarrier) -> Sequence[Frame]:
        return ()

    def is_available(self) -> bool:
        return True

    def statistics(self) -> ChannelStatistics:
        return ChannelStatistics(self._bytes, self._encoder.sequence, self._rows, 0, remote=True)

    def _give(self, frame: bytearray) -> None:
        self._bytes += len(frame)
        self._take(self.channel_id, bytes(frame))


class PassInput(InputChannel):
    """Consumer's end; `push` puts in what `decode` has made of a frame."""

    def __init__(self, channel_id: ChannelId, record_type: TypeInformation | None) -> None:
        self.channel_id = channel_id
        self._decoder = FrameDecoder(record_type)
        self._queue: deque[StreamElement] = deque()
        self._bytes = self._batches = self._rows = 0

    def decode(self, frame: bytes | pa.Buffer) -> StreamElement:
        """Return what is in the channel's next frame.

        Raises:
            FrameError: it is damaged.
        """
        element = self._decoder.decode(decode_header(frame), frame)
        self._bytes += len(frame)
        self._batches += 1
        if isinstance(element, RecordBatch):
            self._rows += element.num_rows
        return element

    def push(self, element: StreamElement) -> None:
        """Queue an element."""
        self._queue.append(element)

    def poll(self) -> StreamElement | None:
        return self._queue.popleft() if self._queue else None

    def has_data(self) -> bool:
        return bool(self._queue)

    def set_barrier_listener(self, on_barrier: BarrierListener) -> None:
        """Do nothing: barriers are taken in order."""

    def start_recording(self) -> None:
        """Do nothing: nothing is in flight."""

    def take_barrier(self, checkpoint_id: CheckpointId) -> None:
        """Do nothing: barriers are taken in order."""

    def stop_recording(self) -> Sequence[Frame]:
        return ()

    def statistics(self) -> ChannelStatistics:
        return ChannelStatistics(self._bytes, self._batches, self._rows, 0, remote=True)


class PassNetwork(NetworkEnvironment):
    """Makes the channels of one task.

    Args:
        attempt: of the job.
        take: is given every frame that the task emits.
    """

    def __init__(self, attempt: Attempt, take: TakeFrame) -> None:
        self.inputs: dict[ChannelId, PassInput] = {}
        self._attempt = attempt
        self._take = take

    @property
    def address(self) -> str:
        return ""

    def create_output_channel(
        self, channel_id: ChannelId, consumer_slot: SlotId, record_type: TypeInformation | None
    ) -> OutputChannel:
        return PassOutput(channel_id, self._attempt, record_type, self._take)

    def create_input_channel(
        self, channel_id: ChannelId, producer_slot: SlotId, record_type: TypeInformation | None
    ) -> InputChannel:
        self.inputs[channel_id] = channel = PassInput(channel_id, record_type)
        return channel

    def connect(self, peers: Mapping[SlotId, str]) -> None:
        """Do nothing: there is no transport."""

    def poll_failures(self) -> list[ChannelFailure]:
        return []

    def set_listener(self, on_change: Callable[[], None]) -> None:
        """Do nothing: a task is run when its input is there."""

    def close(self) -> None:
        """Do nothing: there is no transport."""
