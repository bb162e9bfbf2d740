"""Session windows: static and dynamic gaps, merging, early firing.

PyFlink 2.3.0 loses a part of reduced and aggregated contents where an element makes one of two sessions (its list state
does not), and its continuous trigger fires once only behind the last watermark: neither is to be seen here.
"""

from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import OutputTag, StreamExecutionEnvironment
from pyflink.datastream.functions import AggregateFunction, ProcessWindowFunction, WindowFunction
from pyflink.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    TimeWindow,
)

# key, second, gap
VISITS = [
    ("a", 1, 5),
    ("b", 2, 3),
    ("a", 8, 5),
    ("a", 4, 5),
    ("b", 20, 3),
    ("a", 9, 5),
    ("a", 30, 2),
    ("b", 4, 3),
    ("a", 25, 9),
    ("a", 33, 5),
    ("a", 90, 5),
    ("a", 36, 5),
]
VISIT = Types.TUPLE([Types.STRING(), Types.INT(), Types.INT()])
LATE = OutputTag("late", Types.TUPLE([Types.STRING(), Types.INT(), Types.INT()]))


class Seconds(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1] * 1000


class OwnGap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return element[2] * 1000


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Describe(ProcessWindowFunction[tuple, str, str, TimeWindow]):
    def process(self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements):
        yield f"{key} {context.window()} {sorted(elements)}"


class Bounds(WindowFunction[tuple, tuple, str, TimeWindow]):
    def apply(self, key: str, window: TimeWindow, inputs):
        return [(key, window.start, window.end, *next(iter(inputs))[1:])]


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Seconds())
    visits = env.from_collection(VISITS, VISIT).assign_timestamps_and_watermarks(strategy)
    keyed = visits.key_by(lambda visit: visit[0], key_type=Types.STRING())
    gap = EventTimeSessionWindows.with_gap(Time.seconds(5))

    def longer(one, two):
        return one[0], one[1] + two[1], max(one[2], two[2])

    keyed.window(gap).process(Describe(), Types.STRING()).print("static")
    short_gap = EventTimeSessionWindows.with_gap(Time.seconds(2))
    keyed.window(short_gap).reduce(longer, Bounds()).print("reduced")
    keyed.window(short_gap).aggregate(Mean(), output_type=Types.DOUBLE()).print("mean")
    keyed.window(DynamicEventTimeSessionWindows.with_dynamic_gap(OwnGap())).process(Describe(), Types.STRING()).print(
        "dynamic"
    )
    refired = keyed.window(gap).allowed_lateness(60_000).process(Describe(), Types.STRING())
    refired.print("refired")
    with_late = keyed.window(gap).side_output_late_data(LATE).process(Describe(), Types.STRING())
    with_late.get_side_output(LATE).print("late")
    keyed.window(gap).trigger(PurgingTrigger.of(CountTrigger.of(2))).process(Describe(), Types.STRING()).print("pairs")
    keyed.window(gap).trigger(ContinuousEventTimeTrigger.of(Time.seconds(20))).process(
        Describe(), Types.STRING()
    ).print("continuous")
    env.execute()


if __name__ == "__main__":
    main()
