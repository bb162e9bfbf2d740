"""Interval and window joins by column against the operators that call a function for each pair."""

from __future__ import annotations

import datetime
import decimal
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Row, RowKind
from runtime.common.time import Instant
from runtime.common.typeinfo import RowTypeInfo, Types
from runtime.core.batch import Mark, RecordBatch
from runtime.core.elements import Watermark, WatermarkStatus
from runtime.core.keys import encode_key
from runtime.operators.columnar import interval_join
from runtime.operators.columnar.expressions import ColumnExpressionError
from runtime.operators.columnar.input_checks import ChangelogInputError
from runtime.operators.columnar.interval_join import ColumnIntervalJoinOperatorFactory, ColumnIntervalJoinSpec
from runtime.operators.columnar.join_columns import JoinSides
from runtime.operators.columnar.panes import panes_of
from runtime.operators.columnar.window_aggregate import WindowAggregateSpec
from runtime.operators.columnar.window_factory import WindowAggregateOperatorFactory
from runtime.operators.columnar.window_join import HOWS, AlikeOperatorFactory, How, WindowJoinSpec
from runtime.operators.errors import MissingTimestampError
from runtime.operators.functions import WindowFunction
from runtime.operators.interval_join import IntervalJoinOperatorFactory
from runtime.operators.operator import OperatorFactory
from runtime.operators.output_tag import OutputTag
from runtime.operators.two_input_functions import ProcessJoinFunction
from runtime.operators.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows, WindowAssigner
from runtime.operators.windowing.contents import ListContents
from runtime.operators.windowing.factory import WindowOperatorFactory
from runtime.state.errors import StateMigrationError
from runtime.state.key_groups import key_group_of, operator_index_for_key_group
from runtime.state.redistribution import redistribute
from runtime.state.snapshot import OperatorSnapshot
from runtime.testing.clock import ManualClock
from runtime.testing.harness import OneInputHarness, OutputRecord, assert_same_when_rescaled, run_rescaling
from runtime.testing.two_input_harness import TwoInputHarness
from tests.operators.columnar.runs import END, ROWS, Run, batch_of, feed, normalized, runs, timeline

#: shares `key` and `number` with the left side
RIGHT = Types.ROW_NAMED(["number", "key", "city"], [Types.LONG(), Types.STRING(), Types.STRING()])
SIDES = JoinSides((ROWS, RIGHT), (("key",), ("key",)))
TAGS = (OutputTag("late-left", ROWS), OutputTag("late-right", RIGHT))
Step = tuple[int, Run]
"""(side, rows with their marks); the rows of the right side are made of the left one's."""


def right_row(row: Row) -> Row:
    return Row(number=row["number"], key=row["key"], city=row["text"])


def steps(max_steps: int = 6, max_size: int = 8) -> st.SearchStrategy[list[Step]]:
    return st.lists(st.tuples(st.integers(0, 1), runs(max_size)), max_size=max_steps)


def lifted(found: Sequence[Step], by: int = 6) -> list[Step]:
    """Steps that go on in event time."""
    return [
        (side, (rows, [t + n * by for t in times], [Mark(o, w + n * by) for o, w in marks]))
        for n, (side, (rows, times, marks)) in enumerate(found)
    ]


def batch_for(side: int, run: Run) -> RecordBatch:
    rows, times, marks = run
    if side == 0:
        return batch_of(rows, times, marks, as_columns=True)
    return RecordBatch.of_values([right_row(row) for row in rows], list(times), marks, RIGHT)


def joined(left: Row, right: Row) -> Row:
    return Row(**left.as_dict(), number_right=right["number"], key_right=right["key"], city=right["city"])


class Pairing(ProcessJoinFunction):
    def process_element(self, left: Row, right: Row, ctx: ProcessJoinFunction.Context) -> Iterator[Row]:
        yield joined(left, right)


def key_of(row: Row) -> Any:
    return row["key"]


def by_column(lower: int, upper: int, tags: Any = (None, None)) -> ColumnIntervalJoinOperatorFactory:
    return ColumnIntervalJoinOperatorFactory(ColumnIntervalJoinSpec(SIDES, lower, upper, tags))


