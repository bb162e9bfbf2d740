"""Tests of a pipeline, as its document holds them: what is given in place of nodes, and what shall come out.

    {"name": "late bid",
     "given": {"bids": [[{"auction": 1}, 1000], ["watermark", 2000]]},
     "expect": {"counts": [{"auction": 1, "bids": 1}], "counts/late": []}}

Rows are JSON as previews show them, with their event time in ms or null. They take the place of what leaves a node's
first output, as a rule a source's. A source that nothing is given for has no rows. What a stream amounts to at its end
is compared: rows that were taken back do not count, nor does the order; of the columns those that any expected row
names. Runs nothing: `runtime.client.pipeline_tests` does.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from runtime.pipeline.catalog import Catalog
from runtime.pipeline.document import Document

WATERMARK = "watermark"
"""Stands in the place of a row where a watermark is given."""
KIND = "$kind"
"""Key of rows that are not inserted, with "UPDATE_BEFORE", "UPDATE_AFTER" or "DELETE"."""
Place = tuple[str, str]
"""(node, port)."""
_TAKEN_BACK = ("UPDATE_BEFORE", "DELETE")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)")
_DECIMAL = re.compile(r"-?\d{1,15}\.\d+")
_MAX_SAFE = 2**53 - 1
"""Greater numbers are shown as texts."""
_DIGITS = 12
"""Of floating-point numbers that are compared: sums depend on the order of rows in the digits behind."""


@dataclass(frozen=True)
class PipelineTest:
    """A test.

    Attributes:
        given: node → items, in order.
        expect: place → rows, in any order.
    """

    name: str
    given: Mapping[str, Sequence[Sequence[Any]]]
    expect: Mapping[Place, Sequence[Any]]


@dataclass(frozen=True, slots=True)
class RowDifference:
    """A row of a comparison."""

    state: Literal["same", "missing", "unexpected"]
    row: Any
    """As it was expected; an unexpected one as it came, with the compared columns first."""


class PipelineTestError(ValueError):
    """A test cannot be run; the message says why."""


def read_tests(document: Document, catalog: Catalog) -> list[PipelineTest]:
    """Return the tests of a document.

    Raises:
        PipelineTestError: one names a node or a port that is not there, or two have one name.
    """
    made: list[PipelineTest] = []
    for value in document.value["tests"]:
        name = value["name"]
        if any(test.name == name for test in made):
            raise PipelineTestError(f"two tests are named {name!r}")
        for node, items in value["given"].items():
            if not _has_output(document, catalog, node):
                raise PipelineTestError(f"{name!r} gives rows in place of a node that has no output: {node!r}")
            if any(row == WATERMARK and time_ms is None for row, time_ms in items):
                raise PipelineTestError(f"{name!r} gives a watermark without a time")
        expect = {_place(document, catalog, name, key): rows for key, rows in value["expect"].items()}
        if not expect:
            raise PipelineTestError(f"{name!r} expects nothing")
        made.append(PipelineTest(name, value["given"], expect))
    return made


def _has_output(document: Document, catalog: Catalog, node_id: str) -> bool:
    node = document.nodes.get(node_id)
    node_type = None if node is None else catalog.get(node.type)
    return node is not None and node_type is not None and bool(node_type.ports(node.params).outputs)


def sources_of(document: Document, catalog: Catalog) -> list[str]:
    """Return the nodes without inputs, in the order of the document."""
    found = []
    for node_id in document.order:
        node_type = catalog.get(document.nodes[node_id].type)
        if node_type is not None and not node_type.ports(document.nodes[node_id].params).inputs:
            found.append(node_id)
    return found


def _place(document: Document, catalog: Catalog, test: str, key: str) -> Place:
    node_id, slash, port = key.partition("/")
    node = document.nodes.get(node_id)
    node_type = None if node is None else catalog.get(node.type)
    if node is None or node_type is None:
        raise PipelineTestError(f"{test!r} expects rows of a node that does not exist: {node_id!r}")
    outputs = [each.name for each in node_type.ports(node.params).outputs]
    # nothing leaves a sink: what comes to it is looked at
    known = outputs or ["in"]
    if not slash:
        return node_id, "out" if "out" in known else known[0]
    if port not in known:
        raise PipelineTestError(f"{test!r} expects rows of {node.name!r} at {port!r}, which it does not have")
    return node_id, port


def compared(expected: Sequence[Any], shown: Sequence[Any]) -> list[RowDifference]:
    """Compare what was expected at a port with what has passed it.

    Args:
        expected: rows.
        shown: all rows in their order, with `KIND` where they are not inserted.

    Returns:
        The expected rows in their order, each "same" or "missing", and then those that nobody expected.
    """
    names = list(dict.fromkeys(name for row in expected if isinstance(row, Mapping) for name in row if name != KIND))
    left = at_the_end(shown)
    counts = Counter(_key(row, names) for row in left)
    made = []
    for row in expected:
        key = _key(row, names)
        is_there = counts[key] > 0
        counts[key] -= is_there
        made.append(RowDifference("same" if is_there else "missing", row))
    for row in reversed(left):
        key = _key(row, names)
        if counts[key] > 0:
            counts[key] -= 1
            made.insert(len(expected), RowDifference("unexpected", _with_first(row, names)))
    return made


def at_the_end(shown: Sequence[Any]) -> list[Any]:
    """Return the rows that hold at the end of a stream, without their kinds."""
    held: list[Any] = []
    for row in shown:
        kind = row.get(KIND) if isinstance(row, Mapping) else None
        plain = {name: value for name, value in row.items() if name != KIND} if kind is not None else row
        if kind in _TAKEN_BACK:
            if plain in held:
                held.reverse()
                held.remove(plain)
                held.reverse()
        else:
            held.append(plain)
    return held


def _key(row: Any, names: Sequence[str]) -> str:
    value = {name: row.get(name) for name in names} if isinstance(row, Mapping) and names else row
    return json.dumps(_canonical(value), sort_keys=True)


def _canonical(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _canonical(item) for name, item in value.items() if name != KIND}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, float) and math.isfinite(value):
        rounded = float(f"{value:.{_DIGITS}g}")
        return int(rounded) if rounded.is_integer() else rounded
    if isinstance(value, int) and abs(value) > _MAX_SAFE:
        return str(value)
    if not isinstance(value, str):
        return value
    # decimals are shown as texts; "2026-01-31T12:00" and "2026-01-31 12:00" are one moment
    return _canonical(float(value)) if _DECIMAL.fullmatch(value) else _MOMENT.sub(r"\1 \2", value)


def _with_first(row: Any, names: Sequence[str]) -> Any:
    if not isinstance(row, Mapping):
        return row
    return {name: row[name] for name in (*(name for name in names if name in row), *row)}
