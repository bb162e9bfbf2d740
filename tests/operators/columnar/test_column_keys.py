"""Hashes of columns, and how columns are dealt out, against the path that looks at one key at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Row
from runtime.common.time import Instant
from runtime.common.typeinfo import Types
from runtime.core.arrow import to_arrow
from runtime.core.batch import Mark, RecordBatch
from runtime.core.column_keys import ColumnKeys
from runtime.core.elements import Watermark
from runtime.core.keys import KeyEncodingError, encode_key, key_hash
from runtime.network import columnar
from runtime.network.partitioners import KeyGroupSelector
from runtime.state.key_groups import assign_key_groups, key_group_of

FIELDS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "long": (Types.LONG(), st.integers(-(2**63), 2**63 - 1)),
    "short": (Types.SHORT(), st.integers(-5, 5)),
    "text": (Types.STRING(), st.text(max_size=20)),
    "real": (Types.DOUBLE(), st.one_of(st.floats(), st.sampled_from([0.0, -0.0]))),
    "single": (Types.FLOAT(), st.floats(width=32)),
    "flag": (Types.BOOLEAN(), st.booleans()),
    "data": (Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary(max_size=8)),
    "amount": (Types.BIG_DEC(), st.decimals(-1000, 1000, places=3)),
    "big": (Types.BIG_INT(), st.integers(-(10**30), 10**30)),
    "day": (Types.SQL_DATE(), st.dates()),
    "at": (Types.SQL_TIMESTAMP(), st.datetimes()),
    "instant": (Types.INSTANT(), st.integers(0, 10**9).map(lambda s: Instant(s, s % 1000))),
    "list": (Types.LIST(Types.LONG()), st.lists(st.integers(0, 3), max_size=2)),
}
TYPE = Types.ROW_NAMED(list(FIELDS), [type_info for type_info, _ in FIELDS.values()])


@st.composite
def keyed_rows(draw: st.DrawFn) -> tuple[list[Row], list[str]]:
    """Rows, and the columns that they are keyed by."""
    record = st.fixed_dictionaries({name: st.one_of(st.none(), values) for name, (_, values) in FIELDS.items()})
    rows = draw(st.lists(record.map(lambda fields: Row(**{name: fields[name] for name in FIELDS})), max_size=6))
    return rows, draw(st.lists(st.sampled_from(list(FIELDS)), min_size=1, max_size=4, unique=True))


@settings(max_examples=25, deadline=None)
@given(case=keyed_rows())
def test_hashes_and_key_groups_of_columns_are_those_of_the_keys(case: tuple[list[Row], list[str]]) -> None:
    rows, names = case
    keys = ColumnKeys(names, TYPE)
    hashes = keys.hashes(to_arrow(rows, TYPE))
    encoded = [encode_key(keys(row)) for row in rows]
    assert hashes.tolist() == [key_hash(key) for key in encoded]
    assert assign_key_groups(hashes, 128).tolist() == [key_group_of(key, 128) for key in encoded]


def test_columns_that_are_encoded_otherwise_have_the_same_hashes() -> None:
    keys = ColumnKeys(["text", "number"], Types.ROW_NAMED(["text", "number"], [Types.STRING(), Types.LONG()]))
    plain = pa.RecordBatch.from_arrays([pa.array(["ä", None, "ä"]), pa.array([1, 2, None])], ["text", "number"])
    for text_type in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        other = pa.RecordBatch.from_arrays(
            [plain.column(0).cast(text_type), plain.column(1).cast(pa.int32())], ["text", "number"]
        )
        assert keys.hashes(other).tolist() == keys.hashes(plain).tolist()


def test_a_key_that_has_no_encoding_is_refused() -> None:
    record_type = Types.ROW_NAMED(["map"], [Types.MAP(Types.STRING(), Types.LONG())])
    with pytest.raises(KeyEncodingError):
        ColumnKeys(["map"], record_type).hashes(to_arrow([Row(map={"a": 1})], record_type))


def test_keys_need_columns_that_exist() -> None:
    with pytest.raises(ValueError, match="no column 'nope'"):
        ColumnKeys(["nope"], TYPE)
    with pytest.raises(TypeError, match="named fields"):
        ColumnKeys(["value"], Types.LONG())


@settings(max_examples=25, deadline=None)
@given(
    numbers=st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=20),
    offsets=st.sets(st.integers(0, 20)),
    num_channels=st.integers(1, 5),
)
def test_columns_are_dealt_out_as_values_are(numbers: list[int | None], offsets: set[int], num_channels: int) -> None:
    record_type = Types.ROW_NAMED(["number", "place"], [Types.LONG(), Types.LONG()])
    rows = [Row(number=number, place=place) for place, number in enumerate(numbers)]
    marks = [Mark(offset, 100 + offset) for offset in sorted(offsets) if offset <= len(rows)]
    times = np.arange(len(rows), dtype=np.int64)
    selector = KeyGroupSelector(num_channels, ColumnKeys(["number"], record_type), 128)
    by_value = selector.split(RecordBatch.of_values(rows, times.tolist(), marks, record_type))
    by_column = selector.split(RecordBatch.of_arrow(to_arrow(rows, record_type), record_type, times, marks))
    assert [_seen(part) for part in by_column] == [_seen(part) for part in by_value]


def _seen(part: RecordBatch | Watermark | None) -> Any:
    """Rows with their times and the watermark before them; of several at one place the last one."""
    if not isinstance(part, RecordBatch):
        return part
    if not part.num_rows:
        return Watermark(part.marks[-1].watermark) if part.marks else None
    return part.values(), part.timestamps(), list({mark.offset: mark.watermark for mark in part.marks}.items())


@settings(max_examples=40, deadline=None)
@given(
    batches=st.lists(
        st.tuples(
            st.sampled_from([0, 40, -(2**63), 2**63 - 8, 10**6]),
            st.lists(st.one_of(st.integers(0, 7), st.integers(0, 7), st.none()), min_size=1, max_size=12),
        ),
        max_size=8,
    ),
    known=st.sampled_from([4, 30, 1 << 17]),
    narrow=st.booleans(),
)
def test_channels_of_numbers_that_are_remembered_are_those_that_are_computed(
    batches: list[tuple[int, list[int | None]]], known: int, narrow: bool
) -> None:
    record_type = Types.ROW_NAMED(["n"], [Types.BYTE() if narrow else Types.LONG()])
    keys = ColumnKeys(["n"], record_type)
    channels = columnar.KeyChannels(keys, 128, 5)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(columnar, "MAX_KNOWN", known)
        for base, numbers in batches:
            start = base % 100 if narrow else base
            values = [None if number is None else start + number for number in numbers]
            columns = pa.record_batch({"n": pa.array(values, pa.int8() if narrow else pa.int64())})
            for _ in range(3):
                assert channels.of(columns).tolist() == columnar.channels_of_keys(columns, keys, 128, 5).tolist()


def test_channels_are_remembered_once_as_many_rows_have_come_as_there_are_numbers() -> None:
    keys = ColumnKeys(["n"], Types.ROW_NAMED(["n"], [Types.LONG()]))
    channels = columnar.KeyChannels(keys, 128, 4)
    columns = pa.record_batch({"n": pa.array([0, 99, 7, 3])})
    kinds = [channels.of(columns).dtype for _ in range(30)]
    assert kinds == [np.dtype(np.int64)] * 24 + [np.dtype(np.int16)] * 6
