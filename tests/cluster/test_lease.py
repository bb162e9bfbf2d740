"""The lease: a leader stops before another one begins, and what makes a standby wait."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from backend.cluster import lease
from backend.cluster.lease import (
    DEAD_MS,
    LEASE_MS,
    LOOK_MS,
    RENEW_MS,
    RETRY_MS,
    SLOW_MS,
    TAKE_OVER_MS,
    HeldLease,
    LeaseRow,
    StandbyWatch,
)

ROW = LeaseRow(epoch=4, beat=10, holder="a", address="host:1")


def first_take_over(watch: StandbyWatch, row: LeaseRow, begin_ms: float, until_ms: float) -> float | None:
    """The moment of the first decision to take over, if nothing changes."""
    now = begin_ms
    while now < until_ms:
        if watch.looked(row, now, now + 5):
            return now
        now += LOOK_MS
    return None


def test_a_lease_is_valid_from_the_begin_of_its_last_renewal() -> None:
    held = HeldLease(1_000)
    assert held.is_valid(1_000 + LEASE_MS - 1)
    assert not held.is_valid(1_000 + LEASE_MS)
    held.renewed(5_000)
    assert held.is_valid(5_000 + LEASE_MS - 1)
    assert not held.is_valid(5_000 + LEASE_MS)


def test_a_standby_takes_over_when_the_beat_has_not_changed_for_three_seconds() -> None:
    took = first_take_over(StandbyWatch(), ROW, 0, 10_000)
    assert took is not None and TAKE_OVER_MS <= took <= TAKE_OVER_MS + LOOK_MS + 5


def test_a_free_lease_is_taken_at_once() -> None:
    assert StandbyWatch().looked(replace(ROW, holder=""), 0, 5)
    assert StandbyWatch().looked(LeaseRow(0, 0, "", ""), 0, 5_000)


def test_a_standby_waits_as_long_as_the_beat_changes() -> None:
    watch, now = StandbyWatch(), 0.0
    for number in range(200):
        row = replace(ROW, beat=number // 4)
        assert not watch.looked(row, now, now + 5)
        now += LOOK_MS


def test_another_epoch_with_the_same_beat_restarts_the_timer() -> None:
    watch = StandbyWatch()
    assert first_take_over(watch, ROW, 0, TAKE_OVER_MS - LOOK_MS) is None
    assert first_take_over(watch, replace(ROW, epoch=5), TAKE_OVER_MS, 2 * TAKE_OVER_MS) is None


def test_a_failed_look_restarts_the_timer() -> None:
    watch = StandbyWatch()
    assert first_take_over(watch, ROW, 0, TAKE_OVER_MS) is None
    watch.interrupted()
    took = first_take_over(watch, ROW, TAKE_OVER_MS, 3 * TAKE_OVER_MS)
    assert took is not None and took >= 2 * TAKE_OVER_MS


def test_a_slow_look_restarts_the_timer() -> None:
    watch = StandbyWatch()
    assert first_take_over(watch, ROW, 0, TAKE_OVER_MS) is None
    ended = TAKE_OVER_MS + SLOW_MS + 1
    assert not watch.looked(ROW, TAKE_OVER_MS, ended)
    took = first_take_over(watch, ROW, ended, 3 * TAKE_OVER_MS)
    assert took is not None and took >= ended + TAKE_OVER_MS


def test_a_standby_that_was_frozen_restarts_its_timer() -> None:
    watch = StandbyWatch()
    watch.looked(ROW, 0, 5)
    assert not watch.looked(ROW, 60_000, 60_005)
    took = first_take_over(watch, ROW, 60_005, 80_000)
    assert took is not None and took >= 60_005 + TAKE_OVER_MS


def test_a_leader_whose_process_ended_is_followed_sooner_unless_it_still_renews() -> None:
    watch = StandbyWatch()
    watch.holder_ended(ROW.epoch)
    took = first_take_over(watch, ROW, 0, 10_000)
    assert took is not None and DEAD_MS <= took <= DEAD_MS + LOOK_MS + 5
    assert DEAD_MS > RENEW_MS
    watch, now = StandbyWatch(), 0.0
    watch.holder_ended(ROW.epoch)
    for number in range(100):
        assert not watch.looked(replace(ROW, beat=number // 4), now, now + 5)
        now += LOOK_MS
    # and its end says nothing about its successor
    assert first_take_over(watch, replace(ROW, epoch=5), now, now + TAKE_OVER_MS) is None


def test_two_never_act_at_once_whatever_is_late() -> None:
    """A leader, two standbys and a database whose answers are late, lost or refused; each has a clock of its own."""
    epochs = [World(random.Random(seed)).run() for seed in range(100)]
    assert sum(epochs) > 300


def test_the_same_world_finds_a_leader_that_does_not_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "LEASE_MS", TAKE_OVER_MS + 1_500)
    with pytest.raises(AssertionError):
        for seed in range(100):
            World(random.Random(seed)).run()


class World:
    """A row, and processes with clocks of their own; calls take effect between their begin and their end."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._row = LeaseRow(1, 0, "0", "")
        self._origins = [chance.uniform(-1e9, 1e9) for _ in range(3)]
        self._leases: dict[int, tuple[int, HeldLease]] = {0: (1, HeldLease(self._clock(0, 0.0)))}
        self._watches = {n: StandbyWatch() for n in (1, 2)}

    def _clock(self, process: int, now: float) -> float:
        return now + self._origins[process]

    def run(self) -> int:
        """Run for two minutes; return the last epoch.

        Raises:
            AssertionError: two have acted at once.
        """
        chance = self._chance
        due = [chance.uniform(0, 500) for _ in range(3)]
        away_until = 0.0
        while min(due) < 120_000:
            process = due.index(min(due))
            now = due[process]
            if chance.random() < 0.003:
                away_until = now + chance.uniform(0, 10_000)
            took = chance.choice((1, 5, 20, 100)) if chance.random() < 0.99 else chance.uniform(100, 6_000)
            effect = now + took * chance.random()
            # a call that is under way must have its effect before others look
            if any(d < effect for n, d in enumerate(due) if n != process):
                effect = now
            answers = effect >= away_until and chance.random() > 0.005
            wait = self._call(process, now, effect, now + took, answers)
            frozen = chance.uniform(0, 12_000) if chance.random() < 0.03 else 0.0
            due[process] = now + took + wait + frozen
            self._check(now + took)
        return self._row.epoch

    def _call(self, process: int, begun: float, effect: float, ended: float, answers: bool) -> float:
        """Renew, or look and do what follows; return how long the process then waits."""
        lost_answer = self._chance.random() < 0.005
        if process in self._leases:
            epoch, held = self._leases[process]
            if not answers:
                return RETRY_MS
            if self._row.epoch != epoch:
                del self._leases[process]
                self._watches[process] = StandbyWatch()
                return LOOK_MS
            self._row = replace(self._row, beat=self._row.beat + 1)
            if lost_answer:
                return RETRY_MS
            held.renewed(self._clock(process, begun))
            return RENEW_MS
        watch = self._watches[process]
        if not answers or lost_answer:
            watch.interrupted()
            return LOOK_MS
        row = self._row
        if watch.looked(row, self._clock(process, begun), self._clock(process, ended)):
            self._row = LeaseRow(row.epoch + 1, row.beat + 1, str(process), "")
            self._leases[process] = (row.epoch + 1, HeldLease(self._clock(process, ended)))
        return LOOK_MS

    def _check(self, now: float) -> None:
        acting = [n for n, (_, held) in self._leases.items() if held.is_valid(self._clock(n, now))]
        assert len(acting) <= 1
