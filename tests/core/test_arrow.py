"""Types and records as Arrow columns."""

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Instant, Row, RowTypeInfo, Types
from runtime.common.typeinfo import TupleTypeInfo
from runtime.core.arrow import arrow_schema, arrow_type, from_arrow, has_columns, to_arrow, type_from_arrow

BID = Types.ROW_NAMED(["auction", "price", "bidder"], [Types.LONG(), Types.DOUBLE(), Types.STRING()])


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_records_come_back_from_columns(strategies: Any, data: Any) -> None:
    type_info = data.draw(strategies.types())
    is_record = isinstance(type_info, (RowTypeInfo, TupleTypeInfo))
    records = data.draw(st.lists(strategies.values(type_info, nullable=not is_record), max_size=5))
    batch = to_arrow(records, type_info)
    assert batch.schema == arrow_schema(type_info)
    assert from_arrow(batch, type_info) == records
    cut = len(records) // 2
    assert from_arrow(batch.slice(cut), type_info) == records[cut:]
    assert from_arrow(batch.slice(0, cut), type_info) == records[:cut]


def test_rows_have_a_column_per_field_and_values_one() -> None:
    assert arrow_schema(BID).names == ["auction", "price", "bidder"]
    assert arrow_schema(Types.TUPLE([Types.INT(), Types.INT()])).names == ["f0", "f1"]
    assert arrow_schema(Types.LONG()) == pa.schema([("value", pa.int64())])


def test_rows_from_columns_have_the_types_own_names() -> None:
    (row,) = from_arrow(to_arrow([Row(auction=1, price=2.0, bidder=None)], BID), BID)
    assert row._fields is BID.field_names
    assert row == Row(auction=1, price=2.0, bidder=None)


def test_values_are_pythons_own() -> None:
    types_ = [Types.LONG(), Types.DOUBLE(), Types.BOOLEAN(), Types.STRING(), Types.SQL_DATE(), Types.INSTANT()]
    record = (1, 2.0, True, "x", dt.date(2020, 1, 1), Instant(1, 1))
    (back,) = from_arrow(to_arrow([record], Types.TUPLE(types_)), Types.TUPLE(types_))
    assert [type(value) for value in back] == [type(value) for value in record]


def test_a_value_that_does_not_fit_is_refused_with_its_field() -> None:
    with pytest.raises(TypeError, match="'price'"):
        to_arrow([Row(auction=1, price="x", bidder="b")], BID)
    with pytest.raises(TypeError, match="not a Row"):
        to_arrow([Row(1, 1.0, ""), (1, 2.0, "b")], BID)
    with pytest.raises(TypeError, match="3 fields"):
        to_arrow([Row(1, 2.0)], BID)
    with pytest.raises(TypeError, match="value"):
        to_arrow([10**40], Types.BIG_INT())


def test_pickled_values_have_no_columns() -> None:
    assert not has_columns(None)
    assert not has_columns(Types.ROW([Types.PICKLED_BYTE_ARRAY()]))
    assert has_columns(BID)
    with pytest.raises(TypeError, match="declare a type"):
        arrow_type(Types.PICKLED_BYTE_ARRAY())


def test_batches_of_another_shape_are_refused() -> None:
    with pytest.raises(TypeError, match="2 columns"):
        from_arrow(pa.record_batch({"a": [1], "b": [2]}), BID)
    with pytest.raises(TypeError, match="2 columns"):
        from_arrow(pa.record_batch({"a": [1], "b": [2]}), Types.LONG())


@pytest.mark.parametrize(
    ("column", "type_info", "expected"),
    [
        (pa.array([1, None], pa.int32()), Types.LONG(), [1, None]),
        (pa.array([2**63], pa.uint64()), Types.BIG_INT(), [2**63]),
        (pa.array([1, None], pa.int64()), Types.DOUBLE(), [1.0, None]),
        (pa.array(["a", None], pa.large_string()), Types.STRING(), ["a", None]),
        (pa.array(["a", None], pa.string_view()), Types.STRING(), ["a", None]),
        (pa.array(["a", "a", None]).dictionary_encode(), Types.STRING(), ["a", "a", None]),
        (pa.array([b"a"], pa.large_binary()), Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"a"]),
        (pa.array([1_500], pa.timestamp("ns")), Types.SQL_TIMESTAMP(), [dt.datetime(1970, 1, 1, 0, 0, 0, 1)]),
        (pa.array([1], pa.timestamp("s")), Types.SQL_TIMESTAMP(), [dt.datetime(1970, 1, 1, 0, 0, 1)]),
        (pa.array([1, None], pa.timestamp("ms", "UTC")), Types.INSTANT(), [Instant(0, 10**6), None]),
        (pa.array([86_400_000], pa.date64()), Types.SQL_DATE(), [dt.date(1970, 1, 2)]),
        (pa.array([1_000_000], pa.time64("us")), Types.SQL_TIME(), [dt.time(0, 0, 1)]),
        (pa.array([decimal.Decimal("1.5")], pa.decimal128(5, 2)), Types.BIG_DEC(), [decimal.Decimal("1.50")]),
        (pa.array([[1], None], pa.large_list(pa.int32())), Types.LIST(Types.LONG()), [[1], None]),
        (pa.nulls(2), Types.STRING(), [None, None]),
    ],
    ids=str,
)
def test_columns_from_elsewhere_are_read(column: Any, type_info: Any, expected: Any) -> None:
    assert from_arrow(pa.RecordBatch.from_arrays([column], ["c"]), type_info) == expected
    row_type = type_from_arrow(pa.schema([("c", column.type)]))
    assert len(from_arrow(pa.RecordBatch.from_arrays([column], ["c"]), row_type)) == len(expected)


def test_types_are_found_from_columns() -> None:
    inner = Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.LIST(Types.MAP(Types.STRING(), Types.BOOLEAN()))])
    nested = Types.ROW_NAMED(["a", "b", "t"], [inner, Types.FLOAT(), Types.SQL_TIMESTAMP()])
    assert type_from_arrow(arrow_schema(nested)) == nested
    with pytest.raises(TypeError, match="'d': Arrow type duration"):
        type_from_arrow(pa.schema([("d", pa.duration("s"))]))
