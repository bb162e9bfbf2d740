"""deduplicate, running aggregates and unnest against plain Python, restored at another parallelism too."""

from __future__ import annotations

import decimal
import functools
import math
from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Row, RowKind
from runtime.common.time import Instant
from runtime.common.typeinfo import Types
from runtime.core.batch import Mark, RecordBatch
from runtime.core.column_keys import ColumnKeys
from runtime.core.keys import encode_key
from runtime.operators.columnar.aggregates import aggregate_spec
from runtime.operators.columnar.deduplicate import DeduplicateOperatorFactory
from runtime.operators.columnar.expressions import ColumnExpressionError
from runtime.operators.columnar.input_checks import ChangelogInputError
from runtime.operators.columnar.quantile_sketch import DEFAULT_ACCURACY, bucket_of, value_of
from runtime.operators.columnar.running_aggregate import RunningAggregateOperatorFactory
from runtime.operators.columnar.unnest import UnnestOperatorFactory
from runtime.operators.map_operators import FlatMapOperatorFactory
from runtime.operators.operator import OperatorFactory
from runtime.testing.harness import OneInputHarness
from tests.operators.columnar.rescaling import assert_columns_survive_rescaling
from tests.operators.columnar.runs import ROWS, Run, feed, normalized, played, runs, timeline

KEYS = ColumnKeys(["key"], ROWS)
RUNNING = (
    "count(*) AS rows",
    "count(text) AS texts",
    "sum(number) AS total",
    "min(number) AS least",
    "max(text) AS greatest",
    "avg(number) AS mean",
    "sum(amount) AS amounts",
    "count(DISTINCT number) AS different",
    "first(text) AS first",
    "last(amount) AS last",
    "collect(text) AS listed",
    "approx_quantile(number, 0.5) AS middle",
    "approx_quantile(number, 1) - approx_quantile(number, 0) AS width",
)


def running_factory() -> RunningAggregateOperatorFactory:
    return RunningAggregateOperatorFactory(aggregate_spec(ROWS, ["key"], RUNNING, {}, ()))


def changes_of(harness: OneInputHarness) -> list[Any]:
    return [(value.get_row_kind().short_string, normalized(value), at) for value, at in harness.records]


def running_result(rows: Sequence[Row]) -> Row:
    numbers = [row["number"] for row in rows if row["number"] is not None]
    texts = [row["text"] for row in rows if row["text"] is not None]
    amounts = [row["amount"] for row in rows if row["amount"] is not None]
    return Row(
        key=rows[0]["key"],
        rows=len(rows),
        texts=len(texts),
        total=sum(numbers) if numbers else None,
        least=min(numbers, default=None),
        greatest=max(texts, default=None),
        mean=sum(numbers) / len(numbers) if numbers else None,
        amounts=sum(amounts, decimal.Decimal(0)) if amounts else None,
        different=len(set(numbers)),
        first=texts[0] if texts else None,
        last=amounts[-1].normalize() if amounts else None,
        listed=[row["text"] for row in rows],
        middle=quantile(numbers, 0.5),
        width=quantile(numbers, 1) - quantile(numbers, 0) if numbers else None,
    )


@functools.cache
def representative(number: int) -> float:
    """Return a sketch's value for a number."""
    return float(pl.select(value_of(bucket_of(pl.lit(number), DEFAULT_ACCURACY), DEFAULT_ACCURACY)).item())


def quantile(numbers: Sequence[int], at: float) -> Any:
    return representative(sorted(numbers)[math.floor(at * (len(numbers) - 1))]) if numbers else None


def check_running_aggregates(run: Run, cut: bool, as_columns: bool) -> None:
    expected: list[Any] = []
    seen: dict[bytes, list[Row]] = {}
    for row, time in zip(run[0], run[1], strict=True):
        rows = seen.setdefault(encode_key(row["key"]), [])
        before = normalized(running_result(rows)) if rows else None
        rows.append(row)
        after = normalized(running_result(rows))
        expected += [("+I", after, time)] if before is None else [("-U", before, time), ("+U", after, time)]
    with OneInputHarness(running_factory(), input_type=ROWS) as harness:
        feed(harness, run, cut, as_columns)
        assert changes_of(harness) == expected


@settings(max_examples=10, deadline=None)
@given(run=runs(), cut=st.booleans(), as_columns=st.booleans())
def test_running_aggregates_take_back_what_they_change(run: Run, cut: bool, as_columns: bool) -> None:
    check_running_aggregates(run, cut, as_columns)


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(max_examples=150, deadline=None)
@given(run=runs(40), cut=st.booleans(), as_columns=st.booleans())
def test_many_running_aggregates_take_back_what_they_change(run: Run, cut: bool, as_columns: bool) -> None:
    check_running_aggregates(run, cut, as_columns)


def test_a_row_that_changes_nothing_gives_nothing() -> None:
    factory = RunningAggregateOperatorFactory(aggregate_spec(ROWS, ["key"], ["max(number) AS top"], {}, ()))
    rows = [Row(key="a", number=number, text=None, amount=None) for number in (2, 1, 3)]
    with OneInputHarness(factory, input_type=ROWS) as harness:
        harness.process(rows, [1, 2, 3], [Mark(2, 2)])
        assert changes_of(harness) == [
            ("+I", [("key", "a"), ("top", 2)], 1),
            ("-U", [("key", "a"), ("top", 2)], 3),
            ("+U", [("key", "a"), ("top", 3)], 3),
        ]
        assert timeline(harness)[0][1] == 2


