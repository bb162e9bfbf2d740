"""Partials made in arrays against those that Polars makes, and windows of them against a function for each record."""

from __future__ import annotations

import copy
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from runtime.common import Row
from runtime.common.typeinfo import Types
from runtime.core.arrow import to_arrow
from runtime.core.batch import Mark, RecordBatch
from runtime.core.column_keys import ColumnKeys
from runtime.core.elements import LatencyMarker, Watermark, WatermarkStatus
from runtime.network.partitioners import KeyGroupSelector
from runtime.operators.columnar import segments, window_aggregate
from runtime.operators.columnar.aggregates import AggregatePlan, aggregate_spec
from runtime.operators.columnar.dense_groups import MAX_CELLS_A_ROW
from runtime.operators.columnar.local_aggregate import LocalAggregateOperatorFactory
from runtime.operators.columnar.panes import panes_of
from runtime.operators.columnar.window_aggregate import WindowAggregateSpec
from runtime.operators.columnar.window_factory import WindowAggregateOperatorFactory
from runtime.operators.functions import ProcessWindowFunction
from runtime.operators.operator import OperatorFactory
from runtime.operators.output import Output
from runtime.operators.output_tag import OutputTag
from runtime.operators.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows, WindowAssigner
from runtime.operators.windowing.contents import ListContents
from runtime.operators.windowing.cumulative_windows import CumulativeEventTimeWindows
from runtime.operators.windowing.factory import WindowOperatorFactory
from runtime.testing.harness import OneInputHarness
from tests.operators.columnar.runs import END, normalized, timeline

NUMBERS = Types.ROW_NAMED(
    ["key", "other", "whole", "small", "real"],
    [Types.LONG(), Types.INT(), Types.LONG(), Types.SHORT(), Types.DOUBLE()],
)
TEXTS = (
    "count(*) AS rows",
    "count(whole) AS wholes",
    "sum(whole) AS total",
    "min(small) AS least",
    "max(whole) AS greatest",
    "sum(real) AS reals",
    "max(real) AS highest",
    "avg(small) AS mean",
    "count(*) FILTER (WHERE whole > 1) AS above_one",
    "window_start AS since",
    "window_end AS until",
)
FAR_APART = (0, 1, 7, -(2**63), 2**63 - 1)
WINDOWS: list[WindowAssigner[Any, Any]] = [
    TumblingEventTimeWindows(10),
    SlidingEventTimeWindows(12, 4, 1),
    SlidingEventTimeWindows(3, 8, 0),
    CumulativeEventTimeWindows(12, 4, 2),
]


def rows(keys: st.SearchStrategy[int | None], max_size: int) -> st.SearchStrategy[list[Row]]:
    row = st.builds(
        lambda key, other, whole, small, real: Row(key=key, other=other, whole=whole, small=small, real=real),
        keys,
        st.integers(-(2**31), -(2**31) + 2),
        st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([2**63 - 1, -(2**63)])),
        st.one_of(st.none(), st.integers(-(2**15), 2**15 - 1)),
        # sums of these have no rounding errors
        st.one_of(st.none(), st.sampled_from([0.0, 0.5, -2.0, float("inf"), float("nan")])),
    )
    return st.lists(row, max_size=max_size)


def frame_of(values: list[Row]) -> pl.DataFrame:
    return pl.DataFrame(to_arrow(values, NUMBERS))


def plans(keys: list[str]) -> tuple[AggregatePlan, AggregatePlan]:
    """A plan, and the same without arrays."""
    plan = aggregate_spec(NUMBERS, keys, TEXTS[:-2], {}).plan()
    hashed = copy.copy(plan)
    hashed.arrays = None
    return plan, hashed


