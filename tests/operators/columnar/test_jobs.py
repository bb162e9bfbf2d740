"""select, where, with_columns, key_by_columns and aggregate_columns in whole jobs, at parallelism 1 and 3."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.common import Row, RowKind, Types
from runtime.common.time import Duration, Time
from runtime.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from runtime.connectors import DataGeneratorSource, sequence
from runtime.datastream import DataStream, KeyedStream, OutputTag, StreamExecutionEnvironment
from runtime.datastream.window import (
    EventTimeSessionWindows,
    EventTimeTrigger,
    ProcessingTimeSessionWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from runtime.testing import run_job
from tests.datastream.running import at_each_parallelism, environment, values_of
from tests.job_runs import record_run

BIDS = Types.ROW_NAMED(["auction", "price", "at"], [Types.STRING(), Types.LONG(), Types.LONG()])
ROWS = [Row(auction="äb"[n % 2], price=n, at=n * 100) for n in range(100)]


class At(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value["at"])


def bids(env: StreamExecutionEnvironment) -> DataStream:
    """The bids in their order: times are assigned by one subtask."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0)).with_timestamp_assigner(At())
    return env.from_collection(ROWS, BIDS).assign_timestamps_and_watermarks(strategy).set_parallelism(1)


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
    sessions = EventTimeSessionWindows.with_gap(Time.seconds(1))
    keyed.window(sessions).allowed_lateness(5).aggregate_columns("count(*) AS n")
    bids(env).rebalance().key_by_columns("auction").window(windows).aggregate_columns("count(*) AS n")
    assert operators_of(late) == 0
    keyed.window(windows).aggregate_columns("avg(price) AS mean")
    assert operators_of(late) == 1
    keyed.window(sessions).aggregate_columns("avg(price) AS mean")
    assert operators_of(late) == 2


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
        processing = ProcessingTimeSessionWindows.with_gap(Time.seconds(1))
        stream.key_by_columns("auction").window(processing).aggregate_columns("count(*) AS n")
    with pytest.raises(TypeError, match="event time"):
        stream.key_by_columns("auction").window(TumblingProcessingTimeWindows.of(Time.seconds(1))).top_n(1, "price")
    with pytest.raises(TypeError, match="side output"):
        stream.window_all(windows).side_output_late_data(OutputTag("late", BIDS)).aggregate_columns("count(*) AS n")
    with pytest.raises(TypeError, match="declared type"):
        stream.map(str).window_all(windows).aggregate_columns("count(*) AS n")
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


@at_each_parallelism
def test_the_best_rows_from_end_to_end(parallelism: int) -> None:
    keyed = bids(environment(parallelism)).key_by_columns("auction")
    changes = values_of(keyed.top_n(2, by="price % 50", descending=True, rank="rank"))
    best = {(row["auction"], row["rank"]): row["price"] for row in changes if row.get_row_kind() is not RowKind.DELETE}
    assert best == {("ä", 1): 48, ("ä", 2): 98, ("b", 1): 49, ("b", 2): 99}
    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    counted = (
        bids(environment(parallelism)).key_by_columns("auction").window(windows).aggregate_columns("max(price) AS top")
    )
    best_of_all = counted.with_columns("1 AS one").key_by_columns("one").window(windows).top_n(1, "top", True)
    assert sorted(row["top"] for row in values_of(best_of_all)) == list(range(9, 100, 10))


