"""Flight only: admission of peers, and peers that are killed, frozen or damaged."""

from __future__ import annotations

import base64
import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.flight as fl
import pytest

from runtime.core.elements import EndOfInput, Watermark
from runtime.core.ids import Attempt, SlotId
from runtime.network.channel import ChannelFailure, ChannelId
from runtime.network.control_stream import Hello
from runtime.network.data_stream import DataHello
from runtime.network.flight import FlightNetworkEnvironment, HeartbeatSettings
from runtime.network.frame_codec import FrameEncoder
from runtime.network.opening import HELLO_HEADER
from runtime.network.pieces import MAX_RECEIVED_BYTES, PIECE_BYTES, pieces_of

CHANNEL = ChannelId(1, 0, 0)
WINDOW = 1 << 20
DEFAULTS = HeartbeatSettings()


class Slot(FlightNetworkEnvironment):
    """An environment that remembers that it was woken."""

    def __init__(
        self, slot: int, attempt: int = 4, token: str = "secret", heartbeats: HeartbeatSettings = DEFAULTS
    ) -> None:
        super().__init__(SlotId(slot), Attempt(attempt), token, "127.0.0.1", heartbeats=heartbeats)
        self.changed = threading.Event()
        self.set_listener(self.changed.set)

    def wait_for_failure(self, seconds: float = 10.0) -> ChannelFailure:
        deadline = time.monotonic() + seconds
        while not (failures := self.poll_failures()):
            assert self.changed.wait(deadline - time.monotonic()), "no failure in time"
            self.changed.clear()
        return failures[0]


@pytest.fixture
def slots() -> Iterator[list[Slot]]:
    made: list[Slot] = []
    yield made
    for slot in made:
        slot.close()


TOKEN = "secret"


class Call:
    """A stranger's DoExchange."""

    def __init__(self, producer: Slot, header: bytes) -> None:
        self._client = fl.FlightClient(producer.address)
        options = fl.FlightCallOptions(headers=[(HELLO_HEADER.encode(), header)])
        # the writer is kept: Flight ends the stream when it is collected
        self.writer, self.reader = self._client.do_exchange(fl.FlightDescriptor.for_command(b"data"), options)

    def answer(self, hello: DataHello) -> bytes:
        """Go on as the slot that knows the token; return what it has answered."""
        answer = hello.answer(self.reader.read_chunk().app_metadata.to_pybytes(), TOKEN)
        self.writer.write_metadata(answer)
        return answer

    def __enter__(self) -> Call:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.reader.cancel()
        with contextlib.suppress(fl.FlightError):
            self.writer.close()
        self._client.close()


def hello(attempt: int = 4, consumer: int = 1, producer: int = 0, window: int = WINDOW) -> DataHello:
    return DataHello.new(SlotId(consumer), SlotId(producer), Attempt(attempt), window)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (hello().encode("guess"), "wrong token"),
        (hello().encode(""), "wrong token"),
        (hello(attempt=3).encode(TOKEN), "attempt 3 is not attempt 4"),
        (hello(producer=7).encode(TOKEN), "slot 7 is elsewhere"),
        (hello(consumer=9).encode(TOKEN), "no channel to slot 9"),
        (hello(window=5).encode(TOKEN), "window of 5 bytes"),
        (Hello.new(SlotId(1), Attempt(4)).encode(TOKEN), "malformed"),
        (b"GET / HTTP/1.1", "malformed"),
        (b"", "malformed"),
        (b"x" * 2000, "malformed"),
    ],
)
def test_stranger_is_refused_and_counted_and_hurts_nobody(slots: list[Slot], header: bytes, reason: str) -> None:
    producer = Slot(0)
    slots.append(producer)
    producer.create_output_channel(CHANNEL, SlotId(1), None)
    with pytest.raises(fl.FlightUnauthenticatedError, match=reason), Call(producer, header) as call:
        call.reader.read_chunk()
    assert producer.statistics().refused_connections == 1
    assert producer.poll_failures() == []


def test_a_hello_and_an_answer_that_were_listened_to_open_nothing(slots: list[Slot]) -> None:
    producer = Slot(0)
    slots.append(producer)
    out = producer.create_output_channel(CHANNEL, SlotId(1), None)
    out.add(Watermark(1))
    heard = hello()
    with Call(producer, heard.encode(TOKEN)) as call:
        answer = call.answer(heard)
        assert call.reader.read_chunk().app_metadata is not None
    assert "slot 1 was lost" in producer.wait_for_failure().cause
    with Call(producer, heard.encode(TOKEN)) as again:
        again.reader.read_chunk()
        again.writer.write_metadata(answer)
        with pytest.raises(fl.FlightUnauthenticatedError, match="repetition"):
            again.reader.read_chunk()


