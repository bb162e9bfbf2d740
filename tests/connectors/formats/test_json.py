"""Rows as JSON objects: messages."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.common import Row, Types
from runtime.connectors.formats.json.messages import type_of_json_schema
from runtime.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema

NESTED = Types.ROW_NAMED(
    ["id", "price", "day", "at", "tags", "inner", "marks", "raw", "ok"],
    [
        Types.LONG(),
        Types.BIG_DEC(),
        Types.SQL_DATE(),
        Types.SQL_TIMESTAMP(),
        Types.LIST(Types.STRING()),
        Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.DOUBLE()]),
        Types.MAP(Types.STRING(), Types.INT()),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        Types.BOOLEAN(),
    ],
)


ROW = Row(
    7,
    Decimal("1.10"),
    datetime.date(2024, 2, 29),
    datetime.datetime(2024, 2, 29, 12, 30, 0, 5000),
    ["a", None, 'q"'],
    Row(1, 0.5),
    {"m": 3},
    b"\x00\xff",
    True,
)


JSON = (
    b'{"id":7,"price":1.10,"day":"2024-02-29","at":"2024-02-29 12:30:00.005000","tags":["a",null,"q\\""],'
    b'"inner":{"x":1,"y":0.5},"marks":{"m":3},"raw":"AP8=","ok":true}'
)


def json_reader(type_info: Any = NESTED) -> JsonRowDeserializationSchema.Builder:
    return JsonRowDeserializationSchema.builder().type_info(type_info)


def test_a_row_of_every_kind_of_field_becomes_json_and_comes_back() -> None:
    written = JsonRowSerializationSchema.builder().with_type_info(NESTED).build().serialize(ROW)
    assert written == JSON
    row = json_reader().build().deserialize(written)
    assert row is not None
    assert list(row)[:5] == list(ROW)[:5]
    assert row.as_dict(True)["inner"] == {"x": 1, "y": 0.5}
    assert row.price == Decimal("1.10")
    assert str(row.price) == "1.10"
    assert json_reader().build().get_produced_type() == NESTED


def test_missing_json_fields_are_null_unless_they_are_to_fail() -> None:
    row = json_reader().build().deserialize(b'{"id": 1, "other": 2}')
    assert row is not None
    assert (row.id, row.price, row.tags) == (1, None, None)
    with pytest.raises(ValueError, match="no field 'price'"):
        json_reader().fail_on_missing_field().build().deserialize(b'{"id": 1}')


@pytest.mark.parametrize("message", [b"{", b"[1]", b'{"id": "x"}', b'{"inner": 3}', b'{"id": [1]}'])
def test_json_that_cannot_be_read_is_told_or_ignored(message: bytes) -> None:
    with pytest.raises(ValueError, match="JSON message cannot be read"):
        json_reader().build().deserialize(message)
    assert json_reader().ignore_parse_errors().build().deserialize(message) is None


def test_a_json_schema_says_which_fields_there_are() -> None:
    schema = """{"type": "object", "properties": {
        "a": {"type": "integer"}, "b": {"type": ["null", "string"]}, "c": {"type": "number"},
        "d": {"type": "array", "items": {"$ref": "#/definitions/point"}}, "e": {"type": "string", "format": "date"}},
        "definitions": {"point": {"type": "object", "properties": {"x": {"type": "boolean"}}}}}"""
    built = JsonRowDeserializationSchema.builder().json_schema(schema).build()
    point = Types.ROW_NAMED(["x"], [Types.BOOLEAN()])
    types = [Types.BIG_INT(), Types.STRING(), Types.BIG_DEC(), Types.OBJECT_ARRAY(point), Types.SQL_DATE()]
    assert built.get_produced_type() == Types.ROW_NAMED(["a", "b", "c", "d", "e"], types)
    with pytest.raises(ValueError, match="must be an object"):
        type_of_json_schema({"type": "string"})
    with pytest.raises(ValueError, match="no type here"):
        type_of_json_schema({"type": "object", "properties": {"x": {"type": "null"}}})


def test_json_schemas_travel_to_the_slots() -> None:
    schema = pickle.loads(pickle.dumps(json_reader().build()))
    assert schema.deserialize(JSON) == json_reader().build().deserialize(JSON)


_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x00"))


@given(_TEXT, st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), st.floats(allow_nan=False))
def test_any_text_and_number_survive_json(text: str, whole: int | None, number: float) -> None:
    kind = Types.ROW_NAMED(["t", "n", "f"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])
    row = Row(text, whole, number)
    written = JsonRowSerializationSchema.builder().with_type_info(kind).build().serialize(row)
    assert list(json_reader(kind).build().deserialize(written) or []) == list(row)
