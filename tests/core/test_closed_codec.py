"""The closed codec: what goes in comes out, and nothing else does."""

from __future__ import annotations

import contextlib
import enum
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.core.closed_codec import ClosedCodec, WireError


class Colour(enum.Enum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: float


@dataclass(frozen=True, slots=True)
class Shape:
    name: str
    points: Sequence[Point]
    by_place: Mapping[Point, bytes]
    colour: Colour | None = None
    tags: frozenset[str] = frozenset()
    metrics: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stranger:
    x: int


CODEC: ClosedCodec[Any] = ClosedCodec([Point, Shape])


def roundtrip(message: object) -> Any:
    return CODEC.decode(CODEC.encode([message]))[0]


points = st.builds(Point, st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False))
#: of larger ones see below
integers = st.integers(-(2**63), 2**64 - 1)
plain = st.recursive(
    st.none() | st.booleans() | integers | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.builds(
        Shape,
        st.text(st.characters()),
        st.lists(points, max_size=3).map(tuple),
        st.dictionaries(points, st.binary(), max_size=3),
        st.none() | st.just(Colour.RED),
        st.frozensets(st.text(max_size=3), max_size=3),
        st.dictionaries(st.text(max_size=5), plain, max_size=4),
    )
)
def test_messages_come_out_as_they_went_in(shape: Shape) -> None:
    assert roundtrip(shape) == shape


def test_values_that_no_metric_should_have_arrive_as_what_comes_nearest() -> None:
    odd = {
        "decimal": Decimal("1.5"),
        "numpy": np.int64(5),
        "tuple": (1, 2),
        "too large": 2**70,
        "far too large": 1 << 100_000,
    }
    shape = roundtrip(Shape("odd", (), {}, metrics=odd))
    assert shape.metrics == {"decimal": "1.5", "numpy": 5, "tuple": [1, 2], "too large": 2**70, "far too large": "∞"}


class _Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit('ran')",))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        pickle.dumps([_Bomb()]),
        msgpack.packb([[0, [1]]]),
        msgpack.packb([[0, [True, 1.0]]]),
        msgpack.packb([[0, ["1", 1.0]]]),
        msgpack.packb([[2, [1, 1.0]]]),
        msgpack.packb([[-1, [1, 1.0]]]),
        msgpack.packb([[0.0, [1, 1.0]]]),
        msgpack.packb({0: [1, 1.0]}),
        msgpack.packb([[1, ["a", [[1, 1.0]], [], "BLUE", [], {}]]]),
        msgpack.packb([[1, ["a", [[1, 1.0]], [], ["RED"], [], {}]]]),
        msgpack.packb([[1, ["a", "points", [], None, [], {}]]]),
        msgpack.packb([[1, ["a", [], [], None, [], {1: 2}]]]),
        msgpack.packb([[1, ["a", [], [], None, [], {"m": msgpack.ExtType(1, bytes(2000))}]]]),
        msgpack.packb([[1, ["a", [], [], None, [], {"m": msgpack.ExtType(7, b"")}]]]),
        b"\xdd\xff\xff\xff\xff" * 2000,
        b"\x91" * 100_000,
    ],
)
def test_bytes_of_another_kind_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        CODEC.decode(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_list_of_listed_classes_or_refused(data: bytes) -> None:
    with contextlib.suppress(WireError):
        assert all(type(message) in (Point, Shape) for message in CODEC.decode(data))


def test_a_class_that_is_not_listed_does_not_leave() -> None:
    with pytest.raises(WireError, match="Stranger"):
        CODEC.encode([Stranger(1)])


def test_an_annotation_that_leaves_open_what_comes_is_refused_at_once() -> None:
    @dataclass(frozen=True, slots=True)
    class Open:
        value: int | str

    Open.__annotations__["value"] = int | str
    with pytest.raises(TypeError, match="could not tell"):
        ClosedCodec([Open])
