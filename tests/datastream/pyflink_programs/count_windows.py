"""Count windows, global windows, and windows, triggers and assigners of the user's own."""

from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import ProcessWindowFunction, WindowFunction
from pyflink.datastream.state import ReducingStateDescriptor, ValueStateDescriptor
from pyflink.datastream.window import (
    CountSlidingWindowAssigner,
    CountTrigger,
    CountWindow,
    GlobalWindows,
    MergingWindowAssigner,
    PurgingTrigger,
    TimeWindow,
    TimeWindowSerializer,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    WindowAssigner,
)

READINGS = [("hi", 1), ("hello", 2), ("hi", 2), ("hi", 3), ("hello", 6), ("hi", 5), ("hi", 8), ("hello", 7), ("hi", 9)]


class Seconds(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1] * 1000


class Sum(WindowFunction[tuple, tuple, str, CountWindow]):
    def apply(self, key: str, window: CountWindow, inputs):
        result = 0
        for i in inputs:
            result += i[1]
        return [(key, result)]


class Describe(ProcessWindowFunction[tuple, str, str, CountWindow]):
    def process(self, key, context, elements):
        yield f"{key} {context.window()} {[second for _, second in elements]}"


class OnBig(Trigger[tuple, TimeWindow]):
    """Fires once the seconds of a window add up to 5, and at the window's end."""

    def __init__(self):
        self.sum = ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG())

    def on_element(self, element, timestamp, window, ctx: "Trigger.TriggerContext"):
        ctx.register_event_time_timer(window.max_timestamp())
        total = ctx.get_partitioned_state(self.sum)
        total.add(element[1])
        if total.get() < 5:
            return TriggerResult.CONTINUE
        total.clear()
        return TriggerResult.FIRE_AND_PURGE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self):
        return True

    def on_merge(self, window, ctx: "Trigger.OnMergeContext"):
        ctx.merge_partitioned_state(self.sum)
        ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.sum).clear()
        ctx.delete_event_time_timer(window.max_timestamp())


class EvenAndOdd(WindowAssigner[tuple, TimeWindow]):
    """Windows of 4 seconds, and of 6 for even seconds too."""

    def assign_windows(self, element, timestamp, context):
        windows = [TimeWindow(timestamp // 4000 * 4000, timestamp // 4000 * 4000 + 4000)]
        if element[1] % 2 == 0:
            windows.append(TimeWindow(timestamp // 6000 * 6000, timestamp // 6000 * 6000 + 6000))
        return windows

    def get_default_trigger(self, env):
        return OnBig()

    def get_window_serializer(self):
        return TimeWindowSerializer()

    def is_event_time(self):
        return True


class Clusters(MergingWindowAssigner[tuple, TimeWindow]):
    """Sessions of 1.5 seconds."""

    def assign_windows(self, element, timestamp, context):
        return [TimeWindow(timestamp, timestamp + 1500)]

    def merge_windows(self, windows, callback: "MergingWindowAssigner.MergeCallback"):
        TimeWindow.merge_windows(windows, callback)

    def get_default_trigger(self, env):
        return OnBig()

    def get_window_serializer(self):
        return TimeWindowSerializer()

    def is_event_time(self):
        return True


class CountFirings(ProcessWindowFunction[tuple, str, str, CountWindow]):
    def process(self, key, context, elements):
        firings = context.global_state().get_state(ValueStateDescriptor("firings", Types.INT()))
        firings.update((firings.value() or 0) + 1)
        yield f"{key}: firing {firings.value()} of {len(list(elements))}"


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Seconds())
    readings = env.from_collection(READINGS, Types.TUPLE([Types.STRING(), Types.INT()]))
    keyed = readings.assign_timestamps_and_watermarks(strategy).key_by(lambda v: v[0], key_type=Types.STRING())
    pair = Types.TUPLE([Types.STRING(), Types.INT()])

    keyed.count_window(2).apply(Sum(), pair).print("tumbling")
    keyed.count_window(3, 2).process(Describe(), Types.STRING()).print("sliding")
    keyed.window(CountSlidingWindowAssigner(1, 3)).process(Describe(), Types.STRING()).print("sampled")
    keyed.count_window(3).trigger(CountTrigger.of(2)).process(Describe(), Types.STRING()).print("early")
    keyed.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(4))).apply(Sum(), pair).print(
        "global"
    )
    keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(2)).process(CountFirings(), Types.STRING()).print(
        "growing"
    )
    keyed.window(EvenAndOdd()).process(Describe(), Types.STRING()).print("own windows")
    keyed.window(Clusters()).process(Describe(), Types.STRING()).print("own sessions")
    keyed.window(TumblingEventTimeWindows.of(Time.seconds(4), Time.seconds(-1))).trigger(OnBig()).process(
        Describe(), Types.STRING()
    ).print("offset")
    env.execute()


if __name__ == "__main__":
    main()
