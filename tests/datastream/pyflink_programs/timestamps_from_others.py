"""Timestamp assigners and timers that are given other numbers than int."""

from outcomes import show
from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, ProcessFunction, StreamExecutionEnvironment


class Assign(TimestampAssigner):
    def __init__(self, function):
        self.function = function

    def extract_timestamp(self, value, record_timestamp):
        return self.function(value)


class Tell(ProcessFunction):
    def process_element(self, value, ctx):
        yield f"{value} at {ctx.timestamp()}"


class Wait(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value + 10)
        return []

    def on_timer(self, timestamp, ctx):
        yield f"{timestamp!r} of {ctx.get_current_key()!r}"


ASSIGNERS = [
    ("int", lambda value: value * 1000),
    ("float", lambda value: value + 0.7),
    ("negative float", lambda value: -value - 0.7),
    ("text", lambda value: "1"),
    ("None", lambda value: None),
    ("beyond 64 bits", lambda value: 2**63),
    ("nan", lambda value: float("nan")),
]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([1, 2], Types.INT())
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    for label, function in ASSIGNERS:
        timed = numbers.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(Assign(function)))
        show(label, timed.process(Tell(), Types.STRING()))
    timed = numbers.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(Assign(lambda value: value)))
    for key_type, selector in ((Types.FLOAT(), lambda n: n / 10), (Types.TUPLE([Types.STRING()]), lambda n: ("k",))):
        show(f"timers by {key_type}", timed.key_by(selector, key_type).process(Wait(), Types.STRING()))


if __name__ == "__main__":
    main()
