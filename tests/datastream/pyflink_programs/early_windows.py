"""Windows that fire early and continuously by event time, and windows over the whole stream."""

from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import AggregateFunction, AllWindowFunction, ProcessAllWindowFunction
from pyflink.datastream.window import (
    ContinuousEventTimeTrigger,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

READINGS = [("x", 1), ("y", 2), ("x", 4), ("x", 11), ("y", 12), ("x", 30)]


class Seconds(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1] * 1000


class Span(AggregateFunction):
    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        return [*accumulator, value[1]]

    def get_result(self, accumulator):
        return min(accumulator), max(accumulator)

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class Describe(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield f"[{context.window().start}, {context.window().end}) {list(elements)}"


class Size(AllWindowFunction):
    def apply(self, window, inputs):
        yield window.end, len(list(inputs))


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Seconds())
    readings = env.from_collection(READINGS, Types.TUPLE([Types.STRING(), Types.INT()]))
    timed = readings.assign_timestamps_and_watermarks(strategy)
    ten = TumblingEventTimeWindows.of(Time.seconds(10))
    span = Types.TUPLE([Types.INT(), Types.INT()])
    timed.window_all(ten).aggregate(Span(), output_type=span).print("span")
    env.execute()
    timed.window_all(ten).aggregate(Span(), Describe(), output_type=Types.STRING()).print("described span")
    env.execute()
    timed.window_all(ten).reduce(lambda a, b: (a[0] + b[0], a[1] + b[1])).print("reduced")
    env.execute()
    sliding = SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5))
    timed.window_all(sliding).apply(Size(), Types.TUPLE([Types.LONG(), Types.INT()])).print("sliding")
    env.execute()
    timed.window_all(EventTimeSessionWindows.with_gap(Time.seconds(5))).process(Describe(), Types.STRING()).print(
        "session"
    )
    env.execute()
    keyed = timed.key_by(lambda reading: reading[0], Types.STRING())
    early = keyed.window(ten).trigger(ContinuousEventTimeTrigger.of(Time.seconds(7)))
    early.reduce(lambda a, b: (a[0], a[1] + b[1])).print("early")
    env.execute()


if __name__ == "__main__":
    main()