@at_each_parallelism
def test_joins_from_end_to_end(parallelism: int) -> None:
    def streams() -> tuple[KeyedStream, KeyedStream]:
        env = environment(parallelism)
        left = bids(env).where("price % 2 = 0").key_by_columns("price")
        right = bids(env).select("price - price % 4 AS price", "at").key_by_columns("price")
        return left, right

    left, right = streams()
    joined = left.interval_join(right).between(0, 300).lower_bound_exclusive().upper_bound_exclusive().columns()
    assert sorted((row["price"], row["at_right"] - row["at"]) for row in values_of(joined)) == [
        (price, after) for price in range(0, 100, 4) for after in (100, 200)
    ]
    left, right = streams()
    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    found = values_of(left.window_join(right, windows, "left", suffix="_r", with_window=True))
    pairs = [(row["price"], row["at_r"]) for row in found]
    expected = [
        (price, at if matched else None)
        for price in range(0, 100, 2)
        for matched in [price % 4 == 0]
        for at in ([a * 100 for a in range(price, price + 4) if a // 10 == price // 10] if matched else [0])
    ]
    assert sorted(pairs, key=repr) == sorted(expected, key=repr)


@at_each_parallelism
@pytest.mark.parametrize("phases", ["ONE_PHASE", "AUTO"])
def test_aggregates_of_windows_without_keys(parallelism: int, phases: str) -> None:
    env = environment(parallelism, {"table.optimizer.agg-phase-strategy": phases})
    windows = bids(env).with_columns("price AS all_records").window_all(TumblingEventTimeWindows.of(Time.seconds(1)))
    made = windows.aggregate_columns("window_start AS since", "sum(price) AS total").uid("totals")
    assert made.get_type() == Types.ROW_NAMED(["since", "total"], [Types.LONG(), Types.LONG()])
    assert sorted(tuple(row) for row in values_of(made)) == [
        (start, sum(row["price"] for row in ROWS if row["at"] // 1000 * 1000 == start))
        for start in range(0, 10_000, 1_000)
    ]
    uids = {node.name: node.uid or node.part for node in env.program.nodes.values()}
    assert uids["TumblingEventTimeWindows"] == "window"
    best = bids(environment(parallelism)).window_all(TumblingEventTimeWindows.of(Time.seconds(5)))
    found = values_of(best.top_n(2, ["price % 7", "price"], [True, False], rank="place"))
    assert sorted((row["price"], row["place"]) for row in found) == [(6, 1), (13, 2), (55, 1), (62, 2)]


@at_each_parallelism
def test_aggregates_of_windows_of_processing_time(parallelism: int) -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream:
        numbers = DataGeneratorSource.of_fields({"n": sequence()}, count=200, rows_per_second=200.0)
        stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers")
        windows = stream.window_all(TumblingProcessingTimeWindows.of(Time.milliseconds(100)))
        return windows.aggregate_columns("count(*) AS n", "window_start AS since")

    # by a clock that goes on when there is nothing to do
    record_run("mini-cluster")
    found = run_job(build, parallelism=parallelism).values
    # the window that is open at the end is dropped
    assert len(found) >= 5 and 100 <= sum(row["n"] for row in found) <= 200
    assert len({row["since"] for row in found}) == len(found)


@at_each_parallelism
def test_temporal_joins_by_column_from_end_to_end(parallelism: int) -> None:
    def streams() -> tuple[KeyedStream, KeyedStream]:
        env = environment(parallelism)
        versions = bids(env).where("price % 10 = 5").select("auction", "price AS rate", "at")
        return bids(env).where("price % 2 = 1").key_by_columns("auction"), versions.key_by_columns("auction")

    left, versions = streams()
    joined = left.temporal_join(versions).left_outer().columns()
    assert joined.get_type() == Types.ROW_NAMED(
        ["auction", "price", "at", "auction_right", "rate", "at_right"],
        [Types.STRING(), Types.LONG(), Types.LONG(), Types.STRING(), Types.LONG(), Types.LONG()],
    )
    found = {row["price"]: (row["rate"], row["at_right"]) for row in values_of(joined)}
    rates = {price: (price - 5) // 10 * 10 + 5 if price >= 5 else None for price in range(1, 100, 2)}
    assert found == {price: (rate, None if rate is None else rate * 100) for price, rate in rates.items()}
    left, versions = streams()
    inner = values_of(left.temporal_join(versions).columns("_v").select("price", "rate"))
    assert sorted((row["price"], row["rate"]) for row in inner) == sorted(
        (price, rate) for price, rate in rates.items() if rate is not None
    )


@at_each_parallelism
def test_outer_interval_joins_from_end_to_end(parallelism: int) -> None:
    env = environment(parallelism)
    left = bids(env).where("price % 2 = 0").key_by_columns("price")
    right = bids(env).where("price % 3 = 0").key_by_columns("price")
    found = values_of(left.interval_join(right).between(0, 0).columns(how="full").select("price", "price_right"))
    assert sorted((row["price"], row["price_right"]) for row in found if row["price"] is not None) == [
        (price, price if price % 3 == 0 else None) for price in range(0, 100, 2)
    ]
    assert sorted(row["price_right"] for row in found if row["price"] is None) == list(range(3, 100, 6))


def test_joins_and_best_rows_that_cannot_be_made_are_refused_while_the_program_is_built() -> None:
    stream = bids(environment())
    keyed = stream.key_by_columns("auction")
    sessions = EventTimeSessionWindows.with_gap(Time.seconds(1))
    with pytest.raises(TypeError, match="key_by_columns"):
        stream.key_by(lambda row: row["auction"]).top_n(1, "price")
    with pytest.raises(TypeError, match="tumbling"):
        keyed.window(sessions).top_n(1, "price")
    with pytest.raises(TypeError, match="tumbling"):
        keyed.window_join(keyed, sessions)
    with pytest.raises(TypeError, match="keyed stream"):
        keyed.window_join(stream, TumblingEventTimeWindows.of(Time.seconds(1)))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="key_by_columns"):
        keyed.interval_join(stream.key_by(lambda row: row["auction"])).between(0, 1).columns()


@at_each_parallelism
def test_a_union_of_streams_is_aggregated_as_one(parallelism: int) -> None:
    env = environment(parallelism)
    both = bids(env).where("price < 50").union(bids(env).where("price >= 50"), bids(env))
    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    counted = (
        both.key_by_columns("auction").window(windows).aggregate_columns("count(*) AS n", "count(DISTINCT price) AS d")
    )
    results = values_of(counted)
    assert {(row["n"], row["d"]) for row in results} == {(10, 5)}
    assert len(results) == 20


@at_each_parallelism
def test_sessions_in_two_phases_from_end_to_end(parallelism: int) -> None:
    results = []
    for phases in ("AUTO", "ONE_PHASE"):
        env = environment(parallelism, {"table.optimizer.agg-phase-strategy": phases})
        apart = bids(env).where("price % 10 < 6").key_by_columns("auction")
        sessions = apart.window(EventTimeSessionWindows.with_gap(Time.milliseconds(300)))
        results.append(
            sorted(map(repr, values_of(sessions.aggregate_columns("count(*) AS n", "window_start AS since"))))
        )
    assert results[0] == results[1]
    assert len(results[0]) == 20