def test_running_values_of_times_lists_and_rows() -> None:
    row_type = Types.ROW_NAMED(
        ["key", "at", "items"], [Types.LONG(), Types.INSTANT(), Types.LIST(Types.ROW_NAMED(["x"], [Types.STRING()]))]
    )
    texts = ("min(at) AS since", "last(items) AS last", "collect(at) AS all", "count(DISTINCT at) AS different")
    factory = RunningAggregateOperatorFactory(aggregate_spec(row_type, ["key"], texts, {}, ()))
    rows = [Row(key=1, at=Instant(n, 500), items=[Row(x="Ω"), None] if n % 2 else None) for n in (3, 1, 3)]
    for first in (1, 2, 3):
        with OneInputHarness(factory, input_type=row_type) as harness:
            harness.process(rows[:first])
            saved = harness.snapshot()
        with OneInputHarness(factory, input_type=row_type, snapshot=saved) as harness:
            harness.process([*rows[first:], Row(key=1, at=None, items=[])])
            last = harness.values[-1]
        assert last["since"] == Instant(1, 500)
        assert last["last"] == []
        assert last["all"] == [*(row["at"] for row in rows), None]
        assert last["different"] == 2


@settings(max_examples=12, deadline=None)
@given(run=runs(), cut=st.booleans(), as_columns=st.booleans())
def test_deduplicate_first_lets_one_row_of_each_key_through(run: Run, cut: bool, as_columns: bool) -> None:
    seen: set[bytes] = set()

    def first(row: Row) -> list[Row]:
        key = encode_key(row["key"])
        if key in seen:
            return []
        seen.add(key)
        return [row]

    got = played(DeduplicateOperatorFactory(KEYS, ROWS), run, cut, as_columns)
    kept = [(row, time) for row, time in zip(run[0], run[1], strict=True) if first(row)]
    assert sorted(record for records, _ in got[0] for record in records) == sorted(
        repr((normalized(row), time)) for row, time in kept
    )


@settings(max_examples=15, deadline=None)
@given(run=runs(), cut=st.booleans())
def test_deduplicate_last_takes_back_the_row_before(run: Run, cut: bool) -> None:
    expected: list[Any] = []
    latest: dict[bytes, Row] = {}
    for row, time in zip(run[0], run[1], strict=True):
        before = latest.get(encode_key(row["key"]))
        latest[encode_key(row["key"])] = row
        if before is None:
            expected.append(("+I", normalized(row), time))
        else:
            expected += [("-U", normalized(before), time), ("+U", normalized(row), time)]
    with OneInputHarness(DeduplicateOperatorFactory(KEYS, ROWS, "last"), input_type=ROWS) as harness:
        feed(harness, run, cut)
        assert changes_of(harness) == expected


@pytest.mark.parametrize(
    "factory",
    [running_factory(), DeduplicateOperatorFactory(KEYS, ROWS), DeduplicateOperatorFactory(KEYS, ROWS, "last")],
    ids=["running", "first", "last"],
)
def test_state_survives_rescaling(factory: OperatorFactory) -> None:
    rows = [Row(key=f"k{n % 5}", number=n, text=None, amount=None) for n in range(30)]
    parts: list[Run] = [(rows[i : i + 10], list(range(10)), [Mark(10, 9)]) for i in (0, 10, 20)]
    assert_columns_survive_rescaling(factory, parts)


def test_rows_that_take_others_back_are_refused() -> None:
    row = Row.of_kind(RowKind.DELETE, key="a", number=1, text=None, amount=None)
    for factory in (running_factory(), DeduplicateOperatorFactory(KEYS, ROWS, "last")):
        with OneInputHarness(factory, input_type=ROWS) as harness, pytest.raises(ChangelogInputError):
            harness.process([row])
    with pytest.raises(ValueError, match="first"):
        DeduplicateOperatorFactory(KEYS, ROWS, "best")  # type: ignore[arg-type]


LISTS = Types.ROW_NAMED(["id", "items"], [Types.LONG(), Types.LIST(Types.STRING())])


@settings(max_examples=12, deadline=None)
@given(
    lists=st.lists(st.one_of(st.none(), st.lists(st.sampled_from(["ä", None]), max_size=3)), max_size=6),
    offsets=st.sets(st.integers(0, 6)),
)
def test_unnest_gives_what_a_flat_map_gives(lists: list[Any], offsets: set[int]) -> None:
    rows = [Row(id=number, items=items) for number, items in enumerate(lists)]
    marks = [Mark(offset, offset + 50) for offset in sorted(offsets) if offset <= len(rows)]
    factory = UnnestOperatorFactory(LISTS, "items", "item")

    def flat(row: Row) -> list[Row]:
        return [Row(id=row["id"], item=item) for item in row["items"] or ()]

    timelines = []
    for candidate in (factory, FlatMapOperatorFactory(flat, factory.output_type)):
        with OneInputHarness(candidate, input_type=LISTS) as harness:
            harness.process(rows, list(range(len(rows))), marks)
            timelines.append((timeline(harness), harness.values))
    assert timelines[0] == timelines[1]


def test_unnest_needs_a_list_and_a_free_name() -> None:
    with pytest.raises(ColumnExpressionError, match="lists"):
        UnnestOperatorFactory(LISTS, "id", "item")
    with pytest.raises(ColumnExpressionError, match="already"):
        UnnestOperatorFactory(LISTS, "items", "id")


def test_rows_that_were_looked_at_as_columns_keep_their_kinds_on_the_wire() -> None:
    """A condition that holds for all rows hands the batch on, and the network sends columns where there are some."""
    rows = [Row(1, 2), Row(1, 3)]
    for row, kind in zip(rows, (RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER), strict=True):
        row.set_row_kind(kind)
    batch = RecordBatch.of_values(rows, type_info=Types.ROW_NAMED(["id", "n"], [Types.LONG(), Types.LONG()]))
    assert batch.arrow().num_rows == 2
    assert not batch.has_arrow
