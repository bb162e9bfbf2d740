"""Recording of records in flight in a task's inputs, with real channels within a process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from runtime.core.batch import RecordBatch
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.elements import CheckpointBarrier, StreamElement, Watermark
from runtime.core.ids import Attempt, CheckpointId, SlotId
from runtime.network.channel import ChannelId, Frame
from runtime.network.frame_codec import FrameDecoder
from runtime.network.frames import FrameError, decode_header
from runtime.network.local import LocalNetwork
from runtime.task.channel_recording import ChannelRecording, GateChannel
from runtime.task.input_gate import InputGate
from runtime.task.task_input import Unread

BARRIER = CheckpointBarrier(CheckpointId(1), 0, CheckpointOptions("file:///chk-1", "file:///shared"))


def rows(*values: Any) -> RecordBatch:
    return RecordBatch.of_values(list(values))


def decoded(frames: Sequence[Frame]) -> list[Any]:
    """Values of batches, and watermarks."""
    decoder = FrameDecoder(None)
    buffers = [pa.py_buffer(bytes(frame)) for frame in frames]
    elements = [decoder.decode(decode_header(bytes(frame)), frame) for frame in buffers]
    return [element.values() if isinstance(element, RecordBatch) else element for element in elements]


class Rig:
    """Two channels of one gate."""

    def __init__(self) -> None:
        network = LocalNetwork(1 << 20).environment(SlotId(0))
        ids = [ChannelId(0, producer, 0) for producer in (0, 1)]
        self.outputs = [network.create_output_channel(channel_id, SlotId(0), None) for channel_id in ids]
        channels = [network.create_input_channel(channel_id, SlotId(0), None) for channel_id in ids]
        self.gate = InputGate(0, channels)
        self.unread: Unread | None = None
        places = [GateChannel(self.gate, i, channel) for i, channel in enumerate(channels)]
        self.recording = ChannelRecording(places, {0: None}, Attempt(0), lambda: self.unread)

    def send(self, channel: int, *elements: StreamElement) -> None:
        for element in elements:
            self.outputs[channel].add(element)

    def recorded(self) -> dict[int, list[Any]]:
        return {part.channel_id.producer: decoded(part.frames) for part in self.recording.take()}


def test_what_a_barrier_has_overtaken_is_recorded() -> None:
    rig = Rig()
    rig.send(0, rows("a"), Watermark(5), BARRIER, rows("behind"))
    rig.recording.start([0])
    rig.gate.channels[0].take_barrier(CheckpointId(1))
    rig.recording.end(0)
    assert rig.recorded() == {0: [["a"], Watermark(5)]}
    assert rig.recorded() == {}, "once"


def test_what_arrives_until_the_barrier_does_is_recorded_as_it_is_read() -> None:
    rig = Rig()
    rig.recording.start([0, 1])
    rig.send(1, rows("a"))
    assert rig.gate.poll() is not None
    rig.recording.end(0)
    rig.recording.end(1)
    assert rig.recorded() == {1: [["a"]]}


def test_the_rest_of_a_batch_comes_before_what_was_restored_and_what_is_read() -> None:
    rig = Rig()
    rig.unread = Unread(0, [rows("rest"), Watermark(1)])
    rig.gate.take_in(0, [rows("restored")])
    rig.recording.start([0])
    rig.send(0, rows("new"))
    rig.gate.channels[0].poll()
    rig.recording.end(0)
    assert rig.recorded() == {0: [["rest"], Watermark(1), ["restored"], ["new"]]}


def test_an_element_that_cannot_be_stored_fails_this_checkpoint_alone() -> None:
    rig = Rig()
    rig.unread = Unread(0, [rows(threading.Lock())])
    rig.recording.start([0])
    rig.recording.end(0)
    with pytest.raises(FrameError):
        rig.recording.take()
    rig.unread = Unread(0, [rows("fine")])
    rig.recording.start([0])
    rig.recording.end(0)
    assert rig.recorded() == {0: [["fine"]]}


def test_nothing_is_left_of_a_recording_that_is_dropped() -> None:
    rig = Rig()
    rig.send(0, rows("a"))
    rig.recording.start([0])
    rig.gate.poll()
    rig.recording.drop()
    rig.recording.end(0)
    assert rig.recorded() == {}
