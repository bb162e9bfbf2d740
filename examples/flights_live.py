"""The flights job as a live one: a scheduled hour a second, year after year, through the windows of flight_delays.py.

Prints delays by airport and hour and by carrier and day, and flights that came after their window had been closed. It
has no end; cancel it. Submit it to a session cluster, or run it by itself:

    tidemark run --detached -p 2 examples/flights_live.py
    python examples/flights_live.py --speed 4
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from examples.flight_delays import LATE, WINDOW_TYPE, DelayAggregate, DescribeWindow
from runtime.common import Configuration, Duration, Row, Time, Types, WatermarkStrategy
from runtime.connectors import ReplaySource
from runtime.datastream import DataStream, StreamExecutionEnvironment
from runtime.datastream.window import TumblingEventTimeWindows

JOB_NAME = "flights live"


def describe(window: Any) -> str:
    """A window as one line."""
    name, start, _, flights, mean_delay, max_delay = window
    return f"{start}  {name:<3}  {flights:>4} flights  mean delay {mean_delay:>6.1f} min  highest {max_delay:>4} min"


def describe_late(flight: Row) -> str:
    """A flight whose window had been closed, as one line."""
    return (
        f"late: {flight['carrier']}{flight['flight']} {flight['origin']}-{flight['dest']}, scheduled "
        f"{flight['sched_dep']:%Y-%m-%dT%H:%M:%SZ}, left {flight['dep_delay']} min later"
    )


def windows_by(flown: DataStream, field: str, size: Time) -> DataStream:
    """Delays of each value of a field in tumbling windows, as flight_delays.py has them for airports."""
    return (
        flown.key_by(lambda flight: flight[field], key_type=Types.STRING())
        .window(TumblingEventTimeWindows.of(size))
        .side_output_late_data(LATE)
        .aggregate(DelayAggregate(), DescribeWindow(), output_type=WINDOW_TYPE)
    )


def define_job(env: StreamExecutionEnvironment, hours_per_second: float, max_delay_hours: int) -> None:
    """Add the job's operators to the environment."""
    # the source's event time is the scheduled departure
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_hours(max_delay_hours))
    source = ReplaySource.flights(speed=hours_per_second * 3600, repeat=True)
    flights = env.from_source(source, strategy, "flights").uid("flights")
    flown = flights.filter(lambda flight: flight["dep_delay"] is not None).name("flown")

    hours = windows_by(flown, "origin", Time.hours(1)).name("by airport and hour").uid("by-airport-and-hour")
    # with the default of 128 key groups the three airports would all be one subtask's of two
    hours.set_max_parallelism(64)
    days = windows_by(flown, "carrier", Time.days(1)).name("by carrier and day").uid("by-carrier-and-day")
    late = hours.get_side_output(LATE).map(describe_late, Types.STRING()).name("late")
    board = hours.union(days).map(describe, Types.STRING()).name("board").set_parallelism(1)
    board.print().name("windows").uid("windows").set_parallelism(1)
    late.print().name("late flights").uid("late-flights")


def configuration_of(options: argparse.Namespace) -> Configuration:
    """The options of the command line as options of the engine."""
    config = Configuration()
    if options.parallelism is not None:
        config.set_integer("parallelism.default", options.parallelism)
    # a demonstration goes on after whatever is done to it, where it was
    config.set_string("execution.checkpointing.interval", "5 s")
    config.set_string("restart-strategy.type", "exponential-delay")
    config.set_string("restart-strategy.exponential-delay.max-backoff", "10 s")
    return config


def parse_arguments(arguments: Iterable[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Replays a year of flights by the clock, for ever.")
    parser.add_argument("--speed", type=float, default=1.0, metavar="HOURS", help="scheduled hours in a second")
    parser.add_argument("--max-delay-hours", type=int, default=4, help="bound of the out-of-orderness")
    parser.add_argument("--parallelism", type=int, help="goes before that of the submission")
    return parser.parse_args(None if arguments is None else list(arguments))


def main() -> None:
    options = parse_arguments()
    env = StreamExecutionEnvironment.get_execution_environment(configuration_of(options))
    define_job(env, options.speed, options.max_delay_hours)
    with suppress(KeyboardInterrupt):
        env.execute(JOB_NAME)


if __name__ == "__main__":
    main()
