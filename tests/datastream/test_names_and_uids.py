"""The names that a user gives are those that plans and tasks show, and uids are asked for where state would be lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runtime.common import Row, Time, Types, WatermarkStrategy
from runtime.connectors import BlackHoleSink
from runtime.core.ids import new_job_id
from runtime.datastream import DataStream, StreamExecutionEnvironment
from runtime.datastream.functions import CoMapFunction, MapFunction
from runtime.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from runtime.graph.chaining import create_job_graph, stateful_operators_without_uid
from runtime.graph.errors import GraphError
from runtime.graph.plan import execution_plan, job_plan
from runtime.operators.checkpointed_function import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from tests.datastream.running import environment, values_of


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


ROW = Types.ROW_NAMED(["key", "n"], [Types.STRING(), Types.LONG()])
SECONDS = TumblingEventTimeWindows.of(Time.seconds(1))
SESSIONS = EventTimeSessionWindows.with_gap(Time.seconds(1))


def rows() -> DataStream:
    return numbers().map(lambda n: Row("a", n), ROW).name("rows").uid("rows")


def totals(stream: DataStream, windows: Any = SECONDS) -> DataStream:
    return stream.key_by_columns("key").window(windows).aggregate_columns(total="sum(n)")


def joined_by_column(stream: DataStream) -> DataStream:
    keyed = stream.key_by_columns("key")
    return keyed.window_join(keyed, SECONDS)


def joined_by_function(stream: DataStream) -> DataStream:
    join = stream.join(stream).where(lambda row: row["key"]).equal_to(lambda row: row["key"])
    return join.window(SECONDS).apply(lambda a, b: (a["n"], b["n"]))


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (totals, {"LocalWindowAggregate": "made/local", "TumblingEventTimeWindows": "made"}),
        (lambda s: totals(s, SESSIONS), {"LocalWindowAggregate": "made/local", "EventTimeSessionWindows": "made"}),
        (
            lambda s: s.window_all(SECONDS).aggregate_columns(total="sum(n)"),
            {
                "OneKey": "made/key",
                "LocalWindowAggregate": "made/window/local",
                "TumblingEventTimeWindows": "made/window",
                "AllWindow": "made",
            },
        ),
        (joined_by_column, {"Join Columns": "made/right", "Window Join": "made"}),
        (joined_by_function, {"Map": "made/right", "Window Join": "made"}),
    ],
    ids=["two phases", "sessions", "all records", "join by column", "join by function"],
)
def test_parts_of_an_operator_have_its_uid_and_their_own_name_behind_it(
    make: Callable[[DataStream], DataStream], parts: dict[str, str]
) -> None:
    stream = make(rows()).uid("made")
    stream.print()
    graph = stream.get_execution_environment().create_stream_graph(None)
    assert stateful_operators_without_uid(graph) == []
    operators = [o for vertex in create_job_graph(graph, new_job_id()).vertices for o in vertex.operators]
    uids = {operator.name: operator.uid for operator in operators}
    assert {name: uids[name] for name in parts} == parts
    if "made/right" in parts.values():
        assert "made/left" in [operator.uid for operator in operators]


def test_the_user_is_not_asked_for_uids_of_parts() -> None:
    stream = totals(rows())
    stream.print()
    graph = stream.get_execution_environment().create_stream_graph(None)
    assert stateful_operators_without_uid(graph) == ["TumblingEventTimeWindows"]


def test_the_uid_of_a_part_is_taken() -> None:
    stream = totals(rows()).uid("made")
    stream.map(Buffering()).uid("made/local").print()
    with pytest.raises(GraphError, match="the uid 'made/local' is used twice: by 'LocalWindowAggregate' and by 'Map'"):
        stream.get_execution_environment().create_job_graph(None)


def test_a_part_that_two_operators_share_belongs_to_the_first_also_when_that_has_been_executed() -> None:
    env = environment()
    stream = env.from_collection([Row("a", 1)], ROW).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: int(row["n"]))
    )
    windows = stream.join(stream).where(lambda row: row["key"]).equal_to(lambda row: row["key"]).window(SECONDS)
    first = windows.apply(lambda a, b: a["n"] + b["n"]).uid("first")
    first.print()
    env.execute()
    assert values_of(windows.apply(lambda a, b: a["n"] - b["n"]).uid("second")) == [0]
