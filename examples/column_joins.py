"""Joins by column: bids with the auctions that opened less than a minute before, and auctions without a bid.

No function is called for a pair: results are columns of both sides, which SQL expressions go on with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.common import Duration, Row, Time, Types, WatermarkStrategy
from runtime.datastream import DataStream, StreamExecutionEnvironment
from runtime.datastream.window import TumblingEventTimeWindows

AUCTION = Types.ROW_NAMED(
    ["id", "item", "reserve", "second"], [Types.LONG(), Types.STRING(), Types.LONG(), Types.LONG()]
)
BID = Types.ROW_NAMED(
    ["auction", "bidder", "price", "second"], [Types.LONG(), Types.STRING(), Types.LONG(), Types.LONG()]
)
AUCTIONS = ((1, "lamp", 20, 0), (2, "vase", 50, 10), (3, "desk", 70, 65))
BIDS = ((1, "ann", 15, 5), (2, "bob", 60, 30), (1, "cid", 25, 59), (1, "ann", 30, 61), (2, "bob", 65, 70))


def rows(columns: Any, values: Sequence[tuple[Any, ...]]) -> list[Row]:
    return [Row(**dict(zip(columns.field_names, row, strict=True))) for row in values]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(2)).with_timestamp_assigner(
        lambda row, _: int(row["second"]) * 1_000
    )

    def stream(columns: Any, values: Sequence[tuple[Any, ...]]) -> DataStream:
        return env.from_collection(rows(columns, values), columns).assign_timestamps_and_watermarks(strategy)

    auctions, bids = stream(AUCTION, AUCTIONS), stream(BID, BIDS)
    (
        auctions.key_by_columns("id")
        .interval_join(bids.key_by_columns("auction"))
        .between(Time.seconds(0), Time.seconds(60))
        .upper_bound_exclusive()
        .columns()
        .where("price >= reserve")
        .select("item", "bidder", "price", "second_right - second AS seconds_after")
        .map(
            lambda row: f"{row['item']} to {row['bidder']} for {row['price']} after {row['seconds_after']} s",
            Types.STRING(),
        )
        .print("sold")
    )
    (
        auctions.key_by_columns("id")
        .window_join(
            bids.key_by_columns("auction"), TumblingEventTimeWindows.of(Time.minutes(1)), "left", with_window=True
        )
        .where("bidder IS NULL")
        .map(
            lambda row: f"nobody wants the {row['item']} in the minute from {row['window_start'] // 1000} s",
            Types.STRING(),
        )
        .print("idle")
    )
    env.execute("column joins")


if __name__ == "__main__":
    main()
