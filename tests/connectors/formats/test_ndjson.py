"""Typed NDJSON gives the same records by either parser, and what neither takes is an error, never a dead process."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.common.typeinfo import RowTypeInfo, TypeInformation, Types
from runtime.connectors.formats.json.ndjson import NdjsonFormat

FLAT = Types.ROW_NAMED(["a", "s"], [Types.LONG(), Types.STRING()])
#: a column that Polars does not parse: the others are Arrow's then
NESTED = Types.ROW_NAMED(["a", "s", "n"], [Types.LONG(), Types.STRING(), Types.ROW_NAMED(["x"], [Types.LONG()])])


def records(row_type: RowTypeInfo, data: bytes) -> list[tuple[object, ...]] | None:
    """The first two fields of the records, or None if the data is refused."""
    try:
        return [(row["a"], row["s"]) for row in NdjsonFormat(row_type).decode(data).values()]
    except ValueError:
        return None


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"s":"x"}\n{"s":"y","a":2}\n',
        b'{"a":1}',
        b'  {"a":1}  \n\t\n\r\n{"a":2}\r\n',
        b"\n",
        b'{"a":null,"s":null,"other":[1,{"s":"z"}]}\n{}\n',
        b'{"s":"\xc3\xa4 \\u00e4 \\ud83d\\ude00 \\n"}\n',
        b'{"a":-9223372036854775808}\n{"a":-0}\n',
        b'{"s":"} null"}\n{"a":null}\n',
        b'{"A":1}\n',
    ],
)
def test_both_parsers_give_the_same_records(data: bytes) -> None:
    found = records(FLAT, data)
    assert found is not None
    assert found == records(NESTED, data)


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":"1"}\n',
        b'{"a":1.5}\n',
        b'{"a":1e3}\n',
        b'{"a":true}\n',
        b'{"a":9223372036854775808}\n',
        b'{"a":1}{"a":2}\n',
        b'{"a":1} {"a":2}\n\n',
        b'{"a":1\n',
        b'{"a":1}x\n',
        b"[1]\n",
        b"5\n",
        b'{"a":1}\nnull\n{"a":2}\n',
        b"null\n",
        b'{"a":1} null\n',
        b'{"a":NaN}\n',
        b"{'a':1}\n",
        b'{"s":"\\ud800"}\n',
        b'{"s":"\xff"}\n',
    ],
)
def test_both_parsers_refuse_what_is_no_record(data: bytes) -> None:
    assert records(FLAT, data) is None
    assert records(NESTED, data) is None


@pytest.mark.parametrize("row_type", [FLAT, NESTED])
def test_a_text_that_is_not_utf8_is_no_record(row_type: RowTypeInfo) -> None:
    for data in (b'{"a":1,"s":"\xff"}\n', b'{"a":1,"s":"a\xc3"}\n', b'{"a":1,"s":"\xed\xa0\x80"}\n'):
        with pytest.raises(ValueError, match=r"(?i)utf-?8"):
            NdjsonFormat(row_type).decode(data)


def test_texts_take_other_values_as_flinks_do() -> None:
    assert records(FLAT, b'{"s":5}\n{"s":true}\n{"s":1.50}\n') == [(None, "5"), (None, "true"), (None, "1.5")]


@pytest.mark.parametrize(
    ("type_info", "text", "value"),
    [
        (Types.INT(), b"-2147483648", -(2**31)),
        (Types.DOUBLE(), b"0.1", 0.1),
        (Types.DOUBLE(), b"3", 3.0),
        (Types.FLOAT(), b"0.5", 0.5),
        (Types.BOOLEAN(), b"true", True),
        (Types.SHORT(), b"-7", -7),
        (Types.STRING(), b'"x"', "x"),
    ],
)
def test_values_of_each_type(type_info: TypeInformation, text: bytes, value: object) -> None:
    decoded = NdjsonFormat(Types.ROW_NAMED(["v"], [type_info])).decode(b'{"v":' + text + b"}\n")
    assert [row["v"] for row in decoded.values()] == [value]


#: parts of lines; some of what they make up together is JSON, some only if lines are taken together
FRAGMENTS = st.sampled_from(
    [
        '{"a":1}',
        '{"a":',
        "[",
        "]",
        "}",
        ",",
        "1",
        '"x',
        '"',
        "0",
        "null",
        " ",
        "\t",
        "\r",
        "\\",
        "-",
        '[{"b":2}]',
        ":",
        "NaN",
    ]
)


@given(st.lists(st.lists(FRAGMENTS, max_size=5).map("".join), max_size=5), st.booleans())
def test_untyped_lines_are_taken_one_by_one(lines: list[str], ends: bool) -> None:
    data = ("\n".join(lines) + "\n" * ends).encode()
    try:
        expected = [json.loads(line) for line in lines if line.strip(" \t\r")]
    except ValueError:
        with pytest.raises(ValueError):
            NdjsonFormat().decode(data)
        return
    # NaN equals nothing, but is written alike
    assert json.dumps(NdjsonFormat().decode(data).values()) == json.dumps(expected)


def test_equal_keys_of_untyped_records_are_one_string() -> None:
    first, second = NdjsonFormat().decode(b'{"some key":1}\n{"some key":2}\n').values()
    assert next(iter(first)) is next(iter(second))
