"""Tumbling and sliding event-time windows: reduce, aggregate, apply and process, alone and combined."""

from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import AggregateFunction, ProcessWindowFunction, WindowFunction
from pyflink.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows

READINGS = [("a", 1, 1_000), ("a", 2, 4_999), ("b", 10, 2_000), ("a", 3, 5_000), ("b", 20, 14_000), ("a", 4, -1)]
PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


class ThirdField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Describe(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield f"{key} [{window.start}, {window.end}) {list(elements)}"

    def clear(self, context):
        pass


class Total(WindowFunction):
    def apply(self, key, window, inputs):
        yield key, sum(value for _, value, _ in inputs)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ThirdField())
    readings = env.from_collection(READINGS, Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]))
    keyed = readings.assign_timestamps_and_watermarks(strategy).key_by(lambda r: r[0], key_type=Types.STRING())
    tumbling = TumblingEventTimeWindows.of(Time.seconds(5))
    sliding = SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5))

    keyed.window(tumbling).reduce(lambda a, b: (a[0], a[1] + b[1], b[2])).print("reduce")
    env.execute()
    keyed.window(tumbling).aggregate(
        Mean(), accumulator_type=Types.TUPLE([Types.LONG(), Types.LONG()]), output_type=Types.DOUBLE()
    ).print("aggregate")
    env.execute()
    keyed.window(tumbling).process(Describe(), Types.STRING()).print("process")
    env.execute()
    keyed.window(tumbling).aggregate(
        Mean(),
        window_function=Describe(),
        accumulator_type=Types.TUPLE([Types.LONG(), Types.LONG()]),
        output_type=Types.STRING(),
    ).print("both")
    env.execute()
    keyed.window(sliding).apply(Total(), PAIR).print("apply")
    env.execute()
    keyed.window(TumblingEventTimeWindows.of(Time.seconds(5), Time.seconds(1))).process(
        Describe(), Types.STRING()
    ).print("offset")
    env.execute()


if __name__ == "__main__":
    main()