def by_record(lower: int, upper: int, tags: Any = (None, None)) -> IntervalJoinOperatorFactory:
    return IntervalJoinOperatorFactory(Pairing(), (key_of, key_of), lower, upper, (ROWS, RIGHT), tags)


def played(factory: OperatorFactory, found: Sequence[Step]) -> Any:
    with TwoInputHarness(factory) as harness:
        for side, run in found:
            harness.operator.inputs[side].process_batch(batch_for(side, run))
        harness.process_both_watermarks(END)
        late = [[repr((normalized(v), t)) for v, t in harness.side_output(tag)] for tag in TAGS]
        return timeline(harness), late, harness.counter("numLateRecordsDropped")


BOUNDS = st.tuples(st.integers(-15, 15), st.integers(0, 12)).map(lambda bounds: (bounds[0], bounds[0] + bounds[1]))


@settings(max_examples=20, deadline=None)
@given(found=steps(), bounds=BOUNDS, tags=st.sampled_from([(None, None), TAGS]))
def test_interval_joins_give_what_a_function_for_each_pair_gives(
    found: list[Step], bounds: tuple[int, int], tags: Any
) -> None:
    found = lifted(found)
    assert played(by_column(*bounds, tags), found) == played(by_record(*bounds, tags), found)


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(max_examples=500, deadline=None)
@given(found=steps(12, 20), bounds=BOUNDS, tags=st.sampled_from([(None, None), TAGS]), by=st.integers(0, 20))
def test_many_interval_joins_give_what_a_function_for_each_pair_gives(
    found: list[Step], bounds: tuple[int, int], tags: Any, by: int
) -> None:
    found = lifted(found, by)
    assert played(by_column(*bounds, tags), found) == played(by_record(*bounds, tags), found)


def outer(lower: int, upper: int, how: How, tags: Any = (None, None)) -> ColumnIntervalJoinOperatorFactory:
    return ColumnIntervalJoinOperatorFactory(ColumnIntervalJoinSpec(SIDES, lower, upper, tags, how))


def outer_joined(found: Sequence[Step], lower: int, upper: int, how: How) -> Counter[str]:
    """Pairs of rows that are not late, and rows of an outer side without a partner, with their event times."""
    kept: tuple[list[tuple[Row, int]], list[tuple[Row, int]]] = ([], [])
    watermarks = [-(2**63), -(2**63)]
    for side, (rows, times, marks) in found:
        for n, (row, time) in enumerate(zip(rows, times, strict=True)):
            watermarks[side] = max([watermarks[side], *(mark.watermark for mark in marks if mark.offset <= n)])
            if time >= min(watermarks):
                kept[side].append((row if side == 0 else right_row(row), time))
        watermarks[side] = max([watermarks[side], *(mark.watermark for mark in marks)])
    results: Counter[str] = Counter()
    matched: tuple[set[int], set[int]] = (set(), set())
    for i, (left, left_time) in enumerate(kept[0]):
        for j, (right, right_time) in enumerate(kept[1]):
            if left["key"] == right["key"] and lower <= right_time - left_time <= upper:
                results[repr((normalized(joined(left, right)), max(left_time, right_time)))] += 1
                matched[0].add(i)
                matched[1].add(j)
    nothing = (Row(key=None, number=None, text=None, amount=None), Row(number=None, key=None, city=None))
    for side, is_outer in ((0, how in ("left", "full")), (1, how in ("right", "full"))):
        for i, (row, time) in enumerate(kept[side] if is_outer else ()):
            if i not in matched[side]:
                pair = (row, nothing[1]) if side == 0 else (nothing[0], row)
                results[repr((normalized(joined(*pair)), time))] += 1
    return results


