"""Counts page views by page and ten seconds of event time: a small job with a source, event time, windows and a sink.

tidemark run examples/hello_events.py -- --count 1000
python examples/hello_events.py
"""

from __future__ import annotations

import argparse
from typing import Any

from runtime.common import Duration, Time, Types, WatermarkStrategy
from runtime.connectors import DataGeneratorSource
from runtime.datastream import DataStream, StreamExecutionEnvironment
from runtime.datastream.window import TumblingEventTimeWindows

PAGES = ("home", "search", "home", "product", "cart")
FIRST_VIEW_MS = 1_767_225_600_000


def view(index: int) -> dict[str, Any]:
    """The index-th page view; each third one is up to two seconds late."""
    late_ms = index * 37 % 2000 if index % 3 == 0 else 0
    return {"page": PAGES[index % len(PAGES)], "time": FIRST_VIEW_MS + index * 50 - late_ms}


def count_views(views: DataStream) -> DataStream:
    """(page, views) for each page and ten seconds."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2)).with_timestamp_assigner(
        lambda view, _: int(view["time"])
    )
    return (
        views.assign_timestamps_and_watermarks(strategy)
        .uid("view-times")
        .map(lambda view: (view["page"], 1), Types.TUPLE([Types.STRING(), Types.LONG()]))
        .key_by(lambda counted: counted[0], key_type=Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .name("views by page")
        .uid("views-by-page")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Count page views.")
    parser.add_argument("--count", type=int, default=10_000, help="number of page views")
    parser.add_argument("--rate", type=float, help="page views in a second; as fast as possible if not given")
    options = parser.parse_args()

    env = StreamExecutionEnvironment.get_execution_environment()
    source = DataGeneratorSource(view, options.count, options.rate)
    views = env.from_source(source, WatermarkStrategy.no_watermarks(), "views").uid("views")
    count_views(views).print().name("counts").uid("counts")
    env.execute("hello events")


if __name__ == "__main__":
    main()
