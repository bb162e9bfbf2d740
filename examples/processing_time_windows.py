"""Processing-time windows: how many records come in per half second of the wall clock, for a source of 100 a second.

The source has no end: the program takes three windows and stops the job. How many records a window has depends on the
machine, so the program only says whether they were about as many as they should be.
"""

from __future__ import annotations

from collections.abc import Iterable

from runtime.common import Time, Types, WatermarkStrategy
from runtime.connectors import DataGeneratorSource
from runtime.datastream import AllWindowFunction, StreamExecutionEnvironment
from runtime.datastream.window import TimeWindow, TumblingProcessingTimeWindows


class Count(AllWindowFunction[int, int, TimeWindow]):
    """Number of records of each window."""

    def apply(self, window: TimeWindow, inputs: Iterable[int]) -> Iterable[int]:
        yield len(list(inputs))


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    source = DataGeneratorSource(lambda index: index, rows_per_second=100, type_info=Types.LONG())
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    windows = numbers.window_all(TumblingProcessingTimeWindows.of(Time.milliseconds(500)))
    counts = windows.apply(Count(), Types.LONG()).execute_and_collect("processing-time windows", limit=3)
    print(f"{len(counts)} windows, none empty: {all(counts)}, none above 200: {max(counts) <= 200}")


if __name__ == "__main__":
    main()
