"""top_n against Flink SQL's own changelogs and a model in plain Python; windows against a function for each record."""

from __future__ import annotations

import ast
import datetime
import decimal
import functools
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Row, RowKind
from runtime.common.time import Instant
from runtime.common.typeinfo import Types
from runtime.core.batch import Mark, RecordBatch
from runtime.core.keys import encode_key
from runtime.operators.columnar.expressions import ColumnExpressionError
from runtime.operators.columnar.input_checks import ChangelogInputError
from runtime.operators.columnar.keyed_rows import KeyedRows
from runtime.operators.columnar.panes import panes_of
from runtime.operators.columnar.top_n import TopNOperatorFactory
from runtime.operators.columnar.top_n_plan import TopNSpec, top_n_spec
from runtime.operators.columnar.window_aggregate import WindowAggregateSpec
from runtime.operators.columnar.window_factory import WindowAggregateOperatorFactory
from runtime.operators.functions import ProcessWindowFunction
from runtime.operators.operator import OperatorFactory
from runtime.operators.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows, WindowAssigner
from runtime.operators.windowing.contents import ListContents
from runtime.operators.windowing.cumulative_windows import CumulativeEventTimeWindows
from runtime.operators.windowing.factory import WindowOperatorFactory
from runtime.state.errors import StateMigrationError
from runtime.testing.harness import OneInputHarness
from tests.operators.columnar.rescaling import assert_columns_survive_rescaling
from tests.operators.columnar.runs import LATE, ROWS, Run, feed, key_of, normalized, played, runs, timeline

GOLDEN = json.loads((Path(__file__).parent / "goldens" / "top_n.json").read_text(encoding="utf-8"))


def spec(
    n: int = 2, by: Any = "number", descending: Any = True, rank: str | None = None, with_window: bool = False
) -> TopNSpec:
    return top_n_spec(ROWS, ["key"], n, by, descending, rank, with_window)


def changes_of(harness: OneInputHarness) -> list[Any]:
    return [(value.get_row_kind().short_string, normalized(value), at) for value, at in harness.records]


@pytest.mark.parametrize("changelog", GOLDEN["changelogs"], ids=lambda c: f"{c['order']}, ranked={c['ranked']}")
@pytest.mark.parametrize("batch_rows", [1, 3, 100])
def test_changelogs_are_those_of_flink_sql(changelog: dict[str, Any], batch_rows: int) -> None:
    rows = [Row(k=k, v=v, s=s) for k, v, s in map(ast.literal_eval, GOLDEN["rows"])]
    row_type = Types.ROW_NAMED(["k", "v", "s"], [Types.STRING(), Types.LONG(), Types.STRING()])
    orders = [order.split() for order in changelog["order"].split(", ")]
    by, descending = [column for column, _ in orders], [order == "DESC" for _, order in orders]
    rank = "rn" if changelog["ranked"] else None
    factory = TopNOperatorFactory(top_n_spec(row_type, ["k"], GOLDEN["n"], by, descending, rank))
    with OneInputHarness(factory, input_type=row_type) as harness:
        for start in range(0, len(rows), batch_rows):
            harness.process(rows[start : start + batch_rows])
        found = [f"{value.get_row_kind().short_string} {tuple(value)!r}" for value in harness.values]
    assert found == changelog["changes"]


def better(left: Row, right: Row, orders: Sequence[tuple[str, bool]]) -> int:
    """Compare like `cmp`: null is less than everything."""
    for name, descending in orders:
        a, b = left[name], right[name]
        if a == b:
            continue
        is_less = b is not None and (a is None or a < b)
        return 1 if is_less == descending else -1
    return 0


def model(run: Run, n: int, orders: Sequence[tuple[str, bool]], ranked: bool) -> list[Any]:
    """The changelog, by sorting all rows of a key anew for every row."""
    order = functools.cmp_to_key(partial(better, orders=orders))
    seen: dict[bytes, list[Row]] = {}
    changes: list[Any] = []

    def change(kind: str, row: Row, rank: int, at: int) -> None:
        named = [*normalized(row), *([("rank", rank)] if ranked else [])]
        changes.append((kind, named, at))

    for row, at in zip(run[0], run[1], strict=True):
        rows = seen.setdefault(encode_key(row["key"]), [])
        before = sorted(rows, key=order)[:n]
        rows.append(row)
        after = sorted(rows, key=order)[:n]
        entered = next((place for place, kept in enumerate(after) if place >= len(before) or kept is row), None)
        if entered is None:
            continue
        if ranked:
            for place in range(entered, len(before)):
                change("-U", before[place], place + 1, at)
                change("+U", after[place], place + 1, at)
            if len(after) > len(before):
                change("+I", after[-1], len(after), at)
        else:
            if len(before) == n:
                change("-D", before[-1], 0, at)
            change("+I", row, 0, at)
    return changes


