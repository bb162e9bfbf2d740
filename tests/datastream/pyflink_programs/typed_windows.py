"""Windows of each kind whose results and accumulators have types."""

from outcomes import show
from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import AggregateFunction, ProcessAllWindowFunction, ProcessWindowFunction
from pyflink.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

EVENTS = [("a", 1_000, 1), ("a", 2_000, 2), ("a", 12_000, 100), ("a", 31_000, 120)]
TYPE = Types.TUPLE([Types.STRING(), Types.LONG(), Types.BYTE()])


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value[2]

    def get_result(self, accumulator):
        return accumulator[1] / accumulator[0]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Describe(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield key, window.start, [element[2] for element in elements]


class Sum(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield sum(element[2] for element in elements)


class Total(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield sum(element[2] for element in elements)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    events = env.from_collection(EVENTS, TYPE).assign_timestamps_and_watermarks(strategy)
    keyed = events.key_by(lambda event: event[0], Types.STRING())
    tumbling = keyed.window(TumblingEventTimeWindows.of(Time.seconds(10)))
    accumulator = Types.TUPLE([Types.INT(), Types.LONG()])
    show("mean", tumbling.aggregate(Mean(), accumulator_type=accumulator, output_type=Types.FLOAT()))
    described = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LIST(Types.SHORT())])
    show("described", tumbling.process(Describe(), described))
    sliding = keyed.window(SlidingEventTimeWindows.of(Time.seconds(20), Time.seconds(10)))
    show("sliding", sliding.process(Describe(), described))
    sessions = keyed.window(EventTimeSessionWindows.with_gap(Time.seconds(15)))
    show("sessions", sessions.process(Describe(), described))
    show("reduced", tumbling.reduce(lambda one, other: (one[0], other[1], one[2] + other[2])))
    show("overflow", sessions.reduce(lambda one, other: (one[0], other[1], one[2] + 100)))
    show("all", events.window_all(TumblingEventTimeWindows.of(Time.seconds(20))).process(Total(), Types.BYTE()))
    show("counted", keyed.count_window(2).process(Sum(), Types.LONG()))


if __name__ == "__main__":
    main()
