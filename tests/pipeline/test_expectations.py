"""Tests of pipelines: what they may name, and how rows are compared."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.pipeline import DocumentError, load_catalog, read_document
from runtime.pipeline.document import Document
from runtime.pipeline.expectations import PipelineTestError, at_the_end, compared, read_tests, sources_of
from tests.pipeline.pipelines import chain, node, orders

CATALOG = load_catalog([])
BRANCHES = [["dear", "cents > 200"]]


def document(*tests: dict[str, Any]) -> Document:
    split = node("split", "Split", branches=[{"name": "dear", "condition": "cents > 200"}], rest=True)
    return read_document(chain(orders(), split, tests=list(tests)))


def expects(expect: dict[str, Any], given: dict[str, Any] | None = None, name: str = "a") -> dict[str, Any]:
    return {"name": name, "given": given or {}, "expect": expect}


def test_a_place_is_a_node_or_one_of_its_ports() -> None:
    shown = read_document(chain(orders(), node("sink.print", "Show"), tests=[expects({"n0": [], "n1": [{"id": 1}]})]))
    [test] = read_tests(shown, CATALOG)
    assert list(test.expect) == [("n0", "out"), ("n1", "in")]
    assert sources_of(shown, CATALOG) == ["n0"]


@pytest.mark.parametrize(
    ("tests", "says"),
    [
        ([expects({"gone": []})], "does not exist: 'gone'"),
        ([expects({"n0/late": []})], "at 'late', which it does not have"),
        ([expects({"n0": []}, {"gone": []})], "has no output: 'gone'"),
        ([expects({"n0": []}, {"n0": [["watermark", None]]})], "a watermark without a time"),
        ([expects({})], "expects nothing"),
        ([expects({"n0": []}), expects({"n0": []})], "two tests are named 'a'"),
    ],
)
def test_a_test_that_names_what_is_not_there_is_refused(tests: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(PipelineTestError, match=says):
        read_tests(document(*tests), CATALOG)


@pytest.mark.parametrize(
    "test",
    [
        {"name": "a", "given": {}},
        {"name": "", "given": {}, "expect": {}},
        {"name": "a", "given": {"n0": [1]}, "expect": {}},
        {"name": "a", "given": {"n0": [["watermark", "soon"]]}, "expect": {}},
        {"name": "a", "given": {}, "expect": {"n0": {}}},
    ],
)
def test_a_document_with_a_malformed_test_is_none(test: dict[str, Any]) -> None:
    with pytest.raises(DocumentError):
        document(test)


def test_rows_are_the_same_in_any_order_and_only_named_columns_count() -> None:
    shown = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": 2, "b": "z"}]
    assert [row.state for row in compared([{"a": 2}, {"a": 1}, {"a": 2}], shown)] == ["same"] * 3
    found = compared([{"a": 2}, {"a": 3}], shown)
    assert [(row.state, row.row["a"]) for row in found] == [
        ("same", 2),
        ("missing", 3),
        ("unexpected", 1),
        ("unexpected", 2),
    ]
    assert [row.state for row in compared([], shown)] == ["unexpected"] * 3


def test_values_are_compared_as_people_mean_them() -> None:
    assert [row.state for row in compared([{"a": 0.3}], [{"a": 0.1 + 0.2}])] == ["same"]
    assert [row.state for row in compared([{"a": 1}], [{"a": 1.0}])] == ["same"]
    assert [row.state for row in compared([{"t": "2026-01-31T12:00:00"}], [{"t": "2026-01-31 12:00:00"}])] == ["same"]
    assert [row.state for row in compared([{"d": 12.5, "n": 2**60}], [{"d": "12.5000", "n": str(2**60)}])] == ["same"]
    assert [row.state for row in compared([{"a": "7"}], [{"a": "007"}])] == ["missing", "unexpected"]
    assert [row.state for row in compared(["x", [1]], [[1], "x"])] == ["same", "same"]
    assert [row.state for row in compared([{"a": None}], [{"a": 0}])] == ["missing", "unexpected"]


def test_rows_that_were_taken_back_do_not_count() -> None:
    changes = [
        {"k": 1, "n": 1},
        {"k": 1, "n": 1, "$kind": "UPDATE_BEFORE"},
        {"k": 1, "n": 2, "$kind": "UPDATE_AFTER"},
        {"k": 2, "n": 1},
        {"k": 2, "n": 1, "$kind": "DELETE"},
    ]
    assert at_the_end(changes) == [{"k": 1, "n": 2}]
    assert [row.state for row in compared([{"k": 1, "n": 2}], changes)] == ["same"]


ROWS = st.lists(st.fixed_dictionaries({"a": st.integers(0, 3), "b": st.sampled_from(["x", "y"])}), max_size=12)


def text(row: Any) -> str:
    return json.dumps(row, sort_keys=True)


@given(ROWS, ROWS)
def test_a_comparison_accounts_for_every_row(expected: list[Any], shown: list[Any]) -> None:
    found = compared(expected, shown)
    states = [row.state for row in found]
    assert [row.row for row in found[: len(expected)]] == expected
    assert states.count("same") + states.count("unexpected") == len(shown) or not expected
    assert states.count("same") + states.count("missing") == len(expected)
    is_equal = sorted(map(text, expected)) == sorted(map(text, shown))
    assert is_equal == all(state == "same" for state in states)
