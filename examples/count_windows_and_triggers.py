"""Count windows, and a window that fires early: at every second record, and once more at its end in event time."""

from __future__ import annotations

from collections.abc import Iterable

from runtime.common import Time, Types, WatermarkStrategy
from runtime.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from runtime.datastream.window import CountTrigger, CountWindow, TumblingEventTimeWindows, Window

#: gauge, second
READINGS = (("Emden", 1), ("Emden", 2), ("Husum", 3), ("Emden", 4), ("Emden", 11), ("Emden", 12))


class Seconds(ProcessWindowFunction[tuple[str, int], str, str, Window]):
    """Lists the seconds in a firing window."""

    def process(
        self, key: str, context: ProcessWindowFunction.Context[Window], elements: Iterable[tuple[str, int]]
    ) -> Iterable[str]:
        kind = "count" if isinstance(context.window(), CountWindow) else "time"
        yield f"{key}, {kind} window with {sorted(second for _, second in elements)}"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    # one subtask: records of a key keep their order through any number, but only if one subtask sends them
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: int(r[1]) * 1000)
    readings = env.from_collection(READINGS, Types.TUPLE([Types.STRING(), Types.LONG()]))
    keyed = readings.assign_timestamps_and_watermarks(strategy).key_by(lambda r: r[0], key_type=Types.STRING())
    keyed.count_window(2).process(Seconds(), Types.STRING()).print("of two")
    early = keyed.window(TumblingEventTimeWindows.of(Time.seconds(10))).trigger(CountTrigger.of(2))
    early.process(Seconds(), Types.STRING()).print("every two")
    env.execute("count windows and triggers")


if __name__ == "__main__":
    main()