def test_the_slot_itself_gets_in_after_a_repetition_that_waits(slots: list[Slot]) -> None:
    producer = Slot(0)
    slots.append(producer)
    producer.create_output_channel(CHANNEL, SlotId(1), None).add(Watermark(1))
    heard, own = hello(), hello()
    with Call(producer, heard.encode(TOKEN)) as waiting, Call(producer, own.encode(TOKEN)) as call:
        waiting.reader.read_chunk()
        call.answer(own)
        assert call.reader.read_chunk().app_metadata is not None


@pytest.mark.parametrize(("attempt", "token", "reason"), [(4, "guess", "wrong token"), (3, "secret", "attempt 3")])
def test_slot_that_is_refused_learns_why(slots: list[Slot], attempt: int, token: str, reason: str) -> None:
    producer, consumer = Slot(0), Slot(1, attempt, token)
    slots += [producer, consumer]
    producer.create_output_channel(CHANNEL, SlotId(1), None)
    consumer.create_input_channel(CHANNEL, SlotId(0), None)
    consumer.connect({SlotId(0): producer.address})
    assert reason in consumer.wait_for_failure().cause


def test_second_connection_of_a_pair_is_refused(slots: list[Slot]) -> None:
    producer = Slot(0)
    slots.append(producer)
    out = producer.create_output_channel(CHANNEL, SlotId(1), None)
    out.add(Watermark(1))
    one, other = hello(), hello()
    with Call(producer, one.encode(TOKEN)) as first:
        first.answer(one)
        assert first.reader.read_chunk().app_metadata is not None
        with Call(producer, other.encode(TOKEN)) as second:
            second.answer(other)
            with pytest.raises(fl.FlightUnauthenticatedError, match="connected already"):
                second.reader.read_chunk()
    assert "slot 1 was lost" in producer.wait_for_failure().cause


class HeaderKept(fl.ServerMiddleware):
    """Carries the hello of a call."""

    def __init__(self, header: bytes) -> None:
        self.header = header


class HeaderKeeping(fl.ServerMiddlewareFactory):
    """Keeps the hello of each call."""

    def start_call(self, info: object, headers: dict[str, list[str | bytes]]) -> HeaderKept:
        header = headers[HELLO_HEADER][0]
        return HeaderKept(header.encode() if isinstance(header, str) else header)


class RawProducer(fl.FlightServerBase):
    """Sends the bytes it was made with as frames.

    Args:
        frames: to send.
        token: that it proves to know.
    """

    def __init__(self, frames: list[bytes], token: str = TOKEN) -> None:
        super().__init__("grpc+tcp://127.0.0.1:0", middleware={HELLO_HEADER: HeaderKeeping()})
        self._frames = frames
        self._token = token
        #: all that a consumer has sent
        self.heard: list[bytes] = []

    def do_exchange(
        self,
        context: fl.ServerCallContext,
        descriptor: fl.FlightDescriptor,
        reader: fl.MetadataRecordBatchReader,
        writer: fl.MetadataRecordBatchWriter,
    ) -> None:
        header = context.get_middleware(HELLO_HEADER).header
        self.heard += [header, descriptor.command]
        said, _ = DataHello.read(header)
        writer.write_metadata(said.challenge(self._token)[0])
        if self._token == TOKEN:
            self.heard.append(reader.read_chunk().app_metadata.to_pybytes())
        for frame in self._frames:
            writer.write_metadata(frame)


def frames_of(*attempts: int) -> list[bytes]:
    """Return one watermark per attempt, each as the first of its channel."""
    return [bytes(FrameEncoder(CHANNEL, Attempt(a), None).encode(Watermark(a))) for a in attempts]


@pytest.mark.parametrize(
    ("frames", "cause", "refused"),
    [
        ([b"no frame at all, but long enough for one"], "not a frame", 0),
        (frames_of(4, 4), "got frame number 0, expected number 1", 0),
        (frames_of(3, 4, 5), "the stream ended", 2),
        ([bytes(FrameEncoder(ChannelId(8, 8, 8), Attempt(4), None).encode(EndOfInput()))], "WATERMARK|END for", 0),
        ([], "the stream ended", 0),
        ([bytes(MAX_RECEIVED_BYTES + 1)], "a frame of", 0),
        # gRPC does not read it, and does not say why
        ([bytes(64 << 20)], "FlightCancelledError|larger", 0),
    ],
)
def test_broken_producer_is_a_failure(slots: list[Slot], frames: list[bytes], cause: str, refused: int) -> None:
    consumer = Slot(1)
    slots.append(consumer)
    consumer.create_input_channel(CHANNEL, SlotId(0), None)
    with RawProducer(frames) as server:
        consumer.connect({SlotId(0): f"grpc+tcp://127.0.0.1:{server.port}"})
        failure = consumer.wait_for_failure()
    assert any(part in failure.cause for part in cause.split("|")) and failure.peer == SlotId(0)
    assert consumer.statistics().refused_frames == refused


