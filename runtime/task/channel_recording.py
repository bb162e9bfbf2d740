"""ChannelRecording: what is in flight in a task's inputs when an unaligned checkpoint is taken. Loop's thread only.

One checkpoint is recorded at a time: the BarrierHandler says which channels, and when the recording of each is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from runtime.checkpoint.channel_state import ChannelPart
from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import RecordBatch
from runtime.core.elements import StreamElement, Watermark
from runtime.core.ids import Attempt
from runtime.network.channel import Frame, InputChannel
from runtime.network.credit import DEFAULT_WINDOW_BYTES
from runtime.network.frame_codec import FrameEncoder
from runtime.network.frames import FrameError
from runtime.task.input_gate import InputGate
from runtime.task.task_input import Unread


class GateChannel(NamedTuple):
    """An input channel, and its place in its gate."""

    gate: InputGate
    in_gate: int
    channel: InputChannel


class ChannelRecording:
    """The recorded elements of one task's inputs.

    Args:
        channels: of all gates, numbered through.
        record_types: by edge.
        attempt: of the slot.
        unread: returns what the task is in the middle of.
    """

    def __init__(
        self,
        channels: Sequence[GateChannel],
        record_types: Mapping[int, TypeInformation | None],
        attempt: Attempt,
        unread: Callable[[], Unread | None],
    ) -> None:
        self._channels = channels
        self._record_types = record_types
        self._attempt = attempt
        self._unread = unread
        #: elements before those that a channel records, by channel
        self._prefixes: dict[int, list[Frame]] = {}
        self._recorded: list[ChannelPart] = []
        #: why elements in flight have no form in which they could be stored
        self._error: FrameError | None = None

    def start(self, channels: Sequence[int]) -> None:
        """Begin to record these channels, with what has left them and no operator has seen."""
        unread = self._unread() if channels else None
        self._prefixes, self._recorded, self._error = {}, [], None
        for number in channels:
            gate, in_gate, channel = self._channels[number]
            elements = gate.restored_of(in_gate)
            if unread is not None and unread.channel == number:
                elements = [*unread.elements, *elements]
            channel.start_recording()
            try:
                # at once: whoever gets the elements read next may change them
                self._prefixes[number] = self._encoded(channel, elements)
            except FrameError as error:
                self._error = error

    def end(self, number: int) -> None:
        """Record no more of a channel."""
        channel = self._channels[number].channel
        try:
            frames = [*self._prefixes.pop(number, ()), *channel.stop_recording()]
        except FrameError as error:
            self._error = error
            return
        if frames:
            self._recorded.append(ChannelPart(channel.channel_id, frames, is_output=False))

    def take(self) -> list[ChannelPart]:
        """Return what was recorded, once.

        Raises:
            FrameError: an element cannot be stored.
        """
        recorded, self._recorded = self._recorded, []
        if self._error is not None:
            raise self._error
        return recorded

    def drop(self) -> None:
        """Record nothing more, and forget what was recorded."""
        self._prefixes, self._recorded = {}, []
        for _, _, channel in self._channels:
            with suppress(FrameError):
                channel.stop_recording()

    def _encoded(self, channel: InputChannel, elements: Sequence[StreamElement]) -> list[Frame]:
        if not elements:
            return []
        channel_id = channel.channel_id
        encoder = FrameEncoder(channel_id, self._attempt, self._record_types[channel_id.edge_id])
        frames: list[Frame] = []
        for element in elements:
            if isinstance(element, RecordBatch):
                frames.extend(encoder.encode_sliced(element, DEFAULT_WINDOW_BYTES))
            elif isinstance(element, Watermark):
                frames.append(encoder.encode(element))
        return frames
