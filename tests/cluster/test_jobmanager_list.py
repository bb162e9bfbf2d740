"""The list of jobmanagers: the leader as the lease names it, the standbys as they report themselves."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from backend.cluster import bus
from backend.cluster.jobmanager_list import jobmanager_entries, list_jobmanagers
from backend.cluster.models import LeaderEpoch
from tests.cluster.leading import take_leadership


def roles(lease: LeaderEpoch | None, seen: list[str] | None) -> list[tuple[str, str, bool | None]]:
    return [(entry["id"], entry["role"], entry["is_alive"]) for entry in jobmanager_entries(lease, seen)]


def test_the_leader_comes_first_and_the_others_stand_by() -> None:
    lease = LeaderEpoch(epoch=3, holder="b:2", since=7)
    assert roles(lease, ["a:1", "b:2", "c:3"]) == [
        ("b:2", "LEADER", True),
        ("a:1", "STANDBY", True),
        ("c:3", "STANDBY", True),
    ]
    [leader] = jobmanager_entries(lease, ["b:2"])
    assert (leader["epoch"], leader["leading_since"]) == (3, 7)


def test_a_leader_that_does_not_show_itself_is_named_as_that() -> None:
    lease = LeaderEpoch(epoch=3, holder="b:2", since=7)
    assert roles(lease, ["a:1"]) == [("b:2", "LEADER", False), ("a:1", "STANDBY", True)]
    assert roles(lease, None) == [("b:2", "LEADER", None)]


def test_nobody_leads_before_the_first_one_and_after_a_released_lease() -> None:
    assert roles(None, ["a:1"]) == [("a:1", "STANDBY", True)]
    assert roles(LeaderEpoch(epoch=3, holder=""), []) == []


@pytest.mark.django_db
def test_jobmanagers_are_read_from_the_database_and_redis(live_redis: str, settings: Settings) -> None:
    take_leadership("a:1")
    for name in ("a:1", "b:2"):
        bus.show_jobmanager(name)
    bus.client().zadd(bus.JOBMANAGERS_KEY, {"long:0": 1})
    found = list_jobmanagers()
    assert [entry["id"] for entry in found["jobmanagers"]] == ["a:1", "b:2"]
    assert bus.client().zcard(bus.JOBMANAGERS_KEY) == 2
    bus.hide_jobmanager("b:2")
    assert [entry["id"] for entry in list_jobmanagers()["jobmanagers"]] == ["a:1"]
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    bus.disconnect()
    found = list_jobmanagers()
    assert (found["redis_answers"], found["jobmanagers"][0]["is_alive"]) == (False, None)