@pytest.mark.parametrize(
    ("frame", "cause"),
    [
        (bytes(MAX_RECEIVED_BYTES + 1), "a frame of"),
        # the first piece of a message that says how long it will be
        (bytes(next(iter(pieces_of(bytes(PIECE_BYTES + 1))))), "more than"),
    ],
)
def test_a_consumer_that_sends_what_no_consumer_sends_is_a_failure(slots: list[Slot], frame: bytes, cause: str) -> None:
    producer = Slot(0)
    slots.append(producer)
    producer.create_output_channel(CHANNEL, SlotId(1), None)
    said = hello()
    with Call(producer, said.encode(TOKEN)) as call:
        call.answer(said)
        call.writer.write_metadata(frame)
        assert cause in producer.wait_for_failure().cause


def test_a_producer_that_does_not_know_the_token_is_not_listened_to(slots: list[Slot]) -> None:
    """Frames may hold pickles."""
    consumer = Slot(1)
    slots.append(consumer)
    into = consumer.create_input_channel(CHANNEL, SlotId(0), None)
    with RawProducer(frames_of(4), token="a guess") as server:
        consumer.connect({SlotId(0): f"grpc+tcp://127.0.0.1:{server.port}"})
        assert "is not the producer: it does not know the token" in consumer.wait_for_failure().cause
    assert into.poll() is None
    assert consumer.statistics().refused_frames == 0


def test_the_token_is_never_sent(slots: list[Slot]) -> None:
    consumer = Slot(1)
    slots.append(consumer)
    consumer.create_input_channel(CHANNEL, SlotId(0), None)
    with RawProducer([]) as server:
        consumer.connect({SlotId(0): f"grpc+tcp://127.0.0.1:{server.port}"})
        consumer.wait_for_failure()
    header, command, answer = server.heard
    assert TOKEN.encode() not in base64.b64decode(header) + command + answer


def test_producer_that_is_not_there_is_a_failure(slots: list[Slot]) -> None:
    gone, consumer = Slot(0), Slot(1)
    slots.append(consumer)
    address = gone.address
    gone.close()
    consumer.create_input_channel(CHANNEL, SlotId(0), None)
    consumer.connect({SlotId(0): address})
    assert "the connection to slot 0 was lost" in consumer.wait_for_failure().cause


def test_consumer_that_never_connects_is_a_failure(slots: list[Slot]) -> None:
    producer = Slot(0, heartbeats=HeartbeatSettings(20, 100, 100))
    slots.append(producer)
    producer.create_output_channel(CHANNEL, SlotId(1), None)
    producer.connect({})
    assert "slot 1 was silent" in producer.wait_for_failure().cause


def test_heartbeats_keep_an_idle_connection_alive(slots: list[Slot]) -> None:
    heartbeats = HeartbeatSettings(20, 400, 400)
    producer, consumer = Slot(0, heartbeats=heartbeats), Slot(1, heartbeats=heartbeats)
    slots += [producer, consumer]
    out = producer.create_output_channel(CHANNEL, SlotId(1), None)
    into = consumer.create_input_channel(CHANNEL, SlotId(0), None)
    for slot in slots:
        slot.connect({SlotId(0): producer.address})
    assert not producer.changed.wait(0.8) and not consumer.changed.is_set()
    out.add(EndOfInput())
    assert consumer.changed.wait(5) and into.poll() == EndOfInput()
    assert producer.poll_failures() == consumer.poll_failures() == []


@pytest.fixture
def peer(slots: list[Slot]) -> Iterator[tuple[Slot, subprocess.Popen[str]]]:
    """A consumer (slot 1) that gets data from a producer (slot 0) in another process, with a channel back to it."""
    # on a loaded machine a process that lives may not be heard of for a second
    consumer = Slot(1, heartbeats=HeartbeatSettings(100, 3_000, 20_000))
    slots.append(consumer)
    into = consumer.create_input_channel(CHANNEL, SlotId(0), None)
    consumer.create_output_channel(ChannelId(2, 0, 0), SlotId(0), None)
    command = [sys.executable, str(Path(__file__).with_name("flight_peer.py")), consumer.address]
    root = Path(__file__).parents[2]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root, env={"PYTHONPATH": str(root)})
    try:
        assert process.stdout is not None
        consumer.connect({SlotId(0): process.stdout.readline().strip()})
        assert consumer.changed.wait(10) and (into.has_data() or not consumer.poll_failures())
        yield consumer, process
    finally:
        process.kill()
        process.communicate()


def test_killed_producer_is_noticed_at_once(peer: tuple[Slot, subprocess.Popen[str]]) -> None:
    consumer, process = peer
    process.kill()
    # before it would have been silent for too long
    assert "was lost" in consumer.wait_for_failure(3.0).cause


def test_frozen_producer_is_noticed_and_close_does_not_wait_for_it(peer: tuple[Slot, subprocess.Popen[str]]) -> None:
    consumer, process = peer
    process.send_signal(signal.SIGSTOP)
    assert "was silent" in consumer.wait_for_failure(30.0).cause
    started = time.monotonic()
    consumer.close()
    assert time.monotonic() - started < 2.0
