"""Timers that fire in slices do what they do at once, also if a snapshot is taken and restored between two slices."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common.time import Time
from runtime.common.typeinfo import Types
from runtime.common.types import Row
from runtime.core.batch import Mark, RecordBatch
from runtime.core.column_keys import ColumnKeys
from runtime.core.elements import MAX_WATERMARK, Watermark, WatermarkStatus
from runtime.operators.co_operators import CoProcessOperatorFactory
from runtime.operators.columnar.aggregates import aggregate_spec
from runtime.operators.columnar.panes import panes_of
from runtime.operators.columnar.session_aggregate import SessionAggregateOperatorFactory, SessionAggregateSpec
from runtime.operators.columnar.window_aggregate import WindowAggregateSpec
from runtime.operators.columnar.window_factory import WindowAggregateOperatorFactory
from runtime.operators.functions import KeyedProcessFunction, ProcessWindowFunction
from runtime.operators.operator import OperatorFactory
from runtime.operators.process_operators import KeyedProcessOperatorFactory
from runtime.operators.two_input_functions import KeyedCoProcessFunction
from runtime.operators.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from runtime.operators.windowing.contents import ListContents, ReduceContents
from runtime.operators.windowing.factory import WindowOperatorFactory
from runtime.operators.windowing.session_windows import EventTimeSessionWindows
from runtime.state.descriptors import ValueStateDescriptor
from runtime.state.snapshot import OperatorSnapshot
from runtime.state.timer_slice import TimerSlice
from runtime.testing import ManualClock, OneInputHarness, TwoInputHarness

COUNT = ValueStateDescriptor("count", Types.LONG())
KEYS = "abc"
Item = Any
"""What came out: a record's value and time, or a watermark."""


class Chains(KeyedProcessFunction):
    """Registers a timer for each record, some in the past; timers register and delete others."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        key, delay = value
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + delay)
        yield key, "seen", self.count.value()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        if timestamp % 3 == 0:
            ctx.timer_service().register_event_time_timer(timestamp + 1)
        if timestamp % 5 == 0:
            ctx.timer_service().delete_event_time_timer(timestamp + 2)
        yield ctx.get_current_key(), timestamp, self.count.value()


def expected_of_chains(batches: Sequence[RecordBatch]) -> list[Item]:
    """Return the output of `Chains`, computed with a sorted list of timers."""
    timers: set[tuple[int, str]] = set()
    counts: Counter[str] = Counter()
    out: list[Item] = []
    reached = -(2**63)
    for batch in [*batches, RecordBatch.of_values([], [], (Mark(0, MAX_WATERMARK),))]:
        for start, stop, watermark in batch.segments():
            for (key, delay), time in zip(batch.values()[start:stop], batch.timestamps()[start:stop], strict=True):  # type: ignore[index]
                counts[key] += 1
                timers.add((time + delay, key))
                out.append((key, "seen", counts[key]))
            if watermark is not None and watermark >= reached:
                reached = watermark
                while timers and min(timers)[0] <= watermark:
                    time, key = min(timers)
                    timers.discard((time, key))
                    if time % 3 == 0:
                        timers.add((time + 1, key))
                    if time % 5 == 0:
                        timers.discard((time + 2, key))
                    out.append((key, time, counts[key]))
                out.append(watermark)
    return out


class Describe(ProcessWindowFunction):
    """Says what is in a window."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        yield key, context.window().start, context.window().end, sorted(delay for _, delay in elements)


def by_watermark(items: Sequence[Item]) -> list[Any]:
    """Group the output by the watermark that follows it; sort each group, as keys have no order."""
    stretches: list[Any] = []
    records: dict[Any, list[Any]] = {}
    watermarks = [-(2**63)]
    rising = []
    for item in items:
        if not isinstance(item, int):
            rising.append(item)
        elif item > watermarks[-1]:
            watermarks.append(item)
            rising.append(item)
    for is_watermark, some in itertools.groupby(rising, lambda item: isinstance(item, int)):
        if is_watermark:
            stretches.append((records, [*some][-1]))
            records = {}
        else:
            for item in some:
                records.setdefault(item[0], []).append(item)
    return [*stretches, records]


def items_of(harness: OneInputHarness | TwoInputHarness) -> list[Item]:
    items: list[Item] = []
    for element in harness.output:
        if isinstance(element, Watermark):
            items.append(element.timestamp)
        elif not isinstance(element, WatermarkStatus):
            items.append(tuple(element.value))  # type: ignore[union-attr]
    harness.output.clear()
    return items


