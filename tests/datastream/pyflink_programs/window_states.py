"""Windows with per-window and global state, an early-firing trigger, and windows over a whole stream."""

from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import AllWindowFunction, ProcessAllWindowFunction, ProcessWindowFunction
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.datastream.window import CountTrigger, PurgingTrigger, TumblingEventTimeWindows

READINGS = [("a", 1), ("a", 2), ("b", 3), ("a", 11), ("a", 12), ("a", 13), ("b", 25)]


class Seconds(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1] * 1000


class Fire(ProcessWindowFunction):
    def process(self, key, context, elements):
        fired = context.window_state().get_state(ValueStateDescriptor("fired", Types.INT()))
        windows = context.global_state().get_state(ValueStateDescriptor("windows", Types.INT()))
        if fired.value() is None:
            windows.update((windows.value() or 0) + 1)
        fired.update((fired.value() or 0) + 1)
        seconds = [second for _, second in elements]
        yield f"{key} {context.window().start}: firing {fired.value()} of window {windows.value()}: {seconds}"

    def clear(self, context):
        context.window_state().get_state(ValueStateDescriptor("fired", Types.INT())).clear()


class CountAll(AllWindowFunction):
    def apply(self, window, inputs):
        yield window.start, len(list(inputs))


class ListAll(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield f"{context.window().end} {sorted(elements)}"

    def clear(self, context):
        pass


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Seconds())
    readings = env.from_collection(READINGS, Types.TUPLE([Types.STRING(), Types.INT()]))
    timed = readings.assign_timestamps_and_watermarks(strategy)
    keyed = timed.key_by(lambda reading: reading[0], key_type=Types.STRING())
    windows = TumblingEventTimeWindows.of(Time.seconds(10))

    keyed.window(windows).process(Fire(), Types.STRING()).print("default")
    env.execute()
    keyed.window(windows).trigger(CountTrigger.of(2)).process(Fire(), Types.STRING()).print("count")
    env.execute()
    keyed.window(windows).trigger(PurgingTrigger.of(CountTrigger.of(2))).process(Fire(), Types.STRING()).print("purge")
    env.execute()
    timed.window_all(windows).apply(CountAll(), Types.TUPLE([Types.LONG(), Types.INT()])).print("all")
    env.execute()
    timed.window_all(windows).process(ListAll(), Types.STRING()).print("listed")
    env.execute()


if __name__ == "__main__":
    main()