@settings(max_examples=60, deadline=None)
@given(found=steps(8, 8), bounds=BOUNDS, how=st.sampled_from(["left", "right", "full"]), by=st.integers(0, 12))
def test_outer_interval_joins_emit_each_row_without_a_partner_once(
    found: list[Step], bounds: tuple[int, int], how: How, by: int
) -> None:
    found = lifted(found, by)
    with TwoInputHarness(outer(*bounds, how)) as harness:
        for side, run in found:
            harness.operator.inputs[side].process_batch(batch_for(side, run))
        harness.process_both_watermarks(2**63 - 1)
        assert Counter(repr((normalized(v), t)) for v, t in harness.records) == outer_joined(found, *bounds, how)
        emitted = -(2**63)
        for element in harness.output:
            if isinstance(element, Watermark):
                assert element.timestamp >= emitted
                emitted = element.timestamp
            elif isinstance(element, OutputRecord):
                assert element.timestamp is not None and element.timestamp > emitted, "late for whatever follows"
        assert emitted == 2**63 - 1


@settings(max_examples=10, deadline=None)
@given(found=steps(max_size=5), how=st.sampled_from(["left", "full"]))
def test_outer_interval_joins_survive_a_restore_at_each_step(found: list[Step], how: How) -> None:
    found = lifted(found)
    records: Counter[str] = Counter()
    snapshot = None
    for side, run in [*found, (0, ([], [], []))]:
        with TwoInputHarness(outer(-5, 5, how), snapshot=snapshot) as harness:
            # watermarks of inputs are no part of an operator's snapshot: both bring the last one again
            if snapshot is not None:
                harness.process_both_watermarks(snapshot.watermark)
            harness.operator.inputs[side].process_batch(batch_for(side, run))
            if run[2]:
                harness.operator.inputs[1 - side].process_batch(batch_for(1 - side, ([], [], [Mark(0, run[2][-1][1])])))
            snapshot = harness.snapshot()
            records.update(repr((normalized(v), t)) for v, t in harness.records)
    with TwoInputHarness(outer(-5, 5, how), snapshot=snapshot) as harness:
        harness.process_both_watermarks(2**63 - 1)
        records.update(repr((normalized(v), t)) for v, t in harness.records)
    with_marks: list[Step] = []
    for side, run in found:
        with_marks.append((side, run))
        if run[2]:
            with_marks.append((1 - side, ([], [], [Mark(0, run[2][-1][1])])))
    assert records == outer_joined(with_marks, -5, 5, how)


@pytest.mark.parametrize("how", ["left", "right", "full"])
@pytest.mark.parametrize("times_restored", [1, 2])
def test_a_row_without_a_partner_is_told_once_though_a_rescaling_sets_event_time_back(
    how: How, times_restored: int
) -> None:
    factory = outer(-50, 50, how)
    keys = {operator_index_for_key_group(128, 2, key_group_of(encode_key(key), 128)): key for key in "abcdef"}
    found: list[str | None] = []
    saved = []
    # an unaligned barrier has overtaken the watermark 170 on its way to the second subtask
    for index, watermark in ((0, 170), (1, 120)):
        with TwoInputHarness(factory, parallelism=2, subtask=index) as harness:
            run = [left_row(keys[index], index)], [100], list[Mark]()
            for side in (0, 1):
                # the right row's time is far from the left one's
                rows, times, marks = run
                moved = [time - 60 * side for time in times]
                harness.operator.inputs[side].process_batch(batch_for(side, (rows, moved, marks)))
            harness.process_both_watermarks(watermark)
            found += [value["key"] or value["key_right"] for value in harness.values]
            saved.append(harness.snapshot())
    for _ in range(times_restored):
        snapshots, saved = redistribute(saved, 1, 128), []
        with TwoInputHarness(factory, snapshot=snapshots[0]) as harness:
            harness.process_both_watermarks(snapshots[0].watermark)
            found += [value["key"] or value["key_right"] for value in harness.values]
            saved.append(harness.snapshot())
    with TwoInputHarness(factory, snapshot=redistribute(saved, 1, 128)[0]) as harness:
        harness.process_both_watermarks(1_000)
        found += [value["key"] or value["key_right"] for value in harness.values]
    assert Counter(found) == Counter({keys[0]: 1 + (how == "full"), keys[1]: 1 + (how == "full")})


