"""Streams between slots, and between slots and JobMaster, under TIDEMARK_INTERNAL_TLS."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow.flight as fl
import pytest

from runtime.core.clock import SYSTEM_CLOCK
from runtime.core.elements import Watermark
from runtime.core.ids import Attempt, SlotId
from runtime.jobmaster.adoption_client import offer_adoption
from runtime.jobmaster.control_server import ControlServer
from runtime.network.channel import ChannelId
from runtime.network.flight import FlightNetworkEnvironment
from runtime.network.tls import TLS_DIRECTORY, TlsError, Transport
from runtime.task.control_client import connect_control
from runtime.task.control_link import ControlLostError
from runtime.task.control_session import ADOPT_ACTION, AdoptionOffer
from runtime.task.messages import SlotLeaving, SlotMessage
from tests.support.certificates import Authority
from tests.support.waiting import wait_until

TOKEN, ATTEMPT = "secret", Attempt(4)
PRODUCER, CONSUMER = SlotId(0), SlotId(1)
CHANNEL = ChannelId(1, 0, 0)
LEAVING = SlotLeaving(CONSUMER, ATTEMPT)


@pytest.fixture
def authority() -> Authority:
    return Authority.new()


@pytest.fixture(autouse=True)
def certificates(authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of this process."""
    directory = authority.write(tmp_path / "own")
    monkeypatch.setenv(TLS_DIRECTORY, str(directory))
    return directory


class Slot(FlightNetworkEnvironment):
    """An environment that remembers that it was woken."""

    def __init__(self, slot: SlotId) -> None:
        super().__init__(slot, ATTEMPT, TOKEN, "127.0.0.1")
        self.changed = threading.Event()
        self.set_listener(self.changed.set)


@contextmanager
def slot(number: SlotId) -> Iterator[Slot]:
    made = Slot(number)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def control_server(heard: list[SlotMessage]) -> Iterator[ControlServer]:
    server = ControlServer(
        "127.0.0.1", lambda _: TOKEN, lambda _, message: heard.append(message), lambda _, __, ___: None
    )
    try:
        yield server
    finally:
        server.stop()


def open_control(address: str) -> None:
    connect_control(address, CONSUMER, ATTEMPT, TOKEN, SYSTEM_CLOCK, lease_ms=30_000).close()


def call_of(address: str) -> None:
    """Call a server as somebody who has no proof of the token; it is refused for that, if for nothing before."""
    client = Transport.of_environment().connect(address)
    try:
        client.wait_for_available(timeout=1)
        list(client.list_actions())
    finally:
        client.close()


def test_records_and_control_messages_go_from_one_end_to_the_other() -> None:
    heard: list[SlotMessage] = []
    with slot(PRODUCER) as producer, slot(CONSUMER) as consumer, control_server(heard) as server:
        assert producer.address.startswith("grpc+tls://127.0.0.1:") and server.address.startswith("grpc+tls://")
        out = producer.create_output_channel(CHANNEL, CONSUMER, None)
        into = consumer.create_input_channel(CHANNEL, PRODUCER, None)
        producer.connect({})
        consumer.connect({PRODUCER: producer.address})
        out.add(Watermark(7))
        wait_until(lambda: into.poll() == Watermark(7), 10, "the watermark")
        link = connect_control(server.address, CONSUMER, ATTEMPT, TOKEN, SYSTEM_CLOCK, lease_ms=30_000)
        link.send(LEAVING)
        wait_until(lambda: heard == [LEAVING], 10, "the message")
        link.close()


def test_a_slot_is_offered_a_new_leader() -> None:
    offers: list[bytes] = []
    offer = AdoptionOffer(PRODUCER, ATTEMPT, 2, "grpc+tls://127.0.0.1:1")
    with slot(PRODUCER) as asked:
        asked.serve_action(ADOPT_ACTION, offers.append)
        offer_adoption(asked.address, offer, TOKEN, timeout_s=10)
    assert len(offers) == 1


def test_nothing_is_readable_on_the_way() -> None:
    with slot(PRODUCER) as producer:
        port = urlsplit(producer.address).port
        assert port is not None
        with socket.create_connection(("127.0.0.1", port), 10) as connection:
            # the opening of HTTP/2 in the clear
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9))
            connection.settimeout(10)
            # an alert of TLS, or nothing at all
            assert connection.recv(1 << 16)[:1] in (b"", b"\x15")


@pytest.mark.parametrize("stranger", ["of another authority", "for another name"])
def test_who_has_no_certificate_of_the_cluster_is_not_talked_to(
    authority: Authority, stranger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither as a client nor as a server; a client's name is nobody's business."""
    if stranger == "of another authority":
        theirs = Authority.new().write(tmp_path / "theirs")
    else:
        theirs = authority.write(tmp_path / "theirs", name="elsewhere.example")
    heard: list[SlotMessage] = []
    with control_server(heard) as own:
        monkeypatch.setenv(TLS_DIRECTORY, str(theirs))
        if stranger == "of another authority":
            with pytest.raises((fl.FlightError, ControlLostError)):
                call_of(own.address)
        with control_server(heard) as server:
            monkeypatch.setenv(TLS_DIRECTORY, str(tmp_path / "own"))
            with pytest.raises(fl.FlightUnavailableError):
                call_of(server.address)
    assert heard == []


def test_who_shows_no_certificate_is_not_talked_to(certificates: Path) -> None:
    with slot(PRODUCER) as producer:
        client = fl.FlightClient(
            producer.address,
            tls_root_certs=(certificates / "ca.crt").read_text(),
            override_hostname="tidemark.internal",
        )
        with pytest.raises(fl.FlightUnavailableError):
            list(client.list_actions())
        client.close()


def test_a_certificate_alone_opens_no_stream() -> None:
    heard: list[SlotMessage] = []
    with control_server(heard) as server, pytest.raises(fl.FlightUnauthenticatedError):
        call_of(server.address)


def test_one_end_alone_cannot_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[SlotMessage] = []
    with pytest.raises(ControlLostError, match="disagree"):
        open_control("grpc+tcp://127.0.0.1:1")
    with control_server(heard) as server:
        monkeypatch.delenv(TLS_DIRECTORY)
        with pytest.raises(ControlLostError, match="disagree"):
            open_control(server.address)


def test_without_its_files_nothing_listens(certificates: Path) -> None:
    (certificates / "tls.key").unlink()
    with pytest.raises(TlsError, match=r"tls\.key"):
        Slot(PRODUCER)
