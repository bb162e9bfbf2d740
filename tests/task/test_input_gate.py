"""InputGate: several channels in, one sequence out; watermarks, marks, idleness and ends are merged."""

from __future__ import annotations

from collections import deque

import pytest

from runtime.core.batch import Mark, RecordBatch
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.elements import (
    END_OF_INPUT,
    CheckpointBarrier,
    EndOfInput,
    LatencyMarker,
    StreamElement,
    Watermark,
    WatermarkStatus,
)
from runtime.core.ids import CheckpointId, OperatorId
from runtime.network.channel import BarrierListener, ChannelId, ChannelStatistics, Frame, InputChannel
from runtime.task.input_gate import InputGate, UnexpectedElementError


class ScriptedChannel(InputChannel):
    """Delivers what the test puts in."""

    def __init__(self, producer: int, *elements: StreamElement, edge: int = 0) -> None:
        self.channel_id = ChannelId(edge, producer, 0)
        self.elements = deque(elements)

    def poll(self) -> StreamElement | None:
        return self.elements.popleft() if self.elements else None

    def has_data(self) -> bool:
        return bool(self.elements)

    def set_barrier_listener(self, on_barrier: BarrierListener) -> None:
        pass

    def start_recording(self) -> None:
        raise AssertionError("nothing is recorded here")

    def take_barrier(self, checkpoint_id: CheckpointId) -> None:
        raise AssertionError("nothing is recorded here")

    def stop_recording(self) -> list[Frame]:
        return []

    def statistics(self) -> ChannelStatistics:
        return ChannelStatistics(0, 0, 0, 0, remote=False)


def batch(*values: str, marks: tuple[Mark, ...] = ()) -> RecordBatch:
    return RecordBatch.of_values(list(values), marks=marks)


def drain(gate: InputGate) -> list[object]:
    """All that comes out now; batches as (values, marks)."""
    elements: list[object] = []
    while (element := gate.poll()) is not None:
        elements.append((element.values(), list(element.marks)) if isinstance(element, RecordBatch) else element)
    return elements


def test_channels_take_turns_and_each_keeps_its_order() -> None:
    gate = InputGate(0, [ScriptedChannel(0, batch("a1"), batch("a2"), batch("a3")), ScriptedChannel(1, batch("b1"))])
    assert drain(gate) == [(["a1"], []), (["b1"], []), (["a2"], []), (["a3"], [])]
    assert not gate.has_data()


def test_channels_of_several_edges_are_one_input() -> None:
    one, two = ScriptedChannel(0, Watermark(5), edge=3), ScriptedChannel(0, batch("x"), Watermark(9), edge=4)
    gate = InputGate(1, [one, two])
    assert drain(gate) == [(["x"], []), Watermark(5)]
    assert gate.input_index == 1


def test_a_watermark_comes_out_when_the_least_of_the_channels_has_risen() -> None:
    one, two = ScriptedChannel(0, Watermark(5)), ScriptedChannel(1)
    gate = InputGate(0, [one, two])
    assert drain(gate) == []
    two.elements.extend([Watermark(3), Watermark(4), Watermark(8)])
    assert drain(gate) == [Watermark(3), Watermark(4), Watermark(5)]


def test_marks_are_merged_in_place_and_drop_out_where_nothing_rises() -> None:
    one = ScriptedChannel(0, Watermark(10))
    two = ScriptedChannel(1, batch("a", "b", "c", marks=(Mark(1, 4), Mark(2, 12), Mark(3, 20))))
    gate = InputGate(0, [one, two])
    assert drain(gate) == [(["a", "b", "c"], [Mark(1, 4), Mark(2, 10)])]
    one.elements.append(Watermark(15))
    assert drain(gate) == [Watermark(15)]


def test_idleness_of_one_channel_lets_the_other_go_on_and_that_of_all_is_told() -> None:
    one, two = ScriptedChannel(0, Watermark(5)), ScriptedChannel(1, WatermarkStatus.IDLE)
    gate = InputGate(0, [one, two])
    assert drain(gate) == [Watermark(5)]
    one.elements.append(WatermarkStatus.IDLE)
    assert drain(gate) == [WatermarkStatus.IDLE]
    two.elements.append(WatermarkStatus.ACTIVE)
    assert drain(gate) == [WatermarkStatus.ACTIVE]


def test_the_last_idle_channel_brings_the_furthest_watermark_and_then_the_status() -> None:
    one, two = ScriptedChannel(0, Watermark(5), WatermarkStatus.IDLE), ScriptedChannel(1, Watermark(9))
    gate = InputGate(0, [one, two])
    drain(gate)
    two.elements.extend([Watermark(7), WatermarkStatus.IDLE])
    assert drain(gate) == [WatermarkStatus.IDLE]
    assert gate.valve.watermark == 9


def test_the_end_comes_once_when_all_channels_have_ended() -> None:
    one, two = ScriptedChannel(0, batch("a"), END_OF_INPUT), ScriptedChannel(1)
    gate = InputGate(0, [one, two])
    assert drain(gate) == [(["a"], [])]
    assert not gate.has_ended
    two.elements.extend([batch("b"), Watermark(7), END_OF_INPUT])
    assert drain(gate) == [(["b"], []), Watermark(7), EndOfInput()]
    assert gate.has_ended
    assert gate.poll() is None


def test_a_channel_that_ends_no_longer_holds_the_watermark_back() -> None:
    gate = InputGate(0, [ScriptedChannel(0, Watermark(5)), ScriptedChannel(1, Watermark(2), END_OF_INPUT)])
    assert drain(gate) == [Watermark(2), Watermark(5)]


def test_a_latency_marker_passes() -> None:
    marker = LatencyMarker(1, OperatorId("0" * 32), 0)
    assert drain(InputGate(0, [ScriptedChannel(0, marker)])) == [marker]


def test_what_has_no_place_in_the_protocol_is_refused() -> None:
    gate = InputGate(
        0, [ScriptedChannel(0, CheckpointBarrier(CheckpointId(1), 0, CheckpointOptions("mem:/chk-1", "mem:/shared")))]
    )
    with pytest.raises(UnexpectedElementError, match="CheckpointBarrier"):
        gate.poll()
