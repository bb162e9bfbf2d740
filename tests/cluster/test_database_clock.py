"""The clock of the control plane is the database's, whatever the machines' clocks say."""

from __future__ import annotations

import pytest
from django.db import OperationalError, connection

from backend.cluster.database_clock import LOOK_MS, TOLERANCE_MS, DatabaseClock, read_database_ms
from runtime.testing import ManualClock

HOUR_MS = 3_600_000
BEGAN_MS = 1_700_000_000_000


class Database:
    """A database whose clock is right, and which takes its time to answer."""

    def __init__(self, own: ManualClock, ahead_ms: int) -> None:
        self._own = own
        self.ahead_ms = ahead_ms
        self.answers_in_ms = 4
        self.is_away = False
        self.reads = 0

    def read_ms(self) -> float:
        self.reads += 1
        self._own.advance(self.answers_in_ms / 2)
        if self.is_away:
            raise OperationalError("the server is gone")
        read = self._own.now_ms() + self.ahead_ms
        self._own.advance(self.answers_in_ms / 2)
        return float(read)


@pytest.mark.parametrize("ahead_ms", [HOUR_MS, -HOUR_MS])
def test_two_processes_whose_clocks_are_far_apart_tell_the_same_time(ahead_ms: int) -> None:
    right, wrong = ManualClock(BEGAN_MS), ManualClock(BEGAN_MS - ahead_ms)
    clocks = [DatabaseClock(Database(own, ahead).read_ms, own) for own, ahead in ((right, 0), (wrong, ahead_ms))]
    for clock in clocks:
        clock.look()
    assert clocks[0].now_ms() == clocks[1].now_ms()
    wrong.advance(1_500)
    assert clocks[1].now_ms() - clocks[0].now_ms() == 1_500
    assert clocks[1].monotonic_ms() == wrong.monotonic_ms()


def test_clocks_that_agree_are_left_alone_however_slow_the_answer_is() -> None:
    own = ManualClock(BEGAN_MS)
    database = Database(own, 0)
    clock = DatabaseClock(database.read_ms, own)
    for ahead_ms, answers_in_ms in ((int(TOLERANCE_MS), 0), (-40, 10), (1_000, 2_000)):
        database.ahead_ms, database.answers_in_ms = ahead_ms, answers_in_ms
        clock.look()
        assert clock.now_ms() == own.now_ms()


def test_it_looks_once_a_minute_and_notices_a_clock_that_was_set() -> None:
    own = ManualClock(BEGAN_MS)
    database = Database(own, 0)
    clock = DatabaseClock(database.read_ms, own)
    clock.look_if_due()
    database.ahead_ms = HOUR_MS
    own.advance(LOOK_MS - 100)
    clock.look_if_due()
    assert (database.reads, clock.now_ms()) == (1, own.now_ms())
    own.advance(100)
    clock.look_if_due()
    assert (database.reads, clock.now_ms()) == (2, own.now_ms() + HOUR_MS)


def test_while_the_database_is_away_the_last_answer_holds() -> None:
    own = ManualClock(BEGAN_MS)
    database = Database(own, HOUR_MS)
    clock = DatabaseClock(database.read_ms, own)
    clock.look()
    database.is_away = True
    own.advance(LOOK_MS)
    assert not clock.look()
    assert clock.now_ms() == own.now_ms() + HOUR_MS


@pytest.mark.django_db
def test_a_file_has_no_clock_and_a_server_has() -> None:
    read_ms = read_database_ms()
    if connection.vendor == "postgresql":
        assert read_ms is not None
        assert read_ms > BEGAN_MS
    else:
        assert read_ms is None
