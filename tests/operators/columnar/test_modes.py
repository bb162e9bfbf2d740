"""Column operators in one job, with the same results in every kind of execution."""

from __future__ import annotations

from functools import cache

import pytest

from runtime.common import Time, Types, WatermarkStrategy
from runtime.connectors import DataGeneratorSource, ReplaySource, nullable, random_choice, sequence, template, times
from runtime.datastream import DataStream, StreamExecutionEnvironment
from runtime.datastream.window import TumblingEventTimeWindows
from runtime.testing import run_job
from runtime.testing.jobs import ALL_MODES
from tests.job_runs import record_run

FIELDS = {
    "id": sequence(),
    "kind": random_choice(["a", "b", "c"], [5, 3, 1]),
    "note": nullable(template('{{"n": {n}}}', n=sequence(1)), 0.1),
    "at": times(step_ms=100, jitter_ms=300),
}


def build(env: StreamExecutionEnvironment) -> list[DataStream]:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")

    def events(name: str) -> DataStream:
        source = DataGeneratorSource.of_fields(FIELDS, count=500, seed=5)
        # one subtask: with several, their ranges would be read one after the other
        return env.from_source(source, strategy, name).set_parallelism(1)

    parsed = events("one").parse_json("note", Types.ROW_NAMED(["n"], [Types.LONG()]))
    seconds = TumblingEventTimeWindows.of(Time.seconds(5))
    totals = parsed.window_all(seconds).aggregate_columns("count(n) AS n", "window_start AS since")
    keyed = parsed.where("id % 7 = 0").key_by_columns("kind")
    pairs = keyed.interval_join(events("two").where("id % 11 = 0").key_by_columns("kind"))
    outer = pairs.between(-200, 200).columns(how="full").select("id", "id_right")
    versions = events("three").where("id % 20 = 0").key_by_columns("kind")
    valid = keyed.temporal_join(versions).left_outer().columns().select("id", "id_right")
    both = keyed.regular_join(versions).select("id", "id_right")
    known = keyed.with_state_ttl(Time.hours(1)).deduplicate()
    days = env.from_source(ReplaySource.flights(speed=None), WatermarkStrategy.no_watermarks(), "flights")
    flown = days.where("carrier = 'OO'").select("date_trunc('month', sched_dep) AS month", "flight")
    return [totals, outer, valid, both, known.select("kind"), flown]


@cache
def results(number: int) -> list[list[str]]:
    """Results in one of ALL_MODES."""
    mode = ALL_MODES[number]
    record_run(mode.name)
    # micro-batches of so many tasks take their time on a busy machine
    outputs = run_job(build, mode=mode, parallelism=2, timeout_s=300).outputs
    return [sorted(map(repr, output)) for output in outputs]


def test_each_operator_has_something_to_say() -> None:
    totals, outer, valid, both, known, flown = results(0)
    assert len(totals) == 11
    assert len(outer) > 500 // 7 + 500 // 11 - 40 and any("id=None" in row for row in outer)
    assert len(both) == len(set(both)) and 72 * 25 // 3 < len(both) < 72 * 25
    assert len(valid) == 72 and len(known) == 3
    assert len(flown) == 32


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, len(ALL_MODES)))
def test_results_are_the_same_in_every_kind_of_execution(number: int) -> None:
    assert results(number) == results(0)
