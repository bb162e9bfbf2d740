"""Answers as JSON: as the standard library writes them, and what msgspec refuses as well."""

from __future__ import annotations

import enum
import json
from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rest_framework.exceptions import ErrorDetail
from rest_framework.renderers import JSONRenderer

from backend.accounts.views import FastJson


class State(enum.StrEnum):
    DONE = "done"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_read_is_what_was_written(value: Any) -> None:
    written = FastJson().render({"value": value})
    assert json.loads(written) == json.loads(json.dumps({"value": value}))


@pytest.mark.parametrize("text", ["\ud800", "before \udfff after"])
def test_half_of_a_surrogate_pair_is_escaped(text: str) -> None:
    assert json.loads(FastJson().render({"log": text})) == {"log": text}


def test_numbers_of_any_size_are_written() -> None:
    assert json.loads(FastJson().render([2**70, -(2**70)])) == [2**70, -(2**70)]


def test_an_answer_without_content_is_empty() -> None:
    assert FastJson().render(None) == b""


def test_times_and_ids_are_texts() -> None:
    at, uid = datetime(2026, 1, 31, 12, 30, 15, 250_000, UTC), UUID(int=7)
    assert json.loads(FastJson().render([at, uid])) == ["2026-01-31T12:30:15.250000Z", str(uid)]


@pytest.mark.parametrize(
    "value",
    [ErrorDetail("no", code="c"), Decimal("1.10"), OrderedDict(a=1), {1: 2}, State.DONE, {State.DONE: 1}],
)
def test_other_values_are_written_as_by_the_frameworks_own_renderer(value: object) -> None:
    assert json.loads(FastJson().render(value)) == json.loads(JSONRenderer().render(value))


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(TypeError):
        FastJson().render({"value": object()})
