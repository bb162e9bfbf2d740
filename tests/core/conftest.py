"""Hypothesis strategies: types, and values of them in the form that their coercers give."""

import datetime as dt
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import strategies as st

from runtime.common import Instant, RowTypeInfo, Types
from runtime.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
)
from runtime.common.types import row_of

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_BASIC = {
    BasicType.STRING: _TEXT,
    BasicType.CHAR: st.characters(exclude_categories=["Cs"]),
    BasicType.BOOLEAN: st.booleans(),
    BasicType.BYTE: st.integers(-128, 127),
    BasicType.SHORT: st.integers(-(2**15), 2**15 - 1),
    BasicType.INT: st.integers(-(2**31), 2**31 - 1),
    BasicType.LONG: st.integers(-(2**63), 2**63 - 1),
    BasicType.FLOAT: st.floats(width=32, allow_nan=False),
    BasicType.DOUBLE: st.floats(allow_nan=False),
    BasicType.BIG_INT: st.integers(-(10**37), 10**37),
    BasicType.BIG_DEC: st.decimals(-(10**15), 10**15, places=6),
    # what Arrow's timestamps in ns can hold
    BasicType.INSTANT: st.builds(Instant, st.integers(-(10**9), 9 * 10**9), st.integers(0, 999_999_999)),
}
_SCALARS = [
    *(BasicTypeInfo(basic) for basic in BasicType),
    *(Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.PRIMITIVE_ARRAY(Types.BYTE())),
]


def types() -> Any:
    """Types of any depth, without pickled parts."""
    return st.recursive(
        st.sampled_from(_SCALARS),
        lambda inner: st.one_of(
            inner.map(Types.LIST),
            inner.map(Types.OBJECT_ARRAY),
            st.builds(Types.MAP, st.sampled_from([Types.STRING(), Types.LONG(), Types.SQL_DATE()]), inner),
            st.lists(inner, max_size=3).map(Types.TUPLE),
            st.lists(inner, max_size=3).map(Types.ROW),
            st.lists(inner, min_size=2, max_size=2).map(lambda ts: Types.ROW_NAMED(["a", "b c"], ts)),
        ),
        max_leaves=5,
    )


def values(type_info: Any, nullable: Any = True) -> Any:
    """Values of a type, None among them."""
    plain = _values(type_info)
    return st.none() | plain if nullable else plain


def _values(type_info: Any) -> Any:
    if isinstance(type_info, BasicTypeInfo):
        return _BASIC[type_info.basic_type]
    if isinstance(type_info, DateTypeInfo):
        return st.dates()
    if isinstance(type_info, TimeTypeInfo):
        return st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))
    if isinstance(type_info, TimestampTypeInfo):
        return st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))
    if isinstance(type_info, PrimitiveArrayTypeInfo) and type_info.is_bytes:
        return st.binary(max_size=5)
    if isinstance(type_info, MapTypeInfo):
        return st.dictionaries(values(type_info.key_type, False), values(type_info.value_type), max_size=3)
    if isinstance(type_info, TupleTypeInfo):
        return st.tuples(*map(values, type_info.field_types))
    if isinstance(type_info, RowTypeInfo):
        names = type_info.field_names
        return st.tuples(*map(values, type_info.field_types)).map(lambda v: row_of(v, names))
    return st.lists(values(type_info.element_type), max_size=3)


@pytest.fixture(scope="session")
def strategies() -> Any:
    """`types()` and `values(type_info, nullable=True)`: test files cannot import one another."""
    return SimpleNamespace(types=types, values=values)
