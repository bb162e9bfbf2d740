"""Event-time windows: the mean level of each gauge per five minutes, whatever order the readings arrive in.

The watermark follows one minute behind the latest reading, so that readings up to a minute late still count. The
aggregate keeps one sum and one count per window; the window function adds the window to the result.
"""

from __future__ import annotations

from collections.abc import Iterable

from runtime.common import Duration, Time, Types, WatermarkStrategy
from runtime.datastream import AggregateFunction, ProcessWindowFunction, StreamExecutionEnvironment
from runtime.datastream.window import TimeWindow, TumblingEventTimeWindows

MINUTE = 60_000
#: gauge, level in cm, minute
READINGS = (
    ("Emden", 310, 1),
    ("Husum", 280, 2),
    ("Emden", 314, 4),
    ("Emden", 320, 6),
    ("Emden", 312, 5),
    ("Husum", 290, 9),
)


class Mean(AggregateFunction):
    """Averages the levels."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: tuple[str, int, int], accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class WithWindow(ProcessWindowFunction[float, str, str, TimeWindow]):
    """Says to which window a mean belongs."""

    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[float]
    ) -> Iterable[str]:
        window = context.window()
        for mean in elements:
            yield f"{key}, minutes {window.start // MINUTE} to {window.end // MINUTE}: {mean:.1f} cm"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(1)).with_timestamp_assigner(
        lambda reading, _: int(reading[2]) * MINUTE
    )
    readings = env.from_collection(READINGS, Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()]))
    (
        readings.assign_timestamps_and_watermarks(strategy)
        .key_by(lambda reading: reading[0], key_type=Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.minutes(5)))
        .aggregate(Mean(), WithWindow(), output_type=Types.STRING())
        .print()
    )
    env.execute("event-time windows")


if __name__ == "__main__":
    main()
