"""Causes that are planted in real jobs on a MiniCluster: each is named within ten seconds, and a healthy job has none.

Time is a manual clock: what a function costs is how far it moves the clock. The slow tests do the same in real time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.core.clock import SystemClock
from runtime.datastream import StreamExecutionEnvironment
from runtime.jobmaster.findings import Finding, Topic, text_of
from runtime.testing.clock import ManualClock
from tests.execution.planted import (
    CONTAINERS,
    PLANTED,
    TAKES,
    WITHIN_MS,
    Container,
    Diagnosed,
    healthy,
    outside,
    small_slots,
)


@pytest.fixture(autouse=True)
def costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    TAKES.clear()
    monkeypatch.setattr("runtime.task.memory._CGROUP", tmp_path)
    CONTAINERS.append(Container(tmp_path))
    yield
    TAKES.clear()
    CONTAINERS.clear()


@pytest.mark.parametrize(("program", "parallelism", "cause", "name"), PLANTED)
def test_a_planted_cause_is_named_within_ten_seconds(
    program: Callable[[StreamExecutionEnvironment], None], parallelism: int, cause: str, name: str
) -> None:
    clock = ManualClock(1_700_000_000_000)
    TAKES.append(clock.advance)
    job = Diagnosed(program, parallelism, clock)
    found = job.until_named()
    text = text_of(found, {vertex.vertex_id: vertex.name for vertex in job.graph.vertices})
    assert (found.cause.value, name in job.name_of(found)) == (cause, True), found
    if cause == "skew":
        assert found.subtask is not None
    if cause == "idle-input":
        assert (found.split, job.event_time.is_live) == ("50000-100000", False)
    elif found.topic is Topic.LIMIT:
        assert job.graph.vertices[0].vertex_id in found.waiting, "the source waits for it"
    if program is small_slots:
        assert "of it waiting for its turn in the slot" in text, text
    elif cause == "busy":
        assert "its turn" not in text
    job.end()


def test_a_healthy_job_has_no_cause() -> None:
    clock = ManualClock(1_700_000_000_000)
    TAKES.append(clock.advance)
    job = Diagnosed(healthy, 1, clock)
    for _ in range(20):
        assert job.findings() == []
    job.end()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "parallelism", "cause", "name"), [*PLANTED, (outside, 1, "outside", "ask"), (healthy, 1, "", "")]
)
def test_a_planted_cause_is_named_within_ten_seconds_of_real_time(
    program: Callable[[StreamExecutionEnvironment], None], parallelism: int, cause: str, name: str
) -> None:
    TAKES.append(lambda ms: time.sleep(ms / 1000.0))
    job = Diagnosed(program, parallelism, SystemClock())
    began_ms = job.clock.monotonic_ms()
    planted, found = [(cause, True)] if cause else [], list[Finding]()

    def named() -> list[tuple[str, bool]]:
        return [(finding.cause.value, name in job.name_of(finding)) for finding in found[:1]]

    # a first verdict may come from a second in which hardly a record was counted; a healthy job has none all the time
    while (named() != planted or not cause) and job.clock.monotonic_ms() - began_ms < WITHIN_MS:
        found = job.findings()
        assert cause or not found, found
    assert named() == planted, found
    job.end()
