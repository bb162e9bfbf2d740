from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from backend.cluster.wall_dates import JITTER_MS, MAX_OFFSETS, WallDates

HOUR_MS = 3_600_000


def test_what_happened_before_the_machine_slept_keeps_its_date() -> None:
    """Monotonic time stands still meanwhile, and operations are dated by the wall clock."""
    dates = WallDates(1_000_000, 0)
    dates.look(1_005_000, 5_000)
    assert dates.at(4_000) == 1_004_000
    dates.look(1_006_000 + 8 * HOUR_MS, 6_000)
    assert [dates.at(ms) for ms in (4_000, 5_000, 5_500)] == [1_004_000, 1_005_000, 1_005_500 + 8 * HOUR_MS]
    # a correction of the clock moves what came after it
    dates.look(1_006_900 + 8 * HOUR_MS, 7_000)
    assert [dates.at(ms) for ms in (4_000, 5_500)] == [1_004_000, 1_005_400 + 8 * HOUR_MS]


def test_a_clock_that_is_set_back_moves_what_it_dated_before() -> None:
    dates = WallDates(15_000, 5_000)
    dates.look(8_000, 6_000)
    assert [dates.at(ms) for ms in (5_000, 6_000)] == [7_000, 8_000]


def test_reading_one_clock_after_the_other_moves_nothing() -> None:
    dates = WallDates(1_000, 0)
    for number in range(10):
        dates.look(1_000 + number + JITTER_MS * (-1) ** number, number)
    assert (dates.at(3), dates.offset_ms) == (1_003, 1_000)


@given(st.lists(st.tuples(st.integers(0, 1_000), st.integers(-5_000, 5_000)), max_size=30))
def test_dates_are_in_the_order_of_what_happened_and_never_ahead_of_the_clock(steps: list[tuple[int, int]]) -> None:
    dates, now, wall = WallDates(10**6, 0), 0, 10**6
    times = [0]
    for passed, jump in steps:
        now, wall = now + passed, wall + passed + jump
        dates.look(wall, now)
        times.append(now)
        told = [dates.at(ms) for ms in times]
        assert told == sorted(told)
        assert told[-1] <= wall + JITTER_MS


def test_they_are_bounded() -> None:
    dates = WallDates()
    for number in range(1, 3 * MAX_OFFSETS):
        dates.look(1_000 * number, number)
    assert len(dates._offsets) == MAX_OFFSETS
    assert dates.at(0) <= dates.at(MAX_OFFSETS) <= dates.at(3 * MAX_OFFSETS) == 1_000 * 3 * MAX_OFFSETS - 999
