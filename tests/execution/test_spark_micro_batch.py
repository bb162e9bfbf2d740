"""Micro-batches on Spark: the output is that of the continuous execution, whatever happens in between."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from runtime.common import Configuration, Encoder, Types, WatermarkStrategy
from runtime.connectors.blackhole import BlackHoleSink
from runtime.connectors.collection import CollectionSource
from runtime.core.garbage import THRESHOLDS
from runtime.datastream import (
    BroadcastProcessFunction,
    DataStream,
    JobClient,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from runtime.datastream.connectors.file_system import FileSink
from runtime.datastream.state import MapStateDescriptor, ValueStateDescriptor
from runtime.execution.errors import JobExecutionError
from runtime.jobmaster.job_state import JobState
from runtime.testing import (
    CONTINUOUS_ON_MINI_CLUSTER,
    MICRO_BATCH_ON_SPARK,
    JobMode,
    ScriptedSource,
    crash,
    run_job,
)
from tests.datastream.running import ROW_BY_ROW
from tests.datastream.test_batch import program
from tests.job_runs import record_run
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PLAIN = WatermarkStrategy.no_watermarks()
SHORT = {"execution.checkpointing.interval": "50 ms"}
NO_RESTART = {"restart-strategy.type": "none"}
RESTARTS = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "5"}
TIMEOUT_S = 300.0
"""Of one job: a busy machine takes seconds for each batch."""


def on_spark(build: Any, max_rows: int = 1_000, options: Mapping[str, str] | None = None) -> Any:
    record_run("spark local")
    settings = {**SHORT, **NO_RESTART, "execution.micro-batch.max-rows": str(max_rows), **(options or {})}
    return run_job(build, parallelism=2, mode=MICRO_BATCH_ON_SPARK, options=settings, timeout_s=TIMEOUT_S)


# --- the same result --------------------------------------------------------------------------------------------------


def test_windows_and_timers_give_what_a_stream_gives() -> None:
    values = [("abc"[i % 3], (i * 7) % 60) for i in range(40)]
    build = program(values, ["tumbling", "rebalance", "process", "reduce windows"])
    record_run("mini-cluster")
    streamed = run_job(build, parallelism=2, options=ROW_BY_ROW).values
    assert sorted(on_spark(build, 15, ROW_BY_ROW).values) == sorted(streamed) and streamed


class Rules(BroadcastProcessFunction):
    """Keeps the numbers that a rule names."""

    rules = MapStateDescriptor("rules", Types.LONG(), Types.BOOLEAN())

    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any]:
        if ctx.get_broadcast_state(self.rules).contains(value % 4):
            yield value

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(self.rules).put(value, True)


ODD = OutputTag("odd", Types.LONG())


class Split(ProcessFunction):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterable[Any]:
        yield (ODD, value) if value % 2 else value


def test_several_inputs_and_outputs_meet_over_levels() -> None:
    def build(env: StreamExecutionEnvironment) -> list[DataStream]:
        numbers = env.from_source(CollectionSource(list(range(40)), Types.LONG()), PLAIN, "numbers").set_parallelism(1)
        rules = env.from_source(CollectionSource([1, 2], Types.LONG()), PLAIN, "rules").set_parallelism(1)
        split = numbers.rebalance().process(Split(), Types.LONG())
        both = split.union(split.get_side_output(ODD)).rebalance()
        kept = both.connect(rules.broadcast(Rules.rules)).process(Rules(), Types.LONG())
        return [kept, split.get_side_output(ODD)]

    result = on_spark(build)
    assert [sorted(values) for values in result.outputs] == [
        [n for n in range(40) if n % 4 in (1, 2)],
        list(range(1, 40, 2)),
    ]


# --- workers ----------------------------------------------------------------------------------------------------------


class Worker(MapFunction):
    """Says by which random number and with which thresholds of the garbage collector its worker has begun."""

    def map(self, value: Any) -> tuple[float, int]:
        return float(np.random.random()), gc.get_threshold()[0]


def test_each_worker_has_random_numbers_of_its_own_and_collects_garbage_as_slots_do() -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream:
        return env.from_source(CollectionSource(list(range(6)), Types.LONG()), PLAIN, "numbers").map(Worker())

    told = on_spark(build, 1).values
    assert len({number for number, _ in told}) == 6
    assert {threshold for _, threshold in told} == {THRESHOLDS[0]}


# --- failures ---------------------------------------------------------------------------------------------------------


class Running(KeyedProcessFunction):
    """Counts the records of each key."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield f"{value}:{self.count.value()}"


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_crash_repeats_nothing(tmp_path: Path, backend: str) -> None:
    script = ["a", "b", "a", crash("first"), "b", "a", "c"]
    source = ScriptedSource(script, batch_rows=1, directory=tmp_path)

    def build(env: StreamExecutionEnvironment) -> DataStream:
        return env.from_source(source, PLAIN, "script").key_by(lambda v: v).process(Running(), Types.STRING())

    result = on_spark(build, 2, {**RESTARTS, "state.backend.type": backend})
    assert sorted(result.values) == ["a:1", "a:2", "a:3", "b:1", "b:2", "c:1"]
    assert result.restarts == 1 and "ScriptedCrash" in result.failures[0]


