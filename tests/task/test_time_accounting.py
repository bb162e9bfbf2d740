"""TimeAccounting: busy, idle and back-pressured time add up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.task.time_accounting import Activity, TimeAccounting
from runtime.testing.clock import ManualClock


@given(st.lists(st.tuples(st.sampled_from(Activity), st.integers(0, 2000), st.booleans()), max_size=30))
def test_rates_always_add_up_to_1000_and_totals_to_the_time_that_passed(
    spans: list[tuple[Activity, int, bool]],
) -> None:
    clock = ManualClock()
    time = TimeAccounting(clock)
    for activity, duration_ms, ask in spans:
        time.switch(activity)
        clock.advance(duration_ms)
        if ask:
            assert sum(time.rates().values()) == pytest.approx(1000)
    assert sum(time.totals_ms().values()) == pytest.approx(clock.monotonic_ms())


def test_rates_tell_of_the_last_whole_window() -> None:
    clock = ManualClock()
    time = TimeAccounting(clock)
    assert time.rates()[Activity.IDLE] == 1000
    time.switch(Activity.BUSY)
    clock.advance(600)
    time.switch(Activity.BACK_PRESSURED)
    clock.advance(399)
    assert time.rates()[Activity.IDLE] == 1000  # the window is not whole yet
    clock.advance(1)
    assert time.rates() == {Activity.BUSY: 600, Activity.BACK_PRESSURED: 400, Activity.IDLE: 0, Activity.OUTSIDE: 0}
    time.switch(Activity.IDLE)
    clock.advance(2000)
    assert time.rates() == {Activity.BUSY: 0, Activity.BACK_PRESSURED: 0, Activity.IDLE: 1000, Activity.OUTSIDE: 0}
    totals = time.totals_ms()
    assert totals == {Activity.BUSY: 600, Activity.BACK_PRESSURED: 400, Activity.IDLE: 2000, Activity.OUTSIDE: 0}


def test_what_waits_for_the_outside_is_back_pressured_and_told_apart() -> None:
    clock = ManualClock()
    time = TimeAccounting(clock)
    for activity, ms in ((Activity.BUSY, 200), (Activity.OUTSIDE, 500), (Activity.BACK_PRESSURED, 300)):
        time.switch(activity)
        clock.advance(ms)
    metrics = time.metrics()
    assert (metrics["backPressuredTimeMsPerSecond"], metrics["outsideTimeMsPerSecond"]) == (800, 500)
    assert metrics["accumulateBackPressuredTimeMs"] == 800
    assert metrics["maxSoftBackPressureTimeMs"] == 800, "one stretch, whatever it waits for"


def test_busy_time_in_which_the_task_waits_for_its_turn_is_no_running_time() -> None:
    clock = ManualClock()
    time = TimeAccounting(clock)
    time.switch(Activity.BUSY)
    clock.advance(1000)
    time.ran(300)
    metrics = time.metrics()
    assert (metrics["busyTimeMsPerSecond"], metrics["runningTimeMsPerSecond"]) == (1000, 300)
    clock.advance(1000)
    assert time.metrics()["runningTimeMsPerSecond"] == 0


def test_longest_wait_of_the_last_window_is_told() -> None:
    clock = ManualClock()
    time = TimeAccounting(clock)
    for waiting_ms in (100, 300, 200):
        time.switch(Activity.BACK_PRESSURED)
        clock.advance(waiting_ms)
        time.switch(Activity.BUSY)
        clock.advance(200)
    metrics = time.metrics()
    assert metrics["maxSoftBackPressureTimeMs"] == 300
    assert metrics["softBackPressuredTimeMsPerSecond"] == metrics["backPressuredTimeMsPerSecond"] == 500
    time.switch(Activity.BACK_PRESSURED)
    clock.advance(5000)
    # one that goes on is told of as far as it lies in the window
    assert time.metrics()["maxSoftBackPressureTimeMs"] == 5000
    clock.advance(1000)
    assert time.metrics()["maxSoftBackPressureTimeMs"] == 1000
