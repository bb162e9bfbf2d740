"""RecordWriter: small parts travel together, in order, with their marks, no longer than the buffer timeout apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.common.typeinfo import Types
from runtime.core.batch import DEFAULT_BATCH_ROWS, NO_TIMESTAMP, Mark, RecordBatch
from runtime.core.elements import CheckpointBarrier, EndOfInput, LatencyMarker, StreamElement, Watermark
from runtime.core.ids import CheckpointId, operator_id_of
from runtime.network.channel import ChannelId, ChannelStatistics, Frame, OutputChannel
from runtime.network.partitioners import BroadcastSelector, KeyGroupSelector, RoundRobinSelector
from runtime.network.record_writer import RecordWriter


class StoppedClock:
    """Time that moves when told to."""

    def __init__(self) -> None:
        self.ms = 1000.0

    def now_ms(self) -> int:
        return int(self.ms)

    def monotonic_ms(self) -> float:
        return self.ms


class ListChannel(OutputChannel):
    """Keeps what it is given."""

    def __init__(self, index: int = 0) -> None:
        self.channel_id = ChannelId(0, 0, index)
        self.elements: list[StreamElement] = []
        self.available = True

    def add(self, element: StreamElement) -> None:
        self.elements.append(element)

    def add_overtaking(self, barrier: CheckpointBarrier) -> list[Frame]:
        self.elements.insert(0, barrier)
        return [str(self.channel_id.consumer).encode()] * (len(self.elements) - 1)

    def holds_barrier(self, checkpoint_id: CheckpointId) -> bool:
        return False

    def expedite(self, barrier: CheckpointBarrier) -> list[Frame]:
        return []

    def is_available(self) -> bool:
        return self.available

    def statistics(self) -> ChannelStatistics:
        return ChannelStatistics(0, len(self.elements), 0, 0, remote=False)


def writer_of(num_channels: int, timeout_ms: int) -> tuple[RecordWriter, list[ListChannel], StoppedClock]:
    channels, clock = [ListChannel(i) for i in range(num_channels)], StoppedClock()
    return RecordWriter(RoundRobinSelector(num_channels), channels, timeout_ms, clock), channels, clock


def seen(elements: list[StreamElement]) -> list[Any]:
    """Rows with their timestamps, and watermarks, in order."""
    events: list[Any] = []
    for element in elements:
        if not isinstance(element, RecordBatch):
            events.append(element)
            continue
        assert [m.offset for m in element.marks] == sorted(m.offset for m in element.marks)
        timestamps = element.timestamps() or [NO_TIMESTAMP] * element.num_rows
        for start, stop, watermark in element.segments():
            events += zip(element.values()[start:stop], timestamps[start:stop], strict=True)
            events += [] if watermark is None else [Watermark(watermark)]
    return events


def test_parts_wait_until_the_timeout_and_leave_together() -> None:
    writer, [channel], clock = writer_of(1, 100)
    writer.emit(RecordBatch.of_values([1, 2], marks=[Mark(0, 5), Mark(2, 6)]))
    clock.ms += 60
    writer.emit(RecordBatch.of_values([3], [30], [Mark(1, 7)]))
    assert (writer.next_flush_ms, channel.elements) == (1100.0, [])
    writer.flush_due(1099.0)
    assert channel.elements == []
    writer.flush_due(1100.0)
    [batch] = channel.elements
    assert isinstance(batch, RecordBatch) and batch.marks == [Mark(0, 5), Mark(2, 6), Mark(3, 7)]
    assert batch.timestamps() == [NO_TIMESTAMP, NO_TIMESTAMP, 30]
    assert writer.next_flush_ms is None


def test_results_of_a_slice_that_took_longer_than_the_timeout_leave_at_its_end() -> None:
    writer, [channel], _ = writer_of(1, 100)
    writer.emit(RecordBatch.of_values([1]))
    writer.flush_after(99.0)
    assert channel.elements == []
    writer.flush_after(100.0)
    assert len(channel.elements) == 1 and writer.next_flush_ms is None
    whole, [kept], _ = writer_of(1, -1)
    whole.emit(RecordBatch.of_values([1]))
    whole.flush_after(1_000_000.0)
    assert kept.elements == []


def test_timeout_zero_flushes_every_batch() -> None:
    writer, [channel], _ = writer_of(1, 0)
    writer.emit(RecordBatch.of_values([1]))
    writer.emit(RecordBatch.of_values([2]))
    assert [len(e) for e in channel.elements if isinstance(e, RecordBatch)] == [1, 1]


def test_timeout_minus_one_waits_until_full() -> None:
    writer, [channel], _ = writer_of(1, -1)
    for _ in range(3):
        writer.emit(RecordBatch.of_values(list(range(3000))))
    assert writer.next_flush_ms is None
    [batch] = channel.elements
    assert isinstance(batch, RecordBatch) and batch.num_rows == 6000 <= DEFAULT_BATCH_ROWS


def test_big_records_are_not_gathered_beyond_a_mebibyte() -> None:
    writer, [channel], _ = writer_of(1, -1)
    for n in range(4):
        writer.emit(RecordBatch.of_values([bytes([n]) * 600_000]))
    assert [len(e) for e in channel.elements if isinstance(e, RecordBatch)] == [1, 1, 1]


def test_values_that_take_much_memory_are_gathered_in_smaller_batches() -> None:
    writer, [channel], _ = writer_of(1, -1)
    for _ in range(4):
        writer.emit(RecordBatch.of_values([{"text": f"{n:0100}"} for n in range(1000)]))
        writer.emit(RecordBatch.of_values([{"text": f"{n:0100}"} for n in range(300)]))
    sent = [len(e) for e in channel.elements if isinstance(e, RecordBatch)]
    assert max(sent) <= 1300 and sum(sent) >= 4000


def test_few_large_values_are_gathered_up_to_a_mebibyte() -> None:
    writer, [channel], _ = writer_of(1, -1)
    for n in range(12):
        writer.emit(RecordBatch.of_values([bytes([n]) * 100_000]))
    assert [len(e) for e in channel.elements if isinstance(e, RecordBatch)] == [10]


def test_full_batch_leaves_at_once_as_it_is() -> None:
    writer, [channel], _ = writer_of(1, 100)
    batch = RecordBatch.of_values(list(range(DEFAULT_BATCH_ROWS)))
    writer.emit(batch)
    assert channel.elements == [batch] and channel.elements[0] is batch


def test_broadcast_flushes_first() -> None:
    writer, channels, _ = writer_of(2, 100)
    writer.emit(RecordBatch.of_values([1, 2]))
    writer.broadcast(EndOfInput())
    assert [seen(c.elements) for c in channels] == [
        [(1, NO_TIMESTAMP), EndOfInput()],
        [(2, NO_TIMESTAMP), EndOfInput()],
    ]


def test_marks_reach_channels_that_got_no_row() -> None:
    writer, channels, _ = writer_of(2, 0)
    writer.emit(RecordBatch.of_values([1], marks=[Mark(0, 3), Mark(1, 4)]))
    writer.emit(RecordBatch.of_values([], marks=[Mark(0, 9)]))
    assert seen(channels[0].elements) == [Watermark(3), (1, NO_TIMESTAMP), Watermark(4), Watermark(9)]
    assert seen(channels[1].elements) == [Watermark(4), Watermark(9)]


def test_writer_is_available_when_all_channels_are() -> None:
    writer, channels, _ = writer_of(2, 0)
    assert writer.is_available()
    channels[1].available = False
    assert not writer.is_available()


def test_columns_and_values_are_not_converted_into_each_other() -> None:
    writer, [channel], _ = writer_of(1, -1)
    columns = pa.record_batch({"value": pa.array([1, 2])})
    for _ in range(2):
        writer.emit(RecordBatch.of_arrow(columns, Types.LONG(), np.array([1, 2]), [Mark(1, 1)]))
    for _ in range(2):
        writer.emit(RecordBatch.of_values([3], type_info=Types.LONG()))
    writer.flush()
    arrow, values = channel.elements
    assert isinstance(arrow, RecordBatch) and isinstance(values, RecordBatch)
    assert arrow.has_arrow and not arrow.has_values and not values.has_arrow
    assert arrow.marks == [Mark(1, 1), Mark(3, 1)] and arrow.timestamps() == [1, 2, 1, 2]
    assert arrow.values() + values.values() == [1, 2, 1, 2, 3, 3]


def test_keys_of_gathered_parts_stay_with_them() -> None:
    channel = ListChannel()
    writer = RecordWriter(KeyGroupSelector(1, str, 128), [channel], -1, StoppedClock())
    writer.emit(RecordBatch.of_values([1, 2]))
    writer.emit(RecordBatch.of_values([3]))
    writer.flush()
    [batch] = channel.elements
    assert isinstance(batch, RecordBatch) and batch.keys == ["1", "2", "3"]


def test_gathering_changes_no_batch_that_was_handed_over() -> None:
    channels = [ListChannel(0), ListChannel(1)]
    writer = RecordWriter(BroadcastSelector(2), channels, -1, StoppedClock())
    batches = [RecordBatch.of_values([n], [n], [Mark(1, n)]) for n in range(3)]
    for batch in batches:
        writer.emit(batch)
    writer.flush()
    assert [seen([batch]) for batch in batches] == [[(n, n), Watermark(n)] for n in range(3)]
    assert seen(channels[0].elements) == seen(channels[1].elements)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans(), st.booleans()), max_size=20), st.booleans())
def test_nothing_is_lost_or_reordered(steps: list[tuple[int, bool, bool, bool]], ever: bool) -> None:
    writer, [channel], _ = writer_of(1, 0 if ever else -1)
    expected: list[Any] = []
    for number, (rows, timed, marked, flush) in enumerate(steps):
        timestamps = [number] * rows if timed else None
        marks = [Mark(rows // 2, number), Mark(rows, number)] if marked else []
        batch = RecordBatch.of_values([number] * rows, timestamps, marks)
        expected += seen([batch]) if rows else [Watermark(number)] * marked
        writer.emit(batch)
        if flush:
            writer.flush()
    writer.flush()
    assert seen(channel.elements) == expected


@pytest.mark.parametrize("timeout_ms", [-2, -100])
def test_impossible_timeout_is_refused(timeout_ms: int) -> None:
    with pytest.raises(ValueError, match="buffer timeout"):
        writer_of(1, timeout_ms)


def test_latency_marker_takes_one_channel_and_waits_behind_the_records_that_wait_there() -> None:
    channels, clock = [ListChannel(i) for i in range(3)], StoppedClock()
    chosen = iter([1, 0, 1])
    writer = RecordWriter(RoundRobinSelector(3), channels, 100, clock, choose=lambda n: next(chosen))
    marker = LatencyMarker(5, operator_id_of("source"), 2)
    writer.emit_randomly(marker)
    # nothing waits in that channel
    assert [channel.elements for channel in channels] == [[], [marker], []]
    writer.emit(RecordBatch.of_values([1, 2, 3]))
    writer.emit_randomly(marker)
    writer.emit_randomly(marker)
    assert [len(channel.elements) for channel in channels] == [0, 1, 0]
    clock.ms += 100
    writer.flush_due(clock.monotonic_ms())
    assert [channel.elements[-1] == marker for channel in channels[:2]] == [True, True]
    assert [len(channel.elements) for channel in channels] == [2, 3, 1]


def test_overdraft_of_a_writer_is_that_of_its_fullest_channel() -> None:
    class Overdrawn(ListChannel):
        overdraft_bytes = 700

    writer = RecordWriter(RoundRobinSelector(2), [ListChannel(), Overdrawn()], 0, StoppedClock())
    assert writer.overdraft_bytes == 700
