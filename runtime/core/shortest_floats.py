"""FLOAT values with the fewest digits that tell them from their neighbours, as Java writes them.

A float32 is a Python float here, as in PyFlink: functions see 1.100000023841858. Where a value leaves the engine, as
text or to the program, it is 1.1. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from runtime.common.typeinfo import (
    MapTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
    _SequenceTypeInfo,
)
from runtime.common.types import Row, row_of

Converter = Callable[[Any], Any]


def shortest_float(value: float) -> float:
    """Return 1.1 for the float32 that is nearest to it: the number with the fewest digits that gives the same
    float32.
    """
    return float(str(np.float32(value)))


def shortest_doubles(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Shorten many floats, like `shortest_float`; any shape."""
    doubles: npt.NDArray[np.float64] = values.astype(np.str_).astype(np.float64)
    return doubles


def with_shortest_floats(type_info: TypeInformation | None) -> Converter | None:
    """Return a function that makes every FLOAT in a value of a type the shortest; None if there is none in it."""
    if type_info == Types.FLOAT():
        return _unless_none(shortest_float)
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        fields = [with_shortest_floats(field_type) for field_type in type_info.field_types]
        if any(fields):
            return _unless_none(_row_form(fields) if isinstance(type_info, RowTypeInfo) else _tuple_form(fields))
    elif isinstance(type_info, _SequenceTypeInfo):
        element = with_shortest_floats(type_info.element_type)
        if element is not None:
            return _unless_none(lambda items: [element(item) for item in items])
    elif isinstance(type_info, MapTypeInfo):
        key, item = with_shortest_floats(type_info.key_type), with_shortest_floats(type_info.value_type)
        if key is not None or item is not None:
            return _unless_none(lambda value: {_applied(key, k): _applied(item, v) for k, v in value.items()})
    return None


def _unless_none(convert: Converter) -> Converter:
    return lambda value: None if value is None else convert(value)


def _applied(convert: Converter | None, value: Any) -> Any:
    return value if convert is None else convert(value)


def _tuple_form(fields: Sequence[Converter | None]) -> Converter:
    return lambda value: tuple(map(_applied, fields, value))


def _row_form(fields: Sequence[Converter | None]) -> Converter:
    def convert(row: Row) -> Row:
        made = row_of(list(map(_applied, fields, row)), row._fields)
        made.set_row_kind(row.get_row_kind())
        return made

    return convert
