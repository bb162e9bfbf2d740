"""A control stream between ends that do not trust each other: hostile slots, strangers, a server that was swapped."""

from __future__ import annotations

import ast
import pickle
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.flight as flight
import pytest

import runtime
from runtime.core.clock import SYSTEM_CLOCK
from runtime.core.ids import Attempt, SlotId
from runtime.jobmaster import control_server
from runtime.jobmaster.control_server import ControlServer
from runtime.network.control_stream import MAX_SLOT_FRAME_BYTES, Hello
from runtime.network.opening import HELLO_HEADER, MAX_HELLO_BYTES
from runtime.network.refusals import REFUSALS
from runtime.task.control_client import connect_control
from runtime.task.control_link import ControlLostError
from runtime.task.messages import HeartbeatRequest, SlotCommitted, SlotMessage
from runtime.task.slot_codec import encode_slot_messages
from tests.support.waiting import wait_until

SLOT, ATTEMPT, TOKEN = SlotId(1), Attempt(3), "the token of the attempt"
COMMITTED = SlotCommitted(SLOT, ATTEMPT)


@dataclass
class Leader:
    """A JobMaster's control server, and what it hears."""

    heard: list[SlotMessage] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server = ControlServer(
            "127.0.0.1",
            lambda attempt: f"{TOKEN} {attempt}",
            lambda _, message: self.heard.append(message),
            lambda _, __, cause: self.lost.append(cause),
        )


@pytest.fixture
def leader() -> Iterator[Leader]:
    leader = Leader()
    yield leader
    leader.server.stop()


@dataclass
class RawSlot:
    """Writes to the JobMaster what it likes, as the code of a slot can: it knows the token."""

    address: str
    token: str = f"{TOKEN} {ATTEMPT}"
    hello: Hello = field(default_factory=lambda: Hello.new(SLOT, ATTEMPT))

    def __post_init__(self) -> None:
        self.client = flight.connect(self.address)

    def call(self, header: bytes) -> tuple[Any, Any]:
        options = flight.FlightCallOptions(headers=[(HELLO_HEADER.encode(), header)], timeout=20)
        writer, reader = self.client.do_exchange(flight.FlightDescriptor.for_command(b""), options)
        return writer, reader

    def open(self) -> tuple[Any, Any]:
        """Open a stream as a slot does; it is known from then on."""
        writer, reader = self.call(self.hello.encode(self.token))
        writer.write_metadata(self.hello.answer(reader.read_chunk().app_metadata.to_pybytes(), self.token))
        return writer, reader


