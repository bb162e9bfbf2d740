"""The key encoding: pinned vectors, and the properties that state and partitioning rest on."""

import datetime as dt
import enum
import math
import zlib
from collections import namedtuple
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Instant, Row, RowKind
from runtime.core.keys import KeyDecodingError, KeyEncodingError, decode_key, encode_key, key_end, key_hash, mix_hashes

#: never change a line: snapshots hold these bytes, and key groups follow from these hashes
Point = namedtuple("Point", ["x"])

VECTORS: list[tuple[Any, ...]] = [
    (None, "00", 0xAD1A9297),
    (False, "01", 0x83379314),
    (True, "02", 0xDA8C0E3A),
    (0, "030000000000000000", 0x06344058),
    (1, "030000000000000001", 0xCE3E9519),
    (-1, "03ffffffffffffffff", 0xB069AD3D),
    (2**63 - 1, "037fffffffffffffff", 0xB323590D),
    (2**63, "0409008000000000000000", 0xA6636FE9),
    (-(2**64), "0409ff0000000000000000", 0xE5CDB62B),
    (0.0, "050000000000000000", 0x7FC2B79E),
    (1.0, "053ff0000000000000", 0xA4EC8BC1),
    (-1.5, "05bff8000000000000", 0xAF98FAA9),
    (math.nan, "057ff8000000000000", 0x99A05AF2),
    ("", "0600", 0xD16071E1),
    ("a", "060161", 0xF0192922),
    ("JFK", "06034a464b", 0x67A49BF2),
    ("é", "0602c3a9", 0x5367F90C),
    (b"\x00\xff", "070200ff", 0x48198B99),
    (Decimal("1.50"), "08053135452d31", 0x88C3BC17),
    (dt.date(2013, 1, 1), "09000b3695", 0x4AB11DB7),
    (dt.time(12, 30), "0a0000000a7a358200", 0xD927B4CE),
    (dt.datetime(2013, 1, 1, 5), "0b0004d2330079f400", 0x61A78E36),
    (dt.datetime(2013, 1, 1, 5, tzinfo=dt.UTC), "0c0004d2330079f400", 0x747378AE),
    (dt.timedelta(seconds=-1), "0dfffffffffffff0bdc0", 0xEDF8A011),
    (Instant(1, 2), "0e000000000000000100000002", 0x0AA0453D),
    (("JFK", 1), "100206034a464b030000000000000001", 0x45498E27),
    ([], "1100", 0xF5E065E5),
    (Row(1, None), "12000203000000000000000100", 0x0687E6FB),
    (Row(a=1), "1300010300000000000000011001060161", 0xA2101C66),
]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**64), 2**64),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False),
    st.dates(),
    st.times(),
    st.datetimes(),
    st.datetimes(timezones=st.just(dt.timezone(dt.timedelta(hours=-5)))),
    st.timedeltas(),
    st.builds(Instant, st.integers(-(2**40), 2**40), st.integers(0, 999_999_999)),
)
keys = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.lists(inner, max_size=3).map(lambda values: Row(*values)),
        st.dictionaries(st.text("ab", min_size=1), inner, min_size=1, max_size=2).map(lambda d: Row(**d)),
    ),
    max_leaves=6,
)


def typed(key: Any) -> Any:
    """A form that is equal for keys of the same type and value only."""
    if isinstance(key, (tuple, list)):
        return (type(key).__name__, tuple(map(typed, key)))
    if isinstance(key, Row):
        return ("Row", key._fields, key.get_row_kind(), tuple(map(typed, key)))
    if isinstance(key, dt.datetime):
        return ("datetime", key.tzinfo is None, key if key.tzinfo is None else key.astimezone(dt.UTC))
    return (type(key).__name__, key)


@pytest.mark.parametrize(("key", "encoded", "hashed"), VECTORS, ids=lambda v: repr(v)[:20])
def test_vectors_are_pinned(key: Any, encoded: Any, hashed: Any) -> None:
    assert encode_key(key).hex() == encoded
    assert key_hash(bytes.fromhex(encoded)) == hashed


@settings(max_examples=300, deadline=None)
@given(keys)
def test_a_key_comes_back_as_it_was(key: Any) -> None:
    assert typed(decode_key(encode_key(key))) == typed(key)


@settings(max_examples=300, deadline=None)
@given(keys, keys)
def test_encodings_are_equal_iff_type_and_value_are(a: Any, b: Any) -> None:
    assert (encode_key(a) == encode_key(b)) == (typed(a) == typed(b))