@pytest.mark.parametrize(("side", "bounds"), [(0, (0, 10)), (1, (-10, 0))])
def test_a_partner_at_the_very_watermark_still_counts_in_an_outer_interval_join(
    side: int, bounds: tuple[int, int]
) -> None:
    waiting: Step = (side, ([left_row("a", 1)], [0], [Mark(1, 10)]))
    partner: Step = (1 - side, ([left_row("a", 2)], [10], [Mark(0, 10)]))
    with TwoInputHarness(outer(*bounds, "full")) as harness:
        for step_side, run in (waiting, (1 - side, ([], [], [Mark(0, 10)])), partner):
            harness.operator.inputs[step_side].process_batch(batch_for(step_side, run))
        harness.process_both_watermarks(2**63 - 1)
        assert Counter(repr((normalized(v), t)) for v, t in harness.records) == outer_joined(
            [waiting, (1 - side, ([], [], [Mark(0, 10)])), partner], *bounds, "full"
        )
        assert len(harness.records) == 1


def test_there_is_no_other_interval_join() -> None:
    with pytest.raises(ValueError, match="inner, left, right, full, not 'cross'"):
        outer(0, 1, "cross")  # type: ignore[arg-type]


def left_row(key: str | None, number: int) -> Row:
    return Row(key=key, number=number, text=None, amount=None)


def test_pairs_come_in_the_order_of_rows_and_of_the_other_sides_time_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interval_join, "MAX_PAIRS", 3)
    buffered = [left_row("a", n) for n in range(4)]
    probing: Run = ([left_row("a", n) for n in range(5)], [5, 6, 7, 8, 9], [Mark(2, 6), Mark(4, 8)])
    found: list[Step] = [(0, (buffered, [9, 8, 8, 7], [Mark(4, 100)])), (1, probing)]
    outputs = []
    for factory in (by_column(-10, 10), by_record(-10, 10)):
        with TwoInputHarness(factory) as harness:
            for side, run in found:
                harness.operator.inputs[side].process_batch(batch_for(side, run))
            outputs.append(harness.output)
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) == 22


def test_an_expired_row_is_forgotten_and_watermarks_pass_the_slower_side_and_idle_ones() -> None:
    with TwoInputHarness(by_column(0, 5)) as harness:
        left, right = harness.operator.inputs
        left.process_batch(batch_for(0, ([left_row("a", 1), left_row("b", 1)], [10, 11], [])))
        right.process_batch(batch_for(1, ([left_row("a", 2)], [10], [])))
        assert len(harness.values) == 1
        harness.process_watermark1(40)
        assert harness.watermarks == []
        harness.process_watermark2(15)
        harness.process_status2(WatermarkStatus.IDLE)
        assert harness.watermarks == [15, 40]
        keyed = harness.snapshot().keyed
        assert keyed is not None
        assert not keyed.groups
        harness.process_status1(WatermarkStatus.IDLE)
        assert harness.output[-1] is WatermarkStatus.IDLE


@settings(max_examples=6, deadline=None)
@given(found=st.lists(st.lists(st.tuples(st.integers(0, 1), runs(6)), max_size=3), min_size=3, max_size=3))
def test_interval_joins_survive_rescaling(found: list[list[Step]]) -> None:
    stages = [lifted(stage, 4) for stage in found]
    stages = [
        [
            (side, (rows, [t + n * 15 for t in times], [Mark(o, w + n * 15) for o, w in marks]))
            for side, (rows, times, marks) in stage
        ]
        for n, stage in enumerate(stages)
    ]
    factory = by_column(-4, 9, TAGS)

    def create(
        parallelism: int, subtask: int, clock: ManualClock, snapshot: OperatorSnapshot | None
    ) -> TwoInputHarness:
        return TwoInputHarness(factory, (None, None), parallelism, subtask, clock=clock, snapshot=snapshot)

    def feed_all(harnesses: Sequence[TwoInputHarness], stage: list[Step]) -> None:
        for side, (rows, times, _) in stage:
            owners = [
                operator_index_for_key_group(128, len(harnesses), key_group_of(encode_key(row["key"]), 128))
                for row in rows
            ]
            for index, harness in enumerate(harnesses):
                mine = [place for place, owner in enumerate(owners) if owner == index]
                part = ([rows[i] for i in mine], [times[i] for i in mine], list[Mark]())
                harness.operator.inputs[side].process_batch(batch_for(side, part))
        highest = max((mark.watermark for _, run in stage for mark in run[2]), default=None)
        if highest is not None:
            for harness in harnesses:
                harness.process_both_watermarks(highest)

    assert_same_when_rescaled(3, lambda parallelisms: run_rescaling(stages, parallelisms, 128, create, feed_all))


