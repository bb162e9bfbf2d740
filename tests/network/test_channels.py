"""Contract of all transports: order, credit, END; a peer that leaves is a failure, never the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from runtime.common.typeinfo import TypeInformation, Types
from runtime.common.types import Row
from runtime.core.batch import Mark, RecordBatch
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.elements import CheckpointBarrier, EndOfInput, StreamElement, Watermark, WatermarkStatus
from runtime.core.ids import Attempt, CheckpointId, SlotId
from runtime.network import pieces
from runtime.network.channel import ChannelFailure, ChannelId, InputChannel, NetworkEnvironment, OutputChannel
from runtime.network.flight import FlightNetworkEnvironment
from runtime.network.local import LocalNetwork
from runtime.network.remote import RemoteInputChannel
from tests.support.waiting import wait_until

WINDOW = 1 << 16
FLOATING = 4 * WINDOW
DEADLINE_SECONDS = 10.0


@dataclass
class Pair:
    """Two slots, and what woke them."""

    producer: NetworkEnvironment
    consumer: NetworkEnvironment
    remote: bool
    changed: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        for environment in (self.producer, self.consumer):
            environment.set_listener(self.changed.set)

    def channel(
        self, number: int = 0, record_type: TypeInformation | None = None
    ) -> tuple[OutputChannel, InputChannel]:
        channel_id = ChannelId(1, 0, number)
        return (
            self.producer.create_output_channel(channel_id, SlotId(1), record_type),
            self.consumer.create_input_channel(channel_id, SlotId(0), record_type),
        )

    def connect(self) -> None:
        peers = {SlotId(0): self.producer.address, SlotId(1): self.consumer.address}
        self.producer.connect(peers)
        self.consumer.connect(peers)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            # only the listener wakes this, so a notification that is missed fails the test
            woken = self.changed.wait(deadline - time.monotonic())
            assert woken or condition(), "nothing happened in time"
            self.changed.clear()

    def receive(self, channel: InputChannel, count: int) -> list[StreamElement]:
        elements: list[StreamElement] = []

        def poll() -> bool:
            while len(elements) < count and (element := channel.poll()) is not None:
                elements.append(element)
            return len(elements) == count

        self.wait_until(poll)
        return elements

    def failure_of(self, environment: NetworkEnvironment) -> ChannelFailure:
        failures: list[ChannelFailure] = []

        def poll() -> bool:
            failures.extend(environment.poll_failures())
            return bool(failures)

        self.wait_until(poll)
        [failure] = failures
        return failure


def flight_pair(floating_bytes: int = FLOATING) -> Pair:
    def environment(slot: int) -> FlightNetworkEnvironment:
        return FlightNetworkEnvironment(
            SlotId(slot), Attempt(4), "secret", "127.0.0.1", window_bytes=WINDOW, floating_bytes=floating_bytes
        )

    return Pair(environment(0), environment(1), remote=True)


def local_pair() -> Pair:
    network = LocalNetwork(WINDOW)
    return Pair(network.environment(SlotId(0)), network.environment(SlotId(1)), remote=False)


@pytest.fixture(params=[local_pair, flight_pair], ids=["local", "flight"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    made: Pair = request.param()
    yield made
    made.consumer.close()
    made.producer.close()


@pytest.fixture(params=[local_pair, lambda: flight_pair(0)], ids=["local", "flight"])
def pair_without_pool(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Windows only, so that a full channel is full until its consumer reads."""
    made: Pair = request.param()
    yield made
    made.consumer.close()
    made.producer.close()


def rows_of(elements: list[StreamElement]) -> list[object]:
    return [value for element in elements if isinstance(element, RecordBatch) for value in element.values()]


def test_elements_arrive_once_and_in_order(pair: Pair) -> None:
    out, into = pair.channel()
    out.add(Watermark(1))  # before the connection: it must wait, not be lost
    pair.connect()
    sent: list[StreamElement] = [
        RecordBatch.of_values([1, "a"], [10, 20], [Mark(1, 5)]),
        WatermarkStatus.IDLE,
        CheckpointBarrier(CheckpointId(1), 99, CheckpointOptions("mem:/chk-1", "mem:/shared")),
        EndOfInput(),
    ]
    for element in sent:
        out.add(element)
    received = pair.receive(into, 5)
    assert received[0] == Watermark(1) and received[2:] == sent[1:]
    [batch] = [element for element in received if isinstance(element, RecordBatch)]
    assert (batch.values(), batch.timestamps(), list(batch.marks)) == ([1, "a"], [10, 20], [Mark(1, 5)])
    assert into.poll() is None and not into.has_data()
    assert out.statistics().rows == 2 and out.statistics().remote is pair.remote
    assert pair.producer.poll_failures() == pair.consumer.poll_failures() == []


