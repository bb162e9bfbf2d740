"""Session windows: each visitor's clicks, cut where the visitor was away for half an hour.

Sessions of one key merge when a click closes the gap between them; the function behind sees the merged window.
"""

from __future__ import annotations

from collections.abc import Iterable

from runtime.common import Duration, Time, Types, WatermarkStrategy
from runtime.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from runtime.datastream.window import EventTimeSessionWindows, TimeWindow

MINUTE = 60_000
#: visitor, minute of the click; the click at 40 joins what came before and behind it
CLICKS = (("ada", 0), ("ada", 10), ("bob", 5), ("ada", 65), ("ada", 40), ("bob", 50), ("ada", 200))


class Describe(ProcessWindowFunction[tuple[str, int], str, str, TimeWindow]):
    """Describes a session's length and its number of clicks."""

    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[tuple[str, int]]
    ) -> Iterable[str]:
        minutes = sorted(minute for _, minute in elements)
        yield f"{key}: minutes {minutes[0]} to {minutes[-1]}, {len(minutes)} clicks"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_hours(1)).with_timestamp_assigner(
        lambda click, _: int(click[1]) * MINUTE
    )
    (
        env.from_collection(CLICKS, Types.TUPLE([Types.STRING(), Types.LONG()]))
        .assign_timestamps_and_watermarks(strategy)
        .key_by(lambda click: click[0], key_type=Types.STRING())
        .window(EventTimeSessionWindows.with_gap(Time.minutes(30)))
        .process(Describe(), Types.STRING())
        .print()
    )
    env.execute("session windows")


if __name__ == "__main__":
    main()
