"""Late data: a window that has fired is mended for a while, and what comes later still goes to a side output.

With a watermark behind every reading (an interval of 0) lateness depends on the order of the input alone. The window
[0 s, 10 s) fires when 12 s arrives; 4 s is within the allowed lateness and fires it again; 5 s comes when the window
has been removed, and ends up in the side output.
"""

from __future__ import annotations

from runtime.common import Time, Types, WatermarkStrategy
from runtime.datastream import OutputTag, StreamExecutionEnvironment
from runtime.datastream.window import TumblingEventTimeWindows

SECONDS = (1, 3, 12, 4, 25, 5, 26)
LATE = OutputTag("late", Types.LONG())


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    # one subtask: with more, which of them has seen what would decide about lateness
    env.set_parallelism(1)
    env.get_config().set_auto_watermark_interval(0)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda second, _: second * 1000)
    sums = (
        env.from_collection(SECONDS, Types.LONG())
        .assign_timestamps_and_watermarks(strategy)
        .key_by(lambda _: "all", key_type=Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .allowed_lateness(5_000)
        .side_output_late_data(LATE)
        .reduce(lambda a, b: a + b)
    )
    sums.print("sum")
    sums.get_side_output(LATE).print("too late")
    env.execute("late data")


if __name__ == "__main__":
    main()
