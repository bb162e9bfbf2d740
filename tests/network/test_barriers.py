"""Barriers in channels: in line, overtaking, found ahead of what is queued; what they overtake is neither lost nor kept
twice, and they need no credit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from runtime.common.typeinfo import Types
from runtime.core.batch import RecordBatch
from runtime.core.checkpoint_options import Alignment, CheckpointOptions
from runtime.core.elements import END_OF_INPUT, CheckpointBarrier, EndOfInput, StreamElement, Watermark, WatermarkStatus
from runtime.core.ids import CheckpointId
from runtime.network.channel import Frame, InputChannel, OutputChannel
from runtime.network.frame_codec import FrameDecoder
from runtime.network.frames import decode_header
from runtime.network.remote import RemoteOutputChannel
from tests.network.test_channels import WINDOW, Pair, flight_pair, local_pair, rows_of


@pytest.fixture(params=[local_pair, lambda: flight_pair(0)], ids=["local", "flight"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    made: Pair = request.param()
    yield made
    made.consumer.close()
    made.producer.close()


def barrier(number: int, alignment: Alignment = Alignment.UNALIGNED) -> CheckpointBarrier:
    options = CheckpointOptions("file:///chk", "file:///shared", alignment=alignment, aligned_timeout_ms=None)
    return CheckpointBarrier(CheckpointId(number), 5, options)


def elements_of(frames: Sequence[Frame]) -> list[StreamElement]:
    decoder = FrameDecoder(None)
    return [decoder.decode(decode_header(bytes(frame)), bytes(frame)) for frame in frames]


def fill(channel: OutputChannel) -> int:
    """Write numbers until the channel is full, and somewhat beyond; returns how many."""
    count = 0
    while channel.is_available() or count % 3:
        channel.add(RecordBatch.of_values(list(range(count * 1000, count * 1000 + 1000))))
        count += 1
    return count * 1000


class Barriers(list[CheckpointBarrier]):
    """Barriers that a channel has announced."""

    def __init__(self, channel: InputChannel) -> None:
        super().__init__()
        channel.set_barrier_listener(self.append)


def test_a_barrier_in_line_keeps_its_place_and_is_announced_before_it_is_reached(pair: Pair) -> None:
    out, into = pair.channel()
    announced = Barriers(into)
    pair.connect()
    out.add(RecordBatch.of_values([1]))
    out.add(barrier(1, Alignment.ALIGNED))
    out.add(RecordBatch.of_values([2]))
    pair.wait_until(lambda: bool(announced))
    received = pair.receive(into, 3)
    assert rows_of(received[:1]) == [1] and rows_of(received[2:]) == [2]
    assert received[1] == announced[0] == barrier(1, Alignment.ALIGNED)


def test_an_overtaking_barrier_is_seen_though_the_channel_is_full_and_nobody_reads_it(pair: Pair) -> None:
    out, into = pair.channel()
    announced = Barriers(into)
    pair.connect()
    count = fill(out)
    into.start_recording()
    at_the_producer = out.add_overtaking(barrier(1))
    behind = list(range(count, count + 10))
    out.add(RecordBatch.of_values(behind))
    pair.wait_until(lambda: bool(announced))
    into.take_barrier(CheckpointId(1))
    channel_state = rows_of(elements_of(into.stop_recording())) + rows_of(elements_of(at_the_producer))
    # what the barrier has overtaken, and nothing of what was behind it
    assert channel_state == list(range(count))
    assert bool(at_the_producer) == pair.remote
    # and all of it still arrives, in order, without the barrier
    rows: list[object] = []
    while len(rows) < count + 10:
        for element in pair.receive(into, 1):
            assert not isinstance(element, CheckpointBarrier)
            rows.extend(rows_of([element]))
    assert rows == [*range(count), *behind]
    out.add(END_OF_INPUT)
    assert isinstance(pair.receive(into, 1)[0], EndOfInput)
    if isinstance(out, RemoteOutputChannel):
        out.check_invariants()


def test_what_was_read_while_recording_is_part_of_it(pair: Pair) -> None:
    out, into = pair.channel()
    announced = Barriers(into)
    pair.connect()
    for number in range(4):
        out.add(RecordBatch.of_values([number]))
    pair.receive(into, 1)
    into.start_recording()
    pair.receive(into, 1)
    out.add_overtaking(barrier(1))
    pair.wait_until(lambda: bool(announced))
    into.take_barrier(CheckpointId(1))
    assert rows_of(elements_of(into.stop_recording())) == [1, 2, 3]
    assert rows_of(pair.receive(into, 2)) == [2, 3]
    assert into.stop_recording() == ()


def test_what_producers_say_again_after_a_restore_is_not_recorded(pair: Pair) -> None:
    out, into = pair.channel()
    announced = Barriers(into)
    pair.connect()
    into.start_recording()
    for element in (WatermarkStatus.IDLE, WatermarkStatus.ACTIVE, Watermark(7), barrier(1)):
        out.add(element)
    pair.wait_until(lambda: bool(announced))
    into.take_barrier(CheckpointId(1))
    assert elements_of(into.stop_recording()) == [Watermark(7)]


def test_a_barrier_that_is_not_there_cannot_be_taken(pair: Pair) -> None:
    _, into = pair.channel()
    with pytest.raises(LookupError, match="checkpoint 1 is not in"):
        into.take_barrier(CheckpointId(1))


def test_a_barrier_overtakes_no_other_barrier(pair: Pair) -> None:
    out, into = pair.channel()
    pair.connect()
    count = fill(out)
    out.add(barrier(1, Alignment.ALIGNED))
    out.add(RecordBatch.of_values(["between"]))
    overtaken = out.add_overtaking(barrier(2))
    assert rows_of(elements_of(overtaken)) == (["between"] if pair.remote else [])
    received: list[StreamElement] = []
    while len([e for e in received if isinstance(e, CheckpointBarrier)]) < 2:
        received += pair.receive(into, 1)
    numbers = [e.checkpoint_id for e in received if isinstance(e, CheckpointBarrier)]
    assert numbers == [1, 2]
    assert rows_of(received)[:count] == list(range(count))


def test_a_barrier_in_line_can_still_be_made_to_overtake(pair: Pair) -> None:
    out, into = pair.channel()
    announced = Barriers(into)
    pair.connect()
    count = fill(out)
    out.add(barrier(1, Alignment.ALIGNED))
    out.add(RecordBatch.of_values(["behind"]))
    assert out.holds_barrier(CheckpointId(1)) == pair.remote
    into.start_recording()
    overtaken = out.expedite(barrier(1))
    assert not out.holds_barrier(CheckpointId(1))
    assert out.expedite(barrier(1)) == ()
    pair.wait_until(lambda: bool(announced))
    assert announced[0].options.alignment is (Alignment.UNALIGNED if pair.remote else Alignment.ALIGNED)
    into.take_barrier(CheckpointId(1))
    channel_state = rows_of(elements_of(into.stop_recording())) + rows_of(elements_of(overtaken))
    assert channel_state == list(range(count))
    received: list[StreamElement] = []
    while "behind" not in rows_of(received[-1:]):
        received += pair.receive(into, 1)
    assert rows_of(received) == [*range(count), "behind"]


class Unstorable:
    """Not what its type says, and nothing that could be pickled."""

    def __reduce__(self) -> str:
        raise TypeError("cannot be pickled")


def test_records_that_cannot_be_stored_are_told_and_not_lost() -> None:
    pair = local_pair()
    out, into = pair.channel(record_type=Types.LONG())
    into.start_recording()
    out.add(RecordBatch.of_values([Unstorable()]))
    assert len(rows_of(pair.receive(into, 1))) == 1
    with pytest.raises(Exception, match="cannot be pickled"):
        into.stop_recording()
    assert into.stop_recording() == ()


def test_barriers_need_no_credit() -> None:
    pair = flight_pair(0)
    try:
        out, into = pair.channel()
        announced = Barriers(into)
        pair.connect()
        # one frame that takes the whole window
        out.add(RecordBatch.of_values(["x" * WINDOW]))
        for number in range(1, 4):
            out.add(barrier(number, Alignment.ALIGNED))
        pair.wait_until(lambda: len(announced) == 3)
        assert len(pair.receive(into, 4)) == 4
    finally:
        pair.consumer.close()
        pair.producer.close()