def check_against_the_model(run: Run, n: int, orders: list[tuple[str, bool]], ranked: bool, cut: bool) -> None:
    by, descending = [name for name, _ in orders], [order for _, order in orders]
    factory = TopNOperatorFactory(spec(n, by, descending, "rank" if ranked else None))
    with OneInputHarness(factory, input_type=ROWS) as harness:
        feed(harness, run, cut)
        assert changes_of(harness) == model(run, n, orders, ranked)
        watermarks = [mark.watermark for mark in run[2]]
        assert harness.watermarks[-1:] == watermarks[-1:]
        assert set(harness.watermarks) <= set(watermarks)


ORDERS = st.lists(
    st.tuples(st.sampled_from(["number", "text", "amount"]), st.booleans()),
    min_size=1,
    max_size=2,
    unique_by=lambda o: o[0],
)


@settings(max_examples=20, deadline=None)
@given(run=runs(20), n=st.integers(1, 4), orders=ORDERS, ranked=st.booleans(), cut=st.booleans())
def test_changelogs_are_those_of_the_model(
    run: Run, n: int, orders: list[tuple[str, bool]], ranked: bool, cut: bool
) -> None:
    check_against_the_model(run, n, orders, ranked, cut)


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(max_examples=500, deadline=None)
@given(run=runs(60), n=st.integers(1, 5), orders=ORDERS, ranked=st.booleans(), cut=st.booleans())
def test_changelogs_of_many_runs_are_those_of_the_model(
    run: Run, n: int, orders: list[tuple[str, bool]], ranked: bool, cut: bool
) -> None:
    check_against_the_model(run, n, orders, ranked, cut)


@settings(max_examples=6, deadline=None)
@given(parts=st.lists(runs(8), min_size=3, max_size=3), ranked=st.booleans())
def test_state_survives_rescaling(parts: list[Run], ranked: bool) -> None:
    assert_columns_survive_rescaling(TopNOperatorFactory(spec(2, rank="rank" if ranked else None)), parts)


def test_rows_keep_their_decimals_lists_rows_and_times() -> None:
    row_type = Types.ROW_NAMED(
        ["key", "amount", "at", "day", "items", "inner"],
        [
            Types.TUPLE([Types.STRING(), Types.LONG()]),
            Types.BIG_DEC(),
            Types.INSTANT(),
            Types.SQL_DATE(),
            Types.LIST(Types.STRING()),
            Types.ROW_NAMED(["x"], [Types.SQL_TIMESTAMP()]),
        ],
    )

    def made(cents: int, second: int) -> Row:
        day = datetime.date(2024, 3, 31)
        return Row(
            key=("ü", 1),
            amount=decimal.Decimal(cents).scaleb(-2),
            at=Instant(second, 500_000_000),
            day=day,
            items=["Ω", None] if cents % 2 else None,
            inner=Row(x=datetime.datetime(2024, 3, 31, 2, 30, second)),
        )

    rows = [made(cents, cents % 7) for cents in (5, 3, 8, 8, 1)]
    for by, best in (("at", 5), ("amount", 8), ("inner.x", 5)):
        factory = TopNOperatorFactory(top_n_spec(row_type, ["key"], 1, by, True, None))
        with OneInputHarness(factory, input_type=row_type) as harness:
            harness.process(rows)
            saved = harness.snapshot()
            last = harness.values[-1]
        assert normalized(last) == normalized(made(best, best % 7))
        with OneInputHarness(factory, input_type=row_type, snapshot=saved) as harness:
            harness.process([made(9, 30)])
            taken_back, entered = harness.values
        assert (taken_back.get_row_kind(), entered["at"]) == (RowKind.DELETE, Instant(30, 500_000_000))
        assert normalized(taken_back)[1:] == normalized(last)[1:]


def test_only_rows_that_take_nothing_back_stay_columns() -> None:
    with OneInputHarness(TopNOperatorFactory(spec(3, "number + 1")), input_type=ROWS) as harness:
        harness.process([Row(key="a", number=n, text=None, amount=None) for n in (1, 2, 3)])
        harness.process([], marks=[Mark(0, 5)])
        (batch, _), *_ = harness.batches
        assert batch.has_arrow
        assert harness.watermarks == [5]


def test_what_cannot_be_ordered_is_refused() -> None:
    listed = Types.ROW_NAMED(["key", "items"], [Types.STRING(), Types.LIST(Types.LONG())])
    with pytest.raises(ColumnExpressionError, match="ordered"):
        top_n_spec(listed, ["key"], 1, "items", False, None)
    with pytest.raises(ColumnExpressionError, match="more than one row"):
        spec(1, "max(number)")
    with pytest.raises(ColumnExpressionError, match="already"):
        spec(1, rank="text")
    with pytest.raises(ColumnExpressionError, match="already"):
        spec(1, rank="window_end", with_window=True)
    for n in (0, True, 1.5):
        with pytest.raises(ValueError, match="positive"):
            spec(n)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="order for each"):
        spec(1, ["number", "text"], [True])
    with pytest.raises(TypeError, match="ROW_NAMED"):
        top_n_spec(Types.LONG(), ["key"], 1, "value", True, None)