RICH = Types.ROW_NAMED(
    ["key", "amount", "at", "items", "inner"],
    [
        Types.TUPLE([Types.STRING(), Types.LONG()]),
        Types.BIG_DEC(),
        Types.INSTANT(),
        Types.LIST(Types.STRING()),
        Types.ROW_NAMED(["x", "name"], [Types.SQL_TIMESTAMP(), Types.STRING()]),
    ],
)


def rich(key: str, cents: int) -> Row:
    return Row(
        key=(key, 1),
        amount=decimal.Decimal(cents).scaleb(-2),
        at=Instant(cents, 500_000_000),
        items=["Ω", None] if cents % 2 else None,
        inner=Row(x=datetime.datetime(2024, 3, 31, 2, 30, cents), name=f"ñ{cents}"),
    )


def test_decimals_lists_rows_and_times_are_joined_and_restored() -> None:
    sides = JoinSides((RICH, RICH), (("key",), ("key",)), suffix="2")
    factory = ColumnIntervalJoinOperatorFactory(ColumnIntervalJoinSpec(sides, -5, 5))
    left, right = [rich("ü", 1), rich("b", 2)], [rich("ü", 3), rich("c", 4)]
    with TwoInputHarness(factory) as harness:
        harness.operator.inputs[0].process_batch(RecordBatch.of_values(left, [1, 1], (), RICH))
        saved = harness.snapshot()
    with TwoInputHarness(factory, snapshot=saved) as harness:
        harness.operator.inputs[1].process_batch(RecordBatch.of_values(right, [2, 2], (), RICH))
        (value,) = harness.values
    expected = {**left[0].as_dict(), **{f"{name}2": item for name, item in right[0].as_dict().items()}}
    assert normalized(value) == normalized(Row(**expected))


def test_what_cannot_be_joined_is_refused() -> None:
    with pytest.raises(TypeError, match="keyed by"):
        JoinSides((ROWS, RIGHT), (("key",), ("number",)))
    with pytest.raises(TypeError, match="ROW_NAMED"):
        JoinSides((ROWS, Types.LONG()), (("key",), ("value",)))  # type: ignore[arg-type]
    with pytest.raises(ColumnExpressionError, match="suffix"):
        JoinSides((ROWS, RIGHT), (("key",), ("key",)), suffix="")
    with pytest.raises(ValueError, match="one of inner"):
        WindowJoinSpec(SIDES, "outer")  # type: ignore[arg-type]
    with TwoInputHarness(by_column(0, 1)) as harness:
        row = left_row("a", 1)
        with pytest.raises(MissingTimestampError):
            harness.operator.inputs[0].process_batch(RecordBatch.of_values([row], None, (), ROWS))
        row.set_row_kind(RowKind.DELETE)
        with pytest.raises(ChangelogInputError):
            harness.operator.inputs[0].process_batch(RecordBatch.of_values([row], [1], (), ROWS))
        saved = harness.snapshot()
    other = ColumnIntervalJoinSpec(JoinSides((RIGHT, RIGHT), (("key",), ("key",))), 0, 1)
    with pytest.raises(StateMigrationError):
        TwoInputHarness(ColumnIntervalJoinOperatorFactory(other), snapshot=saved)


# --- window joins -----------------------------------------------------------------------------------------------------

ASSIGNERS: list[WindowAssigner[Any, Any]] = [TumblingEventTimeWindows(10), SlidingEventTimeWindows(12, 4, 1)]


