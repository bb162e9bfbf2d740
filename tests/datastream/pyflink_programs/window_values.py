"""Windows as plain values: assigners, merging, triggers' results, session gaps. Nothing is executed."""

from pyflink.common import Time
from pyflink.datastream.window import (
    CountWindow,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindow,
    GlobalWindows,
    ProcessingTimeTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return element


class Merged:
    def merge(self, to_be_merged, merge_result):
        windows = sorted((window.start, window.end) for window in to_be_merged)
        print(windows, "->", (merge_result.start, merge_result.end))


def pairs(windows):
    return [(window.start, window.end) for window in windows]


def main() -> None:
    for time in (-1, 0, 4_999, 5_000, 12_345):
        print(
            time,
            pairs(TumblingEventTimeWindows.of(Time.seconds(5)).assign_windows(None, time, None)),
            pairs(TumblingEventTimeWindows.of(Time.seconds(5), Time.seconds(2)).assign_windows(None, time, None)),
            pairs(SlidingEventTimeWindows.of(Time.seconds(5), Time.seconds(2)).assign_windows(None, time, None)),
            pairs(EventTimeSessionWindows.with_gap(Time.seconds(3)).assign_windows(None, time, None)),
            pairs(EventTimeSessionWindows.with_dynamic_gap(Gap()).assign_windows(700, time, None)),
        )
    windows = [TimeWindow(10, 20), TimeWindow(0, 5), TimeWindow(19, 25), TimeWindow(5, 7), TimeWindow(30, 31)]
    TimeWindow.merge_windows(windows, Merged())
    EventTimeSessionWindows.with_gap(Time.seconds(1)).merge_windows(windows, Merged())
    a, b = TimeWindow(0, 10), TimeWindow(10, 20)
    print(a, a.max_timestamp(), a.intersects(b), a.cover(b), a == TimeWindow(0, 10), a < b, hash(a) == hash(b))
    print([TimeWindow.get_window_start_with_offset(time, 3, 10) for time in (-8, -7, 2, 3, 12, 13)])
    print(CountWindow(7), CountWindow(7) == CountWindow(7), CountWindow(1).max_timestamp())
    print(GlobalWindow.get() == GlobalWindow(), GlobalWindow.get().max_timestamp())
    for result in TriggerResult:
        print(result, result.is_fire(), result.is_purge())
    assigners = [
        TumblingEventTimeWindows.of(Time.seconds(1)),
        TumblingProcessingTimeWindows.of(Time.seconds(1)),
        SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1)),
        SlidingProcessingTimeWindows.of(Time.seconds(2), Time.seconds(1)),
        EventTimeSessionWindows.with_gap(Time.seconds(1)),
        GlobalWindows.create(),
    ]
    for assigner in assigners:
        trigger = type(assigner.get_default_trigger(None)).__name__
        print(assigner, assigner.is_event_time(), trigger, type(assigner.get_window_serializer()).__name__)
    print(EventTimeTrigger.create().can_merge(), ProcessingTimeTrigger.create().can_merge())


if __name__ == "__main__":
    main()
