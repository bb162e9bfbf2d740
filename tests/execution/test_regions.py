"""Two pipelines of one job, in slots of their own: one fails and is restarted, the other one does not notice."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from runtime.common import Types
from runtime.core.ids import SlotId
from runtime.datastream import StreamExecutionEnvironment
from runtime.execution.mini_cluster import MiniCluster
from runtime.jobmaster.client_outputs import ClientOutputs
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.status import JobStatusSnapshot
from runtime.testing.clock import ManualClock
from runtime.testing.collecting_sink import CollectingSink, collected_records
from tests.datastream.running import environment
from tests.execution.jobs import HOOKS, Hooked, step_until, ticks
from tests.execution.test_recovery import EVERY_100_MS, RunningSum, by_key, fail_at
from tests.job_runs import record_run
from tests.support.waiting import wait_until

COUNT = 1_000
KEYS = 7


@pytest.fixture(autouse=True)
def fresh_hooks() -> Iterator[None]:
    HOOKS.clear()
    yield
    HOOKS.clear()


def on_the_left(value: int) -> int:
    if "tick" in HOOKS:
        HOOKS["tick"](value)
    return value


def pipelines(
    env: StreamExecutionEnvironment, directory: Path, count: int = COUNT, per_second: float = 1_000.0
) -> StreamExecutionEnvironment:
    """Twice ticks → map → sum by key → collected: on the left map calls HOOKS["tick"], on the right HOOKS["map"]."""
    kind = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
    for side in ("left", "right"):
        numbers = ticks(env, per_second, count).slot_sharing_group(side).uid(f"{side} numbers")
        if side == "left":
            numbers = numbers.map(on_the_left, Types.LONG()).uid(f"{side} hooked")
        else:
            numbers = numbers.map(Hooked(), Types.LONG()).uid(f"{side} hooked")
        sums = numbers.key_by(by_key, Types.LONG()).process(RunningSum(), kind).uid(f"{side} sums").name(side)
        sums.sink_to(CollectingSink(directory / side)).uid(f"{side} out")
    return env


def mini_cluster(directory: Path, options: Mapping[str, str]) -> MiniCluster:
    record_run("mini-cluster")
    env = pipelines(environment(1, options), directory)
    return MiniCluster(env.create_job_graph("pipelines"), ClientOutputs(), ManualClock(1_000_000))


def attempts(status: JobStatusSnapshot) -> dict[SlotId, int]:
    """Return the attempts by slot."""
    return {task.slot: task.attempt for task in status.tasks}


def assert_exact(directory: Path, count: int = COUNT) -> None:
    """Each side counted every number once."""
    for side in ("left", "right"):
        records = collected_records(directory / side)
        for key in range(KEYS):
            assert [c for k, c, _ in records if k == key] == list(range(1, len(range(key, count, KEYS)) + 1)), side


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_one_pipeline_goes_back_to_the_checkpoint_and_the_other_one_goes_on(tmp_path: Path, backend: str) -> None:
    seen: list[int] = []
    HOOKS["tick"] = seen.append
    fail_at(333, 777)
    cluster = mini_cluster(tmp_path, {**EVERY_100_MS, "state.backend.type": backend})
    step_until(cluster, cluster.driver.ended.is_set, 200_000)
    status = cluster.driver.status()
    assert status.state is JobState.FINISHED
    assert attempts(status) == {0: 0, 1: 2}
    # no record of the left one was read twice
    assert seen == list(range(COUNT))
    assert_exact(tmp_path)
    assert [(entry.attempt, entry.cause.slot) for entry in status.exceptions] == [(0, 1), (1, 1)]
    assert status.checkpoints.counts.completed > 3


def test_both_pipelines_fail_in_turn(tmp_path: Path) -> None:
    failing = {250, 700}

    def fail_on_the_left(value: int) -> None:
        if value in failing:
            failing.remove(value)
            raise ValueError(f"left {value}")

    HOOKS["tick"] = fail_on_the_left
    fail_at(260, 500)
    cluster = mini_cluster(tmp_path, {**EVERY_100_MS, "restart-strategy.fixed-delay.delay": "50 ms"})
    step_until(cluster, cluster.driver.ended.is_set, 200_000)
    status = cluster.driver.status()
    assert status.state is JobState.FINISHED
    assert (status.attempt, status.restarts) == (4, 4)
    assert_exact(tmp_path)


def test_without_checkpoints_a_pipeline_that_has_finished_stays_so(tmp_path: Path) -> None:
    seen: list[int] = []
    HOOKS["tick"] = seen.append
    failing = {COUNT - 1}

    def at_the_end(value: int) -> int:
        if value in failing:
            failing.remove(value)
            raise ValueError("the last one")
        return value

    HOOKS["map"] = at_the_end
    options = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "100 ms"}
    cluster = mini_cluster(tmp_path, options)
    step_until(cluster, cluster.driver.ended.is_set, 200_000)
    status = cluster.driver.status()
    assert status.state is JobState.FINISHED
    assert attempts(status) == {0: 0, 1: 1}
    assert seen == list(range(COUNT))
    assert_exact(tmp_path)


def test_the_failover_strategy_full_takes_the_other_pipeline_along(tmp_path: Path) -> None:
    fail_at(333)
    cluster = mini_cluster(tmp_path, {**EVERY_100_MS, "jobmanager.execution.failover-strategy": "full"})
    step_until(cluster, cluster.driver.ended.is_set, 200_000)
    assert attempts(cluster.driver.status()) == {0: 1, 1: 1}
    assert_exact(tmp_path)


@pytest.mark.spark
def test_a_process_is_killed_and_that_of_the_other_pipeline_lives_on(tmp_path: Path) -> None:
    options = {**EVERY_100_MS, "execution.target": "spark", "restart-strategy.fixed-delay.delay": "200 ms"}
    options["execution.checkpointing.dir"] = (tmp_path / "checkpoints").as_uri()
    count = 6_000
    client = pipelines(environment(1, options), tmp_path, count, 1_000.0).execute_async("pipelines")
    record_run("spark local")
    wait_until(lambda: client.get_status().checkpoints.counts.completed >= 3, 30, "checkpoints")
    pids = {slot.slot: slot.pid for slot in client.get_status().slots}
    killed = pids[SlotId(1)]
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: attempts(client.get_status()) == {0: 0, 1: 1}, 20, "the restart")
    wait_until(lambda: client.get_status().state is JobState.RUNNING, 20, "its end")
    again = {slot.slot: slot.pid for slot in client.get_status().slots}
    assert again[SlotId(0)] == pids[SlotId(0)]
    assert again[SlotId(1)] != killed
    client.get_job_execution_result().result(90)
    assert attempts(client.get_status()) == {0: 0, 1: 1}
    assert_exact(tmp_path, count)