@settings(max_examples=200, deadline=None)
@given(keys, keys)
def test_no_encoding_is_the_beginning_of_another(a: Any, b: Any) -> None:
    first, second = encode_key(a), encode_key(b)
    assert first == second or not second.startswith(first)


def test_numbers_that_python_takes_for_equal_are_different_keys() -> None:
    assert len({encode_key(key) for key in (1, 1.0, True, "1", b"1", Decimal(1), (1,), [1], Row(1))}) == 9


def test_floats_have_one_zero_and_one_nan() -> None:
    assert encode_key(-0.0) == encode_key(0.0)
    other_nan = np.array([0x7FF8000000000001], dtype=np.uint64).view(np.float64)[0].item()
    assert encode_key(other_nan) == encode_key(math.nan) == encode_key(-math.nan)
    assert math.isnan(decode_key(encode_key(math.nan)))


def test_decimals_are_equal_by_value() -> None:
    assert encode_key(Decimal("1.50")) == encode_key(Decimal("1.5"))
    assert encode_key(Decimal("1E+2")) == encode_key(Decimal(100))
    assert encode_key(Decimal("-0.0")) == encode_key(Decimal(0))
    huge = Decimal("1." + "123456789" * 10)
    assert decode_key(encode_key(huge)) == huge
    assert decode_key(encode_key(Decimal("NaN"))).is_nan()


def test_one_instant_in_two_zones_is_one_key() -> None:
    there = dt.datetime(2020, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert encode_key(there) == encode_key(dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    assert encode_key(dt.datetime(2020, 1, 1)) != encode_key(dt.datetime(2020, 1, 1, tzinfo=dt.UTC))


def test_row_kinds_are_part_of_a_key() -> None:
    row = Row.of_kind(RowKind.DELETE, 1)
    assert decode_key(encode_key(row)) == row
    assert encode_key(row) != encode_key(Row(1))


def test_long_keys_have_long_lengths() -> None:
    for key in ("x" * 254, "x" * 255, b"y" * 70_000, tuple(range(300)), 2**5000):
        assert decode_key(encode_key(key)) == key


class Color(enum.Enum):
    RED = 1


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ({"a": 1}, "dict"),
        ({1}, "set"),
        (frozenset([1]), "set"),
        (object(), "type"),
        (bytearray(b"a"), "bytes"),
        (Color.RED, "name or value"),
        (np.int64(1), "item"),
        (np.float64(1), "item"),
        (Text("a"), "plain str"),
        (Point(1), "plain tuple"),
        (dt.time(1, tzinfo=dt.UTC), "zone"),
        (Decimal("sNaN"), "NaN"),
        (("a", {"b": 1}), "dict"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_has_no_canonical_form_is_refused_with_the_reason(key: Any, reason: Any) -> None:
    with pytest.raises(KeyEncodingError, match=reason) as caught:
        encode_key(key)
    assert caught.value.reason


@pytest.mark.parametrize("encoded", ["", "ff", "0301", "06ff", "0605616263", "0000", "1002", "12ff0100", "0602ffff"])
def test_bytes_that_are_no_key_are_refused(encoded: Any) -> None:
    with pytest.raises(KeyDecodingError):
        decode_key(bytes.fromhex(encoded))


@given(st.lists(st.text(), max_size=20))
def test_vectorised_hashes_agree(texts: Any) -> None:
    encoded = [encode_key(text) for text in texts]
    crc = np.array([zlib.crc32(data) for data in encoded], dtype=np.uint32)
    before = crc.copy()
    mixed = mix_hashes(crc)
    assert mixed.dtype == np.uint32
    assert mixed.tolist() == [key_hash(data) for data in encoded]
    assert (crc == before).all()


def test_hashes_of_similar_keys_spread() -> None:
    groups = [0] * 128
    for i in range(12_800):
        groups[key_hash(encode_key(i)) % 128] += 1
    assert 60 < min(groups) <= max(groups) < 150


def test_encoded_keys_that_follow_each_other_are_told_apart() -> None:
    keys = ["a", (1, "x" * 300), None, b"", 2**80]
    encoded = b"".join(map(encode_key, keys))
    found, start = [], 0
    while start < len(encoded):
        end = key_end(encoded, start)
        found.append(decode_key(encoded[start:end]))
        start = end
    assert found == keys
    with pytest.raises(KeyDecodingError):
        key_end(encoded[:-1], len(encoded) - len(encode_key(keys[-1])))