class Bomb:
    """Unpickled, it leaves a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_what_a_slot_sends_runs_no_code_in_the_jobmaster(leader: Leader, tmp_path: Path) -> None:
    writer, _ = RawSlot(leader.server.address).open()
    writer.write_metadata(pickle.dumps([Bomb(tmp_path / "ran")], protocol=pickle.HIGHEST_PROTOCOL))
    wait_until(lambda: bool(leader.lost), 20, "the end of the stream")
    assert "not a message" in leader.lost[0]
    assert not (tmp_path / "ran").exists() and leader.heard == []


def test_a_slot_cannot_speak_for_another(leader: Leader) -> None:
    writer, _ = RawSlot(leader.server.address).open()
    writer.write_metadata(encode_slot_messages([COMMITTED, SlotCommitted(SlotId(2), ATTEMPT)]))
    wait_until(lambda: bool(leader.lost), 20, "the end of the stream")
    assert "speaks for 2" in leader.lost[0] and leader.heard == [COMMITTED]


def test_a_slot_cannot_speak_for_another_attempt(leader: Leader) -> None:
    writer, _ = RawSlot(leader.server.address).open()
    writer.write_metadata(encode_slot_messages([SlotCommitted(SLOT, Attempt(4))]))
    wait_until(lambda: bool(leader.lost), 20, "the end of the stream")
    assert leader.heard == []


def test_a_frame_beyond_the_limit_ends_the_stream(leader: Leader) -> None:
    writer, reader = RawSlot(leader.server.address).open()
    writer.write_metadata(bytes(2 * MAX_SLOT_FRAME_BYTES))
    wait_until(lambda: bool(leader.lost), 20, "the end of the stream")
    with pytest.raises(pyarrow.ArrowException, match="larger than max"):
        reader.read_chunk()
    assert leader.heard == []


@pytest.mark.parametrize("frame", [b"", b"\x7d", b"\x50\x7d" + bytes(6) + (1 << 60).to_bytes(8, "little") + bytes(9)])
def test_a_frame_that_is_no_message_ends_the_stream(leader: Leader, frame: bytes) -> None:
    before = REFUSALS.counts()["messages"]
    writer, _ = RawSlot(leader.server.address).open()
    writer.write_metadata(frame)
    wait_until(lambda: bool(leader.lost), 20, "the end of the stream")
    assert leader.heard == [] and REFUSALS.counts()["messages"] == before + 1


def test_a_long_list_of_messages_comes_in_frames_that_the_jobmaster_takes(leader: Leader) -> None:
    many = [COMMITTED] * 200_000
    assert len(encode_slot_messages(many)) > 2 * MAX_SLOT_FRAME_BYTES
    link = connect_control(leader.server.address, SLOT, ATTEMPT, f"{TOKEN} {ATTEMPT}", SYSTEM_CLOCK, lease_ms=60_000)
    for message in many:
        link.send(message)
    wait_until(lambda: len(leader.heard) == len(many), 60, "the messages")
    link.drop()


def test_a_slot_that_ends_without_a_word_is_lost_and_may_come_again(leader: Leader) -> None:
    writer, reader = RawSlot(leader.server.address).open()
    writer.write_metadata(encode_slot_messages([COMMITTED]))
    wait_until(lambda: leader.heard == [COMMITTED], 20, "the message")
    assert leader.server.is_connected(SLOT, ATTEMPT)
    reader.cancel()
    wait_until(lambda: bool(leader.lost), 20, "the end of the stream")
    assert not leader.server.is_connected(SLOT, ATTEMPT)
    again, _ = RawSlot(leader.server.address).open()
    again.write_metadata(encode_slot_messages([COMMITTED]))
    wait_until(lambda: len(leader.heard) == 2, 20, "the message")


def test_a_second_stream_of_a_slot_is_refused(leader: Leader) -> None:
    first, _ = RawSlot(leader.server.address).open()
    first.write_metadata(encode_slot_messages([COMMITTED]))
    wait_until(lambda: leader.heard == [COMMITTED], 20, "the message")
    _, answers = RawSlot(leader.server.address).open()
    with pytest.raises(flight.FlightError, match="connected already"):
        answers.read_chunk()
    first.write_metadata(encode_slot_messages([COMMITTED]))
    wait_until(lambda: len(leader.heard) == 2, 20, "the first stream")
    assert leader.lost == []


@pytest.mark.parametrize(
    "header",
    [
        b"!",
        b"e30=",
        b"A" * (MAX_HELLO_BYTES + 4),
        Hello.new(SLOT, ATTEMPT).encode("a guess"),
        # the token of another attempt
        Hello.new(SLOT, ATTEMPT).encode(f"{TOKEN} 2"),
    ],
)
def test_a_stranger_is_refused_by_the_header(leader: Leader, header: bytes) -> None:
    before = REFUSALS.counts()["connections"]
    with pytest.raises(flight.FlightUnauthenticatedError):
        # refused before the call's first message has left, or after
        RawSlot(leader.server.address).call(header)[1].read_chunk()
    assert leader.lost == []
    assert REFUSALS.counts()["connections"] == before + 1


def test_a_call_without_a_hello_is_refused_whatever_it_is(leader: Leader) -> None:
    client = flight.connect(leader.server.address)
    calls = [
        lambda: client.do_exchange(flight.FlightDescriptor.for_command(b""))[1].read_chunk(),
        lambda: list(client.do_action(flight.Action("x", b""))),
        lambda: list(client.list_flights()),
        lambda: client.do_get(flight.Ticket(b"x")).read_all(),
    ]
    for call in calls:
        with pytest.raises(flight.FlightUnauthenticatedError):
            call()


def test_a_recorded_opening_cannot_be_repeated(leader: Leader) -> None:
    slot = RawSlot(leader.server.address)
    header = slot.hello.encode(slot.token)
    writer, reader = slot.call(header)
    recorded = slot.hello.answer(reader.read_chunk().app_metadata.to_pybytes(), slot.token)
    writer.write_metadata(recorded)
    writer.write_metadata(encode_slot_messages([COMMITTED]))
    wait_until(lambda: leader.heard == [COMMITTED], 20, "the message")

    again, answers = slot.call(header)
    answers.read_chunk()
    again.write_metadata(recorded)
    with pytest.raises(flight.FlightUnauthenticatedError, match="repetition"):
        answers.read_chunk()


def test_a_stream_whose_slot_never_answers_ends(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_server, "ANSWER_TIMEOUT_S", 0.2)
    slot = RawSlot(leader.server.address)
    _, reader = slot.call(slot.hello.encode(slot.token))
    reader.read_chunk()
    with pytest.raises(flight.FlightError) as ended:
        reader.read_chunk()
    assert not isinstance(ended.value, flight.FlightTimedOutError)
    wait_until(lambda: leader.server._unanswered == 0, 20, "room for another")
    assert leader.lost == []
    writer, _ = RawSlot(leader.server.address).open()
    writer.write_metadata(encode_slot_messages([COMMITTED]))
    wait_until(lambda: leader.heard == [COMMITTED], 20, "a slot that answers")


def test_a_connection_without_a_call_is_closed_and_a_slots_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control_server, "IDLE_CONNECTION_MS", 500)
    leader = Leader()
    writer, _ = RawSlot(leader.server.address).open()
    host, _, port = leader.server.address.rpartition("/")[2].rpartition(":")
    with ExitStack() as strangers:
        idle = [strangers.enter_context(socket.create_connection((host, int(port)), 10)) for _ in range(20)]
        for connection in idle:
            # opens HTTP/2
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
        for connection in idle:
            with suppress(ConnectionResetError):
                while connection.recv(4096):
                    pass
    writer.write_metadata(encode_slot_messages([COMMITTED]))
    wait_until(lambda: leader.heard == [COMMITTED], 20, "the slot")
    assert leader.lost == []
    leader.server.stop()


def test_streams_that_never_answer_are_bounded(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_server, "MAX_UNANSWERED", 2)
    slots = [RawSlot(leader.server.address) for _ in range(3)]
    held = [slot.call(slot.hello.encode(slot.token)) for slot in slots[:2]]
    for _, reader in held:
        reader.read_chunk()
    with pytest.raises(flight.FlightError, match="too many"):
        slots[2].call(slots[2].hello.encode(slots[2].token))[1].read_chunk()
    for _, reader in held:
        reader.cancel()

    opened: list[Any] = []

    def is_let_in() -> bool:
        # the server hears of the ends a little later
        with suppress(flight.FlightServerError):
            opened.extend(RawSlot(leader.server.address).open())
        return bool(opened)

    wait_until(is_let_in, 20, "room")
    opened[0].write_metadata(encode_slot_messages([COMMITTED]))
    wait_until(lambda: leader.heard == [COMMITTED], 20, "a slot that answers")


class SwappedServer(flight.FlightServerBase):
    """Stands where the JobMaster's server should: it sends code, and keeps what slots tell it."""

    def __init__(self, bomb: Bomb) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.bomb = bomb
        self.told: list[bytes] = []

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        writer.write_metadata(b"0" * 32 + b" " + b"0" * 64)
        writer.write_metadata(pickle.dumps([self.bomb]))
        try:
            while True:
                self.told.append(reader.read_chunk().app_metadata.to_pybytes())
        except (StopIteration, flight.FlightError):
            pass