@settings(max_examples=60, deadline=None)
@given(
    values=rows(st.integers(-2, 3), 12),
    more=rows(st.integers(2, 5), 12),
    keys=st.sampled_from([["key"], ["other", "key"], ["other"]]),
    within=st.sampled_from([[], ["part"]]),
)
def test_arrays_give_what_polars_gives(values: list[Row], more: list[Row], keys: list[str], within: list[str]) -> None:
    plan, hashed = plans(keys)
    assert plan.arrays is not None
    by = [*within, *keys]
    made = []
    for values_of_one in (values, more):
        frame = plan.rows(frame_of(values_of_one), 0).with_columns((pl.int_range(pl.len()) % 3).alias("part"))
        partials = hashed.aggregated(frame, within)
        in_arrays = plan.arrays.of_rows(frame, within)
        if in_arrays is None:
            assert not values_of_one
        else:
            assert_frame_equal(in_arrays, partials.sort(by))
        made.append(partials)
    both = pl.concat(made)
    merged = plan.arrays.of_partials(both, within)
    if merged is not None:
        assert_frame_equal(merged, hashed.merged(both, within).sort(by))
    assert_frame_equal(plan.merged(both, within).sort(by), hashed.merged(both, within).sort(by))


@settings(max_examples=30, deadline=None)
@given(values=rows(st.one_of(st.none(), st.sampled_from(FAR_APART)), 8))
def test_keys_that_are_null_or_far_apart_are_left_to_polars(values: list[Row]) -> None:
    plan, hashed = plans(["key"])
    frame = plan.rows(frame_of(values), 0)
    assert_frame_equal(plan.aggregated(frame).sort("key"), hashed.aggregated(frame).sort("key"))


def test_arrays_have_few_cells_for_each_row() -> None:
    plan, _ = plans(["key"])
    assert plan.arrays is not None
    for rows_there, width in ((1, 4096), (10_000, MAX_CELLS_A_ROW * 10_000)):
        numbers = pl.DataFrame({"key": [0, *[width - 1] * (rows_there - 1)], "other": 0, "whole": 1}).with_columns(
            pl.lit(1, pl.Int16).alias("small"), pl.lit(0.5).alias("real")
        )
        frame = plan.rows(numbers.cast({"other": pl.Int32}), 0)
        assert plan.arrays.of_rows(frame) is not None
        if rows_there > 1:
            assert plan.arrays.of_rows(frame.with_columns(pl.col("key") * 2)) is None


def test_only_numbers_are_aggregated_in_arrays_and_only_by_whole_numbers() -> None:
    typed = Types.ROW_NAMED(["key", "text", "number"], [Types.LONG(), Types.STRING(), Types.LONG()])

    def arrays(keys: list[str], text: str) -> Any:
        return aggregate_spec(typed, keys, [f"{text} AS x"], {}).plan().arrays

    assert arrays(["key"], "max(number)") is not None
    assert arrays(["key"], "count(text)") is not None
    for keys, text in (
        (["text"], "max(number)"),
        (["key"], "max(text)"),
        (["key"], "first(number)"),
        (["key"], "count(DISTINCT number)"),
        (["key"], "approx_quantile(number, 0.5)"),
    ):
        assert arrays(keys, text) is None


# --- windows ----------------------------------------------------------------------------------------------------------


