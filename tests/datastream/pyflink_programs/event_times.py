"""Event times as functions see them: before and after they are assigned, replaced, and in timers."""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, ProcessFunction, StreamExecutionEnvironment

EVENTS = [("a", 4_000), ("b", 1_000), ("a", 2_000), ("b", 9_000)]


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Later(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return record_timestamp + 100


class Tell(ProcessFunction):
    def process_element(self, value, ctx):
        yield f"{value} at {ctx.timestamp()}"


class AtTheEnd(KeyedProcessFunction):
    """Every record sets the timer of its key anew; the timer of the last one counts."""

    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        for second in (1, 2, 4, 9):
            timers.delete_event_time_timer(second * 1_000 + 50)
        timers.register_event_time_timer(ctx.timestamp() + 50)
        return []

    def on_timer(self, timestamp, ctx):
        reached = ctx.timer_service().current_watermark()
        yield f"{ctx.get_current_key()} at {timestamp}, watermark reached it: {reached >= timestamp}"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    events = env.from_collection(EVENTS, Types.TUPLE([Types.STRING(), Types.LONG()]))
    events.process(Tell(), Types.STRING()).print("none")
    env.execute()
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20))
    timed = events.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(SecondField()))
    timed.process(Tell(), Types.STRING()).print("assigned")
    env.execute()
    timed.map(lambda event: event[0], Types.STRING()).process(Tell(), Types.STRING()).print("mapped")
    env.execute()
    again = timed.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(Later()))
    again.process(Tell(), Types.STRING()).print("again")
    env.execute()
    timed.key_by(lambda event: event[0], Types.STRING()).process(AtTheEnd(), Types.STRING()).print("timers")
    env.execute()


if __name__ == "__main__":
    main()
