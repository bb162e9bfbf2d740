"""Serializers and copies: whatever the type, what was written comes back; names and layouts are pinned."""

import datetime as dt
import decimal
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Instant, Row, RowKind, TypeInformation, Types
from runtime.core.serializers import (
    SerializationError,
    are_immutable,
    deep_copier,
    is_immutable,
    serializer_by_name,
    serializer_for,
)

PERSON = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])


def copier_of(type_info: TypeInformation | None) -> Callable[[list[Any]], list[Any]]:
    copier = deep_copier(type_info)
    assert copier is not None
    return copier


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_what_was_written_comes_back(strategies: Any, data: Any) -> None:
    type_info = data.draw(strategies.types())
    records = data.draw(st.lists(strategies.values(type_info), max_size=5))
    serializer = serializer_for(type_info)
    assert serializer.deserialize_many(serializer.serialize_many(records), len(records)) == records
    again = serializer_by_name(serializer.name)
    for record in records:
        assert again.deserialize(serializer.serialize(record)) == record
    copier = deep_copier(type_info)
    assert copier is None or copier(records) == records


@pytest.mark.parametrize(
    ("type_info", "name", "value", "encoded"),
    [
        (Types.LONG(), "long", 258, "0201000000000000"),
        (Types.LONG(), "long", None, ""),
        (Types.STRING(), "string", "é", "c3a9"),
        (Types.STRING(), "string", "", ""),
        (Types.STRING(), "string", None, "ff"),
        (Types.DOUBLE(), "double", 1.0, "000000000000f03f"),
        (Types.INT(), "int", 1, "0001000000"),
        (Types.INT(), "int", None, "0101"),
        (Types.BOOLEAN(), "boolean", True, "0001"),
        (Types.BIG_INT(), "big_int", 300, "00020000002c01"),
        (Types.BIG_DEC(), "big_dec", decimal.Decimal("1.50"), "000400000004000000312e3530"),
        (Types.SQL_DATE(), "sql_date", dt.date(1970, 1, 1), "003bf90a00"),
        (Types.SQL_TIMESTAMP(), "sql_timestamp", dt.datetime(1970, 1, 1, 0, 0, 1), "0040420f0000000000"),
        (Types.LIST(Types.SHORT()), "list<short>", [1, 2], "00020000000001000200"),
        (Types.MAP(Types.BYTE(), Types.BYTE()), "map<byte, byte>", {1: 2}, "000100000000010002"),
        (Types.TUPLE([Types.BYTE(), Types.BYTE()]), "tuple<byte, byte>", (1, None), "000001" + "0101"),
        (PERSON, 'row<"name": string, "age": int>', Row(name="a", age=1), "0000000100000001000000610001000000"),
        (Types.INSTANT(), "instant", Instant(1, 2), "00010000000000000002000000"),
    ],
    ids=repr,
)
def test_names_and_layouts_are_pinned(type_info: Any, name: Any, value: Any, encoded: Any) -> None:
    serializer = serializer_for(type_info)
    assert serializer.name == name
    assert serializer.serialize(value).hex() == encoded
    assert serializer_by_name(name).deserialize(bytes.fromhex(encoded)) == value


def test_row_kinds_survive() -> None:
    serializer = serializer_for(PERSON)
    rows = [Row(name="a", age=1), Row.of_kind(RowKind.DELETE, name="b", age=2), None]
    assert serializer.deserialize_many(serializer.serialize_many(rows), 3) == rows


class Local:
    def __init__(self, n: Any) -> None:
        self.n = n

    def __eq__(self, other: Any) -> Any:
        return other.n == self.n


def test_values_without_a_type_are_pickled() -> None:
    serializer = serializer_for(None)
    assert serializer.name == "pickle"
    records = [1, "a", Local(3), {"x": [1]}]
    assert serializer.deserialize_many(serializer.serialize_many(records), 4) == records
    assert serializer_by_name("pickle").deserialize(serializer.serialize(lambda: 5))() == 5
    with pytest.raises(SerializationError):
        serializer.serialize(x for x in [1])
    with pytest.raises(SerializationError):
        serializer.deserialize(b"nonsense")


def test_a_pickled_field_inside_a_typed_row() -> None:
    serializer = serializer_for(Types.ROW_NAMED(["a", "b"], [Types.PICKLED_BYTE_ARRAY(), Types.INT()]))
    rows = [Row(a={1: {2}}, b=1), Row(a=None, b=None)]
    assert serializer.deserialize_many(serializer.serialize_many(rows), 2) == rows


