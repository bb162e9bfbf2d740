"""Jobs on a MiniCluster whose clock jumps: buffer timeouts, isolation of records, latency markers, aligned sources."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from runtime.common import Duration, WatermarkStrategy
from runtime.connectors import BlackHoleSink, DataGeneratorSource
from runtime.connectors.collect_sink import CollectSink, decode_collected
from runtime.datastream import DataStream, ProcessFunction, StreamExecutionEnvironment
from runtime.execution.application import JobHandle, submit
from runtime.testing.clock import ManualClock
from tests.datastream.running import environment
from tests.job_runs import record_run

INTERVAL_MS = 500


def run(env: StreamExecutionEnvironment, *collect_ids: str) -> JobHandle:
    """Run what was added to its end."""
    record_run("mini-cluster")
    handle = submit(env.create_job_graph("job"), collect_ids=collect_ids, clock=ManualClock(1_000_000))
    env.program.pending.clear()
    handle.wait(30)
    return handle


def collected(env: StreamExecutionEnvironment, stream: DataStream) -> list[Any]:
    """The records of a stream, with the clock of the test."""
    collect_id = uuid.uuid4().hex
    stream.sink_to(CollectSink(collect_id))
    handle = run(env, collect_id)
    records: list[Any] = []
    while (payload := handle.collected(collect_id).take()) is not None:
        records += decode_collected(payload)
    return records


class AppendNow(ProcessFunction):
    """Appends the processing time to the record."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield (*value, ctx.timer_service().current_processing_time())


def waits_ms(options: dict[str, str], edge_timeout_ms: int | None = None) -> list[int]:
    """Return the travel times to another task of four records that are emitted half a second apart."""
    env = environment(1, options)
    source = DataGeneratorSource(lambda index: (index,), count=4, rows_per_second=1000 / INTERVAL_MS)
    made = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").process(AppendNow())
    if edge_timeout_ms is not None:
        made.set_buffer_timeout(edge_timeout_ms)
    records = collected(env, made.rebalance().process(AppendNow()))
    assert [index for index, _, _ in records] == [0, 1, 2, 3]
    return [arrived - left for _, left, arrived in records]


def test_buffer_timeout_0_sends_every_record_at_once() -> None:
    assert max(waits_ms({"execution.buffer-timeout.interval": "0 ms"})) == 0


def test_buffer_timeout_bounds_the_wait_of_a_record() -> None:
    *waiting, last = waits_ms({"execution.buffer-timeout.interval": "200 ms"})
    assert all(199 <= wait <= 202 for wait in waiting)
    # the end of the input waits for nothing
    assert last <= 202


@pytest.mark.parametrize(("option", "value"), [("interval", "-1 ms"), ("enabled", "false")])
def test_without_a_buffer_timeout_records_wait_until_a_batch_is_full_or_the_input_ends(option: str, value: str) -> None:
    waits = waits_ms({f"execution.buffer-timeout.{option}": value})
    assert waits[0] >= 3 * INTERVAL_MS - 2 and waits[-1] < INTERVAL_MS


@pytest.mark.parametrize(("job", "edge", "longest"), [("-1 ms", 0, 0), ("0 ms", 100, 102)])
def test_buffer_timeout_of_an_edge_goes_before_the_job_s(job: str, edge: int, longest: int) -> None:
    waits = waits_ms({"execution.buffer-timeout.interval": job}, edge)
    assert max(waits) <= longest
    assert (max(waits) > 0) == (edge > 0)


# --- isolation --------------------------------------------------------------------------------------------------------


def add_to(item: str) -> Any:
    """A function that changes the very record that it is given."""

    def change(record: dict[str, Any]) -> dict[str, Any]:
        record["seen"].append(item)
        return record

    return change


def new_record(index: int) -> dict[str, Any]:
    return {"index": index, "seen": []}


@pytest.mark.parametrize("object_reuse", ["true", "false"])
def test_every_taker_of_a_broadcast_record_has_its_own(object_reuse: str) -> None:
    env = environment(1, {"pipeline.object-reuse": object_reuse})
    source = env.from_source(DataGeneratorSource(new_record, count=3), WatermarkStrategy.no_watermarks(), "records")
    changed = source.broadcast().map(add_to("here")).set_parallelism(3)
    records = collected(env, changed)
    assert [record["seen"] for record in records] == [["here"]] * 9


@pytest.mark.parametrize("object_reuse", ["true", "false"])
def test_tasks_of_one_process_share_no_record(object_reuse: str) -> None:
    env = environment(1, {"pipeline.object-reuse": object_reuse})
    source = env.from_source(DataGeneratorSource(new_record, count=3), WatermarkStrategy.no_watermarks(), "records")
    left = source.rebalance().map(add_to("left")).set_parallelism(2)
    right = source.rebalance().map(add_to("right")).set_parallelism(2)
    records = collected(env, left.union(right))
    assert sorted(record["seen"] for record in records) == [["left"]] * 3 + [["right"]] * 3