class JoinInPython(WindowFunction):
    """The join of the united rows of a window."""

    def __init__(self, how: str) -> None:
        self._how = how

    def apply(self, key: Any, window: Any, inputs: Any) -> Iterator[Row]:
        sides: list[list[Row]] = [[], []]
        for row in inputs:
            sides[row["__side"]].append(row)
        left = [self._restored(row, ROWS, ("number", "text", "amount")) for row in sides[0]]
        right = [self._restored(row, RIGHT, ("number_right", "city")) for row in sides[1]]
        yield from (joined(first, second) for first in left for second in right)
        if not right and self._how in ("left", "full"):
            yield from (joined(first, Row(number=None, key=None, city=None)) for first in left)
        if not left and self._how in ("right", "full"):
            yield from (joined(Row(key=None, number=None, text=None, amount=None), second) for second in right)

    def _restored(self, row: Row, type_info: RowTypeInfo, names: Sequence[str]) -> Row:
        values = {name.removesuffix("_right"): row[name] for name in names} | {"key": row["__k0"]}
        return Row(**{name: values[name] for name in type_info.field_names})


def united(run: Run, sides: Sequence[int], spec: WindowJoinSpec) -> RecordBatch:
    """The rows of a run, each on its side, made alike."""
    rows = []
    for row, side in zip(run[0], sides, strict=False):
        with OneInputHarness(AlikeOperatorFactory(spec, side), input_type=spec.sides.types[side]) as harness:
            harness.process([row if side == 0 else right_row(row)], [0])
            rows += harness.values
    return RecordBatch.of_values(rows, list(run[1]), run[2], spec.input_type)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("assigner", ASSIGNERS, ids=repr)
@settings(max_examples=6, deadline=None)
@given(
    run=runs(10),
    sides=st.lists(st.integers(0, 1), min_size=10, max_size=10),
    lateness_ms=st.sampled_from([0, 0, 6]),
    interrupted=st.booleans(),
)
def test_window_joins_give_what_a_function_for_each_window_gives(
    assigner: WindowAssigner[Any, Any], how: Any, run: Run, sides: list[int], lateness_ms: int, interrupted: bool
) -> None:
    spec = WindowJoinSpec(SIDES, how)
    panes = panes_of(assigner)
    assert panes is not None
    batch = united(run, sides, spec)
    candidates: list[OperatorFactory] = [
        WindowAggregateOperatorFactory(WindowAggregateSpec(spec, panes, lateness_ms)),
        WindowOperatorFactory(
            assigner, lambda row: row["__k0"], ListContents(spec.input_type), JoinInPython(how), None, lateness_ms
        ),
    ]
    results = []
    for factory in candidates:
        with OneInputHarness(factory, input_type=spec.input_type) as harness:
            harness.process_batch(batch)
            saved = harness.snapshot()
            found = timeline(harness)
            dropped = harness.counter("numLateRecordsDropped")
            if not interrupted:
                harness.process_watermark(END)
                found = timeline(harness)
        if interrupted:
            with OneInputHarness(factory, input_type=spec.input_type, snapshot=saved) as harness:
                harness.process_watermark(END)
                found += timeline(harness)
        results.append((found, dropped))
    assert results[0] == results[1]


def test_a_window_join_can_say_which_window() -> None:
    spec = WindowJoinSpec(SIDES, "inner", with_window=True)
    panes = panes_of(TumblingEventTimeWindows(10))
    assert panes is not None
    batch = united(([left_row(None, 1), left_row(None, 2)], [1, 2], []), [0, 1], spec)
    with OneInputHarness(WindowAggregateOperatorFactory(WindowAggregateSpec(spec, panes))) as harness:
        harness.process_batch(batch)
        harness.process_watermark(9)
        (value,) = harness.values
    assert (value["number"], value["number_right"], value["window_start"], value["window_end"]) == (1, 2, 0, 10)


def test_rows_are_made_alike_with_their_times_and_marks() -> None:
    spec = WindowJoinSpec(SIDES)
    with OneInputHarness(AlikeOperatorFactory(spec, 0), input_type=ROWS) as harness:
        feed(harness, ([left_row("a", 1)], [7], [Mark(1, 3)]), cut=False)
        harness.process([], marks=[Mark(0, 5)])
        assert harness.records[0].timestamp == 7
        assert [e.timestamp for e in harness.output if isinstance(e, Watermark)] == [3, 5]
        assert Counter(name for name, value in normalized(harness.values[0]) if value is not None) == Counter(
            ["__side", "__k0", "number"]
        )
