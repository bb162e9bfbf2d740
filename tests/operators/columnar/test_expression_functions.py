"""The table of functions says what the pinned Polars makes of each example; and the functions of our own.

To take a change over:

    python tests/operators/columnar/test_expression_functions.py
"""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import runtime
from runtime.common import Instant, Row, Types
from runtime.operators.columnar.aggregates import aggregate_spec
from runtime.operators.columnar.expressions import AGGREGATES, ColumnExpressionError, parse, selection
from runtime.operators.columnar.project import ProjectOperatorFactory, WhereOperatorFactory
from runtime.operators.columnar.sql_functions import FUNCTIONS
from runtime.testing import run_job
from runtime.testing.harness import OneInputHarness
from runtime.testing.jobs import ALL_MODES, JobMode
from tests.job_runs import record_run

TABLE = Path(runtime.__file__).parent / "operators" / "columnar" / "expression_functions.json"
TYPES = {
    "n": Types.LONG(),
    "x": Types.DOUBLE(),
    "s": Types.STRING(),
    "b": Types.BOOLEAN(),
    "z": Types.LONG(),
    "t": Types.SQL_TIMESTAMP(),
    "l": Types.LIST(Types.LONG()),
    "j": Types.STRING(),
    "ms": Types.LONG(),
    "who": Types.ROW_NAMED(["name"], [Types.STRING()]),
}
RECORD = Types.ROW_NAMED(list(TYPES), list(TYPES.values()))
ROW = Row(
    n=7,
    x=2.5,
    s=" Hällo wörld ",
    b=True,
    z=None,
    t=datetime.datetime(2024, 2, 29, 13, 45, 6, 789000),
    l=[3, 1, 2],
    j='{"items": [{"price": 1.5}]}',
    ms=1_709_214_306_789,
    who=Row(name="Ann"),
)
#: category, signature with its type rule, example
FUNCTION_LIST = [
    ("number", "abs(x: number) → number, as x", "abs(n)"),
    ("number", "ceil(x: number) → number, as x", "ceil(x)"),
    ("number", "floor(x: number) → number, as x", "floor(x)"),
    ("number", "round(x: number, digits: literal = 0) → number, as x", "round(x, 1)"),
    ("number", "sign(x: number) → number, as x", "sign(x)"),
    ("number", "sqrt(x: number) → DOUBLE", "sqrt(x)"),
    ("number", "cbrt(x: number) → DOUBLE", "cbrt(x)"),
    ("number", "exp(x: number) → DOUBLE", "exp(x)"),
    ("number", "ln(x: number) → DOUBLE", "ln(x)"),
    ("number", "log(x: number, base: literal) → DOUBLE", "log(x, 2)"),
    ("number", "log2(x: number) → DOUBLE", "log2(x)"),
    ("number", "log10(x: number) → DOUBLE", "log10(x)"),
    ("number", "log1p(x: number) → DOUBLE", "log1p(x)"),
    ("number", "power(x: number, exponent: number) → number, as x", "power(x, 2)"),
    ("number", "mod(x: number, y: number) → number, as x", "mod(n, 3)"),
    ("number", "div(x: number, y: number) → whole part of x / y", "div(n, 2)"),
    ("number", "pi() → DOUBLE", "pi()"),
    ("number", "degrees(x: number) → DOUBLE", "degrees(x)"),
    ("number", "radians(x: number) → DOUBLE", "radians(x)"),
    ("number", "sin(x: number) → DOUBLE", "sin(x)"),
    ("number", "cos(x: number) → DOUBLE", "cos(x)"),
    ("number", "tan(x: number) → DOUBLE", "tan(x)"),
    ("number", "cot(x: number) → DOUBLE", "cot(x)"),
    ("number", "asin(x: number) → DOUBLE", "asin(x / 10)"),
    ("number", "acos(x: number) → DOUBLE", "acos(x / 10)"),
    ("number", "atan(x: number) → DOUBLE", "atan(x)"),
    ("number", "atan2(y: number, x: number) → DOUBLE", "atan2(x, n)"),
    ("choice", "greatest(value, …) → as the values", "greatest(n, 3)"),
    ("choice", "least(value, …) → as the values", "least(n, 3)"),
    ("choice", "coalesce(value, …) → the first that is not null", "coalesce(z, n)"),
    ("choice", "ifnull(value, other) → other where value is null", "ifnull(z, 0)"),
    ("choice", "nullif(value, other) → null where both are equal", "nullif(n, 7)"),
    ("choice", "if(condition, value, other) → as the values", "if(b, 'yes', 'no')"),
    ("text", "length(s: STRING) → number of characters", "length(s)"),
    ("text", "char_length(s: STRING) → number of characters", "char_length(s)"),
    ("text", "octet_length(s: STRING) → number of bytes", "octet_length(s)"),
    ("text", "bit_length(s: STRING) → number of bits", "bit_length(s)"),
    ("text", "upper(s: STRING) → STRING", "upper(s)"),
    ("text", "lower(s: STRING) → STRING", "lower(s)"),
    ("text", "initcap(s: STRING) → STRING", "initcap(s)"),
    ("text", "concat(value, …) → STRING, without nulls", "concat(s, '!')"),
    ("text", "concat_ws(between: STRING, value, …) → STRING", "concat_ws('-', s, 'end')"),
    ("text", "left(s: STRING, n: number) → STRING", "left(s, 3)"),
    ("text", "right(s: STRING, n: number) → STRING", "right(s, 3)"),
    ("text", "substr(s: STRING, from: number, length: number) → STRING; the first character is 1", "substr(s, 2, 3)"),
    ("text", "ltrim(s: STRING) → STRING", "ltrim(s)"),
    ("text", "rtrim(s: STRING) → STRING", "rtrim(s)"),
    ("text", "trim(s: STRING) → STRING", "trim(s)"),
    ("text", "replace(s: STRING, old: STRING, new: STRING) → STRING", "replace(s, 'l', 'L')"),
    ("text", "reverse(s: STRING) → STRING", "reverse(s)"),
    ("text", "starts_with(s: STRING, prefix: STRING) → BOOLEAN", "starts_with(s, ' H')"),
    ("text", "ends_with(s: STRING, suffix: STRING) → BOOLEAN", "ends_with(s, 'd ')"),
    ("text", "strpos(s: STRING, part: STRING) → position from 1; 0 = none", "strpos(s, 'l')"),
    ("text", "split_part(s: STRING, by: STRING, n: number) → STRING", "split_part(s, 'l', 1)"),
    ("text", "string_to_array(s: STRING, by: STRING) → LIST<STRING>", "string_to_array(s, ' ')"),
    ("text", "regexp_like(s: STRING, pattern: literal) → BOOLEAN", "regexp_like(s, 'w.r')"),
    ("text", "lpad(s: STRING, length: number, fill: STRING) → STRING", "lpad(s, 14, '*')"),
    ("text", "rpad(s: STRING, length: number, fill: STRING) → STRING", "rpad(s, 14, '*')"),
    ("text", "normalize(s: STRING, form: NFC, NFD, NFKC or NFKD) → STRING", "normalize(s)"),
    ("time", "date_part(part: literal, t: time) → number", "date_part('hour', t)"),
    ("time", "extract(part FROM t: time) → number", "extract(minute FROM t)"),
    ("time", "date_trunc(unit: literal, t: time) → as t; unit: microsecond to year", "date_trunc('hour', t)"),
    (
        "time",
        "to_timestamp(s: STRING, format: literal = ISO 8601) → SQL_TIMESTAMP; null where s is none",
        "to_timestamp('2024-01-02T03:04:05Z')",
    ),
    (
        "time",
        "to_timestamp(s: STRING, format: literal) → SQL_TIMESTAMP",
        "to_timestamp('2.1.24 03:04', '%d.%m.%y %H:%M')",
    ),
    ("time", "to_timestamp_ms(ms: LONG) → SQL_TIMESTAMP, UTC", "to_timestamp_ms(ms)"),
    ("time", "to_epoch_ms(t: time) → LONG", "to_epoch_ms(t)"),
    ("time", "strftime(t: time, format: literal) → STRING", "strftime(t, '%H:%M')"),
    ("time", "t + INTERVAL 'n unit' → as t", "t + INTERVAL '90 minutes'"),
    (
        "json",
        "json_value(s: STRING, path: literal) → STRING; null where there is none",
        "json_value(j, '$.items[0].price')",
    ),
    ("list", "array_length(l: LIST) → number of items", "array_length(l)"),
    ("list", "array_contains(l: LIST, item) → BOOLEAN", "array_contains(l, 2)"),
    ("list", "array_get(l: LIST, n: number) → item; the first is 1", "array_get(l, 1)"),
    ("list", "l[n] → item; the first is 1", "l[1]"),
    ("list", "array_sum(l: LIST) → number", "array_sum(l)"),
    ("list", "array_mean(l: LIST) → DOUBLE", "array_mean(l)"),
    ("list", "array_reverse(l: LIST) → LIST", "array_reverse(l)"),
    ("list", "array_unique(l: LIST) → LIST, in no order", "array_unique(l)"),
    ("list", "array_to_string(l: LIST, between: STRING) → STRING", "array_to_string(l, ',')"),
    ("number", "bit_and(x: number, y: number) → number", "bit_and(n, 3)"),
    ("number", "bit_or(x: number, y: number) → number", "bit_or(n, 8)"),
    ("number", "bit_xor(x: number, y: number) → number", "bit_xor(n, 1)"),
    ("number", "bit_count(x: number) → number", "bit_count(n)"),
    ("row", "row.field → as the field", "who.name"),
    ("choice", "CASE WHEN condition THEN value … ELSE other END", "CASE WHEN n > 5 THEN 'many' ELSE 'few' END"),
    ("cast", "CAST(value AS type) → type; fails where it cannot", "CAST(n AS VARCHAR)"),
    ("cast", "TRY_CAST(value AS type) → type; null where it cannot", "TRY_CAST(s AS BIGINT)"),
    ("condition", "value BETWEEN low AND high → BOOLEAN", "n BETWEEN 1 AND 9"),
    ("condition", "value IN (value, …) → BOOLEAN", "n IN (1, 7)"),
    ("condition", "s LIKE pattern → BOOLEAN; % any, _ one character", "s LIKE '%w_rld%'"),
    ("condition", "s ILIKE pattern → BOOLEAN, whatever the case", "s ILIKE '%W_RLD%'"),
    ("condition", "value IS NULL → BOOLEAN", "z IS NULL"),
    ("condition", "value IS DISTINCT FROM other → BOOLEAN, null like a value", "n IS DISTINCT FROM z"),
    ("text", "text || text → STRING", "s || '!'"),
    ("number", "x // y → whole part, rounded down", "n // 2"),
    ("number", "x % y → rest", "n % 4"),
]


