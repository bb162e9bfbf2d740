"""Interval join: against a plain-Python model, with records out of order and late; bounds, cleanup, rescaling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common.typeinfo import Types
from runtime.core.elements import MIN_WATERMARK, Watermark
from runtime.operators.errors import MissingTimestampError, UserFunctionError
from runtime.operators.interval_join import BUFFERS, IntervalJoinOperatorFactory
from runtime.operators.output_tag import OutputTag
from runtime.operators.two_input_functions import ProcessJoinFunction
from runtime.testing.harness import Stage
from runtime.testing.two_input_harness import TwoInputHarness, TwoInputStage, assert_two_inputs_survive_rescaling

LATE = (OutputTag("late-left"), OutputTag("late-right"))
RECORD = Types.TUPLE([Types.STRING(), Types.LONG()])

Record = tuple[str, int]
Step = tuple[int, Record | int]
"""(side, record at the event time that is its second field) or (side, watermark)."""


def key_of(value: Record) -> str:
    return value[0]


KEYS = (key_of, key_of)


class Pairing(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        assert ctx.get_timestamp() == max(ctx.get_left_timestamp(), ctx.get_right_timestamp())
        yield left, right, ctx.get_left_timestamp(), ctx.get_right_timestamp()


def join(lower: int, upper: int, late: Any = (None, None)) -> IntervalJoinOperatorFactory:
    return IntervalJoinOperatorFactory(Pairing(), KEYS, lower, upper, (RECORD, None), late)


def model(steps: Sequence[Step], lower: int, upper: int) -> tuple[list[Any], list[list[Record]]]:
    """Pairs in order of emission, and the late records of both sides.

    As in Flink a record is gone once the watermark reaches the last time that it may meet, although another record of
    that very time is not late yet.
    """
    marks, seen = [MIN_WATERMARK, MIN_WATERMARK], [list[tuple[Record, int]](), list[tuple[Record, int]]()]
    reach = (max(upper, 0), max(-lower, 0))
    pairs: list[Any] = []
    late: list[list[Record]] = [[], []]
    for side, step in steps:
        if isinstance(step, int):
            marks[side] = max(marks[side], step)
        elif step[1] < min(marks):
            late[side].append(step)
        else:
            for other, gone_at in seen[1 - side]:
                if min(marks) >= gone_at:
                    continue
                left, right = (step, other) if side == 0 else (other, step)
                if left[0] == right[0] and lower <= right[1] - left[1] <= upper:
                    pairs.append((left, right, left[1], right[1]))
            # its timer fires when the watermark rises, not at once
            seen[side].append((step, max(step[1] + reach[side], min(marks) + 1)))
    return pairs, late


def run(harness: TwoInputHarness, steps: Sequence[Step]) -> None:
    processes = (harness.process1, harness.process2)
    watermarks = (harness.process_watermark1, harness.process_watermark2)
    for side, step in steps:
        if isinstance(step, int):
            watermarks[side](step)
        else:
            processes[side]([step], [step[1]])


RECORDS = st.tuples(st.sampled_from("ab"), st.integers(-10, 40))
STEPS = st.lists(st.tuples(st.integers(0, 1), st.one_of(RECORDS, RECORDS, st.integers(-10, 40))), max_size=30)
BOUNDS = st.tuples(st.integers(-15, 15), st.integers(0, 12)).map(lambda bounds: (bounds[0], bounds[0] + bounds[1]))


@settings(deadline=None)  # a loaded machine is no failure
@given(STEPS, BOUNDS)
def test_pairs_and_late_records_are_those_of_the_model(steps: list[Step], bounds: tuple[int, int]) -> None:
    pairs, late = model(steps, *bounds)
    with TwoInputHarness(join(*bounds, LATE), KEYS) as harness:
        run(harness, steps)
        harness.end_input()
        left_over = [name for name in BUFFERS if list(harness.operator.backend.keys(name))]  # type: ignore[attr-defined]
    assert sorted(harness.values) == sorted(pairs)
    assert [[record.value for record in harness.side_output(tag)] for tag in LATE] == late
    assert left_over == []


def test_both_bounds_are_inclusive_and_results_carry_the_later_time() -> None:
    with TwoInputHarness(join(-2, 3), KEYS) as harness:
        harness.process1([("a", 10)], [10])
        harness.process2([("a", n) for n in (7, 8, 13, 14)], [7, 8, 13, 14])
        harness.process_both_watermarks(20)
    assert harness.output == [
        ((("a", 10), ("a", 8), 10, 8), 10),
        ((("a", 10), ("a", 13), 10, 13), 13),
        Watermark(20),
    ]


def test_late_records_without_a_side_output_are_counted() -> None:
    with TwoInputHarness(join(0, 0), KEYS) as harness:
        harness.process_both_watermarks(10)
        harness.process1([("a", 9), ("a", 10)], [9, 10])
        harness.process2([("a", 10)], [10])
        assert harness.counter("numLateRecordsDropped") == 1
    assert harness.values == [(("a", 10), ("a", 10), 10, 10)]


def test_a_bucket_goes_as_soon_as_nothing_can_meet_it() -> None:
    with TwoInputHarness(join(0, 5), KEYS) as harness:
        harness.process1([("a", 10)], [10])
        harness.process2([("a", 10)], [10])
        harness.process_both_watermarks(10)
        backend = harness.operator.backend  # type: ignore[attr-defined]
        assert [list(backend.keys(name)) for name in BUFFERS] == [["a"], []]
        harness.process_both_watermarks(15)
        assert [list(backend.keys(name)) for name in BUFFERS] == [[], []]


def test_a_record_without_event_time_is_refused() -> None:
    with TwoInputHarness(join(0, 5), KEYS) as harness:
        with pytest.raises(UserFunctionError, match="assign_timestamps_and_watermarks") as raised:
            harness.process1([("a", 10)])
        assert isinstance(raised.value.__cause__, MissingTimestampError)


def test_another_function_is_refused() -> None:
    with pytest.raises(TypeError, match="ProcessJoinFunction"):
        IntervalJoinOperatorFactory(max, KEYS, 0, 1)  # type: ignore[arg-type]


def stage(start: int) -> TwoInputStage:
    def side(offset: int) -> Stage:
        values = [(f"k{n % 5}", start + n % 13 - offset) for n in range(14)]
        return Stage(values, [value[1] for value in values], start - 2)

    return TwoInputStage(side(0), side(3))


def test_survives_rescaling() -> None:
    assert_two_inputs_survive_rescaling(join(-4, 6, LATE), [stage(start) for start in (10, 20, 30, 40)], KEYS)
