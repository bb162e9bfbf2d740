"""The leader's bus over a real Redis: events stay for other leaders, documents are fenced, losses are noticed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pytest_django import Settings

from backend.cluster import bus
from backend.cluster.events import RowsChanged, TaskManagerGone
from backend.cluster.leader_bus import REVIEW_MS, BusError, RedisLeaderBus, RefusedError
from backend.cluster.seals import event_seal
from runtime.network.refusals import REFUSALS
from tests.cluster.test_events import random_events
from tests.support.bus_contents import sealed

GONE = {"type": "gone", "taskmanager": "host:1-abc"}


@pytest.fixture
def bus_of(live_redis: str) -> Iterator[Callable[[int], RedisLeaderBus]]:
    """Makes buses of leaders, by epoch; they end with the test."""
    made: list[RedisLeaderBus] = []

    def make(epoch: int) -> RedisLeaderBus:
        made.append(RedisLeaderBus(epoch))
        return made[-1]

    yield make
    for leader_bus in made:
        leader_bus.close()


def names(leader_bus: RedisLeaderBus) -> list[str]:
    """TaskManagers of the events that wait."""
    return [e.event.taskmanager for e in leader_bus.take_events(0.01) if isinstance(e.event, TaskManagerGone)]


def test_events_are_read_in_order_and_by_every_leader(bus_of: Any) -> None:
    leader, standby = bus_of(1), bus_of(2)
    for number in range(3):
        bus.post_event(GONE | {"taskmanager": f"t{number}"})
    assert names(leader) == names(standby) == ["t0", "t1", "t2"]
    bus.post_event(GONE | {"taskmanager": "t3"})
    assert names(leader) == names(standby) == ["t3"]
    assert names(leader) == []
    # one that leads later finds them, too
    assert names(bus_of(3)) == ["t0", "t1", "t2", "t3"]


def test_a_new_leader_does_not_read_what_is_long_past(bus_of: Any) -> None:
    seconds, _ = bus.client().time()
    bus.client().xadd(bus.EVENTS_KEY, sealed('{"type": "operation"}'), id=f"{seconds * 1000 - REVIEW_MS}-0")
    bus.client().xadd(bus.EVENTS_KEY, sealed('{"type": "operation"}'), id=f"{seconds * 1000 - 4_000}-0")
    [received] = bus_of(1).take_events(0.01)
    assert received.event == RowsChanged()
    assert 4_000 <= received.age_ms < 7_000


def test_a_leader_that_has_not_read_all_knows_that_it_is_behind(bus_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backend.cluster.leader_bus.MAX_EVENTS_AT_ONCE", 3)
    leader = bus_of(1)
    assert not leader.is_behind
    for number in range(5):
        bus.post_event(GONE | {"taskmanager": f"t{number}"})
    assert (names(leader), leader.is_behind) == (["t0", "t1", "t2"], True)
    assert (names(leader), leader.is_behind) == (["t3", "t4"], False)
    assert (names(leader), leader.is_behind) == ([], False)


def test_the_stream_stays_bounded(bus_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus, "MAX_EVENTS", 200)
    for _ in range(1_000):
        bus.post_event(GONE)
    assert bus.client().xlen(bus.EVENTS_KEY) < 400


def test_malformed_events_are_dropped_one_by_one(bus_of: Any) -> None:
    leader = bus_of(1)
    pipeline = bus.client().pipeline(transaction=False)
    for text in random_events(11, 10_000):
        pipeline.xadd(bus.EVENTS_KEY, sealed(text))
    pipeline.xadd(bus.EVENTS_KEY, sealed(b"\xff\xfe"))
    pipeline.xadd(bus.EVENTS_KEY, {"another field": "1"})
    pipeline.execute()
    bus.post_event(GONE | {"taskmanager": "the last"})
    found = [name for _ in range(12) for name in names(leader)]
    assert found[-1] == "the last"


def test_events_that_no_process_of_the_cluster_has_written_are_dropped(bus_of: Any) -> None:
    leader = bus_of(1)
    text = json.dumps(GONE)
    forged: list[Any] = [
        {bus.EVENT_FIELD: text},
        {bus.EVENT_FIELD: text, bus.SEAL_FIELD: "0" * 64},
        {bus.EVENT_FIELD: text, bus.SEAL_FIELD: event_seal(json.dumps(GONE | {"cause": "another"}))},
    ]
    for fields in forged:
        bus.client().xadd(bus.EVENTS_KEY, fields)
    bus.post_event(GONE | {"taskmanager": "the last"})
    assert names(leader) == ["the last"]


def test_the_sender_with_another_key_is_named_once_a_minute(
    bus_of: Any, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    leader = bus_of(1)
    settings.TIDEMARK_CLUSTER_KEYS, own = ["n" * 40], settings.TIDEMARK_CLUSTER_KEYS
    for name in ("host:1-abc", "host:1-abc", "host:2-def", "host:1-abc"):
        bus.post_event(GONE | {"taskmanager": name})
    settings.TIDEMARK_CLUSTER_KEYS = own
    before = REFUSALS.counts()["events"]
    assert names(leader) == []
    assert REFUSALS.counts()["events"] == before + 4
    first, second = caplog.messages
    assert "TaskManager host:1-abc" in first and "TIDEMARK_CLUSTER_KEY" in first
    assert "TaskManager host:2-def" in second


def test_a_restarted_server_with_a_slower_clock_is_read_all_the_same(bus_of: Any) -> None:
    leader = bus_of(1)
    seconds, _ = bus.client().time()
    bus.client().xadd(bus.EVENTS_KEY, sealed('{"type": "operation"}'), id=f"{(seconds + 3600) * 1000}-0")
    assert len(leader.take_events(0.01)) == 1
    bus.client().flushall()
    bus.post_event(GONE)
    found = names(leader) + names(leader)
    assert found == [GONE["taskmanager"]]


def test_an_older_leader_publishes_nothing(bus_of: Any) -> None:
    old, new = bus_of(1), bus_of(2)
    old.publish("cluster", {"version": 1})
    assert not old.beat()
    new.publish("cluster", {"version": 2})
    beat_ttl = bus.client().pttl(bus.BEAT_KEY)
    for write in (
        lambda: old.publish("cluster", {"version": 3}),
        lambda: old.put_fields("tidemark:metrics:x", {"a": {}}, 60, ()),
        old.beat,
    ):
        with pytest.raises(RefusedError):
            write()
    assert bus.read_document(bus.CLUSTER_KEY).document == {"version": 2}
    assert bus.client().exists("tidemark:metrics:x") == 0
    assert bus.client().pttl(bus.BEAT_KEY) <= beat_ttl


def test_an_epoch_that_nobody_leads_any_more_fences_for_a_while_only(bus_of: Any) -> None:
    bus_of(9).beat()
    assert 0 < bus.client().pttl(bus.EPOCH_KEY) <= 60_000
    # by then
    bus.client().delete(bus.EPOCH_KEY)
    bus_of(2).publish("cluster", {"version": 1})


def test_fields_are_set_and_dropped_and_expire(bus_of: Any) -> None:
    leader, key = bus_of(1), bus.CHECKPOINTS_KEY.format("x")
    leader.put_fields(key, {"1": {"a": 1}, "2": {"a": 2}}, 3_600, ())
    assert 60 < bus.client().ttl(key) <= 3_600
    leader.put_fields(key, {"3": {"a": 3}}, 60, ["1", "2"])
    assert bus.get_fields(key, ["1", "2", "3"]) == [{}, {}, {"a": 3}]
    assert 0 < bus.client().ttl(key) <= 60
    leader.put_fields(key, {"4": {"a": 4}}, 60, None)
    assert bus.get_all_fields(key) == {"4": {"a": 4}}
    assert 0 < bus.client().ttl(key) <= 60
    leader.put_fields(key, {}, 60, None)
    assert bus.get_all_fields(key) == {}


def test_a_beat_tells_whether_redis_has_lost_everything(bus_of: Any) -> None:
    leader = bus_of(1)
    assert [leader.beat() for _ in range(3)] == [False, True, True]
    bus.client().flushall()
    leader.publish("cluster", {"version": 1})
    assert [leader.beat() for _ in range(2)] == [False, True]
    read = bus.read_document(bus.CLUSTER_KEY)
    assert read.beat_age_ms is not None and read.beat_age_ms < 1_000
    assert read.document_age_ms is not None and read.beat_age_ms <= read.document_age_ms < 1_000


def test_a_server_that_does_not_answer_is_a_bus_error(bus_of: Any, settings: Settings) -> None:
    leader = bus_of(1)
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    bus.disconnect()
    for call in (lambda: leader.take_events(0.01), leader.beat, lambda: leader.publish("cluster", {"version": 1})):
        with pytest.raises(BusError):
            call()
