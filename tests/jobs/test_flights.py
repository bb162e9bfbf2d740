"""The flights job on each execution kind, against numbers that other code computed.

The oracle is `examples.flights_batch`, which imports nothing of the engine: a batch computation in Polars, and a replay
row by row of which flights are late.
"""

from __future__ import annotations

import argparse
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from examples.flight_delays import configuration_of, define_job
from examples.flights_batch import expected_windows, late_flights
from examples.tools.replay_flights import write_replay
from runtime.datastream import StreamExecutionEnvironment
from tests.job_runs import record_run
from tests.support.programs import run_program, survivors
from tests.support.standalone import standalone_cluster
from tests.support.waiting import wait_until

FLOWN = 328_521
WINDOWS = 19_434
LATE_AFTER_2_HOURS = 5_360
EXECUTIONS = ["mini-cluster", pytest.param("spark", marks=pytest.mark.spark)]
PARALLELISMS = [1, pytest.param(2, marks=pytest.mark.slow), 4]


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flights") / "flights.ndjson"
    write_replay(path)
    return path


@cache
def oracle() -> pl.DataFrame:
    return expected_windows().sort("origin", "window_start")


def windows_of(output: Path) -> pl.DataFrame:
    frames = [pl.read_ndjson(path, schema=oracle().schema) for path in (output / "windows").glob("part-*.ndjson")]
    return pl.concat(frames).sort("origin", "window_start")


def late_of(output: Path) -> pl.DataFrame | None:
    frames = [pl.read_ndjson(path) for path in (output / "late").glob("part-*.ndjson")]
    return pl.concat(frames) if frames else None


def run(replay: Path, output: Path, execution: str, **options: object) -> None:
    defaults = {
        "input": replay,
        "output": output,
        "parallelism": 1,
        "max_delay_hours": 24,
        "splits": 8,
        "watermark_interval": None,
        "execution": execution,
        "spark_master": None,
        "progress": False,
    }
    arguments = argparse.Namespace(**(defaults | options))
    env = StreamExecutionEnvironment.get_execution_environment(configuration_of(arguments))
    define_job(env, arguments)
    env.execute("flights")
    record_run("mini-cluster" if execution == "mini-cluster" else "spark local")


@pytest.mark.parametrize("parallelism", PARALLELISMS)
@pytest.mark.parametrize("execution", EXECUTIONS)
def test_windows_equal_the_batch_computation_and_nothing_is_late(
    replay: Path, tmp_path: Path, execution: str, parallelism: int
) -> None:
    run(replay, tmp_path, execution, parallelism=parallelism)
    windows = windows_of(tmp_path)
    assert windows.height == WINDOWS
    assert windows["flights"].sum() == FLOWN
    assert windows.equals(oracle())
    assert late_of(tmp_path) is None


@pytest.mark.parametrize(("splits", "readers"), [(1, 1), (2, 2), (8, 4)])
def test_no_subtask_without_a_split_holds_event_time_back(replay: Path, splits: int, readers: int) -> None:
    arguments = argparse.Namespace(
        input=replay, output=replay.parent, parallelism=4, splits=splits, max_delay_hours=2, progress=True
    )
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(4)
    define_job(env, arguments)
    graph = env.create_job_graph("flights")
    # a chain from the source to the watermarks
    reading, *others = graph.vertices
    assert "Timestamps/Watermarks" in [operator.name for operator in reading.operators]
    assert (reading.parallelism, {vertex.parallelism for vertex in others}) == (readers, {4})


@pytest.mark.parametrize("parallelism", PARALLELISMS)
@pytest.mark.parametrize("execution", EXECUTIONS)
def test_with_marks_exactly_the_flights_are_late_that_a_row_by_row_replay_finds_late(
    replay: Path, tmp_path: Path, execution: str, parallelism: int
) -> None:
    run(replay, tmp_path, execution, parallelism=parallelism, max_delay_hours=2, splits=1, watermark_interval=0)
    late = late_of(tmp_path)
    assert late is not None
    expected = late_flights(pl.read_ndjson(replay), 2)
    assert late.height == expected.height == LATE_AFTER_2_HOURS
    key = ["sched_dep", "carrier", "flight", "origin", "dest"]
    assert late.select(key).sort(key).equals(expected.select(key).sort(key))
    assert windows_of(tmp_path)["flights"].sum() + late.height == FLOWN


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_with_many_splits_and_periodic_watermarks_on_time_and_late_make_up_every_window(
    replay: Path, tmp_path: Path, execution: str
) -> None:
    run(replay, tmp_path, execution, parallelism=2, max_delay_hours=2, splits=8)
    on_time = windows_of(tmp_path).select("origin", "window_start", "flights")
    late = late_of(tmp_path)
    counted = [on_time]
    if late is not None:
        start = pl.from_epoch(pl.col("sched_dep") // 3_600_000 * 3600, time_unit="s").dt.strftime("%Y-%m-%dT%H:%M:%SZ")
        counted.append(late.group_by("origin", window_start=start).agg(flights=pl.len().cast(on_time["flights"].dtype)))
    total = pl.concat(counted).group_by("origin", "window_start").agg(pl.col("flights").sum())
    assert total.sort("origin", "window_start").equals(oracle().select("origin", "window_start", "flights"))


def run_on_two_workers(replay: Path, directory: Path, *arguments: str) -> None:
    """The program as a user runs it against a Spark master: nothing of it is left afterwards."""
    with standalone_cluster(directory, workers=2, cores=1) as master:
        done = run_program(
            "examples/flight_delays.py", "--input", replay, "--output", directory, "--parallelism", "2",
            "--spark-master", master, *arguments,
            env={"SPARK_LOCAL_IP": "127.0.0.1", "TIDEMARK_HOME": str(directory / "home")},
        )  # fmt: skip
        record_run("spark standalone")
        assert done.exit_code == 0, done.stderr
        # executors end a moment after their application
        wait_until(lambda: not survivors(done.mark), 10, "the end of the executors")


@pytest.mark.spark
@pytest.mark.slow
def test_the_job_runs_on_a_standalone_cluster_of_two_workers(replay: Path, tmp_path: Path) -> None:
    run_on_two_workers(replay, tmp_path)
    assert windows_of(tmp_path).equals(oracle())


@pytest.mark.slow
@pytest.mark.spark
def test_on_a_standalone_cluster_exactly_the_same_flights_are_late(replay: Path, tmp_path: Path) -> None:
    run_on_two_workers(replay, tmp_path, "--max-delay-hours", "2", "--splits", "1", "--watermark-interval", "0")
    late = late_of(tmp_path)
    assert late is not None
    assert late.height == LATE_AFTER_2_HOURS