class InPython(ProcessWindowFunction):
    """COUNTED in plain Python."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        wholes = [row["whole"] for row in elements if row["whole"] is not None]
        yield Row(
            key=key,
            rows=len(list(elements)),
            total=sum(wholes) if wholes else None,
            greatest=max(wholes, default=None),
            since=context.window().start,
        )


COUNTED = ("count(*) AS rows", "sum(whole) AS total", "max(whole) AS greatest", "window_start AS since")


def spec_of(assigner: WindowAssigner[Any, Any], takes_partials: bool) -> WindowAggregateSpec:
    panes = panes_of(assigner)
    assert panes is not None
    aggregates = aggregate_spec(NUMBERS, ["key"], COUNTED, {})
    return WindowAggregateSpec(aggregates, panes, takes_partials=takes_partials)


def batches_of(values: list[Row], times: list[int], watermarks: list[int]) -> list[RecordBatch]:
    """Three batches, with a mark behind each."""
    batches = []
    for part, watermark in enumerate(watermarks):
        chosen = slice(part * len(values) // len(watermarks), (part + 1) * len(values) // len(watermarks))
        columns = to_arrow(values[chosen], NUMBERS)
        typed = RecordBatch.of_values(values[chosen], times[chosen], (), NUMBERS)
        marks = [Mark(columns.num_rows, watermark)]
        batches.append(RecordBatch.of_arrow(columns, NUMBERS, typed.timestamps_array(), marks))
    return batches


class Into(Output):
    """Hands on to the operators behind an exchange."""

    def __init__(self, selector: KeyGroupSelector, harnesses: list[OneInputHarness]) -> None:
        self._selector = selector
        self._harnesses = harnesses

    def collect(self, batch: RecordBatch, tag: OutputTag | None = None) -> None:
        for part, harness in zip(self._selector.split(batch), self._harnesses, strict=True):
            if isinstance(part, RecordBatch):
                harness.process_batch(part)
            elif part is not None:
                harness.process_watermark(part.timestamp)

    def emit_watermark(self, watermark: Watermark) -> None:
        for harness in self._harnesses:
            harness.process_watermark(watermark.timestamp)

    def emit_watermark_status(self, status: WatermarkStatus) -> None:
        raise AssertionError(status)

    def emit_latency_marker(self, marker: LatencyMarker) -> None:
        raise AssertionError(marker)


def results(factory: OperatorFactory, batches: list[RecordBatch]) -> tuple[Any, int]:
    with OneInputHarness(factory, input_type=NUMBERS) as harness:
        for batch in batches:
            harness.process_batch(batch)
        harness.process_watermark(END)
        return timeline(harness), harness.counter("numLateRecordsDropped")


@pytest.mark.parametrize("assigner", WINDOWS, ids=repr)
@settings(max_examples=15, deadline=None)
@given(
    values=rows(st.integers(0, 3), 16).map(
        lambda found: [row for row in found if row["whole"] is None or abs(row["whole"]) < 10]
    ),
    data=st.data(),
    merged_rows=st.sampled_from([1, 3, 100]),
    long_run=st.sampled_from([1, 512]),
)
def test_windows_of_numbers_give_what_a_function_for_each_record_gives(
    assigner: WindowAssigner[Any, Any], values: list[Row], data: st.DataObject, merged_rows: int, long_run: int
) -> None:
    times = data.draw(st.lists(st.integers(-5, 45), min_size=len(values), max_size=len(values)))
    watermarks = sorted(data.draw(st.lists(st.integers(-10, 50), min_size=3, max_size=3)))
    batches = batches_of(values, times, watermarks)
    by_record = WindowOperatorFactory(assigner, lambda row: row["key"], ListContents(NUMBERS), InPython(), None, 0)
    expected = results(by_record, batches)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(segments, "_MERGED_ROWS", merged_rows)
        patched.setattr(window_aggregate, "_LONG_RUN", long_run)
        assert results(WindowAggregateOperatorFactory(spec_of(assigner, False)), batches) == expected
        spec = spec_of(assigner, True)
        behind = [OneInputHarness(WindowAggregateOperatorFactory(spec), None, 2, subtask) for subtask in range(2)]
        with OneInputHarness(LocalAggregateOperatorFactory(spec), input_type=NUMBERS) as local:
            selector = KeyGroupSelector(2, ColumnKeys(["key"], spec.partial_type), 128)
            local.operator.setup(local.operator.context, Into(selector, behind))
            for batch in batches:
                local.process_batch(batch)
            local.process_watermark(END)
        rows_of_both = sorted(repr((normalized(value), at)) for harness in behind for value, at in harness.records)
        dropped = sum(harness.counter("numLateRecordsDropped") for harness in behind)
        for harness in behind:
            harness.close()
    in_python, dropped_in_python = expected
    assert rows_of_both == sorted(record for records, _ in in_python for record in records)
    assert dropped == dropped_in_python
