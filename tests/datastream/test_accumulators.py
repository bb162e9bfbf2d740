"""Accumulators: added up over subtasks and operators, told with the job's result and while it runs."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.common import Types
from runtime.common.accumulators import (
    AccumulatorReport,
    AverageAccumulator,
    DoubleCounter,
    IntCounter,
    IntMaximum,
    IntMinimum,
    LongCounter,
    merge_accumulators,
    merged_accumulators,
)
from runtime.datastream import JobClient, MapFunction, RuntimeContext
from runtime.execution.errors import JobExecutionError
from tests.datastream.running import environment
from tests.job_runs import record_run


class Adding(MapFunction):
    """Adds what it maps to an accumulator of each kind."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.records = runtime_context.get_int_counter("records")
        self.kinds = [LongCounter(), DoubleCounter(0.5), IntMinimum(), IntMaximum(), AverageAccumulator()]
        for name, accumulator in zip(("sum", "halves", "least", "greatest", "mean"), self.kinds, strict=True):
            runtime_context.add_accumulator(name, accumulator)
        assert runtime_context.get_accumulator("sum") is self.kinds[0]
        assert runtime_context.get_int_counter("records") is self.records

    def map(self, value: int) -> int:
        self.records.add(1)
        for accumulator in self.kinds:
            accumulator.add(value)
        return value


@pytest.mark.parametrize("parallelism", [1, 3])
def test_accumulators_of_all_subtasks_and_operators_are_merged(parallelism: int) -> None:
    env = environment(parallelism)
    numbers = env.from_collection([4, 8, 1, 3], Types.LONG())
    numbers.rebalance().map(Adding(), Types.LONG()).rebalance().map(Adding(), Types.LONG())
    result = env.execute()
    record_run("mini-cluster")
    assert result.get_all_accumulator_results() == {
        "records": 8,
        "sum": 32,
        "halves": 32 + 0.5 * 2 * parallelism,
        "least": 1,
        "greatest": 8,
        "mean": 4.0,
    }
    assert result.get_accumulator_result("records") == 8
    assert result.get_accumulator_result("others") is None


def test_what_nobody_has_added_to_is_left_out() -> None:
    env = environment()
    env.from_collection([], Types.LONG()).map(Adding(), Types.LONG())
    client: JobClient = env.execute_async()
    client.get_job_execution_result().result(30)
    record_run("mini-cluster")
    assert client.get_accumulators().result(1) == {"records": 0, "sum": 0, "halves": 0.5}


class Wrong(MapFunction):
    """Asks for accumulators that cannot be."""

    def __init__(self, ask: Any) -> None:
        self.ask = ask

    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.add_accumulator("taken", IntCounter())
        self.ask(runtime_context)

    def map(self, value: int) -> int:
        return value


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (lambda context: context.add_accumulator("taken", IntCounter()), "has an accumulator 'taken' already"),
        (lambda context: context.get_double_counter("taken"), "is a IntCounter, not a DoubleCounter"),
        (lambda context: context.add_accumulator("x", 3), "must be an Accumulator, not 3"),
    ],
)
def test_accumulators_that_cannot_be_are_refused(ask: Any, reason: str) -> None:
    env = environment()
    env.from_collection([1], Types.LONG()).map(Wrong(ask), Types.LONG())
    with pytest.raises(JobExecutionError, match=reason):
        env.execute()


def test_accumulators_forget_what_they_are_told_to() -> None:
    for accumulator, empty in ((IntCounter(), 0), (IntMaximum(), None), (AverageAccumulator(), None)):
        accumulator.add(3)
        assert accumulator.get_local_value() == 3
        accumulator.reset_local()
        assert accumulator.get_local_value() == empty


def test_other_metrics_are_no_accumulators() -> None:
    sums = "__accumulator__.IntCounter.sum.a.b"
    tasks = [{"numRecordsIn": 3, "op.accumulator.sum": 9, f"op.{sums}": 1}, {f"x.{sums}": 2}]
    assert merged_accumulators(tasks) == {"a.b": 3}


def test_a_name_that_stands_for_different_kinds_has_no_value() -> None:
    counted = AccumulatorReport("n", "IntCounter", {"sum": 3})
    greatest = AccumulatorReport("n", "IntMaximum", {"maximum": 3})
    [both] = merge_accumulators([counted, greatest, counted])
    assert (both.kind, both.value) == ("IntCounter, IntMaximum", None)


def test_what_one_subtask_has_not_seen_counts_for_nothing() -> None:
    empty, seen = (AccumulatorReport("n", "IntMinimum", {"minimum": value}) for value in (None, 4))
    assert [report.value for report in merge_accumulators([empty, seen])] == [4]
    assert [report.value for report in merge_accumulators([seen, empty])] == [4]
