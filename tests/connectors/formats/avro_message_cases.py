"""Rows and the Avro schemas by which they become messages, for Flink and for Tidemark alike. Imports neither.

A value is what Python has for it: a tuple stands for a row, None for null.
"""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

MOMENT = datetime.datetime(2024, 2, 29, 12, 34, 56, 789123)


def record(**fields: Any) -> str:
    """The schema of a record with these fields."""
    described = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "message", "namespace": "tide", "fields": described})


def logical(kind: str, name: str, **more: int) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


INNER = {"type": "record", "name": "inner", "fields": [{"name": "x", "type": "double"}]}
LETTER = {"type": "enum", "name": "letter", "symbols": ["p", "q"]}
TWO = {"type": "fixed", "name": "two", "size": 2}
FIXED_DECIMAL = {**logical("fixed", "decimal", precision=10, scale=2), "name": "amount", "size": 5}

#: name → schema, values of a row's fields
CASES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "primitives": (
        record(a="boolean", b="int", c="long", d="float", e="double", f="string", g="bytes"),
        (True, -1, 2**40, 0.5, -2.25, "ü", b"\x00\xff"),
    ),
    "nulls": (record(a=["null", "int"], b=["string", "null"]), (None, None)),
    "no nulls": (record(a=["null", "int"], b=["string", "null"]), (5, "x")),
    "null alone": (record(a="null", b="int"), (None, 5)),
    "null alone in a union": (record(a=["null"]), (None,)),
    "null with a value": (record(a="null"), (7,)),
    "one type in a union": (record(a=["int"]), (5,)),
    "null where there is none": (record(a=["int"]), (None,)),
    "null for an int": (record(a="int"), (None,)),
    "int of several": (record(a=["null", "int", "string"]), (5,)),
    "string of several": (record(a=["null", "int", "string"]), ("x",)),
    "null of several": (record(a=["null", "int", "string"]), (None,)),
    "none of several": (record(a=["null", "int", "string"]), (2.5,)),
    "enum": (record(a=LETTER, b=["null", "letter"]), ("q", "p")),
    "no symbol": (record(a=LETTER), ("z",)),
    "fixed": (record(a=TWO), (b"ab",)),
    "date": (record(a=logical("int", "date"), b=["null", logical("int", "date")]), (MOMENT.date(), None)),
    "time": (record(a=logical("int", "time-millis")), (datetime.time(12, 34, 56),)),
    "time in micros": (record(a=logical("long", "time-micros")), (datetime.time(12, 34, 56),)),
    "timestamp": (record(a=logical("long", "timestamp-millis")), (MOMENT.replace(microsecond=789000),)),
    "timestamp in micros": (record(a=logical("long", "timestamp-micros")), (MOMENT,)),
    "timestamp before 1970": (record(a=["null", logical("long", "timestamp-micros")]), (MOMENT.replace(year=1904),)),
    "local timestamp": (record(a=logical("long", "local-timestamp-millis")), (2**40,)),
    "local timestamp in micros": (record(a=logical("long", "local-timestamp-micros")), (2**50,)),
    "uuid": (record(a=logical("string", "uuid")), ("6b2b1b1e-1d5f-4a0c-8c8e-3f1e5c1a2b3c",)),
    "decimal": (record(a=logical("bytes", "decimal", precision=10, scale=2)), (Decimal("-2.50"),)),
    "decimal of fewer digits": (record(a=logical("bytes", "decimal", precision=10, scale=2)), (Decimal("1.5"),)),
    "decimal of fixed size": (record(a=FIXED_DECIMAL), (Decimal("-2.25"),)),
    "decimal of more digits": (record(a=logical("bytes", "decimal", precision=10, scale=2)), (Decimal("1.505"),)),
    "array": (record(a={"type": "array", "items": ["null", "int"]}, z="int"), ([1, None, 2], 9)),
    "array of rows": (record(a={"type": "array", "items": INNER}), ([(0.5,), (1.5,)],)),
    "map": (record(a={"type": "map", "values": "long"}), ({"k": 1},)),
    "nested": (record(a=INNER, b=["null", "inner"]), ((0.5,), (1.5,))),
    "no nested row": (record(a=["null", INNER]), (None,)),
}  # fmt: skip
