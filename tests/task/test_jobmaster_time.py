"""What a slot makes of times on its JobMaster's clock."""

from __future__ import annotations

import pytest

from runtime.task.jobmaster_time import KEPT, JobMasterTime
from runtime.testing import ManualClock

HOUR_MS = 3_600_000


@pytest.mark.parametrize("ahead_ms", [-HOUR_MS, 0, HOUR_MS])
def test_ages_do_not_depend_on_how_far_apart_the_clocks_are(ahead_ms: int) -> None:
    clock = ManualClock(2 * HOUR_MS)
    time = JobMasterTime(clock)
    time.heard(clock.now_ms() + ahead_ms)
    born_ms = clock.now_ms() + ahead_ms
    clock.advance(250)
    assert time.age_ms(born_ms) == 250


def test_the_message_that_travelled_fastest_counts() -> None:
    clock = ManualClock(HOUR_MS)
    time = JobMasterTime(clock)
    for delay_ms in (400, 3, 90):
        time.heard(clock.now_ms() - delay_ms)
    assert time.age_ms(clock.now_ms() - 1_000) == 997


def test_a_clock_that_was_set_is_noticed_after_a_few_messages() -> None:
    clock = ManualClock(2 * HOUR_MS)
    time = JobMasterTime(clock)
    time.heard(clock.now_ms())
    for _ in range(KEPT):
        time.heard(clock.now_ms() - HOUR_MS)
    assert time.age_ms(clock.now_ms() - HOUR_MS - 40) == 40


def test_before_anything_was_heard_and_after_a_change_of_leader_nothing_has_an_age() -> None:
    clock = ManualClock(2 * HOUR_MS)
    time = JobMasterTime(clock)
    assert time.age_ms(0) == 0
    time.heard(clock.now_ms())
    time.forget()
    assert time.age_ms(0) == 0
    # a time that is still to come has none either
    time.heard(clock.now_ms())
    assert time.age_ms(clock.now_ms() + 5) == 0
