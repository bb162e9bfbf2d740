"""Top-N by column: the two auctions with the most bids in every ten seconds, and each bidder's two highest bids so far.

The first is an aggregate of windows, and then the best rows of all auctions in the same windows; it prints each result
once. The second is a changelog: a bid that comes in (+I) pushes out the lowest of two (-D).
"""

from __future__ import annotations

from runtime.common import Duration, Row, Time, Types, WatermarkStrategy
from runtime.datastream import StreamExecutionEnvironment
from runtime.datastream.window import TumblingEventTimeWindows

BID = Types.ROW_NAMED(
    ["auction", "bidder", "price", "second"], [Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG()]
)
BIDS = (
    ("lamp", "ann", 10, 1),
    ("vase", "bob", 25, 2),
    ("lamp", "bob", 12, 4),
    ("desk", "cid", 80, 5),
    ("vase", "ann", 30, 8),
    ("lamp", "cid", 15, 9),
    ("desk", "ann", 90, 12),
    ("vase", "bob", 35, 13),
    ("desk", "bob", 95, 16),
    ("lamp", "ann", 18, 19),
    ("desk", "ann", 99, 21),
)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2)).with_timestamp_assigner(
        lambda bid, _: int(bid["second"]) * 1_000
    )
    rows = [Row(auction=a, bidder=b, price=p, second=s) for a, b, p, s in BIDS]
    # by one subtask: several would take turns and hand bids on out of order
    bids = env.from_collection(rows, BID).assign_timestamps_and_watermarks(strategy).set_parallelism(1)
    windows = TumblingEventTimeWindows.of(Time.seconds(10))
    (
        bids.key_by_columns("auction")
        .window(windows)
        .aggregate_columns("count(*) AS bids", "max(price) AS highest", "window_end")
        # a result has the time of its window, so that windows of the same size bring together those of all auctions
        .key_by_columns("window_end")
        .window(windows)
        .top_n(2, by=["bids", "highest"], descending=True, rank="rank")
        .map(
            lambda row: f"until {row['window_end'] // 1000} s: #{row['rank']} {row['auction']} with {row['bids']} bids",
            Types.STRING(),
        )
        .print("hot")
    )
    (
        bids.key_by_columns("bidder")
        .top_n(2, by="price", descending=True)
        .changelog_as_rows()
        .map(
            lambda row: f"{row.get_row_kind()} {row['bidder']}: {row['price']} for the {row['auction']}", Types.STRING()
        )
        .print("best")
    )
    env.execute("top-n")


if __name__ == "__main__":
    main()
