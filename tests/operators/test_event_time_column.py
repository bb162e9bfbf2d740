"""Event times out of a column: the same as those of an assigner that reads the field, for every type that has them."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from runtime.common.typeinfo import TypeInformation, Types
from runtime.common.watermark_strategy import WatermarkStrategy
from runtime.core.batch import RecordBatch
from runtime.operators.event_time_column import with_times_of_column
from runtime.operators.watermarks import WatermarkTracker
from runtime.testing.clock import ManualClock


def batch_of(values: list[object], type_info: TypeInformation, arrow_type: pa.DataType) -> RecordBatch:
    row_type = Types.ROW_NAMED(["name", "at"], [Types.STRING(), type_info])
    names = pa.array([str(value) for value in values])
    columns = pa.RecordBatch.from_arrays([names, pa.array(values, arrow_type)], names=["name", "at"])
    return RecordBatch.of_arrow(columns, row_type)


def test_whole_numbers_are_milliseconds() -> None:
    batch = with_times_of_column(batch_of([3, 1, 2], Types.LONG(), pa.int64()), "at")
    assert batch.timestamps() == [3, 1, 2]
    assert [row["name"] for row in batch.values()] == ["3", "1", "2"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_become_milliseconds_whatever_their_unit(unit: str) -> None:
    moments: list[object] = [datetime.datetime(1970, 1, 1, 0, 0, 2), datetime.datetime(1969, 12, 31, 23, 59, 59)]
    batch = with_times_of_column(batch_of(moments, Types.SQL_TIMESTAMP(), pa.timestamp(unit)), "at")
    assert batch.timestamps() == [2000, -1000]


def test_parts_of_a_millisecond_before_1970_are_rounded_down() -> None:
    batch = with_times_of_column(batch_of([-1, -1000, -1001], Types.SQL_TIMESTAMP(), pa.timestamp("us")), "at")
    assert batch.timestamps() == [-1, -1, -2]


def test_a_slice_has_its_own_times() -> None:
    batch = batch_of([5, 6, 7], Types.LONG(), pa.int64()).slice(1, 3)
    assert with_times_of_column(batch, "at").timestamps() == [6, 7]


def test_rows_made_of_python_values_have_times_too() -> None:
    row_type = Types.ROW_NAMED(["at"], [Types.LONG()])
    coerce = row_type.coercer()
    assert coerce is not None
    batch = RecordBatch.of_values([coerce((9,)), coerce((8,))], type_info=row_type)
    assert with_times_of_column(batch, "at").timestamps() == [9, 8]


def test_null_is_refused() -> None:
    with pytest.raises(ValueError, match="null in row 1"):
        with_times_of_column(batch_of([1, None], Types.LONG(), pa.int64()), "at")


def test_an_unknown_column_is_named_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"no column 'when'.*'name', 'at'"):
        with_times_of_column(batch_of([1], Types.LONG(), pa.int64()), "when")


def test_texts_are_no_event_times() -> None:
    with pytest.raises(TypeError, match="column 'name' is string"):
        with_times_of_column(batch_of([1], Types.LONG(), pa.int64()), "name")


def test_watermarks_follow_the_column() -> None:
    by_column = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
    by_function = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row["at"])
    batch = batch_of([10, 5, 20], Types.LONG(), pa.int64())
    found = [WatermarkTracker(strategy, 0, ManualClock()).on_batch(batch) for strategy in (by_column, by_function)]
    assert found[0].timestamps() == found[1].timestamps() == [10, 5, 20]
    assert list(found[0].marks) == list(found[1].marks)


def test_the_last_of_assigner_and_column_counts() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: 1)
    assert strategy.with_timestamp_column("at").timestamp_assigner is None
    assert strategy.with_timestamp_column("at").with_timestamp_assigner(lambda row, _: 1).timestamp_column is None
