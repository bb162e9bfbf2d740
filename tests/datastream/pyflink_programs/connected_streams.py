"""Connected streams: co-map, co-flat-map and co-process, keyed or not, with state, timers and side outputs; sorted."""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
    OutputTag,
    StreamExecutionEnvironment,
    TimeDomain,
)
from pyflink.datastream.state import ValueStateDescriptor

EVENT = Types.TUPLE([Types.STRING(), Types.LONG()])
ODD = OutputTag("odd", Types.STRING())


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Mapping(CoMapFunction):
    def map1(self, value):
        return f"first {value[0]}" if value[1] != 2_000 else None

    def map2(self, value):
        return f"second {value}"


class Counting(CoMapFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def map1(self, value):
        self.count.update((self.count.value() or 0) + 1)
        return value[0], self.count.value()

    def map2(self, value):
        self.count.update((self.count.value() or 0) + 1)
        return str(value), self.count.value()


class Repeating(CoFlatMapFunction):
    def flat_map1(self, value):
        return [value[0]] * (value[1] // 1_000 - 1)

    def flat_map2(self, value):
        if value % 2:
            yield f"odd {value}"


class Splitting(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield f"{value[0]} at {ctx.timestamp()}"

    def process_element2(self, value, ctx):
        if value % 2:
            yield ODD, f"{value} at {ctx.timestamp()}"
        else:
            yield f"even {value}"


class Joining(KeyedCoProcessFunction):
    """Sums both sides per key until the watermark passes 10 s."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element1(self, value, ctx):
        self._add(value[1], ctx)
        yield f"{ctx.get_current_key()} first {value[1]} at {ctx.timestamp()}"

    def process_element2(self, value, ctx):
        self._add(value[1], ctx)
        yield f"{ctx.get_current_key()} second {value[1]} at {ctx.timestamp()}"

    def _add(self, amount, ctx):
        self.sum.update((self.sum.value() or 0) + amount)
        ctx.timer_service().register_event_time_timer(10_000)

    def on_timer(self, timestamp, ctx):
        is_event_time = ctx.time_domain() == TimeDomain.EVENT_TIME
        yield f"{ctx.get_current_key()} sum {self.sum.value()} at {timestamp}, {is_event_time}"


def collected(stream):
    with stream.execute_and_collect() as values:
        return sorted(values)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_assigner(
        SecondField()
    )
    first = env.from_collection([("a", 1_000), ("b", 2_000), ("a", 3_000)], EVENT)
    first = first.assign_timestamps_and_watermarks(strategy)
    numbers = env.from_collection([1, 2, 3, 2], Types.LONG())
    second = env.from_collection([("b", 1_500), ("a", 2_500), ("c", 500)], EVENT)
    second = second.assign_timestamps_and_watermarks(strategy)

    print(collected(first.connect(numbers).map(Mapping(), Types.STRING())))
    keyed = first.connect(numbers).key_by(lambda event: event[1] // 1_000, lambda number: number + 10, Types.LONG())
    print(collected(keyed.map(Counting(), Types.TUPLE([Types.STRING(), Types.INT()]))))
    print(collected(first.connect(numbers).flat_map(Repeating(), Types.STRING())))
    split = first.connect(numbers).process(Splitting(), Types.STRING())
    print(collected(split.union(split.get_side_output(ODD))))
    joined = first.key_by(lambda event: event[0], Types.STRING()).connect(
        second.key_by(lambda event: event[0], Types.STRING())
    )
    print(collected(joined.process(Joining(), Types.STRING())))


if __name__ == "__main__":
    main()