@dataclass
class Program:
    """An operator, and its key."""

    factory: OperatorFactory
    key_selector: Any = None
    input_type: Any = None

    def harness(self, per_slice: int | None, snapshot: OperatorSnapshot | None = None) -> OneInputHarness:
        return OneInputHarness(
            self.factory,
            self.key_selector,
            snapshot=snapshot,
            input_type=self.input_type,
            timers_per_slice=per_slice,
        )


ROW = Types.ROW_NAMED(["key", "delay"], [Types.STRING(), Types.LONG()])


def key_of(value: Any) -> Any:
    return value[0]


def windows(assigner: Any, lateness_ms: int = 0) -> Program:
    factory = WindowOperatorFactory(assigner, key_of, ListContents(), Describe(), allowed_lateness_ms=lateness_ms)
    return Program(factory, key_of)


def columns(assigner: Any, lateness_ms: int = 0) -> Program:
    aggregates = aggregate_spec(ROW, ["key"], [], {"n": "count(*)", "total": "sum(delay)", "start": "window_start"})
    panes = panes_of(assigner)
    assert panes is not None
    spec = WindowAggregateSpec(aggregates, panes, lateness_ms)
    return Program(WindowAggregateOperatorFactory(spec), ColumnKeys(["key"], ROW), ROW)


def session_columns() -> Program:
    aggregates = aggregate_spec(ROW, ["key"], [], {"n": "count(*)", "start": "window_start", "end": "window_end"})
    spec = SessionAggregateSpec(aggregates, 4)
    return Program(SessionAggregateOperatorFactory(spec), ColumnKeys(["key"], ROW), ROW)


TUMBLING = TumblingEventTimeWindows.of(Time.milliseconds(4))
SLIDING = SlidingEventTimeWindows.of(Time.milliseconds(6), Time.milliseconds(2))
SESSIONS = EventTimeSessionWindows.with_gap(Time.milliseconds(4))
PROGRAMS = {
    "timers": lambda: Program(KeyedProcessOperatorFactory(Chains(), key_of), key_of),
    "tumbling": lambda: windows(TUMBLING),
    "sliding": lambda: windows(SLIDING),
    "late": lambda: windows(SLIDING, 3),
    "sessions": lambda: windows(SESSIONS),
    "reduced": lambda: Program(WindowOperatorFactory(SLIDING, key_of, ReduceContents(max)), key_of),
    "tumbling columns": lambda: columns(TUMBLING),
    "sliding columns": lambda: columns(SLIDING),
    "late columns": lambda: columns(SLIDING, 3),
    "session columns": session_columns,
}


@st.composite
def inputs(draw: st.DrawFn) -> list[RecordBatch]:
    """Batches with marks, also behind each other at the same row, and watermarks of their own."""
    batches = []
    watermark = 0
    for _ in range(draw(st.integers(1, 5))):
        rows = draw(st.lists(st.tuples(st.sampled_from(KEYS), st.integers(-3, 12)), max_size=12))
        times = [watermark + draw(st.integers(-4, 12)) for _ in rows]
        marks = []
        for offset in sorted(draw(st.lists(st.integers(0, len(rows)), max_size=4))):
            watermark += draw(st.integers(0, 8))
            marks.append(Mark(offset, watermark))
        if rows or marks:
            batches.append(RecordBatch.of_values(list(rows), times, marks))
    return batches


def copy_of(batch: RecordBatch, input_type: Any) -> RecordBatch:
    values = [value if input_type is None else Row(*value) for value in batch.values()]
    return RecordBatch.of_values(values, list(batch.timestamps() or ()), batch.marks, input_type)


def run_at_once(program: Program, batches: Sequence[RecordBatch]) -> list[Item]:
    with program.harness(None) as harness:
        for batch in batches:
            harness.process_batch(copy_of(batch, program.input_type))
        harness.end_input()
        return items_of(harness)


def run_in_slices(program: Program, batches: Sequence[RecordBatch], per_slice: int, restores: Sequence[bool]) -> Any:
    """Run with a snapshot and a restore between slices where `restores` says so."""
    again = itertools.chain(restores, itertools.repeat(False))
    harness = program.harness(per_slice)
    out: list[Item] = []
    num_between = 0
    watermark = RecordBatch.of_values([], [], (Mark(0, MAX_WATERMARK),))
    for batch in [*batches, watermark]:
        harness.process_batch(copy_of(batch, program.input_type))
        while harness.is_firing:
            num_between += 1
            if next(again):
                snapshot, unread = harness.snapshot(), harness.unread
                out += items_of(harness)
                harness.close()
                harness = program.harness(per_slice, snapshot)
                harness.fire_all()
                if unread is not None:
                    harness.process_batch(unread)
            else:
                harness.fire_on()
    harness.finish()
    out += items_of(harness)
    harness.close()
    return out


