"""What the leading jobmanager deletes of sessions, links and tokens, and when."""

from __future__ import annotations

import datetime

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session

from backend.accounts.led_expiry import KEPT_MS, KEPT_TOKENS_MS, LOOK_MS, LedExpiry
from backend.accounts.models import ApiToken, LoginLink
from backend.cluster.containment import Containment
from backend.cluster.leadership import LeadershipLostError
from runtime.testing import ManualClock
from tests.cluster.leading import take_leadership

pytestmark = pytest.mark.django_db
NOW_MS = 1_800_000_000_000


def session(name: str, expired_ms: int) -> None:
    expires = datetime.datetime.fromtimestamp((NOW_MS - expired_ms) / 1000, datetime.UTC)
    Session.objects.create(session_key=name, session_data="", expire_date=expires)


def token(user: User, name: str, expired_ms: int | None) -> None:
    expires = None if expired_ms is None else NOW_MS - expired_ms
    ApiToken.objects.create(user=user, name=name, digest=name, created_at=0, expires_at=expires)


def test_what_expired_long_ago_is_deleted_and_nothing_else(alice: User) -> None:
    for name, expired_ms in (("valid", -1), ("just", 1), ("old", KEPT_MS + 1)):
        session(name, expired_ms)
        LoginLink.objects.create(digest=name, user=alice, expires_at=NOW_MS - expired_ms)
    for name, gone_ms in (("valid", -1), ("ever", None), ("just", KEPT_TOKENS_MS - 1), ("old", KEPT_TOKENS_MS + 1)):
        token(alice, name, gone_ms)
    clock = ManualClock(NOW_MS)
    led = LedExpiry(take_leadership("leader"), clock, Containment())
    led.poll()
    assert set(Session.objects.values_list("session_key", flat=True)) == {"valid", "just"}
    assert set(LoginLink.objects.values_list("digest", flat=True)) == {"valid", "just"}
    assert set(ApiToken.objects.values_list("name", flat=True)) == {"valid", "ever", "just"}
    # and again, later
    session("older", KEPT_MS + 1)
    led.poll()
    assert Session.objects.filter(session_key="older").exists()
    clock.advance(LOOK_MS)
    led.poll()
    assert not Session.objects.filter(session_key="older").exists() and not led.needed_jobs()


def test_a_leader_that_was_replaced_deletes_nothing() -> None:
    session("old", KEPT_MS + 1)
    led = LedExpiry(take_leadership("leader"), ManualClock(NOW_MS), Containment())
    take_leadership("successor")
    with pytest.raises(LeadershipLostError):
        led.poll()
    assert Session.objects.count() == 1