def value_of(text: str, row: Row = ROW) -> tuple[str, Any]:
    """Type and value of an expression."""
    projection = selection(RECORD, [], {"value": text})
    with OneInputHarness(ProjectOperatorFactory(projection), input_type=RECORD) as harness:
        harness.process([row])
        return projection.output_type.field_types[0].type_string(), harness.values[0]["value"]


def table() -> str:
    entries = []
    for category, signature, example in FUNCTION_LIST:
        type_text, value = value_of(example)
        if isinstance(value, float):
            value = round(value, 12)
        elif example.startswith("array_unique"):
            value = sorted(value)
        elif isinstance(value, datetime.datetime):
            value = value.isoformat(" ")
        name = signature.split("(")[0] if example.split("(")[0] == signature.split("(")[0] else signature
        name = name.split(" →")[0]
        entries.append(
            {
                "name": name,
                "category": category,
                "signature": signature,
                "example": example,
                "type": type_text,
                "value": value,
            }
        )
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    columns = json.dumps({name: type_info.type_string() for name, type_info in TYPES.items()}, ensure_ascii=False)
    return f'{{"columns": {columns},\n"functions": [\n{lines}\n]}}\n'


def test_the_table_is_what_polars_does() -> None:
    assert TABLE.read_text(encoding="utf-8") == table()