@pytest.mark.parametrize("name", PROGRAMS)
@given(batches=inputs(), per_slice=st.integers(1, 5), restores=st.lists(st.booleans(), max_size=12))
@settings(deadline=None, max_examples=40)
def test_slices_with_restores_between_them_give_what_one_step_gives(
    name: str, batches: list[RecordBatch], per_slice: int, restores: list[bool]
) -> None:
    program = PROGRAMS[name]()
    at_once = run_at_once(program, batches)
    assert by_watermark(run_in_slices(program, batches, per_slice, restores)) == by_watermark(at_once)


@given(batches=inputs(), per_slice=st.integers(1, 5), restores=st.lists(st.booleans(), max_size=12))
@settings(deadline=None, max_examples=100)
def test_timers_in_slices_fire_as_those_of_a_sorted_list(
    batches: list[RecordBatch], per_slice: int, restores: list[bool]
) -> None:
    in_slices = run_in_slices(PROGRAMS["timers"](), batches, per_slice, restores)
    assert by_watermark(in_slices) == by_watermark(expected_of_chains(batches))


class Meet(KeyedCoProcessFunction):
    """Registers a timer for each record of either input."""

    def process_element1(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    def process_element2(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 100)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp


def test_with_two_inputs_the_lower_watermark_fires_in_slices_and_a_status_waits_behind_it() -> None:
    factory = CoProcessOperatorFactory(Meet(), key_selectors=(key_of, key_of))
    with TwoInputHarness(factory, (key_of, key_of), timers_per_slice=2) as harness:
        rows = [(key, 0) for key in "abcde"]
        harness.process1(rows, [1, 2, 3, 4, 5])
        harness.process2(rows, [1, 2, 3, 4, 5])
        harness.process_watermark1(200)
        assert not harness.is_firing
        # the rest of the batch lies behind the mark whose timers fire first
        harness.process2([("z", 0), ("y", 0)], [50, 51], (Mark(1, 104),))
        assert harness.is_firing
        assert harness.values == [("a", 1), ("b", 2)]
        assert harness.watermarks == []
        unread = harness.unread
        assert unread is not None
        assert unread.values() == [("y", 0)]
        harness.fire_all()
        assert harness.watermarks == [104]
        assert harness.values[-1] == ("d", 104)
        harness.process_status1(WatermarkStatus.IDLE)
        harness.process_status2(WatermarkStatus.IDLE)
        harness.process_watermark1(300)
        harness.process_status1(WatermarkStatus.ACTIVE)
        assert harness.is_firing
        assert WatermarkStatus.ACTIVE not in harness.output
        harness.fire_all()
        assert harness.values[-3:] == [("e", 105), ("z", 150), ("y", 151)]
        assert harness.output[-2:] == [Watermark(300), WatermarkStatus.ACTIVE]


class Alarm(KeyedProcessFunction):
    """Registers a timer of processing time for each record."""

    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_processing_time_timer(10)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp


def test_timers_of_processing_time_fire_in_slices_and_those_left_are_in_a_snapshot() -> None:
    program = Program(KeyedProcessOperatorFactory(Alarm(), key_of), key_of)
    with program.harness(2) as harness:
        harness.process([(key, 0) for key in "abcde"])
        harness.advance_processing_time(20)
        assert harness.is_firing
        assert len(harness.values) == 2
        snapshot = harness.snapshot()
        harness.fire_all()
        assert len(harness.values) == 5
        fired = harness.values[:2]
    with program.harness(2, snapshot) as restored:
        restored.advance_processing_time(20)
        restored.fire_all()
        assert sorted([*fired, *restored.values]) == [(key, 10) for key in "abcde"]


def test_a_slice_ends_by_time_and_one_slow_timer_is_the_least_that_it_takes() -> None:
    clock = ManualClock()
    timer_slice = TimerSlice(clock, 20.0, 1000)

    def fired_in_a_slice(cost_ms: float) -> int:
        timer_slice.begin()
        fired = 0
        while timer_slice.left > 0 or timer_slice.renew():
            timer_slice.left -= 1
            fired += 1
            clock.advance(cost_ms)
        return fired

    assert fired_in_a_slice(1_000) == 1
    assert 10 <= fired_in_a_slice(1) <= 30
    assert fired_in_a_slice(0) == 1000
    timer_slice.begin()
    timer_slice.close()
    assert not timer_slice.renew()
