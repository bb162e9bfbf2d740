"""Batches on Spark with blocking exchanges: stage after stage, lost workers are made up for, output comes once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runtime.common import Configuration, Encoder, Types, WatermarkStrategy
from runtime.connectors import NumberSequenceSource
from runtime.connectors.collection import CollectionSource
from runtime.datastream import DataStream, MapFunction, RuntimeContext, StreamExecutionEnvironment
from runtime.datastream.connectors.file_system import FileSink
from runtime.execution.errors import JobCanceledError, JobExecutionError
from runtime.execution.spark_session import acquire_context
from runtime.task.messages import TaskState
from runtime.testing import BATCH_ON_SPARK, run_job
from tests.execution.test_spark_micro_batch import NO_RESTART, RESTARTS, TIMEOUT_S, lines
from tests.job_runs import record_run
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PLAIN = WatermarkStrategy.no_watermarks()
PARALLELISM = 2


def in_stages(build: Any, options: Mapping[str, str] = NO_RESTART, parallelism: int = PARALLELISM) -> Any:
    record_run("spark local")
    return run_job(build, parallelism=parallelism, mode=BATCH_ON_SPARK, options=options, timeout_s=TIMEOUT_S)


def times_called(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def note(path: Path) -> None:
    with path.open("a") as file:
        file.write("called\n")


def counted_in_files(tmp_path: Path, fail: Any) -> Any:
    """A program of three stages: numbers, counts of each remainder, lines in files; `fail` is called in the last."""

    def build(env: StreamExecutionEnvironment) -> None:
        def read(n: int) -> tuple[int, int]:
            note(tmp_path / "read")
            return n % 5, 1

        def told(pair: tuple[int, int]) -> str:
            fail()
            return f"{pair[0]}: {pair[1]}"

        pairs = Types.TUPLE([Types.LONG(), Types.LONG()])
        numbers = env.from_source(NumberSequenceSource(0, 99), PLAIN, "numbers").map(read, pairs)
        counts = numbers.key_by(lambda pair: pair[0], Types.LONG()).sum(1)
        sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
        counts.rebalance().map(told, Types.STRING()).sink_to(sink)

    return build


EXPECTED = [f"{n}: 20" for n in range(5)]


def test_a_lost_worker_costs_its_stage_and_nothing_else(tmp_path: Path) -> None:
    def dies_once() -> None:
        note(tmp_path / "told")
        if times_called(tmp_path / "told") == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    result = in_stages(counted_in_files(tmp_path, dies_once))
    assert result.restarts == 0
    assert lines(tmp_path / "out") == EXPECTED
    # the stage of the source has not been run again
    assert times_called(tmp_path / "read") == 100
    # nor is anything left of the files that were begun by the lost worker
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file() and path.name.startswith(".")]


class DiesInCommits(MapFunction):
    """Kills its worker when it is opened for the first commits, which open all operators again."""

    def __init__(self, directory: Path) -> None:
        self._opened = directory / "opened"

    def open(self, runtime_context: RuntimeContext) -> None:
        note(self._opened)
        if times_called(self._opened) == PARALLELISM + 1:
            os.kill(os.getpid(), signal.SIGKILL)

    def map(self, value: Any) -> str:
        return str(value)


def test_a_worker_that_is_lost_while_sinks_commit_costs_nothing(tmp_path: Path) -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        numbers = env.from_source(NumberSequenceSource(0, 99), PLAIN, "numbers")
        sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
        numbers.rebalance().map(DiesInCommits(tmp_path), Types.STRING()).sink_to(sink)

    assert in_stages(build).restarts == 0
    assert times_called(tmp_path / "opened") > PARALLELISM + 1
    assert lines(tmp_path / "out") == sorted(map(str, range(100)))


def test_a_worker_that_dies_again_and_again_fails_the_batch(tmp_path: Path) -> None:
    def dies() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(JobExecutionError, match="could not be run on Spark"):
        in_stages(counted_in_files(tmp_path, dies))
    assert lines(tmp_path / "out") == []


def test_a_function_that_fails_begins_the_batch_anew(tmp_path: Path) -> None:
    def fails_once() -> None:
        note(tmp_path / "told")
        if times_called(tmp_path / "told") == 1:
            raise ValueError("once")

    result = in_stages(counted_in_files(tmp_path, fails_once), RESTARTS)
    assert result.restarts == 1 and "ValueError: once" in result.failures[0]
    assert lines(tmp_path / "out") == EXPECTED
    assert times_called(tmp_path / "read") == 200


def test_tasks_of_a_batch_are_finished_when_they_have_ended_although_others_run(tmp_path: Path) -> None:
    def waits() -> None:
        note(tmp_path / "told")
        wait_until((tmp_path / "go on").exists, TIMEOUT_S, "the test")

    settings = {"parallelism.default": str(PARALLELISM), **BATCH_ON_SPARK.options, **NO_RESTART}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    counted_in_files(tmp_path, waits)(env)
    record_run("spark local")
    client = env.execute_async("in stages")

    def unfinished() -> set[str]:
        tasks = client.get_status().tasks
        assert all(task.state in (TaskState.RUNNING, TaskState.FINISHED) for task in tasks)
        return {task.name.partition(" (")[0] for task in tasks if task.state is not TaskState.FINISHED}

    wait_until(lambda: times_called(tmp_path / "told") > 0, TIMEOUT_S, "the last stage")
    wait_until(lambda: len(unfinished()) == 1, TIMEOUT_S, "the end of the other stages")
    sources = [task for task in client.get_status().tasks if task.name.startswith("Source")]
    assert [task.metrics["numRecordsOut"] for task in sources] == [50, 50]
    (tmp_path / "go on").touch()
    client.get_job_execution_result().result(TIMEOUT_S)
    assert lines(tmp_path / "out") == EXPECTED


def test_a_batch_that_is_cancelled_stops(tmp_path: Path) -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        def slow(n: int) -> int:
            note(tmp_path / "read")
            time.sleep(0.05)
            return n

        env.from_source(NumberSequenceSource(0, 99_999), PLAIN, "numbers").map(slow, Types.LONG()).print()

    settings = {"parallelism.default": "2", **BATCH_ON_SPARK.options, **NO_RESTART}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    build(env)
    record_run("spark local")
    client = env.execute_async("slow")
    wait_until(lambda: times_called(tmp_path / "read") > 0, 60, "the batch's first records")
    client.handle.cancel()
    with pytest.raises(JobCanceledError):
        client.handle.wait(60)

    tracker = acquire_context(Configuration(), 1).statusTracker()
    wait_until(lambda: not tracker.getActiveJobsIds(), 60, "the end of Spark's job")


def test_more_subtasks_than_cores_run_one_after_the_other() -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream:
        numbers = env.from_source(CollectionSource(list(range(30)), Types.LONG()), PLAIN, "numbers")
        return numbers.rebalance().map(lambda n: n * n, Types.LONG()).rebalance().map(lambda n: n + 1, Types.LONG())

    found = in_stages(build, {**NO_RESTART, "spark.master": "local[1]"}, parallelism=3).values
    assert sorted(found) == [n * n + 1 for n in range(30)]
