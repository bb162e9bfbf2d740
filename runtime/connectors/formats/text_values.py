"""Text of a type's values in CSV fields and JSON, written and read.

Pure functions, made once per schema and called per field. Source: Flink, JsonRow(De)SerializationSchema and
CsvRow(De)SerializationSchema (which texts stand for which values).
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from runtime.common.time import Instant
from runtime.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    PrimitiveArrayTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from runtime.core.formatting import java_double

_INTEGERS = (BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG, BasicType.BIG_INT)


def text_reader(type_info: TypeInformation) -> Callable[[str], Any]:
    """Return a function from a text to a value of a type that is no collection; it raises ValueError.

    Raises:
        TypeError: the type has no form as one text.
    """
    if isinstance(type_info, BasicTypeInfo):
        kind = type_info.basic_type
        if kind in (BasicType.STRING, BasicType.CHAR):
            return str
        if kind in _INTEGERS:
            return _integer
        if kind in (BasicType.FLOAT, BasicType.DOUBLE):
            return _float
        if kind is BasicType.BOOLEAN:
            return _boolean
        if kind is BasicType.BIG_DEC:
            return _decimal
        if kind is BasicType.INSTANT:
            return _instant
    if isinstance(type_info, DateTypeInfo):
        return datetime.date.fromisoformat
    if isinstance(type_info, TimeTypeInfo):
        return _time
    if isinstance(type_info, TimestampTypeInfo):
        return _timestamp
    if isinstance(type_info, PrimitiveArrayTypeInfo) and type_info.is_bytes:
        return base64.b64decode
    raise TypeError(f"{type_info} cannot be written as text")


def text_of(value: Any) -> str:
    """Return the text of a value that is neither None nor a collection; read again by `text_reader` of its type.

    Floats are written as Java writes a double; a FLOAT has to be made the shortest before.

    Raises:
        TypeError: it has none.
    """
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, Instant):
        second = datetime.datetime.fromtimestamp(value.seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{second}.{value.nanos:09d}Z"
    raise TypeError(f"a {type(value).__name__} cannot be written as text")


def _integer(text: str) -> int:
    return int(_without_underscores(text))


def _float(text: str) -> float:
    return float(_without_underscores(text))


def _without_underscores(text: str) -> str:
    # Python takes 1_000 for a number
    if "_" in text:
        raise ValueError(f"{text!r} is not a number")
    return text


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return word == "true"


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(_without_underscores(text).strip())
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a decimal number") from None


def _time(text: str) -> datetime.time:
    return datetime.time.fromisoformat(text).replace(tzinfo=None)


def _timestamp(text: str) -> datetime.datetime:
    """Parse a timestamp; one with a zone becomes the same moment in UTC."""
    moment = datetime.datetime.fromisoformat(text)
    return moment if moment.tzinfo is None else moment.astimezone(datetime.UTC).replace(tzinfo=None)


def _instant(text: str) -> Instant:
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} is not an instant: it names no time zone")
    return Instant(int(moment.timestamp() // 1), moment.microsecond * 1000)