def test_columns_arrive_as_columns(pair: Pair) -> None:
    out, into = pair.channel(record_type=Types.LONG())
    pair.connect()
    out.add(RecordBatch.of_arrow(pa.record_batch({"value": pa.array(range(50_000))}), Types.LONG()))
    out.add(EndOfInput())
    received: list[StreamElement] = []
    while not received or received[-1] != EndOfInput():
        received += pair.receive(into, 1)
    assert all(element.has_arrow for element in received if isinstance(element, RecordBatch))
    assert rows_of(received) == list(range(50_000))


def test_consumer_that_does_not_poll_stops_the_producer_within_the_window(pair: Pair) -> None:
    out, into = pair.channel()
    pair.connect()
    sent = 0
    while out.is_available():
        out.add(RecordBatch.of_values([bytes([i]) * 1000 for i in range(10)]))
        sent += 10
    # what is on its way or received never exceeds the window and the pool, what waits is one step more than a window
    assert sent * 1000 <= 2 * WINDOW + FLOATING + 2 * 11_000
    pair.wait_until(into.has_data)
    assert into.statistics().queued_bytes <= WINDOW + FLOATING + 11_000
    received: list[StreamElement] = []
    while not out.is_available():
        received += pair.receive(into, 1)
    while len(rows_of(received)) < sent:
        received += pair.receive(into, 1)
    pair.wait_until(out.is_available)
    assert len(rows_of(received)) == sent


def test_producer_is_woken_when_space_becomes_free(pair_without_pool: Pair) -> None:
    pair = pair_without_pool
    out, into = pair.channel()
    pair.connect()
    while out.is_available():
        out.add(RecordBatch.of_values([bytes(5000)]))
    drained = threading.Event()
    consumed = 0

    def consume() -> None:
        nonlocal consumed
        while not drained.is_set():
            consumed += into.poll() is not None

    thread = threading.Thread(target=consume, daemon=True)
    pair.changed.clear()
    thread.start()
    try:
        pair.wait_until(out.is_available)
    finally:
        drained.set()
        thread.join()
    assert consumed


def test_element_larger_than_the_window_passes(pair: Pair) -> None:
    out, into = pair.channel()
    pair.connect()
    for number in range(3):
        out.add(RecordBatch.of_values([bytes([number]) * (3 * WINDOW)]))
    assert not out.is_available()
    assert [value[:1] for value in rows_of(pair.receive(into, 3))] == [b"\0", b"\1", b"\2"]  # type: ignore[index]
    pair.wait_until(out.is_available)


def test_one_full_channel_does_not_hold_up_another(pair: Pair) -> None:
    (full, _), (out, into) = pair.channel(0), pair.channel(1)
    pair.connect()
    while full.is_available():
        full.add(RecordBatch.of_values([bytes(5000)]))
    out.add(Watermark(3))
    assert pair.receive(into, 1) == [Watermark(3)]


def test_watermarks_alone_are_held_back_too(pair: Pair) -> None:
    out, _ = pair.channel()
    pair.connect()
    sent = 0
    while out.is_available():
        out.add(Watermark(sent))
        sent += 1
    assert sent < 2 * WINDOW / 30


def test_producer_that_leaves_without_end_is_a_failure(pair: Pair) -> None:
    out, into = pair.channel()
    pair.connect()
    out.add(Watermark(1))
    assert pair.receive(into, 1) == [Watermark(1)]
    pair.producer.close()
    assert pair.failure_of(pair.consumer).peer == SlotId(0)
    assert into.poll() is None


def test_consumer_that_leaves_before_the_end_is_a_failure(pair: Pair) -> None:
    out, into = pair.channel()
    pair.connect()
    out.add(Watermark(1))
    pair.receive(into, 1)
    pair.consumer.close()
    assert pair.failure_of(pair.producer).peer == SlotId(1)


def test_leaving_after_the_end_is_no_failure_and_loses_nothing(pair: Pair) -> None:
    channels = [pair.channel(number) for number in range(3)]
    pair.connect()
    for number, (out, _) in enumerate(channels):
        out.add(RecordBatch.of_values([number]))
        out.add(EndOfInput())
    for _, into in channels:
        pair.wait_until(into.has_data)
    pair.producer.close()
    received = [pair.receive(into, 2) for _, into in channels]
    assert [rows_of(elements) for elements in received] == [[0], [1], [2]]
    assert pair.consumer.poll_failures() == []


