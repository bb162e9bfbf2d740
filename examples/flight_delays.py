"""Delays of New York's flights by airport and hour: an event-time job over a stream that is out of order by nature.

Reads NDJSON lines in the order in which flights really left, while event time is the scheduled departure; drops
cancelled flights; writes one record per (origin, hour) to DIR/windows and flights that came after their hour had been
closed to DIR/late. Runs in its own process, with slots on Spark (default) or in threads of no cluster at all.

    python examples/flight_delays.py --parallelism 2 --max-delay-hours 24
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from examples.tools.replay_flights import FLIGHTS, write_replay
from runtime.common import Configuration, Duration, Time, Types, WatermarkStrategy
from runtime.common.watermark_strategy import TimestampAssigner
from runtime.datastream import OutputTag, StreamExecutionEnvironment
from runtime.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, StreamFormat
from runtime.datastream.functions import AggregateFunction, ProcessFunction, ProcessWindowFunction
from runtime.datastream.window import TimeWindow, TumblingEventTimeWindows

DEFAULT_INPUT = Path(__file__).resolve().parent.parent / ".tidemark" / "data" / "flights.ndjson"
PROGRESS_EVERY_ROWS = 25_000

Flight = dict[str, Any]
Delays = tuple[int, int, int]
"""Accumulator of a window: flights, sum of their delays, highest delay; minutes."""

LATE = OutputTag("late")
PROGRESS = OutputTag("progress", Types.STRING())
WINDOW_TYPE = Types.ROW_NAMED(
    ["origin", "window_start", "window_end", "flights", "mean_delay", "max_delay"],
    [Types.STRING(), Types.STRING(), Types.STRING(), Types.LONG(), Types.DOUBLE(), Types.LONG()],
)


class ScheduledDeparture(TimestampAssigner):
    """Event time is when the flight should have left."""

    def extract_timestamp(self, value: Flight, record_timestamp: int) -> int:
        return int(value["sched_dep"])


class DelayAggregate(AggregateFunction):
    """Whole minutes only, so that no order of addition changes the mean."""

    def create_accumulator(self) -> Delays:
        return 0, 0, -(2**31)

    def add(self, value: Flight, accumulator: Delays) -> Delays:
        flights, total, highest = accumulator
        delay = value["dep_delay"]
        return flights + 1, total + delay, delay if delay > highest else highest

    def get_result(self, accumulator: Delays) -> Delays:
        return accumulator

    def merge(self, acc_a: Delays, acc_b: Delays) -> Delays:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1], max(acc_a[2], acc_b[2])


class DescribeWindow(ProcessWindowFunction[Any, Any, Any, TimeWindow]):
    """Adds airport and hour to a window's aggregate."""

    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Delays]
    ) -> Iterable[tuple[str, str, str, int, float, int]]:
        window = context.window()
        for flights, total, highest in elements:
            yield key, utc_text(window.start), utc_text(window.end), flights, total / flights, highest


class ReportProgress(ProcessFunction):
    """Passes flights on and says now and then, as a side output, how far the subtask has come."""

    def __init__(self) -> None:
        self._rows = 0

    def process_element(self, value: Flight, ctx: ProcessFunction.Context) -> Iterator[Any]:
        self._rows += 1
        if self._rows % PROGRESS_EVERY_ROWS == 0:
            yield PROGRESS, f"{self._rows:>9,} flights, scheduled around {utc_text(value['sched_dep'])}"
        yield value


def utc_text(timestamp_ms: int) -> str:
    """Milliseconds since the epoch as 2013-01-01T10:00:00Z."""
    return datetime.fromtimestamp(timestamp_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def define_job(env: StreamExecutionEnvironment, options: argparse.Namespace) -> None:
    """Add the job's operators to the environment."""
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(options.input))
        .set_splits(options.splits)
        .build()
    )
    # a subtask without a split would hold event time back until it has ended: how many flights are late would then
    # depend on when it does
    readers = min(options.splits, options.parallelism)
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "flights").set_parallelism(readers)
    flights = lines.map(json.loads).name("parse").set_parallelism(readers)
    flown = flights.filter(lambda flight: flight["dep_delay"] is not None).name("flown").set_parallelism(readers)
    if options.progress:
        flown = flown.process(ReportProgress()).name("progress").set_parallelism(readers)
        flown.get_side_output(PROGRESS).print()

    strategy = WatermarkStrategy.for_bounded_out_of_orderness(
        Duration.of_hours(options.max_delay_hours)
    ).with_timestamp_assigner(ScheduledDeparture())
    windows = (
        flown.assign_timestamps_and_watermarks(strategy)
        .set_parallelism(readers)
        .key_by(lambda flight: flight["origin"], key_type=Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.hours(1)))
        .side_output_late_data(LATE)
        .aggregate(DelayAggregate(), DescribeWindow(), output_type=WINDOW_TYPE)
        .uid("delays-by-origin-and-hour")
    )
    windows.sink_to(files_in(options.output / "windows")).name("windows")
    windows.get_side_output(LATE).sink_to(files_in(options.output / "late")).name("late")


def files_in(directory: Path) -> FileSink:
    """Files right in the directory, not in one for each hour of writing."""
    buckets = BucketAssigner.base_path_bucket_assigner()
    return FileSink.for_ndjson(directory).with_bucket_assigner(buckets).build()


def configuration_of(options: argparse.Namespace) -> Configuration:
    """The options of the command line as options of the engine."""
    config = Configuration()
    config.set_string("execution.target", options.execution)
    config.set_integer("parallelism.default", options.parallelism)
    if options.watermark_interval is not None:
        config.set_string("pipeline.auto-watermark-interval", f"{options.watermark_interval} ms")
    if options.spark_master is not None:
        config.set_string("spark.master", options.spark_master)
    return config


def remove_earlier_output(directory: Path) -> None:
    """Remove the part files that an earlier run has left in `directory`, finished or not; nothing else."""
    for pattern in ("part-*", ".part-*"):
        for path in directory.glob(pattern):
            path.unlink()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Delays of New York's flights by airport and hour.")
    parser.add_argument("--input", type=Path, help="NDJSON of replay_flights.py; made in .tidemark/data if not given")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--parallelism", type=int, default=1)
    parser.add_argument("--max-delay-hours", type=int, default=24, help="bound of the out-of-orderness")
    parser.add_argument("--splits", type=int, default=8, help="parts of the input that are read independently")
    parser.add_argument("--watermark-interval", type=int, metavar="MS", help="0: whenever the watermark rises")
    parser.add_argument("--execution", choices=["spark", "mini-cluster"], default="spark")
    parser.add_argument("--spark-master", metavar="URL", help="local[slots] if not given")
    parser.add_argument("--progress", action="store_true", help="print how far the job has come")
    options = parser.parse_args()
    # slots may run in another working directory than this program
    options.output = options.output.resolve()
    if options.input is not None:
        options.input = options.input.resolve()
        return options
    options.input = DEFAULT_INPUT
    if not DEFAULT_INPUT.exists() or DEFAULT_INPUT.stat().st_mtime < FLIGHTS.stat().st_mtime:
        write_replay(DEFAULT_INPUT)
    return options


def main() -> None:
    options = parse_arguments()
    remove_earlier_output(options.output / "windows")
    remove_earlier_output(options.output / "late")
    env = StreamExecutionEnvironment.get_execution_environment(configuration_of(options))
    define_job(env, options)
    started = time.monotonic()
    env.execute("flight delays")
    if options.progress:
        print(f"finished after {time.monotonic() - started:.1f} s: {options.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