@pytest.mark.parametrize(
    ("type_info", "value"),
    [
        (Types.LONG(), "1"),
        (Types.LONG(), 2**63),
        (Types.DOUBLE(), "1"),
        (Types.STRING(), 1),
        (Types.INT(), 2**31),
        (Types.BIG_DEC(), 1.5),
        (Types.LIST(Types.INT()), ["a"]),
        (PERSON, ("a", 1)),
        (PERSON, Row("a")),
    ],
    ids=repr,
)
def test_a_value_of_another_type_is_refused(type_info: Any, value: Any) -> None:
    with pytest.raises(SerializationError):
        serializer_for(type_info).serialize(value)


@pytest.mark.parametrize("type_info", [Types.LONG(), Types.DOUBLE(), Types.STRING(), Types.INT(), PERSON], ids=repr)
@pytest.mark.parametrize("data", [b"\x01\xfe", b"\xfe" * 5, b"\xfe\x00\x00"], ids=repr)
def test_bytes_of_something_else_are_refused(type_info: Any, data: Any) -> None:
    with pytest.raises(SerializationError):
        serializer_for(type_info).deserialize(data)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(SerializationError, match="not a type"):
        serializer_by_name("avro")


def test_immutable_values_are_told_apart() -> None:
    assert all(map(is_immutable, (1, "a", None, (1, ("b", 2.0)), b"x", dt.date(2020, 1, 1), decimal.Decimal(1))))
    assert not any(map(is_immutable, ([1], {}, (1, [2]), Row(1), Local(1))))


ATOMS = st.one_of(st.integers(), st.text(max_size=3), st.none(), st.binary(max_size=2), st.floats(allow_nan=False))
ANYTHING = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner),
        st.lists(inner, max_size=3).map(tuple),
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=2), inner, max_size=2),
        st.lists(inner, max_size=2).map(lambda values: Row(*values)),
    ),
    max_leaves=4,
)
BATCHES = st.one_of(
    st.lists(ANYTHING, max_size=5),
    st.lists(st.tuples(ATOMS, ATOMS), max_size=5),
    st.lists(st.dictionaries(st.one_of(st.text(max_size=2), st.tuples(ATOMS)), ANYTHING, max_size=2), max_size=4),
    st.lists(st.lists(ATOMS, max_size=2), max_size=4),
    st.lists(st.tuples(ATOMS, ANYTHING).map(lambda pair: Row.of_kind(RowKind.DELETE, *pair)), max_size=4),
)


def mutable_ids(value: Any) -> set[int]:
    """Return the ids of the mutable objects in a value."""
    inside = value.items() if isinstance(value, dict) else value._values if isinstance(value, Row) else value
    if isinstance(inside, (str, bytes)) or not isinstance(inside, Iterable):
        return set()
    found = {number for item in inside for number in mutable_ids(item)}
    return found if isinstance(value, tuple) else found | {id(value)}


@given(BATCHES)
def test_copies_of_a_batch_are_equal_and_share_nothing_that_can_change(values: list[Any]) -> None:
    assert are_immutable(values) == all(map(is_immutable, values))
    copies = copier_of(None)(values)
    assert copies == values and list(map(type, copies)) == list(map(type, values))
    assert [value._row_kind for value in copies if isinstance(value, Row)] == [
        value._row_kind for value in values if isinstance(value, Row)
    ]
    if are_immutable(values):
        assert copies is values
    else:
        assert not {n for value in values for n in mutable_ids(value)} & {
            n for copy in copies for n in mutable_ids(copy)
        }


def test_types_that_cannot_change_need_no_copier() -> None:
    assert deep_copier(Types.LONG()) is None
    assert deep_copier(Types.TUPLE([Types.STRING(), Types.INT()])) is None
    assert deep_copier(PERSON) is not None


@pytest.mark.parametrize("records", [[1, "a"], [(1, "a"), (2, None)], [None]], ids=repr)
def test_untyped_values_that_cannot_change_are_passed_on(records: Any) -> None:
    assert copier_of(None)(records) is records


@pytest.mark.parametrize(
    "value",
    [{"a": 1}, [1], Row(a=1), {"a": [1]}, (1, [2]), Local(1), {(1, 2): 3}],
    ids=lambda value: type(value).__name__,
)
def test_untyped_values_that_can_change_are_copied_each(value: Any) -> None:
    first, second = copier_of(None)([value, value])
    assert first == second == value
    assert first is not second
    assert first is not value


def test_copies_of_typed_records_share_nothing() -> None:
    type_info = Types.ROW_NAMED(["l", "m"], [Types.LIST(Types.LIST(Types.INT())), Types.MAP(Types.STRING(), PERSON)])
    original = Row(l=[[1]], m={"k": Row(name="x", age=1)})
    (copy,) = copier_of(type_info)([original])
    copy.l[0].append(2)
    copy.m["k"]["age"] = 2
    assert original == Row(l=[[1]], m={"k": Row(name="x", age=1)})
    kinds = copier_of(PERSON)([Row.of_kind(RowKind.DELETE, "a", 1), None])
    assert kinds == [Row.of_kind(RowKind.DELETE, "a", 1), None]