def test_the_table_has_each_name_once_and_every_function_of_our_own() -> None:
    entries = json.loads(TABLE.read_text(encoding="utf-8"))["functions"]
    examples = [entry["example"] for entry in entries]
    assert len(set(examples)) == len(examples)
    names = {entry["name"] for entry in entries}
    assert set(FUNCTIONS) <= names and not names & AGGREGATES


TRUNCATED = {
    "microsecond": datetime.datetime(2024, 2, 29, 13, 45, 6, 789000),
    "millisecond": datetime.datetime(2024, 2, 29, 13, 45, 6, 789000),
    "second": datetime.datetime(2024, 2, 29, 13, 45, 6),
    "minute": datetime.datetime(2024, 2, 29, 13, 45),
    "hour": datetime.datetime(2024, 2, 29, 13),
    "day": datetime.datetime(2024, 2, 29),
    "week": datetime.datetime(2024, 2, 26),
    "month": datetime.datetime(2024, 2, 1),
    "quarter": datetime.datetime(2024, 1, 1),
    "YEAR": datetime.datetime(2024, 1, 1),
}


@pytest.mark.parametrize(("unit", "start"), TRUNCATED.items())
def test_times_are_truncated(unit: str, start: datetime.datetime) -> None:
    assert value_of(f"date_trunc('{unit}', t)") == (Types.SQL_TIMESTAMP().type_string(), start)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("to_timestamp('2024-01-02 03:04:05')", datetime.datetime(2024, 1, 2, 3, 4, 5)),
        ("to_timestamp('2024-01-02T03:04:05.25Z')", datetime.datetime(2024, 1, 2, 3, 4, 5, 250000)),
        ("to_timestamp('2024-02-30 00:00:00')", None),
        ("to_timestamp(s)", None),
        ("to_timestamp('1/2/24', '%d/%m/%y %H:%M') IS NULL", True),
        ("to_timestamp('1/2/24 5:06', '%d/%m/%y %H:%M')", datetime.datetime(2024, 2, 1, 5, 6)),
        ("to_timestamp_ms(-1)", datetime.datetime(1969, 12, 31, 23, 59, 59, 999000)),
        ("to_timestamp_ms(z)", None),
        ("to_epoch_ms(to_timestamp_ms(ms)) = ms", True),
        ("json_value(j, '$.items[0].price')", "1.5"),
        ("json_value(j, '$.items[0]')", '{"price":1.5}'),
        ("json_value(j, '$.nope')", None),
        ("json_value(s, '$.nope')", None),
        ("json_value('{\"a''b\": 1}', '$[\"a''b\"]')", "1"),
        ("CAST(json_value(j, '$.items[0].price') AS DOUBLE) * n + date_part('hour', date_trunc('hour', t))", 23.5),
        ("CASE WHEN json_value(j, '$.x') IS NULL THEN upper(json_value(j, '$.items[0].price')) END", "1.5"),
        ("'date_trunc(' || s", "date_trunc( Hällo wörld "),
        ("to_epoch_ms(date_trunc('day', to_timestamp_ms(ms + (1000 * 60))))", 1_709_164_800_000),
        ("Date_Trunc('hour', t) = date_trunc('hour', t)", True),
    ],
)
def test_functions_of_our_own_stand_anywhere(text: str, value: Any) -> None:
    assert value_of(text)[1] == value


