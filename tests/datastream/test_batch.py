"""BATCH and AUTOMATIC: bounded programs give final results only, and the same as a stream gives at its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Time, Types, WatermarkStrategy
from runtime.common.options import BATCH_SHUFFLE_MODE
from runtime.common.types import Row
from runtime.connectors import DataGeneratorSource, sequence
from runtime.connectors.collection import CollectionSource
from runtime.datastream import (
    BroadcastProcessFunction,
    DataStream,
    DataStreamError,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from runtime.datastream.state import MapStateDescriptor, ValueStateDescriptor
from runtime.datastream.window import (
    EventTimeSessionWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from runtime.execution.errors import JobCanceledError, JobExecutionError
from runtime.execution.hosted_slots import HostedSlots
from runtime.jobmaster.driver import JobRequestError
from runtime.testing import (
    BATCH_ON_MINI_CLUSTER,
    BATCH_ON_SPARK,
    CONTINUOUS_ON_MINI_CLUSTER,
    ScriptedSource,
    crash,
    pause,
    record,
    run_job,
    watermark,
)
from runtime.testing.jobs import JobMode
from tests.datastream.running import ROW_BY_ROW, at_each_parallelism, environment, row_by_row
from tests.job_runs import record_run
from tests.support.shuffled_passes import ShuffledPasses

PAIRS = Types.TUPLE([Types.STRING(), Types.LONG()])
MAX = 2**63 - 1
IN_MANY_YEARS = 4_000_000_000_000


BATCH = BATCH_ON_MINI_CLUSTER
"""Set by `exchanges`."""


@pytest.fixture(params=["pipelined", "blocking", "blocking, by level"], autouse=True, scope="module")
def exchanges(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """Exchanges of the batches of each test, as an option."""
    exchange, _, by_level = request.param.partition(", ")
    option = {BATCH_SHUFFLE_MODE.key: f"all_exchanges_{exchange}"}
    mode = JobMode(f"batch, {request.param}", {**BATCH_ON_MINI_CLUSTER.options, **option})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.datastream.test_batch.BATCH", mode)
        if by_level:
            # as Spark runs them
            slots = partial(HostedSlots, make_passes=ShuffledPasses)
            patch.setattr("runtime.execution.mini_cluster.HostedSlots", slots)
        yield option


def batch(build: Any, parallelism: int = 1, **options: str) -> list[Any]:
    """Run a program as a batch; returns what it delivers."""
    record_run("mini-cluster")
    return run_job(build, parallelism=parallelism, mode=BATCH, options=options).values


def pairs(env: StreamExecutionEnvironment, *values: tuple[str, int]) -> DataStream:
    """A stream of (key, event time in ms)."""
    source = CollectionSource(values, PAIRS)
    return env.from_source(source, row_by_row(), "pairs").set_parallelism(1)


# --- which programs ---------------------------------------------------------------------------------------------------


def numbers_without_end(env: StreamExecutionEnvironment) -> DataStream:
    source = DataGeneratorSource.of_fields({"n": sequence()})
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "for ever")


def test_a_source_without_end_is_no_batch() -> None:
    env = environment().set_runtime_mode(RuntimeExecutionMode.BATCH)
    numbers_without_end(env).print()
    with pytest.raises(DataStreamError, match="BATCH needs bounded sources, and these have no end: Source: for ever"):
        env.execute()


def test_a_batch_does_not_begin_with_a_snapshot() -> None:
    env = environment(options={"execution.state-recovery.path": "/somewhere"})
    env.set_runtime_mode(RuntimeExecutionMode.BATCH).from_collection([1]).print()
    with pytest.raises(DataStreamError, match="BATCH does not begin with a snapshot"):
        env.execute()


def test_automatic_is_batch_if_all_sources_are_bounded() -> None:
    env = environment().set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
    bounded = env.from_collection([1])
    bounded.print()
    assert env.create_stream_graph(None).configuration["execution.runtime-mode"] == "batch"
    bounded.union(numbers_without_end(env).map(lambda row: row["n"])).print()
    assert env.create_stream_graph(None).configuration["execution.runtime-mode"] == "streaming"


# --- final results ----------------------------------------------------------------------------------------------------


@at_each_parallelism
def test_running_aggregates_give_their_last_result(parallelism: int) -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream:
        return pairs(env, ("a", 1), ("b", 2), ("a", 3), ("c", 9), ("b", 5)).key_by(lambda r: r[0]).sum(1)

    assert sorted(batch(build, parallelism)) == [("a", 4), ("b", 7), ("c", 9)]


def test_the_last_result_has_the_time_of_the_last_record() -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream:
        reduced = pairs(env, ("a", 3), ("a", 12), ("a", 5)).key_by(lambda r: r[0]).sum(1)
        windows = reduced.key_by(lambda r: r[0]).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        return windows.process(BoundsAndValues(), Types.PICKLED_BYTE_ARRAY())

    assert batch(build) == [(10, 20, [("a", 20)])]


class BoundsAndValues(ProcessWindowFunction):
    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
        yield context.window().start, context.window().end, list(elements)


@at_each_parallelism
def test_changelogs_come_down_to_the_rows_that_stand(parallelism: int) -> None:
    rows = [Row(k="ab"[i % 2], n=i) for i in range(10)]
    kind = Types.ROW_NAMED(["k", "n"], [Types.STRING(), Types.LONG()])

    def build(env: StreamExecutionEnvironment) -> list[DataStream]:
        keyed = env.from_collection(rows, kind).key_by_columns("k")
        # a sink that takes inserts only takes them: there is nothing to take back
        return [
            keyed.aggregate_columns("count(*) AS n"),
            keyed.top_n(2, "n", descending=True),
            keyed.deduplicate("last"),
        ]

    record_run("mini-cluster")
    result = run_job(build, parallelism=parallelism, mode=BATCH)
    counts, top, last = ([tuple(row) for row in output] for output in result.outputs)
    assert sorted(counts) == [("a", 5), ("b", 5)]
    assert sorted(top) == [("a", 6), ("a", 8), ("b", 7), ("b", 9)]
    assert sorted(last) == [("a", 8), ("b", 9)]


# --- event time -------------------------------------------------------------------------------------------------------


class Story(KeyedProcessFunction):
    """Tells what happens to each key, in one text: records with the watermark, and timers."""

    def open(self, runtime_context: Any) -> None:
        self.story = runtime_context.get_state(ValueStateDescriptor("story", Types.STRING()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        assert ctx.timer_service().current_watermark() == -(2**63)
        self.story.update(f"{self.story.value() or value[0]} {value[1]}")
        ctx.timer_service().register_event_time_timer(value[1] + 100)
        assert 0 < ctx.timer_service().current_processing_time() < IN_MANY_YEARS
        ctx.timer_service().register_processing_time_timer(IN_MANY_YEARS)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[str]:
        assert ctx.timer_service().current_watermark() == MAX
        # a periodic timer: it ends with the batch
        ctx.timer_service().register_processing_time_timer(timestamp + 1)
        what = str(timestamp) if timestamp < 1_000 else "clock"
        self.story.update(f"{self.story.value()} {what}!")
        if what == "clock":
            yield str(self.story.value())


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@at_each_parallelism
def test_records_come_by_key_and_time_and_timers_fire_at_the_end(parallelism: int, backend: str) -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream:
        stream = pairs(env, ("b", 7), ("a", 9), ("a", 2), ("b", 3), ("a", 5))
        return stream.key_by(lambda r: r[0]).process(Story(), Types.STRING())

    found = batch(build, parallelism, **{"state.backend.type": backend})
    assert sorted(found) == ["a 2 5 9 102! 105! 109! clock!", "b 3 7 103! 107! clock!"]


def test_nothing_is_late_in_a_batch() -> None:
    script = [record(("a", 5), 5), watermark(1_000), record(("a", 7), 7)]

    def build(env: StreamExecutionEnvironment) -> DataStream:
        stream = env.from_source(ScriptedSource(script), WatermarkStrategy.no_watermarks(), "script")
        windows = stream.key_by(lambda r: r[0]).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        return windows.reduce(lambda a, b: (a[0], a[1] + b[1]))

    record_run("mini-cluster")
    assert run_job(build, mode=CONTINUOUS_ON_MINI_CLUSTER, options=ROW_BY_ROW).values == [("a", 5)]
    assert batch(build) == [("a", 12)]


@pytest.mark.parametrize("by_column", [False, True])
def test_windows_of_processing_time_fire_when_the_batch_ends(by_column: bool) -> None:
    rows = [Row(k="ab"[i % 2], n=i) for i in range(10)]
    kind = Types.ROW_NAMED(["k", "n"], [Types.STRING(), Types.LONG()])

    def build(env: StreamExecutionEnvironment) -> DataStream:
        days = TumblingProcessingTimeWindows.of(Time.days(1))
        stream = env.from_collection(rows, kind)
        if by_column:
            return stream.key_by_columns("k").window(days).aggregate_columns("sum(n) AS n").select("k", "n")
        return stream.key_by(lambda r: r["k"]).window(days).reduce(lambda a, b: Row(k=a["k"], n=a["n"] + b["n"]))

    assert sorted(map(tuple, batch(build, 2))) == [("a", 20), ("b", 25)]


# --- two inputs -------------------------------------------------------------------------------------------------------


class Translate(BroadcastProcessFunction):
    """Translates letters by rules."""

    RULES = MapStateDescriptor("rules", Types.STRING(), Types.STRING())

    def process_element(self, value: str, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterable[str]:
        yield ctx.get_broadcast_state(self.RULES).get(value) or f"no rule for {value}"

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(self.RULES).put(*value)


@at_each_parallelism
def test_rules_are_there_before_the_first_record(parallelism: int) -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream:
        # both from one source: neither may hold up the other
        both = env.from_collection([("record", "x"), ("rule", "x")] * 1_000, Types.TUPLE([Types.STRING()] * 2))
        records = both.filter(lambda r: r[0] == "record").map(lambda r: r[1], Types.STRING())
        rules = both.filter(lambda r: r[0] == "rule").map(lambda r: (r[1], "X"), Types.TUPLE([Types.STRING()] * 2))
        return records.connect(rules.broadcast(Translate.RULES)).process(Translate(), Types.STRING())

    assert batch(build, parallelism) == ["X"] * 1_000


class Sides(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[str]:
        yield f"{value[0]}{value[1]}<"

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[str]:
        yield f"{value[0]}{value[1]}>"


def test_inputs_that_are_keyed_alike_come_together_by_time() -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream:
        left, right = pairs(env, ("b", 1), ("a", 9), ("a", 3)), pairs(env, ("a", 5), ("b", 0))
        both = left.key_by(lambda r: r[0]).connect(right.key_by(lambda r: r[0]))
        return both.process(Sides(), Types.STRING())

    assert batch(build) == ["a3<", "a5>", "a9<", "b0>", "b1<"]


# --- life -------------------------------------------------------------------------------------------------------------


def test_a_batch_that_fails_begins_anew_and_its_output_comes_once() -> None:
    source = ScriptedSource([("a", 1), ("b", 2), crash("power cut"), ("a", 3)], batch_rows=1)

    def build(env: StreamExecutionEnvironment) -> DataStream:
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "script")
        return stream.key_by(lambda r: r[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))

    record_run("mini-cluster")
    options = {"restart-strategy.type": "fixed-delay", "execution.checkpointing.interval": "10 ms"}
    result = run_job(build, mode=BATCH, options=options)
    assert sorted(result.values) == [("a", 4), ("b", 2)] and result.restarts == 1


def test_a_batch_that_fails_without_a_restart_strategy_has_failed() -> None:
    # as in Flink: an interval alone restarts a stream, not a batch
    record_run("mini-cluster")
    source = ScriptedSource([1, crash("power cut")])
    with pytest.raises(JobExecutionError, match="power cut"):
        run_job(
            lambda env: env.from_source(source, WatermarkStrategy.no_watermarks(), "script"),
            mode=BATCH,
            options={"execution.checkpointing.interval": "1 s"},
        )


def test_no_snapshot_is_taken_of_a_batch(tmp_path: Path) -> None:
    env = environment(options={"execution.runtime-mode": "batch"})
    env.from_source(ScriptedSource([1, pause(3_600_000)]), WatermarkStrategy.no_watermarks(), "waits").print()
    record_run("mini-cluster")
    client = env.execute_async()
    handle = client.handle
    for future in (handle.trigger_savepoint(str(tmp_path)), handle.trigger_checkpoint()):
        with pytest.raises(JobRequestError, match="executed as a batch, of which no snapshot is taken"):
            future.result(60)
    handle.cancel()
    with pytest.raises(JobCanceledError):
        handle.wait(60)
    assert not list(tmp_path.iterdir())


# --- the same as a stream ---------------------------------------------------------------------------------------------

events = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 60)), min_size=1, max_size=40)
steps = st.sampled_from(["tumbling", "session", "process", "reduce windows", "rebalance", "filter"])


class Total(KeyedProcessFunction):
    """Gives each key's total 10 ms behind its last record, and when that has come."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.total.update((self.total.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(10_000)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield ctx.get_current_key(), self.total.value()