def test_a_server_that_does_not_know_the_token_runs_no_code_in_the_slot_and_hears_nothing(tmp_path: Path) -> None:
    server = SwappedServer(Bomb(tmp_path / "ran"))
    link = connect_control(f"grpc://127.0.0.1:{server.port}", SLOT, ATTEMPT, TOKEN, SYSTEM_CLOCK, lease_ms=60_000)
    link.send(COMMITTED)
    with pytest.raises(ControlLostError, match="does not know the token") as lost:
        wait_until(lambda: link.poll() is not None, 20, "the end of the stream")
    link.close()
    server.shutdown()
    assert lost.value.is_final
    assert server.told == [] and not (tmp_path / "ran").exists()


def test_both_ends_that_know_the_token_talk(leader: Leader) -> None:
    link = connect_control(leader.server.address, SLOT, ATTEMPT, f"{TOKEN} {ATTEMPT}", SYSTEM_CLOCK, lease_ms=60_000)
    link.send(COMMITTED)
    wait_until(lambda: leader.heard == [COMMITTED], 20, "the message")
    leader.server.send(SLOT, ATTEMPT, HeartbeatRequest(5, 0))
    wait_until(lambda: link.poll() == HeartbeatRequest(5, 0), 20, "the request")
    link.drop()


# --- the rule ---------------------------------------------------------------------------------------------------------

UNPICKLERS = {"pickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}
ROOT = Path(runtime.__file__).resolve().parent.parent
#: modules of the JobMaster's process that read what others send or store
GUARDED = [
    *(ROOT / "backend").rglob("*.py"),
    *(ROOT / "runtime/jobmaster").rglob("*.py"),
    *(ROOT / "runtime/checkpoint").rglob("*.py"),
    ROOT / "runtime/core/closed_codec.py",
    ROOT / "runtime/network/control_stream.py",
    ROOT / "runtime/network/pieces.py",
    ROOT / "runtime/task/slot_codec.py",
    ROOT / "runtime/task/messages.py",
]
#: reads state for the user's own program, when told to
ALLOWED = {"runtime/checkpoint/savepoint_reader.py", "runtime/checkpoint/state_frames.py"}


@pytest.mark.parametrize("path", GUARDED, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_of_the_jobmaster_unpickles(path: Path) -> None:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=imported):
                names |= {alias.name.split(".")[0] for alias in imported}
            case ast.ImportFrom(module=module, names=imported):
                names |= {(module or "").split(".")[0], *(alias.name for alias in imported)}
    found = names & (UNPICKLERS | {"decode_jobmaster_messages"})
    assert not found or str(path.relative_to(ROOT)) in ALLOWED