def test_rows_that_take_others_back_and_other_state_are_refused() -> None:
    row = Row.of_kind(RowKind.DELETE, key="a", number=1, text=None, amount=None)
    with OneInputHarness(TopNOperatorFactory(spec()), input_type=ROWS) as harness:
        with pytest.raises(ChangelogInputError):
            harness.process([row])
        row.set_row_kind(RowKind.INSERT)
        harness.process([row])
        saved = harness.snapshot()
    with pytest.raises(StateMigrationError):
        OneInputHarness(TopNOperatorFactory(spec(by=["number", "text"])), snapshot=saved)


# --- by window --------------------------------------------------------------------------------------------------------

ASSIGNERS: list[WindowAssigner[Any, Any]] = [
    TumblingEventTimeWindows(10),
    SlidingEventTimeWindows(12, 4, 1),
    SlidingEventTimeWindows(3, 8, 0),
    CumulativeEventTimeWindows(12, 4, 2),
]


class BestInPython(ProcessWindowFunction):
    """The best two rows by number and text."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Row]:
        orders = (("number", True), ("text", False))
        best = sorted(elements, key=functools.cmp_to_key(partial(better, orders=orders)))[:2]
        for rank, row in enumerate(best, 1):
            bounds = {"window_start": context.window().start, "window_end": context.window().end}
            yield Row(**row.as_dict(), rank=rank, **bounds)


@pytest.mark.parametrize("assigner", ASSIGNERS, ids=repr)
@settings(max_examples=8, deadline=None)
@given(
    run=runs(12),
    cut=st.booleans(),
    tag=st.sampled_from([None, LATE]),
    lateness_ms=st.sampled_from([0, 0, 6]),
)
def test_windows_give_what_a_function_for_each_record_gives(
    assigner: WindowAssigner[Any, Any], run: Run, cut: bool, tag: Any, lateness_ms: int
) -> None:
    by_record = WindowOperatorFactory(assigner, key_of, ListContents(ROWS), BestInPython(), None, lateness_ms, tag)
    expected = played(by_record, run, cut)
    assert played(by_column(assigner, tag, lateness_ms), run, cut) == expected


def by_column(assigner: WindowAssigner[Any, Any], tag: Any, lateness_ms: int) -> OperatorFactory:
    panes = panes_of(assigner)
    assert panes is not None
    best = spec(2, ["number", "text"], [True, False], "rank", with_window=True)
    return WindowAggregateOperatorFactory(WindowAggregateSpec(best, panes, lateness_ms, tag))


@pytest.mark.parametrize("assigner", ASSIGNERS[:2], ids=repr)
@settings(max_examples=6, deadline=None)
@given(parts=st.lists(runs(8), min_size=3, max_size=3))
def test_windows_survive_rescaling(assigner: WindowAssigner[Any, Any], parts: list[Run]) -> None:
    assert_columns_survive_rescaling(by_column(assigner, LATE, 0), parts)


# --- restored with another n ------------------------------------------------------------------------------------------


def numbered(key: str, *numbers: int) -> list[Row]:
    return [Row(key=key, number=number, text=None, amount=None) for number in numbers]


def standing(changes: Sequence[Row]) -> list[tuple[Any, ...]]:
    """The rows that a changelog leaves; a row must be there to be taken back."""
    rows: list[tuple[Any, ...]] = []
    for change in changes:
        if change.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            rows.append(tuple(change))
        else:
            rows.remove(tuple(change))
    return sorted(rows, key=repr)


@settings(max_examples=30, deadline=None)
@given(
    first=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=12),
    second=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=6),
    before=st.integers(1, 5),
    after=st.integers(1, 5),
    rank=st.sampled_from([None, "place"]),
    is_saved_again=st.booleans(),
)
def test_another_n_holds_from_the_restore_on(
    first: list[tuple[str, int]],
    second: list[tuple[str, int]],
    before: int,
    after: int,
    rank: str | None,
    is_saved_again: bool,
) -> None:
    changes: list[Row] = []
    with OneInputHarness(TopNOperatorFactory(spec(before, rank=rank)), input_type=ROWS) as harness:
        harness.process([row for key, number in first for row in numbered(key, number)])
        changes += harness.values
        saved = harness.snapshot()
    factory = TopNOperatorFactory(spec(after, rank=rank))
    if is_saved_again:
        with OneInputHarness(factory, input_type=ROWS, snapshot=saved) as harness:
            saved = harness.snapshot()
    with OneInputHarness(factory, input_type=ROWS, snapshot=saved) as harness:
        for key, number in second:
            harness.process(numbered(key, number))
        harness.finish()
        changes += harness.values
        kept = harness.snapshot()
    best: list[tuple[Any, ...]] = []
    for key in "ab":
        # what had no room before the restore is not known after it
        known = sorted((n for k, n in first if k == key), reverse=True)[:before]
        known = sorted([*known, *(n for k, n in second if k == key)], reverse=True)[:after]
        ranks = [[place] if rank else [] for place in range(1, after + 1)]
        best += [(key, number, None, None, *place) for number, place in zip(known, ranks, strict=False)]
    assert standing(changes) == sorted(best, key=repr)
    with OneInputHarness(factory, input_type=ROWS, snapshot=kept) as harness:
        assert harness.operator._store.all_rows().height == len(best)  # type: ignore[attr-defined]


def test_rows_beyond_a_smaller_n_are_taken_back_before_the_next_row_whatever_its_key() -> None:
    with OneInputHarness(TopNOperatorFactory(spec(4, rank="place")), input_type=ROWS) as harness:
        harness.process([*numbered("a", 5, 4, 3, 2), *numbered("b", 7)])
        saved = harness.snapshot()
    with OneInputHarness(TopNOperatorFactory(spec(2, rank="place")), input_type=ROWS, snapshot=saved) as harness:
        harness.process(numbered("c", 1), [30])
        found = [(row.get_row_kind(), row["key"], row["number"], row["place"], at) for row, at in harness.records]
        assert found == [
            (RowKind.DELETE, "a", 2, 4, 30),
            (RowKind.DELETE, "a", 3, 3, 30),
            (RowKind.INSERT, "c", 1, 1, 30),
        ]
        harness.process(numbered("a", 1, 4, 6), [31, 32, 33])
        assert [row["number"] for row, at in harness.records if at == 33] == [5, 6, 4, 5]


def test_a_window_emits_as_many_rows_as_are_asked_for_now() -> None:
    def windows(n: int) -> OperatorFactory:
        panes = panes_of(SlidingEventTimeWindows(20, 10, 0))
        assert panes is not None
        return WindowAggregateOperatorFactory(WindowAggregateSpec(spec(n, rank="place", with_window=True), panes))

    with OneInputHarness(windows(4), input_type=ROWS) as harness:
        harness.process(numbered("a", 1, 2, 3, 4), [11] * 4)
        saved = harness.snapshot()
    with OneInputHarness(windows(2), input_type=ROWS, snapshot=saved) as harness:
        harness.process_watermark(100)
        found = [(row["window_end"], row["place"], row["number"]) for row in harness.values]
    assert found == [(20, 1, 4), (20, 2, 3), (30, 1, 4), (30, 2, 3)]


# --- rows by key ------------------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(
    steps=st.lists(
        st.dictionaries(st.one_of(st.none(), st.integers(0, 20)), st.lists(st.integers(0, 9), min_size=1, max_size=3)),
        max_size=12,
    ),
    asked=st.sets(st.one_of(st.none(), st.integers(0, 25))),
)
def test_rows_are_found_by_key_as_in_a_dict(steps: list[dict[int | None, list[int]]], asked: set[int | None]) -> None:
    schema = {"key": pl.Int64(), "value": pl.Int64()}
    store = KeyedRows(pl.DataFrame(schema=schema), ["key"])
    known: dict[int | None, list[int]] = {}
    for step in steps:
        known |= step
        pairs = [(key, value) for key, values in step.items() for value in values]
        store.replace(pl.DataFrame(pairs, schema=schema, orient="row"))
        found: dict[int | None, list[int]] = {}
        for key, value in store.find(pl.DataFrame({"key": list(asked)}, schema={"key": pl.Int64()})).iter_rows():
            found.setdefault(key, []).append(value)
        assert found == {key: values for key, values in known.items() if key in asked}
    assert store.all_rows().height == sum(map(len, known.values()))


def test_segments_are_merged_so_that_there_are_few() -> None:
    store = KeyedRows(pl.DataFrame(schema={"key": pl.Int64()}), ["key"])
    for key in range(500):
        store.replace(pl.DataFrame({"key": [key]}))
    assert len(store._segments) <= 10


def test_batches_without_rows_pass_marks_on() -> None:
    with OneInputHarness(TopNOperatorFactory(spec()), input_type=ROWS) as harness:
        harness.process_batch(RecordBatch.of_values([], [], [Mark(0, 3)], ROWS))
        harness.process_watermark(4)
        assert [watermark for _, watermark in timeline(harness)] == [None]
        assert harness.watermarks == [3, 4]