def test_instants_keep_their_zone() -> None:
    record = Types.ROW_NAMED(["at"], [Types.INSTANT()])
    projection = selection(record, [], {"hour": "date_trunc('hour', at)"})
    assert projection.output_type.field_types == (Types.INSTANT(),)
    with OneInputHarness(ProjectOperatorFactory(projection), input_type=record) as harness:
        harness.process([Row(at=Instant(3_601, 5)), Row(at=None)])
        assert harness.values == [Row(hour=Instant(3_600, 0)), Row(hour=None)]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("date_trunc('fortnight', t)", "knows the units microsecond, .*, not 'fortnight'"),
        ("date_trunc(s, t)", "needs its unit as a text in quotes"),
        ("date_trunc('hour')", "takes 2 arguments, not 1"),
        ("date_trunc('hour', n)", "date_trunc|truncate|Datetime|datetime"),
        ("to_timestamp_ms()", "takes 1 arguments, not 0"),
        ("to_timestamp('1 5', '%d %H')", "Invalid format"),
        ("to_timestamp(n)", "String|str"),
        ("to_timestamp(s, s)", "needs its format as a text"),
        ("json_value(j, 'items')", r"begins with \$"),
        ("json_value(j, '$.[')", "is not a path"),
        ("json_value(j, s)", "needs its path"),
        ("json_value(j, '$.a'", "is not closed"),
        ("to_timestamp_ms(sum(n))", "looks at more than one row"),
        ("to_timestamp_ms(nope)", "nope"),
    ],
)
def test_calls_that_cannot_be_used_are_refused(text: str, match: str) -> None:
    with pytest.raises(ColumnExpressionError, match=match):
        selection(RECORD, [], {"value": text})


def test_columns_named_like_functions_stay_columns() -> None:
    record = Types.ROW_NAMED(["date_trunc", "who"], [Types.LONG(), Types.ROW_NAMED(["json_value"], [Types.LONG()])])
    projection = selection(record, ["date_trunc + 1 AS a", "who.json_value AS b"], {})
    with OneInputHarness(ProjectOperatorFactory(projection), input_type=record) as harness:
        harness.process([Row(date_trunc=1, who=Row(json_value=2))])
        assert harness.values == [Row(a=2, b=2)]


def test_functions_of_our_own_stand_in_conditions_and_aggregates() -> None:
    with OneInputHarness(WhereOperatorFactory("date_trunc('day', t) < t", RECORD), input_type=RECORD) as harness:
        harness.process([ROW])
        assert harness.values == [ROW]
    aggregate_spec(RECORD, ["n"], ["max(date_trunc('hour', t)) AS hour", "to_timestamp_ms(max(ms)) AS last"], {})
    assert parse("date_trunc('hour', t)").meta.root_names() == ["t"]
    assert pl.DataFrame({"a": [1]}).select(parse("to_timestamp_ms(a * 1000)")).item().second == 1


@pytest.mark.parametrize(
    "mode", [pytest.param(m, marks=[pytest.mark.spark] if "Spark" in m.name else []) for m in ALL_MODES], ids=str
)
def test_functions_of_our_own_work_in_jobs(mode: JobMode) -> None:
    record_run(mode.name)
    result = run_job(
        lambda env: env.from_collection([ROW], RECORD).select("json_value(j, '$.items[0].price') || '!' AS p"),
        mode=mode,
    )
    assert result.values == [Row(p="1.5!")]


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
