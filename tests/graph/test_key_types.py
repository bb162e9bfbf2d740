"""Types of keys and windows of operators' state in a job graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runtime.common import Row, Time, Types, WatermarkStrategy
from runtime.connectors import NumberSequenceSource
from runtime.datastream import DataStream, KeyedProcessFunction, KeySelector, StreamExecutionEnvironment
from runtime.datastream.window import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows
from runtime.graph.key_types import key_type_info

ROW = Types.ROW_NAMED(["name", "number"], [Types.STRING(), Types.LONG()])
MINUTES = TumblingEventTimeWindows.of(Time.minutes(1))


class Nothing(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        pass


class Own(KeySelector):
    """Has something of its own under the name that the engine asks for."""

    key_type = "a secret"

    def get_key(self, value: Any) -> Any:
        return value


def types_of(build: Callable[[DataStream], DataStream]) -> tuple[str, str]:
    """Return the types of the operator with the uid "it"."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    build(env.from_source(NumberSequenceSource(1, 9), WatermarkStrategy.no_watermarks(), "numbers")).uid("it").print()
    operators = [operator for vertex in env.create_job_graph("job").vertices for operator in vertex.operators]
    return next((operator.key_type, operator.window_type) for operator in operators if operator.uid == "it")


def rows(numbers: DataStream) -> DataStream:
    return numbers.map(lambda number: Row(str(number), number), ROW)


def first(one: Any, other: Any) -> Any:
    return one


@pytest.mark.parametrize(
    ("build", "key_type", "window_type"),
    [
        (lambda s: s.map(abs), "", ""),
        (lambda s: s.key_by(abs).process(Nothing()), "any", ""),
        (lambda s: s.key_by(Own()).process(Nothing()), "any", ""),
        (lambda s: s.key_by(abs, Types.PICKLED_BYTE_ARRAY()).process(Nothing()), "any", ""),
        (lambda s: s.key_by(str, Types.STRING()).process(Nothing()), "string", ""),
        (lambda s: s.key_by(abs, Types.LONG()).map(abs), "long", ""),
        (lambda s: rows(s).key_by_columns("name").deduplicate("first"), "string", ""),
        (lambda s: rows(s).key_by_columns("name", "number").process(Nothing()), "tuple<string, long>", ""),
        (
            lambda s: rows(s).key_by_columns("name").window(MINUTES).aggregate_columns(n="count(*)"),
            "string",
            "panes of 60000 ms",
        ),
        (lambda s: s.key_by(abs).window(MINUTES).reduce(first), "any", "TimeWindow of event time"),
        (
            lambda s: s.key_by(abs).window(EventTimeSessionWindows.with_gap(Time.minutes(1))).reduce(first),
            "any",
            "merging TimeWindow of event time",
        ),
        (lambda s: s.window_all(GlobalWindows.create()).reduce(first), "byte", "GlobalWindow"),
        (lambda s: s.key_by(abs, Types.LONG()).count_window(3).reduce(first), "long", "CountWindow"),
        (
            lambda s: s.join(s).where(abs, Types.LONG()).equal_to(abs, Types.LONG()).window(MINUTES).apply(first),
            "long",
            "TimeWindow of event time",
        ),
        (
            lambda s: s.join(s).where(abs, Types.LONG()).equal_to(abs).window(MINUTES).apply(first),
            "any",
            "TimeWindow of event time",
        ),
    ],
)
def test_the_types_of_keys_and_windows(
    build: Callable[[DataStream], DataStream], key_type: str, window_type: str
) -> None:
    assert types_of(build) == (key_type, window_type)


def test_the_type_behind_a_name() -> None:
    assert key_type_info("tuple<string, long>") == Types.TUPLE([Types.STRING(), Types.LONG()])
    assert key_type_info("any") is None
    assert key_type_info("") is None
