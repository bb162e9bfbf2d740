"""parse_json and to_json: what files of JSON would give, with bad records, marks, event times and row kinds."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Row, RowKind, Types
from runtime.common.typeinfo import RowTypeInfo
from runtime.connectors.formats.bad_records import DEAD_LETTERS
from runtime.connectors.formats.json.json_columns import BadJson, ParseJsonOperatorFactory, ToJsonOperatorFactory
from runtime.connectors.formats.json.ndjson import NdjsonWriterFormat
from runtime.core.arrow import to_arrow
from runtime.core.batch import Mark, RecordBatch
from runtime.core.elements import Watermark
from runtime.operators.columnar.expressions import ColumnExpressionError
from runtime.operators.errors import UserFunctionError
from runtime.operators.output_tag import OutputTag
from runtime.testing import run_job
from runtime.testing.harness import OneInputHarness, OutputRecord
from runtime.testing.jobs import ALL_MODES, JobMode
from tests.datastream.running import environment
from tests.job_runs import record_run

IN = Types.ROW_NAMED(["id", "text", "end"], [Types.LONG(), Types.STRING(), Types.STRING()])
FLAT = Types.ROW_NAMED(["n", "s"], [Types.LONG(), Types.STRING()])
NESTED = Types.ROW_NAMED(
    ["who", "xs", "price"],
    [Types.ROW_NAMED(["name"], [Types.STRING()]), Types.LIST(Types.LONG()), Types.BIG_DEC()],
)
GOOD = '{"n": 1, "s": "ü", "more": [1]}'
BAD = ["", " ", "\n", "null", "[1]", "5", "{", '{"n":"x"}', '{"n":1.5}', '{"n":1}{"n":2}', '{"n":1},{"n":2}', "\x00"]
BAD_TOO = ['{"n":1}\n{"n":2}', '{"n":99999999999999999999}', '{"s":"\\ud83d"}']
TEXTS = st.sampled_from([GOOD, "{}", '{"n":null}', '\n{"n"\n:2}\n', None, *BAD, *BAD_TOO])


def parser(bad: BadJson = "fail", alias: str | None = None, row_type: RowTypeInfo = FLAT) -> ParseJsonOperatorFactory:
    return ParseJsonOperatorFactory(IN, "text", row_type, alias, bad, DEAD_LETTERS)


def expected(text: str | None) -> tuple[Any, ...] | None:
    """What Python's own parser says of a text; None if it is bad."""
    if text is None:
        return None, None
    try:
        value = json.loads(text)
        text.encode().decode()
        json.dumps(value, ensure_ascii=False).encode()
    except ValueError:
        return None
    n = value.get("n") if isinstance(value, dict) else "bad"
    if not (n is None or (isinstance(n, int) and abs(n) < 2**63)):
        return None
    return n, value.get("s")


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(TEXTS, max_size=12),
    bad=st.sampled_from(["null", "skip", "dead_letters"]),
    mark=st.integers(0, 12),
    as_columns=st.booleans(),
)
def test_the_result_is_that_of_pythons_parser(
    texts: list[str | None], bad: BadJson, mark: int, as_columns: bool
) -> None:
    rows = [Row(id=i, text=text, end="e") for i, text in enumerate(texts)]
    kinds = [RowKind.DELETE if i % 3 == 2 else RowKind.INSERT for i in range(len(rows))]
    if not as_columns:
        for row, kind in zip(rows, kinds, strict=True):
            row.set_row_kind(kind)
    marks = [Mark(min(mark, len(rows)), 7)]
    values = None if as_columns else rows
    times = list(range(100, 100 + len(rows)))
    batch = RecordBatch.of_values(rows, times, marks, IN)
    if values is None:
        batch = RecordBatch.of_arrow(to_arrow(rows, IN), IN, batch.timestamps_array(), marks)
    wanted: list[Any] = []
    letters = []
    for i, text in enumerate(texts):
        if i == marks[0].offset:
            wanted.append(Watermark(7))
        found = expected(text)
        if found is None:
            letters.append(i)
            if bad != "null":
                continue
            found = (None, None)
        row = Row(id=i, n=found[0], s=found[1], end="e")
        row.set_row_kind(RowKind.INSERT if as_columns else kinds[i])
        wanted.append(OutputRecord(row, 100 + i))
    if marks[0].offset == len(rows):
        wanted.append(Watermark(7))
    with OneInputHarness(parser(bad), input_type=IN) as harness:
        harness.process_batch(batch)
        assert harness.output == wanted
        assert [e.value.get_row_kind() for e in harness.output if isinstance(e, OutputRecord)] == [
            e.value.get_row_kind() for e in wanted if isinstance(e, OutputRecord)
        ]
        assert harness.counter("numRecordsInErrors") == len(letters)
        found_letters = [value for value, _ in harness.side_output(DEAD_LETTERS)]
        assert len(found_letters) == (len(letters) if bad == "dead_letters" else 0)
        for letter, i in zip(found_letters, letters, strict=False):
            assert letter["position"] == "text" and letter["error"] and letter["data"] == (texts[i] or "").encode()


