"""Text of values in `print` and text encoders: as Flink's Java objects print themselves.

With a declared type a value prints like its Java counterpart (`(hi,0)` for a TUPLE, `+I[1, Hello]` for a ROW, `true`,
`null`, `1.0E10`); without one it prints like Python's `str`. Source: Flink, the toString methods of its value classes.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from runtime.common.time import Instant
from runtime.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    MapTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    _SequenceTypeInfo,
)
from runtime.common.types import Row

__all__ = ["flink_formatter", "java_double", "to_flink_string"]

Formatter = Callable[[Any], str]


def to_flink_string(value: Any, type_info: TypeInformation | None) -> str:
    """Return the text of one value; for many of one type `flink_formatter` is quicker.

    Args:
        value: in the form that the type's coercer gives.
        type_info: None for values without a declared type.
    """
    return flink_formatter(type_info)(value)


def flink_formatter(type_info: TypeInformation | None) -> Formatter:
    """Return a function that gives the texts of values of a type."""
    if isinstance(type_info, BasicTypeInfo):
        return _null_or(_BASIC[type_info.basic_type])
    if isinstance(type_info, RowTypeInfo):
        return _null_or(_row([flink_formatter(t) for t in type_info.field_types]))
    if isinstance(type_info, TupleTypeInfo):
        return _null_or(_joined("(", ",", ")", [flink_formatter(t) for t in type_info.field_types]))
    if isinstance(type_info, _SequenceTypeInfo):
        # list() makes ints of bytes: Java's bytes are signed
        element = flink_formatter(type_info.element_type)
        return _null_or(lambda value: f"[{', '.join([element(item) for item in _signed(value)])}]")
    if isinstance(type_info, MapTypeInfo):
        key, item = flink_formatter(type_info.key_type), flink_formatter(type_info.value_type)
        return _null_or(lambda value: f"{{{', '.join([f'{key(k)}={item(v)}' for k, v in value.items()])}}}")
    if isinstance(type_info, DateTypeInfo):
        return _null_or(datetime.date.isoformat)
    if isinstance(type_info, TimeTypeInfo):
        return _null_or(lambda value: value.isoformat("seconds"))
    if isinstance(type_info, TimestampTypeInfo):
        return _null_or(_timestamp)
    return str


def _null_or(formatter: Formatter) -> Formatter:
    return lambda value: "null" if value is None else formatter(value)


def _joined(opening: str, comma: str, closing: str, fields: Sequence[Formatter]) -> Formatter:
    return lambda value: opening + comma.join([f(v) for f, v in zip(fields, value, strict=True)]) + closing


def _row(fields: Sequence[Formatter]) -> Formatter:
    values = _joined("[", ", ", "]", fields)

    def show(row: Row) -> str:
        return row.get_row_kind().short_string + values(row)

    return show


def _signed(value: Any) -> Any:
    return [byte - 256 if byte > 127 else byte for byte in value] if isinstance(value, bytes) else value


def java_double(value: float) -> str:
    """Return the shortest digits that give the value back; plain from 1E-3 to 1E7, else with an exponent."""
    return _java_floating(value, repr(value))


def _java_float(value: float) -> str:
    return _java_floating(value, str(np.float32(value)))


def _java_floating(value: float, shortest: str) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    written = decimal.Decimal(shortest)
    if len(written.normalize().as_tuple().digits) == 1:
        # Java writes two digits at least, the nearest ones: 4.9E-324
        written = decimal.Decimal(f"{value:.1e}")
    sign, digit_tuple, exponent = written.as_tuple()
    assert isinstance(exponent, int)
    minus = "-" if sign else ""
    digits = "".join(map(str, digit_tuple)).lstrip("0")
    if not digits:
        return f"{minus}0.0"
    point = len(digits) + exponent  # the value is 0.digits * 10 ** point
    digits = digits.rstrip("0")
    if -3 < point <= 7:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{digits}"
        return f"{minus}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    return f"{minus}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _java_decimal(value: decimal.Decimal) -> str:
    """Format like java.math.BigDecimal, which has no negative zero."""
    return str(value if value else value.copy_abs())


def _java_boolean(value: bool) -> str:
    return "true" if value else "false"


def _timestamp(value: datetime.datetime) -> str:
    """Format like java.sql.Timestamp: at least one fraction digit."""
    fraction = f"{value.microsecond:06d}".rstrip("0") or "0"
    return f"{value.replace(microsecond=0).isoformat(' ')}.{fraction}"


def _instant(value: Instant) -> str:
    """Format like java.time.Instant: 0, 3, 6 or 9 fraction digits."""
    days, second = divmod(value.seconds, 86_400)
    try:
        at = datetime.datetime(1970, 1, 1) + datetime.timedelta(days=days, seconds=second)
    except OverflowError:
        return repr(value)
    fraction = f"{value.nanos:09d}"
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    return at.isoformat() + (f".{fraction}" if fraction else "") + "Z"


_BASIC: dict[BasicType, Formatter] = {
    **dict.fromkeys(BasicType, str),
    BasicType.BOOLEAN: _java_boolean,
    BasicType.DOUBLE: java_double,
    BasicType.FLOAT: _java_float,
    BasicType.BIG_DEC: _java_decimal,
    BasicType.INSTANT: _instant,
}
