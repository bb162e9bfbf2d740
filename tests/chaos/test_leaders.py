"""Leaders that are killed and frozen under jobs on Spark: each kind of fault once, and the faults of a run by seed."""

from __future__ import annotations

import random

import pytest

from tests.chaos.leaders import FAULTS, leader_schedule, lose_leaders


def test_each_kind_of_fault_comes_before_any_comes_twice() -> None:
    planned = leader_schedule(random.Random(7), 200)
    assert len(planned) == 200
    assert {fault.name for fault in planned[: len(FAULTS)]} == {fault.name for fault in FAULTS}
    assert planned == leader_schedule(random.Random(7), 200)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_jobs_do_not_notice_and_operations_are_answered_whenever_leaders_are_lost() -> None:
    report = lose_leaders(len(FAULTS), 1, "", print)
    print(*report.lines(), sep="\n")
    assert report.violations == []
