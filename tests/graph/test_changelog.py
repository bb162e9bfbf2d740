"""Programs that would take rows which take others back for new ones are refused when the graph is made."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime.common import Duration, Row, RowKind, Time, Types, WatermarkStrategy
from runtime.common.serialization import Encoder
from runtime.connectors import BlackHoleSink, FileSink
from runtime.connectors.formats.text import TextWriterFormat
from runtime.connectors.postgres_sink import PostgresSink
from runtime.connectors.redis_streams import RedisStreamSink
from runtime.datastream import AsyncDataStream, AsyncFunction, CoMapFunction, DataStream
from runtime.datastream.window import TumblingEventTimeWindows
from runtime.graph.errors import GraphError
from tests.datastream.running import environment, values_of

ROW = Types.ROW_NAMED(["key", "n"], [Types.STRING(), Types.LONG()])
WINDOWS = TumblingEventTimeWindows.of(Time.seconds(1))


def rows(parallelism: int = 1) -> DataStream:
    env = environment(parallelism)
    return env.from_collection([Row("a", 1), Row("a", 2), Row("a", 3)], ROW)


def sums(parallelism: int = 1) -> DataStream:
    """The running sum of 1, 2 and 3."""
    return rows(parallelism).key_by_columns("key").aggregate_columns(total="sum(n)").name("Sums")


def build(stream: DataStream) -> None:
    stream.get_execution_environment().create_job_graph("job")


def written(tmp_path: Path) -> list[Any]:
    return [json.loads(line) for file in tmp_path.rglob("*.ndjson") for line in file.read_text().splitlines()]


# --- sinks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sink",
    [
        FileSink.for_ndjson("/tmp/never").build(),
        FileSink.for_csv("/tmp/never").build(),
        FileSink.for_parquet("/tmp/never").build(),
        RedisStreamSink("redis://nowhere", ["s"]),
        PostgresSink("postgresql://nowhere", "t"),
    ],
    ids=["ndjson", "csv", "parquet", "redis", "postgres"],
)
def test_a_sink_that_cannot_take_rows_back_is_refused(sink: Any) -> None:
    stream = sums()
    stream.where("total > 1").sink_to(sink).name("out")
    with pytest.raises(GraphError, match=r"'Sums' makes a changelog, and 'Sink: out' cannot take rows back: use"):
        build(stream)


@pytest.mark.parametrize(
    "sink",
    [
        PostgresSink("postgresql://nowhere", "t", key_columns=["key"]),
        RedisStreamSink("redis://nowhere", ["s"], TextWriterFormat()),
        FileSink.for_row_format("/tmp/never", Encoder.simple_string_encoder()).build(),
        BlackHoleSink(),
    ],
    ids=["upserts", "redis text", "text", "black hole"],
)
def test_a_sink_that_does_or_shows_what_kinds_say_is_not(sink: Any) -> None:
    stream = sums()
    stream.sink_to(sink)
    stream.print()
    build(stream)


def test_text_shows_the_kinds(tmp_path: Path) -> None:
    stream = sums()
    stream.sink_to(FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder()).build())
    stream.get_execution_environment().execute()
    lines = [line for file in tmp_path.rglob("part-*") for line in file.read_text().splitlines()]
    assert lines == ["+I[a, 1]", "-U[a, 1]", "+U[a, 3]", "-U[a, 3]", "+U[a, 6]"]


def test_rows_that_say_their_kind_may_go_anywhere(tmp_path: Path) -> None:
    kinds = Types.ROW_NAMED(["kind", "total"], [Types.STRING(), Types.LONG()])
    told = sums().changelog_as_rows().map(lambda row: Row(str(row.get_row_kind()), row["total"]), kinds)
    told.sink_to(FileSink.for_ndjson(tmp_path).build())
    told.get_execution_environment().execute()
    assert [(line["kind"], line["total"]) for line in written(tmp_path)] == [
        ("+I", 1),
        ("-U", 1),
        ("+U", 3),
        ("-U", 3),
        ("+U", 6),
    ]


def test_asking_for_rows_is_not_enough_for_a_sink(tmp_path: Path) -> None:
    stream = sums().changelog_as_rows()
    stream.sink_to(FileSink.for_ndjson(tmp_path).build())
    with pytest.raises(GraphError, match="cannot take rows back"):
        build(stream)


# --- functions --------------------------------------------------------------------------------------------------------


class Both(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value


class Asked(AsyncFunction[Any, Any]):
    async def async_invoke(self, value: Any) -> list[Any]:
        return [value]


FUNCTIONS: dict[str, Callable[[DataStream], DataStream]] = {
    "map": lambda s: s.map(lambda row: row["total"], Types.LONG()),
    "keyed map": lambda s: s.key_by(lambda row: row["key"]).map(lambda row: row, ROW),
    "flat_map": lambda s: s.flat_map(lambda row: [row], ROW),
    "reduce": lambda s: s.key_by(lambda row: row["key"]).reduce(lambda a, b: b),
    "sum": lambda s: s.key_by_columns("key").sum("total"),
    "second input": lambda s: s.get_execution_environment().from_collection([1], Types.LONG()).connect(s).map(Both()),
    "window": lambda s: s.key_by(lambda row: row["key"]).window(WINDOWS).reduce(lambda a, b: b),
    "async": lambda s: AsyncDataStream.unordered_wait(s, Asked(), Time.seconds(1)),
    "union": lambda s: s.select("key", "total AS n").union(sums_of(s)).map(lambda row: row, ROW),
}


def sums_of(stream: DataStream) -> DataStream:
    return stream.get_execution_environment().from_collection([Row("b", 1)], ROW)


@pytest.mark.parametrize("use", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_a_function_over_a_changelog_has_to_ask_for_its_rows(use: Callable[[DataStream], DataStream]) -> None:
    with pytest.raises(GraphError, match=r"'Sums' makes a changelog, and '.*' would .* call changelog_as_rows\(\)"):
        build(use(sums()))
    build(use(sums().changelog_as_rows()))


def test_a_function_sees_the_kinds_behind_a_filter_and_an_exchange() -> None:
    stream = sums(3).changelog_as_rows().filter(lambda row: row["total"] > 1).rebalance()
    seen = values_of(stream.map(lambda row: (row.get_row_kind().name, row["total"])))
    assert sorted(seen) == [("UPDATE_AFTER", 3), ("UPDATE_AFTER", 6), ("UPDATE_BEFORE", 3)]


def test_the_call_comes_before_or_behind_the_key() -> None:
    for stream in (
        sums().changelog_as_rows().key_by_columns("key"),
        sums().key_by_columns("key").changelog_as_rows(),
    ):
        build(stream.map(lambda row: row["total"], Types.LONG()))


def test_what_a_function_returns_is_no_changelog(tmp_path: Path) -> None:
    inserts = sums().changelog_as_rows().filter(lambda row: row.get_row_kind() is not RowKind.UPDATE_BEFORE)
    made = inserts.map(lambda row: Row(row["key"], row["total"]), ROW).key_by_columns("key").top_n(1, "n", True)
    assert [row["n"] for row in values_of(made) if row.get_row_kind() is not RowKind.DELETE] == [1, 3, 6]


# --- operators by column ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("use", "name"),
    [
        (lambda s: s.key_by_columns("key").top_n(1, "total"), "TopN"),
        (lambda s: s.key_by_columns("key").deduplicate(), "Deduplicate"),
        (lambda s: s.key_by_columns("key").aggregate_columns(top="max(total)"), "Aggregate"),
        (lambda s: s.key_by_columns("key").window(WINDOWS).aggregate_columns(n="count(*)"), "Window"),
        (lambda s: s.key_by_columns("key").window_join(sums_of(s).key_by_columns("key"), WINDOWS), "Join Columns"),
    ],
    ids=["top_n", "deduplicate", "aggregate", "window", "join"],
)
def test_operators_by_column_accept_inserts_only(use: Callable[[DataStream], DataStream], name: str) -> None:
    for stream in (sums(), sums().changelog_as_rows()):
        with pytest.raises(GraphError, match=re.escape(name) + ".*accepts inserts only: put it behind a window"):
            build(use(stream))


@pytest.mark.parametrize(
    ("made", "is_changelog"),
    [
        (lambda s: s.key_by_columns("key").deduplicate("first"), False),
        (lambda s: s.key_by_columns("key").deduplicate("last"), True),
        (lambda s: s.key_by_columns("key").top_n(1, "n"), True),
        (lambda s: s.key_by_columns("key").window(WINDOWS).top_n(1, "n"), False),
        (lambda s: s.key_by_columns("key").window(WINDOWS).aggregate_columns(n="count(*)"), False),
        (lambda s: s.key_by(lambda row: row["key"]).sum("n"), False),
    ],
    ids=["first", "last", "top", "window top", "window", "sum"],
)
def test_who_makes_a_changelog(made: Callable[[DataStream], DataStream], is_changelog: bool, tmp_path: Path) -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
        lambda row, _: int(row["n"])
    )
    stream = made(rows().assign_timestamps_and_watermarks(strategy))
    stream.sink_to(FileSink.for_ndjson(tmp_path).build())
    if is_changelog:
        with pytest.raises(GraphError, match="makes a changelog"):
            build(stream)
    else:
        build(stream)


def test_times_keep_a_changelog_one() -> None:
    stream = sums().assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps())
    with pytest.raises(GraphError, match="'Sums' makes a changelog"):
        build(stream.map(str, Types.STRING()))


def test_a_cached_changelog_is_still_one() -> None:
    cached = sums().cache()
    assert len(values_of(cached)) == 5
    cached.get_execution_environment().caches.join()
    cached.map(str, Types.STRING()).print()
    with pytest.raises(GraphError, match="'Source: Cache' makes a changelog, and 'Map' would"):
        build(cached)


def test_records_of_a_keyed_changelog_come_with_their_keys() -> None:
    assert [row[0] for row in values_of(sums().key_by_columns("key"))] == ["a"] * 5


def test_rows_of_any_kind_that_the_program_makes_itself_are_its_own_business(tmp_path: Path) -> None:
    """As in PyFlink: the kind of such a row is no more than an attribute."""
    env = environment()
    env.from_collection([Row.of_kind(RowKind.DELETE, "a", 1)], ROW).map(lambda row: row, ROW).sink_to(
        FileSink.for_ndjson(tmp_path).build()
    )
    env.execute()
    assert written(tmp_path) == [{"key": "a", "n": 1}]
