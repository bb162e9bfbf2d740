"""Temporal join: against a plain-Python model, with versions out of order and late records; pruning, rescaling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common.typeinfo import Types
from runtime.core.elements import MAX_WATERMARK, MIN_WATERMARK, Watermark
from runtime.operators.output_tag import OutputTag
from runtime.operators.temporal_join import LEFT_STATE, TemporalJoinOperatorFactory
from runtime.operators.two_input_functions import ProcessJoinFunction
from runtime.testing.harness import Stage
from runtime.testing.two_input_harness import TwoInputHarness, TwoInputStage, assert_two_inputs_survive_rescaling

LATE = OutputTag("late")
RECORD = Types.TUPLE([Types.STRING(), Types.LONG()])

Record = tuple[str, int]
Step = tuple[int, Record | int]
"""(side, record at the event time that is its second field) or (side, watermark)."""


def key_of(value: Record) -> str:
    return value[0]


KEYS = (key_of, key_of)


class Enriching(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        assert ctx.get_timestamp() == ctx.get_left_timestamp()
        yield left, right


def join(is_left_outer: bool = False, late: OutputTag | None = None) -> TemporalJoinOperatorFactory:
    return TemporalJoinOperatorFactory(Enriching(), KEYS, is_left_outer, (RECORD, RECORD), late)


def model(steps: Sequence[Step], is_left_outer: bool) -> tuple[list[Any], list[Record]]:
    """Results, and the late left records."""
    marks, waiting = [MIN_WATERMARK, MIN_WATERMARK], list[Record]()
    versions: dict[tuple[str, int], Record] = {}
    results: list[Any] = []
    late: list[Record] = []
    for side, step in [*steps, (0, MAX_WATERMARK), (1, MAX_WATERMARK)]:
        if not isinstance(step, int):
            if side:
                versions[step] = step
            elif step[1] <= min(marks):
                late.append(step)
            else:
                waiting.append(step)
            continue
        marks[side] = max(marks[side], step)
        for left in [left for left in waiting if left[1] <= min(marks)]:
            waiting.remove(left)
            valid = [at for key, at in versions if key == left[0] and at <= left[1]]
            if valid or is_left_outer:
                results.append((left, versions[left[0], max(valid)] if valid else None))
    return results, late


RECORDS = st.tuples(st.sampled_from("ab"), st.integers(0, 30))
STEPS = st.lists(st.tuples(st.integers(0, 1), st.one_of(RECORDS, RECORDS, st.integers(0, 30))), max_size=30)


@settings(deadline=None)  # a loaded machine is no failure
@given(STEPS, st.booleans())
def test_results_and_late_records_are_those_of_the_model(steps: list[Step], is_left_outer: bool) -> None:
    results, late = model(steps, is_left_outer)
    with TwoInputHarness(join(is_left_outer, LATE), KEYS) as harness:
        processes = (harness.process1, harness.process2)
        watermarks = (harness.process_watermark1, harness.process_watermark2)
        for side, step in steps:
            if isinstance(step, int):
                watermarks[side](step)
            else:
                processes[side]([step], [step[1]])
        harness.end_input()
        assert list(harness.operator.backend.keys(LEFT_STATE)) == []  # type: ignore[attr-defined]
        backend = harness.operator.backend  # type: ignore[attr-defined]
        for key in backend.keys("temporal-versions"):
            backend.set_current_key(key)
            assert len(list(harness.operator._versions.keys())) == 1  # type: ignore[attr-defined]
    assert sorted(harness.values, key=repr) == sorted(results, key=repr)
    assert [record.value for record in harness.side_output(LATE)] == late


def test_a_record_waits_for_the_watermark_and_takes_the_latest_version_until_then() -> None:
    with TwoInputHarness(join(), KEYS) as harness:
        harness.process1([("a", 10), ("a", 5)], [10, 5])
        harness.process2([("a", 3), ("a", 11)], [3, 11])
        harness.process_both_watermarks(9)
        harness.process2([("a", 7), ("a", 10)], [7, 10])
        harness.process_both_watermarks(10)
    assert harness.output == [
        ((("a", 5), ("a", 3)), 5),
        Watermark(9),
        ((("a", 10), ("a", 10)), 10),
        Watermark(10),
    ]


def test_none_ends_a_version() -> None:
    factory = TemporalJoinOperatorFactory(Enriching(), (lambda value: "k", lambda value: "k"), is_left_outer=True)
    with TwoInputHarness(factory) as harness:
        harness.process2([1, None, 3], [1, 5, 9])
        harness.process1(["a", "b", "c", "d"], [0, 1, 5, 9])
        harness.end_input()
    assert harness.values == [("a", None), ("b", 1), ("c", None), ("d", 3)]


def test_late_records_without_a_side_output_are_counted() -> None:
    with TwoInputHarness(join(), KEYS) as harness:
        harness.process_both_watermarks(10)
        harness.process1([("a", 10), ("a", 11)], [10, 11])
        assert harness.counter("numLateRecordsDropped") == 1


def test_another_function_is_refused() -> None:
    with pytest.raises(TypeError, match="ProcessJoinFunction"):
        TemporalJoinOperatorFactory(max, KEYS)  # type: ignore[arg-type]


def stage(start: int) -> TwoInputStage:
    def side(offset: int, count: int) -> Stage:
        values = [(f"k{n % 5}", start + n % 13 - offset) for n in range(count)]
        return Stage(values, [value[1] for value in values], start - 2)

    return TwoInputStage(side(0, 14), side(3, 6))


def test_survives_rescaling() -> None:
    assert_two_inputs_survive_rescaling(join(True, LATE), [stage(start) for start in (10, 20, 30, 40)], KEYS)
