"""The names that a user gives are those that plans and tasks show, and uids are asked for where state would be lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runtime.common import Time, Types, WatermarkStrategy
from runtime.connectors import BlackHoleSink
from runtime.core.ids import new_job_id
from runtime.datastream import DataStream, StreamExecutionEnvironment
from runtime.datastream.functions import CoMapFunction, MapFunction
from runtime.datastream.window import TumblingEventTimeWindows
from runtime.graph.chaining import create_job_graph, stateful_operators_without_uid
from runtime.graph.plan import execution_plan, job_plan
from runtime.operators.checkpointed_function import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)


class Rich(MapFunction):
    def map(self, value: Any) -> Any:
        return value


class Buffering(Rich, CheckpointedFunction):
    def initialize_state(self, context: FunctionInitializationContext) -> None: ...

    def snapshot_state(self, context: FunctionSnapshotContext) -> None: ...


class CoRich(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value


def numbers() -> DataStream:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    return env.from_collection([1, 2], Types.LONG()).name("numbers").uid("numbers")


def windowed(stream: DataStream) -> DataStream:
    return (
        stream.key_by(lambda n: n, key_type=Types.LONG())
        .window(TumblingEventTimeWindows.of(Time.seconds(1)))
        .reduce(lambda a, b: a + b)
    )


def test_the_names_of_the_user_are_those_of_plans_and_vertices() -> None:
    stream = windowed(numbers().map(lambda n: n, Types.LONG()).name("double it")).name("hourly sums")
    stream.print().name("to the log")
    graph = stream.get_execution_environment().create_stream_graph("named")
    shown = [node["contents"] for node in execution_plan(graph)["nodes"]]
    assert [text.partition(": Window(")[0] for text in shown] == [
        "Source: numbers",
        "double it",
        "hourly sums",
        "Sink: to the log",
    ]
    job = create_job_graph(graph, new_job_id())
    assert [vertex.name for vertex in job.vertices] == [
        "Source: numbers -> double it",
        "hourly sums -> Sink: to the log",
    ]
    window, source = (node["description"].split("<br/>") for node in job_plan(job)["nodes"])
    assert source == ["Source: numbers", "+- double it", ""]
    assert window[0].startswith("hourly sums: Window(TumblingEventTimeWindows(")
    assert window[1:] == ["+- Sink: to the log", ""]


def test_an_operator_without_a_name_says_what_it_does_and_a_description_goes_before_both() -> None:
    window = windowed(numbers())
    assert window._node().plan_text.startswith("Window(TumblingEventTimeWindows(")
    window.set_description("sums of a second").name("sums")
    assert window._node().plan_text == "sums of a second"


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda s: s.map(lambda n: n).filter(lambda n: n).print(), []),
        (lambda s: s.map(Rich()).flat_map(lambda n: [n]).sink_to(BlackHoleSink()), []),
        (lambda s: s.assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps()).print(), []),
        (lambda s: s.connect(s).map(CoRich()).print(), []),
        (lambda s: s.key_by(lambda n: n).map(lambda n: n).print(), []),
        (lambda s: s.key_by(lambda n: n).map(Rich()).print(), ["Map"]),
        (lambda s: s.map(Buffering()).print(), ["Map"]),
        (lambda s: s.key_by(lambda n: n).reduce(max).print(), ["Reduce"]),
        (lambda s: windowed(s).name("sums").print(), ["sums"]),
    ],
)
def test_a_uid_is_asked_for_where_state_would_be_lost(make: Callable[[DataStream], Any], names: list[str]) -> None:
    stream = numbers()
    make(stream)
    graph = stream.get_execution_environment().create_stream_graph(None)
    assert stateful_operators_without_uid(graph) == names
