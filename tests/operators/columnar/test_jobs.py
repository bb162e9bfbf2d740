"""select, where, with_columns, key_by_columns and aggregate_columns in whole jobs, at parallelism 1 and 3."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.common import Row, Types
from runtime.common.time import Duration, Time
from runtime.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from runtime.datastream import DataStream, OutputTag, StreamExecutionEnvironment
from runtime.datastream.window import (
    EventTimeSessionWindows,
    EventTimeTrigger,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tests.datastream.running import at_each_parallelism, environment, values_of

BIDS = Types.ROW_NAMED(["auction", "price", "at"], [Types.STRING(), Types.LONG(), Types.LONG()])
ROWS = [Row(auction="äb"[n % 2], price=n, at=n * 100) for n in range(100)]


class At(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value["at"])


def bids(env: StreamExecutionEnvironment) -> DataStream:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0)).with_timestamp_assigner(At())
    return env.from_collection(ROWS, BIDS).assign_timestamps_and_watermarks(strategy)


def second(row: Row) -> int:
    return int(row["at"]) // 1_000


@at_each_parallelism
def test_columns_from_end_to_end(parallelism: int) -> None:
    stream = bids(environment(parallelism)).where("price >= 50").with_columns("price / 2 AS half").select("half", "at")
    assert stream.get_type() == Types.ROW_NAMED(["half", "at"], [Types.DOUBLE(), Types.LONG()])
    assert sorted(values_of(stream), key=lambda row: row["at"]) == [
        Row(half=row["price"] / 2, at=row["at"]) for row in ROWS[50:]
    ]


@at_each_parallelism
@pytest.mark.parametrize("phases", ["ONE_PHASE", "AUTO"])
def test_aggregates_of_windows_from_end_to_end(parallelism: int, phases: str) -> None:
    env = environment(parallelism, {"table.optimizer.agg-phase-strategy": phases})
    windows = bids(env).key_by_columns("auction").window(TumblingEventTimeWindows.of(Time.seconds(1)))
    results = values_of(windows.aggregate_columns("count(*) AS n", "window_start AS since", top="max(price)"))
    expected = {
        (auction, start): [row["price"] for row in ROWS if row["auction"] == auction and second(row) * 1_000 == start]
        for auction in "äb"
        for start in range(0, 10_000, 1_000)
    }
    assert {(r["auction"], r["since"]): (r["n"], r["top"]) for r in results} == {
        window: (len(prices), max(prices)) for window, prices in expected.items()
    }
    assert len(results) == len(expected)


def test_two_phases_are_built_only_where_nothing_visible_changes() -> None:
    env = environment()
    keyed = bids(env).key_by_columns("auction")
    windows = TumblingEventTimeWindows.of(Time.seconds(1))

    def operators_of(stream: DataStream) -> int:
        return sum(
            node.name == "LocalWindowAggregate" for node in stream.get_execution_environment().program.nodes.values()
        )

    late = keyed.window(windows).side_output_late_data(OutputTag("late", BIDS)).aggregate_columns("count(*) AS n")
    keyed.window(windows).allowed_lateness(5).aggregate_columns("count(*) AS n")
    keyed.window(windows).aggregate_columns("first(price) AS first")
    keyed.window(EventTimeSessionWindows.with_gap(Time.seconds(1))).aggregate_columns("count(*) AS n")
    bids(env).rebalance().key_by_columns("auction").window(windows).aggregate_columns("count(*) AS n")
    assert operators_of(late) == 0
    keyed.window(windows).aggregate_columns("avg(price) AS mean")
    assert operators_of(late) == 1


def test_sessions_and_functions_on_a_stream_keyed_by_columns() -> None:
    keyed = bids(environment(3)).key_by_columns("auction", "at")
    sessions = keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(5))).aggregate_columns("sum(price) AS s")
    assert sorted(row["s"] for row in values_of(sessions)) == list(range(100))
    reduced = bids(environment(3)).key_by_columns("auction").map(lambda row: row["price"], Types.LONG())
    assert sorted(values_of(reduced)) == list(range(100))


def test_what_columns_cannot_do_is_refused_while_the_program_is_built() -> None:
    stream = bids(environment())
    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    with pytest.raises(TypeError, match="key_by_columns"):
        stream.key_by(lambda row: row["auction"]).window(windows).aggregate_columns("count(*) AS n")
    with pytest.raises(TypeError, match="trigger"):
        stream.key_by_columns("auction").window(windows).trigger(EventTimeTrigger()).aggregate_columns("count(*) AS n")
    with pytest.raises(TypeError, match="event time"):
        processing = TumblingProcessingTimeWindows.of(Time.seconds(1))
        stream.key_by_columns("auction").window(processing).aggregate_columns("count(*) AS n")
    with pytest.raises(TypeError, match="lateness"):
        sessions = EventTimeSessionWindows.with_gap(Time.seconds(1))
        stream.key_by_columns("auction").window(sessions).allowed_lateness(5).aggregate_columns("count(*) AS n")
    with pytest.raises(TypeError, match="declared type"):
        stream.map(lambda row: row).where("price > 1")
    with pytest.raises(ValueError, match="nope"):
        stream.key_by_columns("nope")


@at_each_parallelism
def test_changelogs_from_end_to_end(parallelism: int) -> None:
    running = bids(environment(parallelism)).key_by_columns("auction").aggregate_columns("sum(price) AS total")
    changes = values_of(running)
    assert len(changes) == 2 * len(ROWS) - 2
    totals = {row["auction"]: row["total"] for row in changes}
    assert totals == {auction: sum(row["price"] for row in ROWS if row["auction"] == auction) for auction in "äb"}
    assert {row.get_row_kind().short_string for row in changes} == {"+I", "-U", "+U"}


@at_each_parallelism
def test_deduplicate_and_unnest_from_end_to_end(parallelism: int) -> None:
    first = bids(environment(parallelism)).key_by_columns("auction").deduplicate()
    assert sorted(row["price"] for row in values_of(first)) == [0, 1]
    listed = Types.ROW_NAMED(["id", "items"], [Types.LONG(), Types.LIST(Types.STRING())])
    rows = [Row(id=1, items=["a", "ü"]), Row(id=2, items=[]), Row(id=3, items=["c"])]
    items = environment(parallelism).from_collection(rows, listed).unnest("items", "item").where("item <> 'c'")
    assert sorted(row["item"] for row in values_of(items)) == ["a", "ü"]