def test_a_failing_function_is_named_with_its_record() -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream:
        numbers = env.from_source(CollectionSource([4, 0, 7]), PLAIN, "numbers").rebalance()
        return numbers.map(lambda n: 28 // n, Types.LONG()).rebalance().map(lambda n: n + 1, Types.LONG())

    with pytest.raises(JobExecutionError, match=r"Map.*record 0: ZeroDivisionError"):
        on_spark(build)


# --- moving -----------------------------------------------------------------------------------------------------------


def counting(values: list[str], out: Path) -> Any:
    """A program that writes each value with the number of its occurrence, in lines."""

    def build(env: StreamExecutionEnvironment) -> None:
        source = CollectionSource(values, Types.STRING())
        keyed = env.from_source(source, PLAIN, "values").uid("values").set_parallelism(1).key_by(lambda v: v)
        counted = keyed.process(Running(), Types.STRING()).uid("running")
        sink = FileSink.for_row_format(str(out), Encoder.simple_string_encoder()).build()
        counted.sink_to(sink).uid("files")

    return build


def lines(out: Path) -> list[str]:
    return sorted(
        line for path in out.rglob("part-*") if not path.name.startswith(".") for line in path.read_text().splitlines()
    )


def start(build: Any, mode: JobMode, parallelism: int, options: dict[str, str]) -> JobClient:
    record_run("spark local")
    settings = {"parallelism.default": str(parallelism), **mode.options, **SHORT, **NO_RESTART, **options}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    build(env)
    return env.execute_async("moving")


def num_completed(client: JobClient) -> int:
    return client.get_status().checkpoints.counts.completed


def test_a_job_moves_to_batches_on_spark_and_on_by_savepoint(tmp_path: Path) -> None:
    out, values = tmp_path / "out", ["abc"[(i * i) % 3] for i in range(90)]
    options = {"execution.micro-batch.max-rows": "10", "state.backend.type": "rocksdb"}
    options["execution.checkpointing.dir"] = (tmp_path / "checkpoints").as_uri()
    client = start(counting(values, out), MICRO_BATCH_ON_SPARK, 2, options)
    wait_until(lambda: num_completed(client) >= 2, TIMEOUT_S, "two batches")
    location = client.stop_with_savepoint(False, str(tmp_path / "saved")).result(TIMEOUT_S)
    assert client.get_status().state is JobState.FINISHED
    written = lines(out)
    assert 0 < len(written) < len(values)

    settings = {**RESTARTS, "execution.state-recovery.path": location, "state.backend.type": "hashmap"}
    run_job(counting(values, out), parallelism=3, mode=CONTINUOUS_ON_MINI_CLUSTER, options=settings)
    record_run("mini-cluster")
    assert lines(out) == sorted(f"{value}:{n}" for value in "abc" for n in range(1, values.count(value) + 1))


def test_a_worker_that_is_killed_in_a_batch_costs_nothing(tmp_path: Path) -> None:
    out, values = tmp_path / "out", ["abc"[(i * i) % 3] for i in range(60)]
    options = {"execution.micro-batch.max-rows": "10", **RESTARTS}
    client = start(counting(values, out), MICRO_BATCH_ON_SPARK, 2, options)
    wait_until(lambda: num_completed(client) >= 1, TIMEOUT_S, "a batch")
    wait_until(lambda: kill_a_worker() or client.get_status().state.is_terminal, TIMEOUT_S, "a worker")
    client.get_job_execution_result().result(TIMEOUT_S)
    assert lines(out) == sorted(f"{value}:{n}" for value in "abc" for n in range(1, values.count(value) + 1))


def kill_a_worker() -> bool:
    """Kill a process in which tasks run; returns whether there was one."""
    for process in psutil.Process().children(recursive=True):
        try:
            is_worker = "runtime.execution.spark_daemon" in " ".join(process.cmdline())
            parent = process.parent()
            if is_worker and parent is not None and "runtime.execution.spark_daemon" in " ".join(parent.cmdline()):
                os.kill(process.pid, signal.SIGKILL)
                return True
        except (psutil.Error, OSError):
            continue
    return False


def test_a_job_that_takes_what_is_there_stops_by_itself(tmp_path: Path) -> None:
    out, values = tmp_path / "out", ["ab"[i % 2] for i in range(30)]
    options = {
        "execution.micro-batch.max-rows": "10",
        "execution.micro-batch.trigger": "once",
        "execution.checkpointing.savepoint-dir": (tmp_path / "saved").as_uri(),
    }
    client = start(counting(values, out), MICRO_BATCH_ON_SPARK, 2, options)
    client.get_job_execution_result().result(TIMEOUT_S)
    assert lines(out) == sorted(f"{value}:{n}" for value in "ab" for n in range(1, 6))
    [saved] = (tmp_path / "saved").iterdir()
    again = {
        **options,
        "execution.micro-batch.trigger": "available-now",
        "execution.state-recovery.path": saved.as_uri(),
    }
    client = start(counting(values, out), MICRO_BATCH_ON_SPARK, 2, {**options, **again})
    client.get_job_execution_result().result(TIMEOUT_S)
    assert lines(out) == sorted(f"{value}:{n}" for value in "ab" for n in range(1, 16))


# --- a function that hangs --------------------------------------------------------------------------------------------


class Hanging(MapFunction):
    """Never returns for one number, whatever it is told, and writes down in which process."""

    def __init__(self, told: Path) -> None:
        self.told = told

    def map(self, value: int) -> int:
        if value == 5:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self.told.with_suffix(".new").write_text(str(os.getpid()))
            self.told.with_suffix(".new").rename(self.told)
            while True:
                signal.pause()
        return value


@pytest.mark.slow
def test_a_job_whose_function_hangs_is_cancelled_and_its_worker_ends(tmp_path: Path) -> None:
    told = tmp_path / "pid"

    def build(env: StreamExecutionEnvironment) -> None:
        numbers = env.from_source(CollectionSource(list(range(20)), Types.LONG()), PLAIN, "numbers").rebalance()
        numbers.map(Hanging(told), Types.LONG()).sink_to(BlackHoleSink())

    client = start(build, MICRO_BATCH_ON_SPARK, 2, {"execution.checkpointing.dir": tmp_path.as_uri()})
    wait_until(told.exists, TIMEOUT_S, "the function")
    worker = psutil.Process(int(told.read_text()))
    client.cancel().result(60)
    assert client.get_status().state is JobState.CANCELED
    wait_until(lambda: not worker.is_running(), 60, "the end of its worker")
