"""Batches grow until their cost beside their records is little of their time, and shrink where records cost much."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.execution.batch_size import FIRST_ROWS, MOST_ROWS, QUICK_MS, SLOW_MS, BatchSize


def settled(ms_per_row: float, fixed_ms: float = 400.0, grows: bool = True) -> tuple[BatchSize, float]:
    """Run batches of a backlog without end; returns the size, and the time of the last batch."""
    size, took_ms = BatchSize(None, grows), 0.0
    for _ in range(60):
        rows, took_ms = size.rows, fixed_ms + size.rows * ms_per_row
        size.batch_over(rows, took_ms, has_caught_up=False)
    return size, took_ms


def test_batches_of_cheap_records_grow_to_what_a_batch_may_have() -> None:
    size, took_ms = settled(0.000_1)
    assert size.rows == MOST_ROWS and 0.1 * took_ms > 400.0


@given(ms_per_row=st.floats(0.000_1, 1_000.0))
def test_batches_settle_between_quick_and_slow(ms_per_row: float) -> None:
    size, took_ms = settled(ms_per_row)
    assert took_ms <= SLOW_MS or size.rows == 1
    assert took_ms >= min(QUICK_MS, SLOW_MS / 4) or size.rows == MOST_ROWS


def test_batches_whose_frames_are_in_memory_do_not_grow() -> None:
    assert settled(0.000_1, grows=False)[0].rows == FIRST_ROWS


def test_a_batch_that_has_read_all_there_was_makes_the_next_one_no_larger() -> None:
    size = BatchSize(None, grows=True)
    size.batch_over(10, 300.0, has_caught_up=True)
    assert size.rows == FIRST_ROWS


def test_a_size_that_the_user_wants_stays() -> None:
    size = BatchSize(10, grows=True)
    size.batch_over(10, 300.0, has_caught_up=False)
    size.batch_over(10, 300_000.0, has_caught_up=False)
    assert size.rows == 10
