"""select, with_columns and where: types, nulls, marks, row kinds, and what is refused."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Row, RowKind
from runtime.common.time import Instant
from runtime.common.typeinfo import RowTypeInfo, Types
from runtime.core.arrow import to_arrow
from runtime.core.batch import Mark, RecordBatch
from runtime.operators.columnar.expressions import ColumnExpressionError, extension, selection
from runtime.operators.columnar.frames import arrow_of, has_views
from runtime.operators.columnar.project import ProjectOperatorFactory, WhereOperatorFactory
from runtime.operators.errors import UserFunctionError
from runtime.operators.map_operators import FilterOperatorFactory, MapOperatorFactory
from runtime.testing.harness import OneInputHarness, OutputRecord
from tests.operators.columnar.runs import ROWS, Run, feed, played, runs, timeline


def selected(rows: list[Row], record_type: RowTypeInfo, *texts: str, **named: str) -> list[Any]:
    with OneInputHarness(
        ProjectOperatorFactory(selection(record_type, texts, named)), input_type=record_type
    ) as harness:
        harness.process(rows)
        return harness.values


@settings(max_examples=12, deadline=None)
@given(run=runs(), cut=st.booleans(), as_columns=st.booleans())
def test_select_gives_what_a_map_gives(run: Run, cut: bool, as_columns: bool) -> None:
    def double(row: Row) -> Row:
        number, text = row["number"], row["text"]
        return Row(
            key=row["key"], twice=None if number is None else number * 2, loud=None if text is None else text + "!"
        )

    projection = selection(ROWS, ["key", "number * 2 AS twice"], {"loud": "text || '!'"})
    expected = played(MapOperatorFactory(double, projection.output_type), run, cut, as_columns)
    assert played(ProjectOperatorFactory(projection), run, cut, as_columns) == expected


@settings(max_examples=12, deadline=None)
@given(run=runs(), cut=st.booleans(), as_columns=st.booleans())
def test_where_gives_what_a_filter_gives(run: Run, cut: bool, as_columns: bool) -> None:
    def keep(row: Row) -> bool:
        return row["number"] is not None and row["number"] > 0 and row["key"] == "ü"

    expected = played(FilterOperatorFactory(keep, ROWS), run, cut, as_columns)
    assert played(WhereOperatorFactory("number > 0 AND key = 'ü'", ROWS), run, cut, as_columns) == expected


def test_columns_that_are_passed_on_keep_their_types() -> None:
    types = {"c": Types.CHAR(), "n": Types.BIG_INT(), "m": Types.MAP(Types.STRING(), Types.LONG()), "s": Types.SHORT()}
    record_type = Types.ROW_NAMED(list(types), list(types.values()))
    assert selection(record_type, ["*"], {}).output_type == record_type
    row = Row(c="x", n=10**20, m={"a": 1}, s=3)
    assert selected([row], record_type, "m", other="n") == [Row(m={"a": 1}, other=10**20)]
    extended = extension(record_type, ["s + 1 AS s"], {"t": "length(c)"})
    assert extended.output_type.field_names == ("c", "n", "m", "s", "t")
    with OneInputHarness(ProjectOperatorFactory(extended), input_type=record_type) as harness:
        harness.process([row])
        assert harness.values == [Row(c="x", n=10**20, m={"a": 1}, s=4, t=1)]


def test_times_keep_their_zone_and_decimals_their_digits() -> None:
    record_type = Types.ROW_NAMED(["at", "local", "price"], [Types.INSTANT(), Types.SQL_TIMESTAMP(), Types.BIG_DEC()])
    row = Row(at=Instant(3_600, 5), local=datetime.datetime(2024, 3, 31, 2, 30), price=decimal.Decimal("0.1"))
    results = selected(
        [row, Row(at=None, local=None, price=None)],
        record_type,
        "at",
        later="at + INTERVAL '1 hour'",
        hour="date_part('hour', local)",
        triple="price * 3",
    )
    assert results == [
        Row(at=Instant(3_600, 5), later=Instant(7_200, 5), hour=2, triple=decimal.Decimal("0.3")),
        Row(at=None, later=None, hour=None, triple=None),
    ]


def test_a_constant_is_there_for_each_row() -> None:
    assert (
        selected([Row(a=1), Row(a=2)], Types.ROW_NAMED(["a"], [Types.LONG()]), one="1", text="'x'")
        == [Row(one=1, text="x")] * 2
    )


def test_nested_fields_can_be_reached() -> None:
    record_type = Types.ROW_NAMED(
        ["who", "numbers"], [Types.ROW_NAMED(["name"], [Types.STRING()]), Types.LIST(Types.LONG())]
    )
    rows = [Row(who=Row(name="ß"), numbers=[1, 2]), Row(who=None, numbers=None)]
    assert selected(rows, record_type, name="who.name", first="numbers[1]", many="array_length(numbers)") == [
        Row(name="ß", first=1, many=2),
        Row(name=None, first=None, many=None),
    ]


def test_columns_in_another_encoding_are_read_as_what_was_declared() -> None:
    record_type = Types.ROW_NAMED(["n", "t"], [Types.LONG(), Types.STRING()])
    narrow = to_arrow([Row(n=1, t="x")], Types.ROW_NAMED(["n", "t"], [Types.BYTE(), Types.STRING()]))
    with OneInputHarness(ProjectOperatorFactory(selection(record_type, ["n * 1000 AS n"], {}))) as harness:
        harness.process_batch(RecordBatch.of_arrow(narrow, record_type))
        assert harness.values == [Row(n=1000)]


NESTED = Types.ROW_NAMED(
    ["text", "who", "items"],
    [Types.STRING(), Types.ROW_NAMED(["name"], [Types.STRING()]), Types.LIST(Types.STRING())],
)
NESTED_ROWS = [
    Row(text="a", who=Row(name="ß"), items=["x", None]),
    Row(text=None, who=None, items=None),
    Row(text="c", who=Row(name=None), items=[]),
    Row(text="d" * 40, who=Row(name="ß"), items=["y" * 40]),
]


@pytest.mark.parametrize("form", ["plain", "views", "dictionary"])
def test_where_keeps_rows_of_columns_in_any_encoding(form: str) -> None:
    columns = to_arrow(NESTED_ROWS, NESTED)
    if form == "views":
        columns = arrow_of(pl.DataFrame(columns))
        assert has_views(columns.schema) and not has_views(to_arrow(NESTED_ROWS, NESTED).schema)
    elif form == "dictionary":
        columns = columns.set_column(0, "text", columns.column(0).dictionary_encode())
    with OneInputHarness(WhereOperatorFactory("who.name = 'ß'", NESTED), input_type=NESTED) as harness:
        times = np.array([1, 2, 3, 4])
        harness.process_batch(RecordBatch.of_arrow(columns, NESTED, times, [Mark(1, 0), Mark(4, 3)]))
        assert (harness.values, harness.watermarks) == ([NESTED_ROWS[0], NESTED_ROWS[3]], [0, 3])
        rows = [element for element in harness.output if isinstance(element, OutputRecord)]
        assert [row.timestamp for row in rows] == [1, 4]


@pytest.mark.parametrize(("condition", "kept"), [("TRUE", 4), ("1 = 2", 0), ("text IS NULL", 1), ("text > 'a'", 2)])
def test_where_takes_constants_and_leaves_out_what_is_unknown(condition: str, kept: int) -> None:
    with OneInputHarness(WhereOperatorFactory(condition, NESTED), input_type=NESTED) as harness:
        harness.process_batch(RecordBatch.of_arrow(to_arrow(NESTED_ROWS, NESTED), NESTED))
        assert len(harness.values) == kept


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize(
    ("condition", "kept"), [("text > 'a'", [2, 3]), ("text = 'z'", []), ("TRUE OR text = ''", [0, 1, 2, 3])]
)
def test_where_filters_views_together_with_their_times(condition: str, kept: list[int], timed: bool) -> None:
    columns = arrow_of(pl.DataFrame(to_arrow(NESTED_ROWS, NESTED)))
    with OneInputHarness(WhereOperatorFactory(condition, NESTED), input_type=NESTED) as harness:
        harness.process_batch(RecordBatch.of_arrow(columns, NESTED, np.array([5, 6, 7, 8]) if timed else None))
        assert harness.values == [NESTED_ROWS[row] for row in kept]
        rows = [element for element in harness.output if isinstance(element, OutputRecord)]
        assert [row.timestamp for row in rows] == [5 + row if timed else None for row in kept]


def test_only_the_columns_that_expressions_look_at_are_read() -> None:
    """And in the order of the input, whatever theirs is."""
    record_type = Types.ROW_NAMED(["a", "b", "c"], [Types.LONG(), Types.STRING(), Types.LONG()])
    rows = [Row(a=1, b="x", c=10), Row(a=2, b=None, c=20)]
    assert selected(rows, record_type, "c - a AS d", one="1") == [Row(d=9, one=1), Row(d=18, one=1)]
    assert selected(rows[:1], record_type, "c", "b", "a + 1 AS a") == [Row(c=10, b="x", a=2)]


def test_row_kinds_stay_with_their_rows() -> None:
    record_type = Types.ROW_NAMED(["a"], [Types.LONG()])
    rows = [Row.of_kind(kind, a=i) for i, kind in enumerate([RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.DELETE])]
    for factory in (
        ProjectOperatorFactory(selection(record_type, ["a"], {})),
        ProjectOperatorFactory(selection(record_type, ["a + 0 AS a"], {})),
        WhereOperatorFactory("a > 0", record_type),
    ):
        with OneInputHarness(factory, input_type=record_type) as harness:
            harness.process(rows)
            kept = rows[1:] if isinstance(factory, WhereOperatorFactory) else rows
            assert harness.values == kept


def test_marks_reach_the_output_where_no_row_is_left() -> None:
    run: Run = ([Row(key="a", number=0, text=None, amount=None)] * 2, [1, 2], [Mark(0, 1), Mark(1, 5), Mark(2, 7)])
    with OneInputHarness(WhereOperatorFactory("number > 0", ROWS), input_type=ROWS) as harness:
        feed(harness, run, cut=False)
        assert harness.watermarks == [7]
        assert timeline(harness) == [([], None)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nope", 'unable to find column "nope"'),
        ("number + AS n", "unable to parse"),
        ("sum(number) AS s", "more than one row"),
        ("row_number() OVER (ORDER BY number) AS r", "more than one row"),
        ("unnest(number) AS r", "more than one row"),
        ("now() AS t", "not deterministic"),
        ("upper(text)", "no name"),
        ("number AS __x", "reserved"),
    ],
)
def test_expressions_that_cannot_be_used_are_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ColumnExpressionError) as refused:
        selection(ROWS, [text], {})
    assert reason in str(refused.value)


def test_a_condition_must_be_true_or_false() -> None:
    with pytest.raises(ColumnExpressionError, match="Int64"):
        WhereOperatorFactory("number", ROWS)


def test_names_must_differ() -> None:
    with pytest.raises(ColumnExpressionError, match="two columns"):
        selection(ROWS, ["number", "key AS number"], {})


def test_a_value_that_an_expression_fails_on_fails_the_operator_with_the_expression() -> None:
    with pytest.raises(UserFunctionError, match="CAST"):
        selected([Row(key="x", number=1, text="no number", amount=None)], ROWS, n="CAST(text AS INT)")


def test_a_column_may_be_called_as_a_word_of_sql_and_a_literal_is_no_column() -> None:
    record_type = Types.ROW_NAMED(["top", "end"], [Types.LONG(), Types.LONG()])
    rows = [Row(top=1, end=2)]
    assert selected(rows, record_type, "end", "top AS first") == [Row(end=2, first=1)]
    assert selected(rows, record_type, "true AS yes") == [Row(yes=True)]
    assert selected(rows, record_type, "5 AS five") == [Row(five=5)]
