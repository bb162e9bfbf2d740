"""Leaders that are killed and frozen under jobs on Spark: each kind of fault once, and the faults of a run by seed."""

from __future__ import annotations

import os
import random

import pytest

from tests.chaos.leaders import (
    CHECKPOINT,
    FAULTS,
    FROZEN,
    KILLED,
    LeaderReport,
    leader_schedule,
    lose_leaders,
)


def test_each_kind_of_fault_comes_before_any_comes_twice() -> None:
    planned = leader_schedule(random.Random(7), 200)
    assert len(planned) == 200
    assert {fault.name for fault in planned[: len(FAULTS)]} == {fault.name for fault in FAULTS}
    assert planned == leader_schedule(random.Random(7), 200)


@pytest.mark.parametrize(
    ("what", "times", "is_kept"),
    [
        (KILLED, [0.5] * 19 + [4.9], True),
        (KILLED, [0.5] * 19 + [5.1], False),
        (KILLED, [2.1] * 20, False),
        (FROZEN, [3.9] * 20, True),
        (FROZEN, [4.1] * 20, False),
        (CHECKPOINT, [9.9] * 20, True),
        (CHECKPOINT, [1.0] * 19 + [10.1], False),
    ],
)
def test_times_beyond_what_is_promised_are_violations_on_a_machine_of_ones_own(
    what: str, times: list[float], is_kept: bool
) -> None:
    for load, is_own in ((0.5, True), (10.0 * (os.cpu_count() or 1), False)):
        report = LeaderReport()
        report.times[what] += times
        report.loads += [0.1, load]
        report.judge_times()
        assert (not report.violations) == (is_kept or not is_own)
        assert (not report.notes) == (is_kept or is_own)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_jobs_do_not_notice_and_operations_are_answered_whenever_leaders_are_lost() -> None:
    report = lose_leaders(len(FAULTS), 1, "", print)
    print(*report.lines(), sep="\n")
    assert report.violations == []
