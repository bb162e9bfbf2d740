"""A slot's control stream over Arrow Flight when its JobMaster ends, and when another one asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow.flight as flight
import pytest

from runtime.core.clock import SYSTEM_CLOCK
from runtime.core.ids import Attempt, SlotId
from runtime.jobmaster.adoption_client import offer_adoption
from runtime.jobmaster.control_server import ControlServer
from runtime.network.flight import FlightNetworkEnvironment
from runtime.task.control_client import FlightControlLink, connect_control
from runtime.task.control_link import ControlLostError, LeaderChanged
from runtime.task.control_session import ADOPT_ACTION, AdoptionOffer, ControlSession, SessionTerms
from runtime.task.messages import SlotCommitted, SlotLeaving, SlotMessage
from tests.support.waiting import wait_until

SLOT, ATTEMPT, TOKEN = SlotId(0), Attempt(3), "token"
LEAVING = SlotLeaving(SLOT, ATTEMPT)


@dataclass
class Leader:
    """A JobMaster's control server, and what it hears."""

    heard: list[SlotMessage] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server = ControlServer(
            "127.0.0.1",
            lambda _: TOKEN,
            lambda _, message: self.heard.append(message),
            lambda _, __, cause: self.lost.append(cause),
        )


def connect(address: str) -> FlightControlLink:
    return connect_control(address, SLOT, ATTEMPT, TOKEN, SYSTEM_CLOCK, lease_ms=30_000)


@contextmanager
def session_of(leader: Leader, orphan_timeout_ms: float = 30_000) -> Iterator[tuple[ControlSession, str]]:
    """A slot's session, and the address of its data server."""
    terms = SessionTerms(SLOT, ATTEMPT, 1, TOKEN, orphan_timeout_ms)
    session = ControlSession(connect(leader.server.address), connect, terms, SYSTEM_CLOCK)
    network = FlightNetworkEnvironment(SLOT, ATTEMPT, TOKEN, "127.0.0.1")
    network.serve_action(ADOPT_ACTION, session.offer)
    try:
        yield session, network.address
    finally:
        session.close()
        network.close()


def test_a_slot_comes_over_and_is_heard_by_the_new_leader_only() -> None:
    old, new = Leader(), Leader()
    with session_of(old) as (session, data_address):
        offer_adoption(data_address, AdoptionOffer(SLOT, ATTEMPT, 2, new.server.address), TOKEN, timeout_s=5)
        assert session.poll() == LeaderChanged(2)
        session.send(LEAVING)
        wait_until(lambda: new.heard == [LEAVING], 5, "the message")
        wait_until(lambda: bool(old.lost), 5, "the end of the old stream")
        assert old.heard == []
    old.server.stop()
    new.server.stop()


def test_an_offer_that_is_refused_says_why() -> None:
    old = Leader()
    with session_of(old) as (_, data_address):
        with pytest.raises(flight.FlightError, match="epoch 1 is not above 1"):
            offer_adoption(data_address, AdoptionOffer(SLOT, ATTEMPT, 1, "grpc://127.0.0.1:1"), TOKEN, timeout_s=5)
        with pytest.raises(flight.FlightError, match="does not know the token"):
            offer_adoption(data_address, AdoptionOffer(SLOT, ATTEMPT, 2, "grpc://127.0.0.1:1"), "guess", timeout_s=5)
    old.server.stop()


def test_a_slot_whose_jobmaster_ends_the_stream_ends_with_it() -> None:
    old = Leader()
    with session_of(old) as (session, _):
        session.send(SlotCommitted(SLOT, ATTEMPT))
        wait_until(lambda: bool(old.heard), 5, "the stream")
        old.server.disconnect(ATTEMPT, SLOT)
        with pytest.raises(ControlLostError, match="ended the control stream"):
            wait_until(lambda: session.poll() is not None, 5, "the end of the stream")
    old.server.stop()
