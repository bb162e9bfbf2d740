"""Timers of RocksDB, a part of them in memory: what that costs, and that nothing changes, with many key groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core.elements import MAX_WATERMARK
from runtime.core.keys import encode_key
from runtime.state.key_groups import KeyGroupRange, key_group_of
from runtime.state.rocksdb import timers
from runtime.state.rocksdb.backend import RocksDBKeyedStateBackend
from runtime.state.rocksdb.timers import RocksDBTimerQueue
from runtime.state.snapshot import KeyedSnapshot
from tests.state.backends import SettableClock, ignore, rocksdb_backend

MAX_TIMERS = 128
NUM_GROUPS = [1, 16, 64, 500]
"""With 64 each has one timer in memory when that is full; with 500 they are more than may be there."""


@dataclass
class Work:
    """Cost of timers in memory."""

    put: int = 0
    """Timers that were put there."""
    looked_at: int = 0
    """Timers that were looked at to find those that leave."""


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    """Counts for all queues, which have little memory."""
    work, push, shrink = Work(), RocksDBTimerQueue._push, RocksDBTimerQueue._shrink

    def counting_push(queue: RocksDBTimerQueue, *timer: Any) -> None:
        work.put += 1
        push(queue, *timer)

    def counting_shrink(queue: RocksDBTimerQueue) -> None:
        work.looked_at += len(queue.live)
        shrink(queue)

    monkeypatch.setattr(RocksDBTimerQueue, "_push", counting_push)
    monkeypatch.setattr(RocksDBTimerQueue, "_shrink", counting_shrink)
    monkeypatch.setattr(timers, "MAX_TIMERS", MAX_TIMERS)
    monkeypatch.setattr(timers, "_CHUNK", 32)
    return work


def backend_of(num_groups: int, restored: KeyedSnapshot | None = None) -> RocksDBKeyedStateBackend:
    backend = rocksdb_backend(KeyGroupRange(0, num_groups - 1), num_groups, SettableClock())
    if restored is not None:
        backend.restore(restored)
    return backend


def one_key_of_each_group(num_groups: int) -> Iterator[int]:
    groups: set[int] = set()
    key = 0
    while len(groups) < num_groups:
        group = key_group_of(encode_key(key), num_groups)
        if group not in groups:
            groups.add(group)
            yield key
        key += 1


def most_in_memory(num_groups: int) -> int:
    return max(MAX_TIMERS, 2 * num_groups)


@pytest.mark.parametrize("num_groups", NUM_GROUPS)
@pytest.mark.parametrize("step", [1, -1], ids=["ever later", "ever earlier"])
def test_a_registration_costs_the_same_however_many_there_are(work: Work, num_groups: int, step: int) -> None:
    backend = backend_of(num_groups)
    service: Any = backend.get_timer_service("t", ignore, ignore)
    keys = list(one_key_of_each_group(num_groups))
    rounds = 10 * MAX_TIMERS // num_groups + 4
    for number in range(rounds):
        for key in keys:
            backend.set_current_key(key)
            service.register_event_time_timer(step * number)
            assert len(service.event.live) <= most_in_memory(num_groups)
    assert work.looked_at <= 2 * work.put + MAX_TIMERS
    assert work.put <= rounds * num_groups


@pytest.mark.parametrize("num_groups", NUM_GROUPS)
def test_a_restore_reads_no_more_than_fits_and_firing_little_more_than_fires(work: Work, num_groups: int) -> None:
    backend = backend_of(num_groups)
    service: Any = backend.get_timer_service("t", ignore, ignore)
    per_group = 10 * MAX_TIMERS // num_groups + 4
    for key in one_key_of_each_group(num_groups):
        backend.set_current_key(key)
        for timestamp in range(per_group):
            service.register_event_time_timer(timestamp)
    snapshot = backend.snapshot()
    assert isinstance(snapshot, KeyedSnapshot)
    fired: list[int] = []
    again = backend_of(num_groups, snapshot)
    work.put = work.looked_at = 0
    service = again.get_timer_service("t", lambda timer: fired.append(timer.timestamp), ignore)
    assert work.put == len(service.event.live) <= max(MAX_TIMERS, num_groups)
    for watermark in range(per_group):
        service.advance_watermark(watermark)
        assert len(service.event.live) <= most_in_memory(num_groups)
    assert fired == sorted(list(range(per_group)) * num_groups)
    assert work.put <= 2 * len(fired) + num_groups
    assert work.looked_at <= 2 * work.put + MAX_TIMERS


def register(backend: RocksDBKeyedStateBackend, service: Any, key: int, timestamps: range) -> None:
    backend.set_current_key(key)
    for timestamp in timestamps:
        service.register_event_time_timer(timestamp)


def test_what_has_to_leave_again_is_not_read(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timers, "MAX_TIMERS", 1_024)
    monkeypatch.setattr(timers, "_CHUNK", 256)
    backend = backend_of(600)
    service: Any = backend.get_timer_service("t", ignore, ignore)
    first, second, *others = one_key_of_each_group(600)
    for key in others[:500]:
        register(backend, service, key, range(10_000, 10_001))
    for key in (first, second):
        register(backend, service, key, range(1_000))
    work.put = work.looked_at = 0
    # memory is full but for a few again and again
    for number, key in enumerate(others[500:]):
        service.advance_watermark(number)
        register(backend, service, key, range(10_000, 10_001))
    assert service.num_fired == 2 * 98
    assert work.put <= 2 * service.num_fired + 98
    assert work.looked_at <= 2 * work.put + 1_024


def test_what_is_read_of_a_key_group_makes_timers_of_others_leave(work: Work) -> None:
    backend = backend_of(16)
    service: Any = backend.get_timer_service("t", ignore, ignore)
    first, *others = one_key_of_each_group(16)
    for key in others:
        register(backend, service, key, range(1_000, 1_003))
    register(backend, service, first, range(200))
    for key in others:
        register(backend, service, key, range(1_003, 1_008))
    for watermark in range(200):
        service.advance_watermark(watermark)
        assert len(service.event.live) <= MAX_TIMERS
    service.advance_watermark(MAX_WATERMARK)
    assert service.num_fired == 200 + 15 * 8


def test_timers_that_were_taken_out_do_not_pile_up_with_one_of_each_key_group_in_memory(work: Work) -> None:
    backend = backend_of(64)
    service: Any = backend.get_timer_service("t", ignore, ignore)
    keys = list(one_key_of_each_group(64))
    for key in keys:
        register(backend, service, key, range(40))
    for timestamp in range(40):
        for key in keys:
            backend.set_current_key(key)
            service.delete_event_time_timer(timestamp)
            assert len(service.event._heap) <= 2 * len(service.event.live) + 32
    assert not service.event.live


def test_deletions_of_timers_that_are_not_in_memory_are_written(monkeypatch: pytest.MonkeyPatch, work: Work) -> None:
    monkeypatch.setattr(timers, "_MAX_UNWRITTEN", 100)
    backend = backend_of(1)
    service: Any = backend.get_timer_service("t", ignore, ignore)
    backend.set_current_key("a")
    for timestamp in range(1_000):
        service.register_event_time_timer(timestamp)
    for timestamp in range(999, 0, -1):
        service.delete_event_time_timer(timestamp)
        assert len(service.event._unwritten) <= 100
    assert service.event_time_namespaces() == {None}
    service.advance_watermark(MAX_WATERMARK)
    assert service.num_fired == 1


OPERATIONS = st.lists(
    st.tuples(st.sampled_from("+++++--!r"), st.integers(0, 60), st.integers(0, 40)), min_size=40, max_size=200
)


@pytest.mark.parametrize("num_groups", [2, 8, 40])
@given(operations=OPERATIONS)
@settings(max_examples=25, deadline=None)
def test_timers_of_many_key_groups_against_a_set(num_groups: int, operations: list[tuple[str, int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timers, "MAX_TIMERS", 8)
        patch.setattr(timers, "_CHUNK", 3)
        patch.setattr(timers, "_MAX_UNWRITTEN", 10)
        fired: list[tuple[int, int]] = []
        model: set[tuple[int, int]] = set()
        backend = backend_of(num_groups)
        service: Any = backend.get_timer_service("t", lambda timer: fired.append((timer.timestamp, timer.key)), ignore)
        for operation, key, timestamp in [*operations, ("!", 0, 40)]:
            backend.set_current_key(key)
            if operation == "+":
                service.register_event_time_timer(timestamp)
                model.add((timestamp, key))
            elif operation == "-":
                service.delete_event_time_timer(timestamp)
                model.discard((timestamp, key))
            elif operation == "!":
                fired.clear()
                service.advance_watermark(timestamp)
                assert [when for when, _ in fired] == sorted(when for when, _ in fired)
                assert sorted(fired) == sorted(timer for timer in model if timer[0] <= timestamp)
                model -= set(fired)
            else:
                snapshot = backend.snapshot()
                assert isinstance(snapshot, KeyedSnapshot)
                backend.dispose()
                backend = backend_of(num_groups, snapshot)
                service = backend.get_timer_service(
                    "t", lambda timer: fired.append((timer.timestamp, timer.key)), ignore
                )
            assert len(service.event.live) <= max(8, 2 * num_groups)
        backend.dispose()