def program(values: list[tuple[str, int]], chosen: list[str]) -> Any:
    """Return a program of these steps; records that are out of order are never late."""

    def add(a: Any, b: Any) -> Any:
        return a[0], a[1] + b[1]

    def build(env: StreamExecutionEnvironment) -> DataStream:
        source = CollectionSource(values, PAIRS)
        stream = env.from_source(source, row_by_row(delay_ms=1_000), "values").set_parallelism(1)
        for step in chosen:
            keyed = stream.key_by(lambda r: r[0], Types.STRING())
            match step:
                case "tumbling":
                    stream = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(10))).reduce(add)
                case "session":
                    stream = keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(5))).reduce(add)
                case "process":
                    stream = keyed.process(Total(), PAIRS)
                case "reduce windows":
                    # across keys
                    stream = stream.window_all(TumblingEventTimeWindows.of(Time.milliseconds(25))).reduce(add)
                    stream = stream.map(lambda r: ("all", r[1]), PAIRS)
                case "rebalance":
                    stream = stream.rebalance()
                case "filter":
                    stream = stream.filter(lambda r: r[1] % 2 == 0)
        return stream

    return build


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(values=events, chosen=st.lists(steps, min_size=1, max_size=3), parallelism=st.integers(1, 3))
def test_generated_programs_deliver_what_a_stream_delivers(
    values: list[tuple[str, int]], chosen: list[str], parallelism: int
) -> None:
    build = program(values, chosen)
    streamed = run_job(build, parallelism=parallelism, options=ROW_BY_ROW).values
    assert sorted(batch(build, parallelism)) == sorted(streamed)
    record_run("mini-cluster")


@pytest.mark.spark
def test_a_batch_on_spark_delivers_what_the_mini_cluster_does(exchanges: dict[str, str]) -> None:
    values = [("abc"[i % 3], (i * 7) % 60) for i in range(200)]
    build = program(values, ["tumbling", "process"])
    record_run("spark local")
    on_spark = run_job(build, parallelism=2, mode=BATCH_ON_SPARK, options=exchanges).values
    assert sorted(on_spark) == sorted(batch(build, 2)) and on_spark