@pytest.mark.parametrize(("object_reuse", "seen"), [("true", 2), ("false", 1)])
def test_operators_of_a_chain_share_records_only_where_objects_are_reused(object_reuse: str, seen: int) -> None:
    env = environment(1, {"pipeline.object-reuse": object_reuse})
    source = env.from_source(DataGeneratorSource(new_record, count=1), WatermarkStrategy.no_watermarks(), "records")
    first, second = source.map(add_to("first")), source.map(add_to("second"))
    records = collected(env, first.union(second))
    assert sorted(len(record["seen"]) for record in records)[-1] == seen


# --- latency ----------------------------------------------------------------------------------------------------------


def latencies(granularity: str) -> dict[str, dict[str, Any]]:
    """Metrics of latencies by task name."""
    options = {"metrics.latency.interval": "100 ms", "metrics.latency.granularity": granularity}
    env = environment(2, {**options, "execution.buffer-timeout.interval": "250 ms"})
    source = DataGeneratorSource(lambda index: index, count=400, rows_per_second=100)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda n: n % 4).map(lambda n: n).sink_to(BlackHoleSink())
    found = {}
    for task in run(env).status().tasks:
        found[task.name] = {name: value for name, value in task.metrics.items() if name.startswith("latency.")}
    return found


@pytest.mark.parametrize(
    ("granularity", "parts", "histograms"),
    [
        ("single", ["latency", "operator_id"], 2),
        ("operator", ["latency", "source_id", "operator_id"], 2),
        ("subtask", ["latency", "source_id", "source_subtask_index", "operator_id"], 4),
    ],
)
def test_markers_are_measured_at_every_operator_by_granularity(
    granularity: str, parts: list[str], histograms: int
) -> None:
    found = latencies(granularity)
    sinks = [values for name, values in found.items() if "Sink" in name]
    assert len(sinks) == 2
    for values in sinks:
        counts = {name: value for name, value in values.items() if name.endswith("latency_count")}
        # the map and the sink behind it
        assert len(counts) == histograms
        assert all(part in name.split(".") for part in parts for name in counts)
        p50, p95, p99, top = (
            max(v for n, v in values.items() if n.endswith(q)) for q in ("median", "p95", "p99", "max")
        )
        # they wait in the writer with the records: up to the buffer timeout, and no longer
        assert 0 < p50 <= p95 <= p99 <= top <= 260
    markers = sum(v for values in sinks for n, v in values.items() if n.endswith("latency_count"))
    # two source subtasks, ten a second for four seconds, each to one channel: seen by a map and a sink
    assert 2 * 2 * 35 <= markers <= 2 * 2 * 41
    assert all(not values for name, values in found.items() if "Sink" not in name)


def test_no_marker_is_emitted_unless_asked_for() -> None:
    env = environment(1)
    source = DataGeneratorSource(lambda index: index, count=40, rows_per_second=100)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "n").rebalance().sink_to(BlackHoleSink())
    assert not [name for task in run(env).status().tasks for name in task.metrics if "latency." in name]


# --- watermark alignment ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group_of_slow", ["together", "apart"])
def test_a_fast_source_waits_for_the_slow_one_of_its_group(group_of_slow: str) -> None:
    env = environment(2)

    def numbers(name: str, rows_per_second: float, count: int, group: str) -> DataStream:
        strategy = (
            WatermarkStrategy.for_monotonous_timestamps()
            .with_timestamp_assigner(lambda record, _: record[1])
            .with_watermark_alignment(group, Duration.of_millis(500), Duration.of_millis(100))
        )
        source = DataGeneratorSource(lambda index: (name, 10 * index), count, rows_per_second)
        return env.from_source(source, strategy, name).set_parallelism(1)

    # event time goes a hundred times faster in the one than in the other
    fast = numbers("fast", 10_000, 10_000, "together")
    slow = numbers("slow", 100, 1000, group_of_slow)
    records = collected(env, fast.union(slow).process(AppendNow()).set_parallelism(1))
    assert len(records) == 11_000
    reached = {"fast": 0, "slow": 0}
    ahead = 0
    for name, event_time, _ in records:
        reached[name] = event_time
        if 1000 < reached["slow"] < 9990:
            ahead = max(ahead, reached["fast"] - reached["slow"])
    if group_of_slow == "apart":
        assert ahead > 80_000
    else:
        # the drift; what is read until the next watermark and the next report (200 ms + 100 ms, at 100 s a second)
        assert 500 < ahead <= 500 + 30_000
