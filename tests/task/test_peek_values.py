"""What a peek shows of rows: as JSON, shortened, masked, and without calling anything of the user's."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import math
import pickle
import uuid
from collections import deque, namedtuple
from typing import Any

import numpy as np
import pytest
from pyspark.sql import Row as SparkRow

from runtime.common import Row, Types
from runtime.common.secrets import SecretRef, providing
from runtime.common.time import Instant
from runtime.common.typeinfo import TypeInformation
from runtime.common.types import row_of
from runtime.core.redaction import Redaction
from runtime.core.secret_names import HIDDEN
from runtime.task.peek_values import MAX_CHARS, MAX_ITEMS, MAX_PARTS, MAX_ROW_CHARS, PeekedValues


def shown(value: Any, type_info: TypeInformation | None = None, masked: str = "") -> Any:
    return json.loads(PeekedValues(masked.split(","), str).shown(value, type_info)[0])


def is_cut(value: Any) -> bool:
    return PeekedValues((), str).shown(value, None)[1]


class Colour(enum.Enum):
    RED = 1


Pair = namedtuple("Pair", ["left", "right"])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (5, 5),
        (2**60, str(2**60)),
        (1.5, 1.5),
        (math.inf, "inf"),
        ("a", "a"),
        ("\ud800", "\ud800"),
        (b"\x01\xff", "01ff"),
        (np.int64(3), 3),
        (np.array([1, 2]), [1, 2]),
        (datetime.date(2024, 2, 3), "2024-02-03"),
        (datetime.datetime(2024, 2, 3, 4, 5), "2024-02-03T04:05:00"),
        (Instant(1, 5_000_000), "1970-01-01T00:00:01.005Z"),
        (decimal.Decimal("1.20"), "1.20"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Colour.RED, "RED"),
        ((1, "a"), [1, "a"]),
        (Pair(1, 2), {"left": 1, "right": 2}),
        (Row(1, "a"), [1, "a"]),
        (Row(a=1, b=[Row(c=2)]), {"a": 1, "b": [{"c": 2}]}),
        ({"a": {1}}, {"a": [1]}),
        ({(1, "x"): 2, None: 3}, {'[1, "x"]': 2, "null": 3}),
    ],
)
def test_values_are_json(value: Any, expected: Any) -> None:
    assert shown(value) == expected


def test_a_number_that_python_refuses_to_write_is_hexadecimal() -> None:
    found = shown(10**6_000)
    assert found.startswith("0x") and len(found) == MAX_CHARS + 1


def test_a_row_without_names_has_those_of_its_type() -> None:
    inner = Types.ROW_NAMED(["password", "n"], [Types.STRING(), Types.LONG()])
    outer = Types.ROW_NAMED(["id", "all"], [Types.LONG(), Types.LIST(inner)])
    assert shown(row_of([1, [row_of(["x", 2], None)]], None), outer) == {"id": 1, "all": [{"password": HIDDEN, "n": 2}]}


@pytest.mark.parametrize("name", ["password", "userPassword", "API_KEY", "apiKey", "access_token", "client.secret"])
def test_columns_that_look_like_secrets_are_masked_wherever_they_are(name: str) -> None:
    assert shown([{"user": "a", name: "x"}]) == [{"user": "a", name: HIDDEN}]
    assert shown(row_of(["x"], (name,))) == {name: HIDDEN}


def test_the_key_of_a_stream_is_no_secret() -> None:
    assert shown({"key": "a", "customer_key": 1}) == {"key": "a", "customer_key": 1}


def test_columns_that_the_job_names_are_masked() -> None:
    row = Row(Email="a@b", name="x", more={"email": 1, "n": 2})
    assert shown(row, masked=" email , salary") == {"Email": HIDDEN, "name": "x", "more": {"email": HIDDEN, "n": 2}}


def test_a_job_may_mask_everything() -> None:
    assert shown(Row(a=1, b={"c": "x", 7: None}), masked="*") == {"a": HIDDEN, "b": {"c": HIDDEN, HIDDEN: HIDDEN}}
    assert shown("x", masked="*") == HIDDEN
    assert shown(Colour.RED, masked="*") == HIDDEN


def test_values_of_secrets_are_taken_out_before_texts_are_cut() -> None:
    values = PeekedValues((), Redaction({("pg", "url"): "hush-" * 40}))
    text, _ = values.shown(["x" * (MAX_CHARS - 10) + "hush-" * 40, b"a" + b"hush-" * 40], None)
    assert "hush" not in text
    assert json.loads(text)[1] == HIDDEN


def test_long_texts_many_items_and_deep_values_are_cut() -> None:
    assert len(shown("x" * 10_000_000)) == MAX_CHARS + 1
    assert len(shown(list(range(1_000)))) == MAX_ITEMS
    assert len(shown(bytes(1_000_000))) <= MAX_CHARS + 1
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    assert shown(deep) == [[[[[["…"]]]]]]
    wide = [list(range(1_000)) for _ in range(1_000)]
    assert sum(map(len, shown(wide))) <= MAX_PARTS
    for value in ("x" * 501, list(range(51)), deep, wide):
        assert is_cut(value)
    assert not is_cut(["x" * 500, list(range(50))])


def test_no_row_is_longer_than_the_limit() -> None:
    text, cut = PeekedValues((), str).shown([["\U0001f600" * 500] * 50] * 50, None)
    assert cut and len(text) <= MAX_ROW_CHARS


class Nosy:
    """Calls something in whatever way it is looked at."""

    __slots__ = ("__dict__", "slotted", "unset")
    calls: list[str] = []  # noqa: RUF012

    def __init__(self) -> None:
        self.token = "t"
        self.n = 1
        self.slotted = 2

    def __str__(self) -> str:
        self.calls.append("str")
        raise RuntimeError

    __repr__ = __str__

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        raise RuntimeError

    @property
    def price(self) -> float:
        self.calls.append("price")
        raise RuntimeError


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    n: int
    secret: str


class Slotted:
    __slots__ = ("__password", "_email")

    def __init__(self) -> None:
        self.__password = "x"
        self._email = "a@b"


def test_private_attributes_have_the_names_of_columns() -> None:
    assert set(shown(Slotted(), masked="email").values()) == {"Slotted", HIDDEN}
    assert shown(Nosy(), masked="N, slotted") == {"$class": "Nosy", "token": HIDDEN, "n": HIDDEN, "slotted": HIDDEN}


def _exit(*_: Any) -> Any:
    """End the process: a row does so if its code is called."""
    raise SystemExit("code of the user was called")


CALLED = dict.fromkeys(("__getattribute__", "__iter__", "__len__", "__getitem__", "__str__", "__abs__"), _exit)
OWN: list[tuple[type, Any, dict[str, Any], Any]] = [
    (str, "a", {}, "a"),
    (bytes, b"a", {}, "61"),
    (bytearray, b"a", {}, "61"),
    (int, 7, {"__int__": _exit, "__le__": _exit}, 7),
    (float, 0.5, {"__float__": _exit}, 0.5),
    (list, [1], {}, [1]),
    (set, [1], {}, [1]),
    (deque, [1], {}, [1]),
    (tuple, [1], {"_fields": property(_exit)}, [1]),
    (dict, {"a": 1}, {"items": _exit}, {"a": 1}),
    (decimal.Decimal, "1.5", {}, "1.5"),
    (datetime.timedelta, 1, {}, "1 day, 0:00:00"),
]


@pytest.mark.parametrize(("of", "value", "methods", "expected"), OWN)
def test_no_method_of_a_class_that_extends_pythons_is_called(
    of: type, value: Any, methods: dict[str, Any], expected: Any
) -> None:
    assert shown([type("Own", (of,), CALLED | methods)(value)]) == [expected]


def test_nothing_of_a_proxy_or_of_its_class_is_called() -> None:
    # within the test: pytest looks at the attributes of all that a module has
    class Meta(type):
        __getattribute__ = _exit

    class Proxy(metaclass=Meta):
        __getattribute__ = _exit

    [found] = shown([object.__new__(Proxy)])
    assert found["$class"].endswith("Proxy") and len(found) == 1


STRUCTURED = np.array([(1, b"x")], dtype=[("n", "i8"), ("password", "S8")])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (STRUCTURED, [{"n": 1, "password": HIDDEN}]),
        (STRUCTURED[0], {"n": 1, "password": HIDDEN}),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.array(5), 5),
        (np.longdouble(1.5), "1.5"),
        (np.datetime64("2024-01-01T00:00:00.000000001"), "2024-01-01T00:00:00.000000001"),
        (np.timedelta64(5, "ns"), "5 nanoseconds"),
        (1 + 2j, "(1+2j)"),
    ],
)
def test_values_of_numpy_keep_their_names_and_units(value: Any, expected: Any) -> None:
    assert shown(value) == expected


def test_rows_of_spark_have_their_names() -> None:
    assert shown(SparkRow(n=1, password="x")) == {"n": 1, "password": HIDDEN}


@pytest.mark.parametrize(
    "name", ["api key", "Access  Key", "private/key", "\uff50assword", "pass\u200bword", b"password"]
)
def test_secrets_are_known_whatever_signs_their_names_have(name: Any) -> None:
    assert list(shown({name: "x"}).values()) == [HIDDEN]


def test_bytes_with_a_name_of_a_secret_are_masked() -> None:
    # nobody would find it in hexadecimal digits
    assert shown([b'{"password": "x"}', b"abc"]) == [HIDDEN, "616263"]


def test_a_reference_to_a_secret_is_masked() -> None:
    with providing({("pg", "pin"): "abc"}):
        reference = pickle.loads(pickle.dumps(SecretRef("pg", "pin")))
    assert reference.reveal() == "abc"
    assert shown({"pin": reference}) == {"pin": HIDDEN}


def test_keys_of_a_map_are_masked_with_everything() -> None:
    assert shown({"a@b": 1}, Types.MAP(Types.STRING(), Types.LONG()), masked="*") == {HIDDEN: HIDDEN}


def test_a_secret_that_is_cut_where_looking_ends_is_not_shown() -> None:
    secret = "".join(map(chr, range(33, 127))) * 2
    text, cut = PeekedValues((), Redaction({("pg", "url"): secret})).shown("x" * 100 + secret * 50, None)
    assert cut and secret[:10] not in json.loads(text)


@pytest.mark.parametrize("seconds", [10**15, -(10**12)])
def test_a_time_beyond_the_calendar_hides_no_row(seconds: int) -> None:
    assert shown(Row(n=1, at=Instant(seconds, 0))) == {"n": 1, "at": f"{seconds}.000 s"}


def test_attributes_may_have_any_names() -> None:
    value: Any = type("Odd", (), {})()
    value.__dict__[5] = 1
    value.__dict__["x" * 1_000_000] = 2
    assert set(shown(value)) == {"$class", "int", "x" * MAX_CHARS + "…"}


def test_of_a_wide_row_of_other_letters_the_beginning_is_shown() -> None:
    text, cut = PeekedValues((), str).shown({f"c{n}": "\u0434" * 500 for n in range(50)}, None)
    row = json.loads(text)
    assert cut and len(row) == 50 and row["c0"] == "\u0434" * 500 and row["c49"] == "…"


def test_of_objects_the_attributes_are_shown_and_nothing_of_theirs_is_called() -> None:
    assert shown(Nosy()) == {"$class": "Nosy", "token": HIDDEN, "n": 1, "slotted": 2}
    assert Nosy.calls == []
    assert shown(Order(1, "x")) == {"$class": "Order", "n": 1, "secret": HIDDEN}
    assert shown(object()) == {"$class": "object"}