def test_close_is_quick_and_idempotent(pair: Pair) -> None:
    pair.channel()
    pair.connect()
    started = time.monotonic()
    for environment in (pair.producer, pair.consumer, pair.producer):
        environment.close()
    assert time.monotonic() - started < 2.0


def test_channels_within_a_slot_need_no_connection(pair: Pair) -> None:
    channel_id = ChannelId(1, 0, 0)
    out = pair.producer.create_output_channel(channel_id, SlotId(0), None)
    into = pair.producer.create_input_channel(channel_id, SlotId(0), None)
    pair.connect()
    batch = RecordBatch.of_values([("immutable", 1)])
    out.add(batch)
    assert pair.receive(into, 1)[0] is batch and not out.statistics().remote


def test_taker_of_a_mutable_record_has_it_for_itself(pair: Pair) -> None:
    channels = [pair.channel(number) for number in range(2)]
    pair.connect()
    record = {"count": 1, "items": [1]}
    batch = RecordBatch.of_values([record])
    for out, _ in channels:  # as a broadcast does
        out.add(batch)
    record["count"] = 2
    record["items"].append(2)  # type: ignore[attr-defined]
    taken = [rows_of(pair.receive(into, 1)) for _, into in channels]
    assert taken == [[{"count": 1, "items": [1]}]] * 2
    assert taken[0][0] is not taken[1][0]


def test_values_that_takers_make_from_one_batch_of_columns_are_their_own(pair: Pair) -> None:
    record_type = Types.ROW([Types.LONG()])
    channels = [pair.channel(number, record_type) for number in range(2)]
    pair.connect()
    columns = RecordBatch.of_values([Row(1)], type_info=record_type).arrow()
    batch = RecordBatch.of_arrow(columns, record_type)
    for out, _ in channels:
        out.add(batch)
    [first], [second] = (rows_of(pair.receive(into, 1)) for _, into in channels)
    assert first == second and first is not second


def test_channel_that_is_not_read_leaves_its_neighbour_alone(pair: Pair) -> None:
    blocked, _ = pair.channel(0)
    out, into = pair.channel(1)
    pair.connect()
    filled = sent = received = 0

    def flows() -> bool:
        nonlocal filled, sent, received
        while blocked.is_available():
            blocked.add(RecordBatch.of_values([bytes([i]) * 1000 for i in range(10)]))
            filled += 10
        while out.is_available() and sent < 2000:
            out.add(RecordBatch.of_values([bytes([i]) * 1000 for i in range(10)]))
            sent += 10
        while (element := into.poll()) is not None:
            received += len(rows_of([element]))
        return received == 2000

    pair.wait_until(flows)
    assert not blocked.is_available()
    # the blocked channel may hold what the gate shares, but no more
    assert filled * 1000 <= 2 * WINDOW + FLOATING + 22_000


def test_backlog_borrows_the_pool_and_gives_it_back(pair: Pair) -> None:
    out, into = pair.channel()
    pair.connect()
    for _ in range(8):
        out.add(RecordBatch.of_values([bytes(i) * (WINDOW // 4) for i in range(1, 3)]))
    if not pair.remote:
        assert out.overdraft_bytes > 0
        return
    # the consumer does not read, and yet more than its window arrives
    wait_until(lambda: into.statistics().queued_bytes > 2 * WINDOW, DEADLINE_SECONDS, "what the pool lends")
    assert 0 < into.statistics().floating_bytes <= into.statistics().pool_bytes
    out.add(EndOfInput())
    while pair.receive(into, 1) != [EndOfInput()]:
        pass
    assert into.statistics().floating_bytes == 0
    assert isinstance(into, RemoteInputChannel)
    into.gate.check_invariants()
    assert into.gate.pool.available_bytes == into.gate.pool.size_bytes


def test_record_of_many_pieces_arrives_whole(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 1 << 10)
    out, into = pair.channel()
    pair.connect()
    records = ["short", "x" * 100_000, "last"]
    out.add(RecordBatch.of_values(records))
    received: list[object] = []

    def poll() -> bool:
        while (element := into.poll()) is not None:
            received.extend(rows_of([element]))
        return len(received) == 3

    pair.wait_until(poll)
    assert received == records
