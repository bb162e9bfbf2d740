"""Event-time timers: registered once per time, deleted, set from on_timer, fired in time order at the end."""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment, TimeDomain
from pyflink.datastream.state import ValueStateDescriptor

EVENTS = [("a", 1_000), ("a", 3_000), ("b", 2_000), ("a", 3_000), ("b", 500)]


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Timers(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.INT()))

    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        self.seen.update((self.seen.value() or 0) + 1)
        timers.register_event_time_timer(ctx.timestamp() + 10)
        timers.register_event_time_timer(ctx.timestamp() + 20)
        if ctx.timestamp() == 2_000:
            timers.delete_event_time_timer(2_020)
        yield f"{value[0]} at {ctx.timestamp()}"

    def on_timer(self, timestamp, ctx):
        is_event_time = ctx.time_domain() == TimeDomain.EVENT_TIME
        yield f"timer {timestamp} of {ctx.get_current_key()}, seen {self.seen.value()}, {is_event_time}"
        if timestamp == 3_020:
            ctx.timer_service().register_event_time_timer(5_000)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_assigner(
        SecondField()
    )
    events = env.from_collection(EVENTS, Types.TUPLE([Types.STRING(), Types.LONG()]))
    keyed = events.assign_timestamps_and_watermarks(strategy).key_by(lambda event: event[0], key_type=Types.STRING())
    keyed.process(Timers(), Types.STRING()).print()
    env.execute()


if __name__ == "__main__":
    main()
