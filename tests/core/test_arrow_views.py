from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from runtime.common.typeinfo import Types
from runtime.core.arrow_views import without_views
from runtime.core.batch import RecordBatch


@pytest.mark.parametrize(
    ("view", "plain"),
    [
        (pa.string_view(), pa.string()),
        (pa.binary_view(), pa.binary()),
        (pa.list_(pa.string_view()), pa.list_(pa.string())),
        (pa.large_list(pa.binary_view()), pa.large_list(pa.binary())),
        (pa.map_(pa.string_view(), pa.int32()), pa.map_(pa.string(), pa.int32())),
        (pa.map_(pa.int32(), pa.list_(pa.string_view())), pa.map_(pa.int32(), pa.list_(pa.string()))),
        (pa.struct({"n": pa.int64(), "s": pa.string_view()}), pa.struct({"n": pa.int64(), "s": pa.string()})),
    ],
)
def test_views_become_plain_however_deep_they_lie(view: pa.DataType, plain: pa.DataType) -> None:
    fields = [pa.field("a", view), pa.field("b", pa.int64())]
    columns = pa.RecordBatch.from_arrays([pa.nulls(2, view), pa.array([1, 2])], schema=pa.schema(fields, {"k": "v"}))
    kept = without_views(columns)
    assert kept.schema.types == [plain, pa.int64()]
    assert (kept.num_rows, kept.schema.names, kept.schema.metadata) == (2, ["a", "b"], {b"k": b"v"})


def test_columns_without_views_are_the_same_object() -> None:
    columns = pa.record_batch({"a": ["x"], "n": [1], "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32()))})
    assert without_views(columns) is columns


def test_rows_are_picked_of_columns_with_views() -> None:
    columns = pa.record_batch([pa.array(["x", "y"]).cast(pa.string_view())], names=["a"])
    batch = RecordBatch.of_arrow(columns, Types.ROW_NAMED(["a"], [Types.STRING()]))
    assert [row["a"] for row in batch.take(np.array([1])).values()] == ["y"]
