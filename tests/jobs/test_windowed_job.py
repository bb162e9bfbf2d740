"""An event-time job agrees with an independent loop in plain Python, in any division into tasks.

Watermarks follow every record, so that lateness depends on the order of the input alone: windows, late records and
timers must come out the same at every parallelism, chained or not, with copies or without, in small batches or large.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.common import Time, Types
from runtime.datastream import DataStream, KeyedProcessFunction, OutputTag, RuntimeContext, StreamExecutionEnvironment
from runtime.datastream.functions import ProcessWindowFunction
from runtime.datastream.state import ValueStateDescriptor
from runtime.datastream.window import TimeWindow, TumblingEventTimeWindows
from tests.datastream.running import ROW_BY_ROW, environment, row_by_row, values_of

Event = tuple[str, int]
"""Key, event time in ms."""
WINDOW_MS = 100
DELAY_MS = 20
LATE = OutputTag("late")

#: options of the engine that must not change what comes out
VARIANTS: list[tuple[int, dict[str, str]]] = [
    (1, {}),
    (2, {}),
    (4, {"pipeline.object-reuse": "true"}),
    (3, {"pipeline.operator-chaining.enabled": "false"}),
    (2, {"execution.buffer-timeout.interval": "0 ms"}),
    (3, {"execution.buffer-timeout.interval": "-1 ms", "taskmanager.network.memory.channel-window": "200 b"}),
]


class Describe(ProcessWindowFunction[Any, Any, Any, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Event]
    ) -> Iterator[Any]:
        yield "window", key, context.window().start, tuple(timestamp for _, timestamp in elements)


class CountLate(KeyedProcessFunction):
    """Counts late records per key; tells the count when event time ends."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> None:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(10**9)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield "late", ctx.get_current_key(), timestamp, (self.count.value(),)


def define(env: StreamExecutionEnvironment, events: list[Event]) -> DataStream:
    timed = env.from_collection(events).assign_timestamps_and_watermarks(row_by_row(DELAY_MS)).set_parallelism(1)
    windows = (
        timed.key_by(lambda event: event[0])
        .window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
        .side_output_late_data(LATE)
        .process(Describe())
    )
    late = windows.get_side_output(LATE).key_by(lambda event: event[0]).process(CountLate())
    return windows.union(late).map(lambda result: result)


def expected(events: list[Event]) -> list[Any]:
    """The same by hand: one record after the other."""
    windows: dict[tuple[str, int], list[int]] = {}
    late: dict[str, int] = {}
    watermark = -(2**63)
    for key, timestamp in events:
        start = timestamp - timestamp % WINDOW_MS
        if start + WINDOW_MS - 1 <= watermark:
            late[key] = late.get(key, 0) + 1
        else:
            windows.setdefault((key, start), []).append(timestamp)
        watermark = max(watermark, timestamp - DELAY_MS - 1)
    return sorted(
        [("window", key, start, tuple(times)) for (key, start), times in windows.items()]
        + [("late", key, 10**9, (count,)) for key, count in late.items()]
    )


#: event time goes up by and large, with steps back of more than the bound
EVENTS = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(-60, 90)), max_size=60).map(
    lambda steps: [(key, max(0, index * 25 + jitter)) for index, (key, jitter) in enumerate(steps)]
)


@given(events=EVENTS, variant=st.sampled_from(VARIANTS))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_job_agrees_with_a_loop_over_the_events(events: list[Event], variant: tuple[int, dict[str, str]]) -> None:
    parallelism, options = variant
    assert sorted(values_of(define(environment(parallelism, {**ROW_BY_ROW, **options}), events))) == expected(events)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_thousands_of_events_come_out_the_same_in_every_variant(variant: tuple[int, dict[str, str]]) -> None:
    events = [(f"key {index * 7919 % 31}", max(0, index * 3 - index * 104_729 % 61)) for index in range(5_000)]
    parallelism, options = variant
    results = sorted(values_of(define(environment(parallelism, {**ROW_BY_ROW, **options}), events)))
    assert results == expected(events)
    assert any(kind == "late" for kind, *_ in results)
