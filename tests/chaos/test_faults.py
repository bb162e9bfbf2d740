"""Each fault once, four kinds to a run, against the self-proving job on Spark with files, PostgreSQL and Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.chaos.faults import FAULTS, inject
from tests.chaos.postgres import PostgresServer
from tests.chaos.runner import ChaosRun
from tests.connectors.kafka_broker import check_kafka
from tests.job_runs import record_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


KINDS = list(dict.fromkeys(fault.matrix for fault in FAULTS))
PER_RUN = 4
"""Kinds of faults that one run has, one after the other: each run starts Spark and PostgreSQL."""
RUNS = [KINDS[first : first + PER_RUN] for first in range(0, len(KINDS), PER_RUN)]


@contextmanager
def chaos_run(regions: int) -> Iterator[ChaosRun]:
    """A run whose seed is the test's own; not started."""
    if not PostgresServer.is_installed():
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    check_kafka()
    chaos = ChaosRun(1, with_postgres=True, kafka=2, regions=regions)
    try:
        yield chaos
    finally:
        chaos.close()


@pytest.fixture
def run() -> Iterator[ChaosRun]:
    with chaos_run(1) as chaos:
        yield chaos


@pytest.fixture
def run_of_two_regions() -> Iterator[ChaosRun]:
    with chaos_run(2) as chaos:
        yield chaos


def test_there_are_more_than_20_kinds_and_each_has_a_name_of_its_own() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) > 20


@pytest.mark.parametrize("kinds", RUNS, ids="-".join)
def test_nothing_is_lost_and_nothing_comes_twice(kinds: list[str], run: ChaosRun) -> None:
    run.start()
    record_run("spark local")
    for fault in FAULTS:
        if fault.matrix in kinds and fault.is_possible(run):
            inject(run, fault)
    assert run.finish().violations == []


def test_a_region_restarts_alone_and_nothing_is_lost_in_either(run_of_two_regions: ChaosRun) -> None:
    run = run_of_two_regions
    run.start()
    record_run("spark local")
    before = set(run.settle().workers)
    [kill] = [fault for fault in FAULTS if fault.name == "kill -9 of a worker"]
    inject(run, kill)
    assert len(before & set(run.settle().workers)) == len(before) / 2
    # what strikes one of them, and what takes down both
    for fault in FAULTS:
        if fault.matrix in ("F13", "F23", "F27") and fault.is_possible(run):
            inject(run, fault)
    assert run.finish().violations == []