def test_nested_objects_become_columns_or_one_column() -> None:
    text = '{"who": {"name": "ß"}, "xs": [1, 2], "price": "1.10"}'
    values = {"who": Row(name="ß"), "xs": [1, 2], "price": decimal.Decimal("1.10")}
    rows = [Row(id=1, text=text, end="e"), Row(id=2, text=None, end="f")]
    with OneInputHarness(parser(row_type=NESTED), input_type=IN) as harness:
        harness.process(rows)
        assert harness.values == [Row(id=1, **values, end="e"), Row(id=2, who=None, xs=None, price=None, end="f")]
    factory = parser(row_type=NESTED, alias="text")
    assert factory.output_type.field_types[1] == NESTED
    with OneInputHarness(factory, input_type=IN) as harness:
        harness.process(rows)
        assert harness.values == [Row(id=1, text=Row(**values), end="e"), Row(id=2, text=None, end="f")]


def test_a_bad_record_fails_the_job_and_is_shown() -> None:
    match = r"parse_json\('text'\).*one JSON value: b'{}{}'"
    with OneInputHarness(parser(), input_type=IN) as harness, pytest.raises(UserFunctionError, match=match):
        harness.process([Row(id=1, text=GOOD, end=""), Row(id=2, text="{}{}", end="")])


def test_what_cannot_be_parsed_is_refused() -> None:
    def refused(error: type[Exception], match: str, **other: Any) -> None:
        arguments: dict[str, Any] = {
            "column": "text",
            "row_type": FLAT,
            "alias": None,
            "bad": "fail",
            "tag": DEAD_LETTERS,
        } | other
        with pytest.raises(error, match=match):
            ParseJsonOperatorFactory(IN, **arguments)

    refused(ColumnExpressionError, "column of texts", column="id")
    refused(ColumnExpressionError, "column of texts", column="nope")
    refused(ColumnExpressionError, "already", row_type=Types.ROW_NAMED(["id"], [Types.LONG()]))
    refused(ColumnExpressionError, "already", alias="end")
    refused(TypeError, "cannot be read as", row_type=Types.ROW_NAMED(["m"], [Types.PRIMITIVE_ARRAY(Types.BYTE())]))
    refused(TypeError, "type of the JSON objects", row_type=Types.LONG())
    refused(ValueError, "bad must be one of", bad="drop")
    refused(ValueError, "side output", tag=OutputTag("x", FLAT))
    with pytest.raises(ColumnExpressionError, match="no such column"):
        ToJsonOperatorFactory(IN, ("nope",), "json")
    with pytest.raises(TypeError, match=r"parse_json\(\) needs a stream of a declared type"):
        environment().from_collection([1]).parse_json("text", FLAT)


PLAIN = st.fixed_dictionaries(
    {"n": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), "s": st.one_of(st.none(), st.text(max_size=8))}
)


@settings(max_examples=60, deadline=None)
@given(st.lists(PLAIN, min_size=1, max_size=5))
def test_objects_are_written_as_files_of_them_are(objects: list[dict[str, Any]]) -> None:
    rows = [Row(n=o["n"], s=o["s"]) for o in objects]
    with OneInputHarness(ToJsonOperatorFactory(FLAT, ("s", "n"), "json"), input_type=FLAT) as harness:
        harness.process(rows)
        texts = [row["json"] for row in harness.values]
    of_file = NdjsonWriterFormat().render(RecordBatch.of_values([Row(s=r["s"], n=r["n"]) for r in rows]), None)
    assert "\n".join([*texts, ""]).encode() == of_file
    assert [json.loads(text) for text in texts] == objects


def test_values_of_other_types_are_written_as_texts() -> None:
    types = {"d": Types.SQL_DATE(), "p": Types.BIG_DEC(), "f": Types.DOUBLE(), "x": Types.LIST(Types.LONG())}
    row_type = Types.ROW_NAMED(list(types), list(types.values()))
    rows = [
        Row(d=datetime.date(2024, 2, 29), p=decimal.Decimal("0.50"), f=math.inf, x=[1, None]),
        Row(d=None, p=None, f=0.1, x=None),
    ]
    with OneInputHarness(ToJsonOperatorFactory(row_type, tuple(types), "d"), input_type=row_type) as harness:
        harness.process(rows)
        first, second = [json.loads(row["d"]) for row in harness.values]
    assert (first["d"], first["f"], first["x"]) == ("2024-02-29", "Infinity", [1, None])
    assert decimal.Decimal(first["p"]) == decimal.Decimal("0.5")
    assert second == {"d": None, "p": None, "f": 0.1, "x": None}


@pytest.mark.parametrize(
    "mode", [pytest.param(m, marks=[pytest.mark.spark] if "Spark" in m.name else []) for m in ALL_MODES], ids=str
)
def test_json_from_end_to_end(mode: JobMode) -> None:
    rows = [Row(id=i, text=GOOD if i % 5 else "{", end=str(i)) for i in range(50)]

    def build(env: Any) -> Any:
        parsed = env.from_collection(rows, IN).parse_json("text", FLAT, bad="dead_letters")
        return parsed.to_json("json", "id", "s").select("json"), parsed.get_side_output(DEAD_LETTERS)

    record_run(mode.name)
    written, letters = run_job(build, mode=mode, parallelism=2).outputs
    assert sorted(row["json"] for row in written) == sorted(f'{{"id":{i},"s":"ü"}}' for i in range(50) if i % 5)
    assert [bytes(row["data"]) for row in letters] == [b"{"] * 10
