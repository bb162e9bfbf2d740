"""The broadcast pattern, keyed and not, in functions of which the output does not depend on which side comes first."""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    StreamExecutionEnvironment,
    TimeDomain,
)
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

EVENT = Types.TUPLE([Types.STRING(), Types.LONG()])
LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.LONG())
NAMES = MapStateDescriptor("names", Types.STRING(), Types.STRING())


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Telling(BroadcastProcessFunction):
    """Does not depend on which side comes first."""

    def process_element(self, value, ctx):
        limits = ctx.get_broadcast_state(LIMITS)
        yield f"{value[0]} at {ctx.timestamp()}, can write: {hasattr(limits, 'put')}"

    def process_broadcast_element(self, value, ctx):
        limits, names = ctx.get_broadcast_state(LIMITS), ctx.get_broadcast_state(NAMES)
        limits.put(value[0], value[1])
        names[value[0]] = f"rule {value[0]}"
        if value[1] == 0:
            limits.remove(value[0])
        known = sorted((key, limit, names[key]) for key, limit in limits.items())
        yield f"{known} at {ctx.timestamp()} {value[0] in limits} {limits.is_empty()} {sorted(names)}"


class Timing(KeyedBroadcastProcessFunction):
    """Looks at the limits only in a timer: at the end both streams have come in full."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(100_000)
        yield f"{ctx.get_current_key()} {self.count.value()} at {ctx.timestamp()}"

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(LIMITS).put(value[0], value[1])
        yield f"limit {value[0]}"

    def on_timer(self, timestamp, ctx):
        limit = ctx.get_broadcast_state(LIMITS).get(ctx.get_current_key())
        is_event_time = ctx.time_domain() == TimeDomain.EVENT_TIME
        times = f"{timestamp} {ctx.timestamp()} {is_event_time}"
        yield f"{ctx.get_current_key()} {self.count.value()} of {limit} at {times}"


def collected(stream):
    with stream.execute_and_collect() as values:
        return sorted(values)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_assigner(
        SecondField()
    )
    events = env.from_collection([("a", 1_000), ("b", 2_000), ("a", 3_000), ("c", 4_000)], EVENT)
    events = events.assign_timestamps_and_watermarks(strategy)
    rules = env.from_collection([("a", 2), ("b", 5), ("a", 0), ("d", 7)], EVENT)
    for line in collected(events.connect(rules.broadcast(LIMITS, NAMES)).process(Telling(), Types.STRING())):
        print(line)
    timed_rules = rules.assign_timestamps_and_watermarks(strategy).broadcast(LIMITS)
    keyed = events.key_by(lambda event: event[0], Types.STRING())
    for line in collected(keyed.connect(timed_rules).process(Timing(), Types.STRING())):
        print(line)


if __name__ == "__main__":
    main()
