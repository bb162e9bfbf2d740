"""ControlSession: whom a slot follows when its JobMaster is gone, and for how long it waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.core.ids import Attempt, SlotId
from runtime.task.control_link import ControlLostError, LeaderChanged
from runtime.task.control_session import AdoptionOffer, AdoptionRefusedError, ControlSession, SessionTerms
from runtime.task.messages import CancelTasks, Heartbeat, HeartbeatRequest, SlotLeaving
from runtime.testing.clock import ManualClock
from tests.task.rigs import FakeControlLink

SLOT, ATTEMPT = SlotId(2), Attempt(7)
TERMS = SessionTerms(SLOT, ATTEMPT, epoch=4, token="secret", orphan_timeout_ms=45_000)
LEAVING = SlotLeaving(SLOT, ATTEMPT)


class Rig:
    """A session, the links that it has opened, and the time."""

    def __init__(self, terms: SessionTerms = TERMS) -> None:
        self.clock = ManualClock(1_000_000)
        self.first = FakeControlLink()
        self.links: dict[str, FakeControlLink] = {}
        self.unreachable: set[str] = set()
        self.woken = 0
        self.session = ControlSession(self.first, self.connect, terms, self.clock)
        self.session.set_listener(self.wake)

    def connect(self, address: str) -> FakeControlLink:
        if address in self.unreachable:
            raise ControlLostError(f"no JobMaster at {address}")
        return self.links.setdefault(address, FakeControlLink())

    def wake(self) -> None:
        self.woken += 1

    def offer(self, epoch: int, address: str, token: str = "secret") -> None:
        self.session.offer(AdoptionOffer(SLOT, ATTEMPT, epoch, address).sealed(token))


def test_a_slot_goes_on_without_a_jobmaster_until_its_time_is_up() -> None:
    rig = Rig()
    rig.first.lost = True
    assert rig.session.poll() is None
    assert rig.session.is_orphaned
    rig.session.send(LEAVING)
    assert rig.first.sent == []
    rig.clock.advance(45_000)
    assert rig.session.poll() is None
    rig.clock.advance(1)
    with pytest.raises(ControlLostError, match="no other JobMaster has come within 45 s"):
        rig.session.poll()


def test_a_slot_without_a_timeout_ends_with_its_jobmaster_and_comes_over_to_nobody() -> None:
    rig = Rig(replace(TERMS, orphan_timeout_ms=0))
    with pytest.raises(AdoptionRefusedError, match="ends with its JobMaster"):
        rig.offer(5, "new")
    rig.first.lost = True
    with pytest.raises(ControlLostError):
        rig.session.poll()


def test_a_slot_that_its_jobmaster_has_ended_does_not_wait() -> None:
    rig = Rig()
    rig.first.lost = rig.first.lost_for_good = True
    with pytest.raises(ControlLostError):
        rig.session.poll()


def test_an_orphan_comes_over_and_nothing_of_the_old_stream_is_acted_on() -> None:
    rig = Rig()
    rig.session.publish(Heartbeat(SLOT, ATTEMPT, 0, {}))
    rig.first.inbox.append(CancelTasks())
    rig.offer(5, "new")
    assert rig.woken == 1
    assert rig.session.poll() == LeaderChanged(5)
    assert rig.first.dropped
    assert rig.session.poll() is None
    new = rig.links["new"]
    assert new.heartbeat is not None
    rig.session.send(LEAVING)
    assert (rig.first.sent, new.sent) == ([], [LEAVING])
    new.inbox.append(HeartbeatRequest(1, 0))
    assert rig.session.poll() == HeartbeatRequest(1, 0)


def test_only_a_higher_epoch_is_followed() -> None:
    rig = Rig()
    for epoch in (3, 4):
        with pytest.raises(AdoptionRefusedError, match=f"epoch {epoch} is not above 4"):
            rig.offer(epoch, "old")
    rig.offer(6, "newer")
    with pytest.raises(AdoptionRefusedError, match="epoch 5 is not above 6"):
        rig.offer(5, "late")
    assert rig.session.poll() == LeaderChanged(6)
    assert list(rig.links) == ["newer"]


def test_of_two_leaders_that_come_at_once_the_newer_one_gets_the_slot() -> None:
    rig = Rig()
    rig.offer(5, "first")
    rig.offer(6, "second")
    assert rig.links["first"].dropped
    assert rig.session.poll() == LeaderChanged(6)
    assert rig.session.poll() is None


def test_an_offer_that_is_repeated_is_the_same_offer() -> None:
    rig = Rig()
    rig.offer(5, "new")
    rig.offer(5, "new")
    assert rig.session.poll() == LeaderChanged(5)
    assert rig.session.poll() is None
    with pytest.raises(AdoptionRefusedError, match="epoch 5 is not above 5"):
        rig.offer(5, "another")


def test_whoever_does_not_know_the_token_is_refused() -> None:
    rig = Rig()
    with pytest.raises(AdoptionRefusedError, match="does not know the token"):
        rig.offer(5, "stranger", token="guessed")
    forged = AdoptionOffer(SLOT, ATTEMPT, 5, "new").sealed("secret").replace(b'"epoch": 5', b'"epoch": 6')
    with pytest.raises(AdoptionRefusedError, match="does not know the token"):
        rig.session.offer(forged)
    with pytest.raises(AdoptionRefusedError, match="malformed"):
        rig.session.offer(b"[]")
    assert rig.links == {}


@pytest.mark.parametrize(
    ("offer", "why"),
    [
        (AdoptionOffer(SlotId(1), ATTEMPT, 5, "new"), "this is slot 2 of attempt 7"),
        (AdoptionOffer(SLOT, Attempt(8), 5, "new"), "this is slot 2 of attempt 7"),
        (AdoptionOffer(SLOT, ATTEMPT, 5, "new", protocol=0), "protocol 0"),
    ],
)
def test_an_offer_for_another_slot_or_of_another_version_is_refused(offer: AdoptionOffer, why: str) -> None:
    rig = Rig()
    with pytest.raises(AdoptionRefusedError, match=why):
        rig.session.offer(offer.sealed("secret"))


def test_a_jobmaster_that_cannot_be_reached_may_offer_again() -> None:
    rig = Rig()
    rig.unreachable.add("new")
    with pytest.raises(AdoptionRefusedError, match="no JobMaster at new"):
        rig.offer(5, "new")
    rig.unreachable.clear()
    rig.offer(5, "new")
    assert rig.session.poll() == LeaderChanged(5)


def test_a_slot_that_has_ended_comes_over_to_nobody() -> None:
    rig = Rig()
    rig.session.close()
    with pytest.raises(AdoptionRefusedError):
        rig.offer(5, "new")
