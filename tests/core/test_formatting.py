"""Texts as Flink's print shows them."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from runtime.common import Instant, Row, RowKind, Types
from runtime.core.formatting import to_flink_string


@pytest.mark.parametrize(
    ("value", "type_info", "text"),
    [
        ("hi", Types.STRING(), "hi"),
        (1, Types.LONG(), "1"),
        (None, Types.LONG(), "null"),
        (True, Types.BOOLEAN(), "true"),
        (("hi", 0, 5, 4), Types.TUPLE([Types.STRING(), Types.INT(), Types.INT(), Types.INT()]), "(hi,0,5,4)"),
        (Row(1, "Hello"), Types.ROW([Types.INT(), Types.STRING()]), "+I[1, Hello]"),
        (Row.of_kind(RowKind.UPDATE_BEFORE, None), Types.ROW([Types.INT()]), "-U[null]"),
        ([1, 2], Types.LIST(Types.INT()), "[1, 2]"),
        ([1.0, None], Types.BASIC_ARRAY(Types.DOUBLE()), "[1.0, null]"),
        (b"\x01\xff", Types.PRIMITIVE_ARRAY(Types.BYTE()), "[1, -1]"),
        ({"a": 1, "b": 2}, Types.MAP(Types.STRING(), Types.INT()), "{a=1, b=2}"),
        (Decimal("1.50"), Types.BIG_DEC(), "1.50"),
        (dt.date(2020, 1, 2), Types.SQL_DATE(), "2020-01-02"),
        (dt.time(1, 2, 3, 4000), Types.SQL_TIME(), "01:02:03"),
        (dt.datetime(2020, 1, 2, 3, 4, 5), Types.SQL_TIMESTAMP(), "2020-01-02 03:04:05.0"),
        (dt.datetime(2020, 1, 2, 3, 4, 5, 120_000), Types.SQL_TIMESTAMP(), "2020-01-02 03:04:05.12"),
        (Instant(0, 0), Types.INSTANT(), "1970-01-01T00:00:00Z"),
        (Instant(0, 500_000_000), Types.INSTANT(), "1970-01-01T00:00:00.500Z"),
        (("China", 135), None, "('China', 135)"),
        (None, None, "None"),
        ({1}, Types.PICKLED_BYTE_ARRAY(), "{1}"),
    ],
    ids=repr,
)
def test_values_print_as_on_flink(value: Any, type_info: Any, text: Any) -> None:
    assert to_flink_string(value, type_info) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (-1.5, "-1.5"),
        (123.25, "123.25"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1e10, "1.0E10"),
        (5e-324, "4.9E-324"),
        (-1e-323, "-9.9E-324"),
        (1.25e-5, "1.25E-5"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (0.1, "0.1"),
        (1e300, "1.0E300"),
        (123456789.125, "1.23456789125E8"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles_print_as_in_java(value: Any, text: Any) -> None:
    assert to_flink_string(value, Types.DOUBLE()) == text


def test_floats_print_the_digits_of_32_bits() -> None:
    assert to_flink_string(110.0999984741211, Types.FLOAT()) == "110.1"
