"""A TaskManager that is asked to end: when jobs have to leave it, and when its process may."""

from __future__ import annotations

import pytest

from backend.cluster.drain import ALONE_MS, EVICTION_MS, SETTLED_MS, Drain

BEGAN = 1_000.0
TIMEOUT = 30_000.0


def why_over(drain: Drain, after_ms: float, *, is_idle: bool = False, has_jobmanager: bool = True) -> str:
    return drain.why_over(BEGAN + after_ms, is_idle=is_idle, has_jobmanager=has_jobmanager)


@pytest.mark.parametrize(("timeout_ms", "evicts_ms"), [(TIMEOUT, TIMEOUT - EVICTION_MS), (8_000, 4_000)])
def test_jobs_have_to_leave_while_there_is_time_for_a_checkpoint(timeout_ms: float, evicts_ms: float) -> None:
    drain = Drain(BEGAN, timeout_ms)
    assert drain.evicts_in_ms(BEGAN) == evicts_ms
    assert drain.evicts_in_ms(BEGAN + evicts_ms - 1) == 1
    assert drain.evicts_in_ms(BEGAN + timeout_ms) == 0


def test_it_ends_when_nothing_runs_and_the_leader_has_heard_of_it() -> None:
    drain = Drain(BEGAN, TIMEOUT)
    assert why_over(drain, SETTLED_MS - 1, is_idle=True) == ""
    assert why_over(drain, SETTLED_MS) == ""
    assert "nothing runs" in why_over(drain, SETTLED_MS, is_idle=True)


def test_it_ends_at_the_deadline_whatever_runs() -> None:
    drain = Drain(BEGAN, TIMEOUT)
    assert why_over(drain, TIMEOUT - 1) == ""
    assert "time" in why_over(drain, TIMEOUT)


def test_it_does_not_wait_if_there_is_no_jobmanager_to_move_its_jobs() -> None:
    drain = Drain(BEGAN, TIMEOUT)
    assert why_over(drain, 1_000, has_jobmanager=False) == ""
    # another one has taken over
    assert why_over(drain, 3_000) == ""
    assert why_over(drain, 4_000, has_jobmanager=False) == ""
    assert why_over(drain, 4_000 + ALONE_MS - 1, has_jobmanager=False) == ""
    assert "no JobManager" in why_over(drain, 4_000 + ALONE_MS, has_jobmanager=False)
