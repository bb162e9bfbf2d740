"""Runs the tests that a document holds: given nodes become rows, and what others make of them is looked at.

A test gives rows with event times, and watermarks: `{"given": {"bids": [[{"price": 3}, 1000], ["watermark", 2000]]},
"expect": {"dear": [{"price": 3}]}}`. Here the input ends behind the last row, which closes all windows.
"""

from __future__ import annotations

import copy
import datetime
import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from runtime.common.typeinfo import TimestampTypeInfo, TypeInformation, Types
from runtime.pipeline import Catalog, Document, StreamFacts, compile_pipeline, read_document, validate
from tests.pipeline.programs import run_with_taps
from tests.pipeline.taps import what_flowed

Rows = list[dict[str, Any]]


def given(document: Document, test: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    """Return a document with the rows of a test in the place of nodes, and without what is above them."""
    value: dict[str, Any] = copy.deepcopy(dict(document.value))
    value["settings"] = {"parallelism": 1}
    facts = validate(document, catalog).facts
    for node_id, items in test["given"].items():
        known = facts[node_id, "out"]
        assert isinstance(known, StreamFacts)
        rows = [row for row, _ in items if row != "watermark"]
        params: dict[str, Any] = {"type": _columns(known), "rows": rows}
        if known.time_column is not None:
            params["time"] = {"kind": "column", "column": known.time_column, "bound": "0 s"}
        value["nodes"][node_id] |= {"type": "source.inline", "params": params}
    # rows are given for the first output of a node
    edges = {
        name: edge
        for name, edge in value["edges"].items()
        if edge["to"][0] not in test["given"] and (edge["from"][0] not in test["given"] or edge["from"][1] == "out")
    }
    return _reached(value, edges, set(test["given"]))


def _columns(facts: StreamFacts) -> list[list[str]]:
    return [[name, kind.type_string()] for name, kind in facts.columns.items()]


def _reached(value: dict[str, Any], edges: dict[str, Any], reached: set[str]) -> dict[str, Any]:
    size = 0
    while size != len(reached):
        size = len(reached)
        reached |= {edge["to"][0] for edge in edges.values() if edge["from"][0] in reached}
    nodes = {name: node for name, node in value["nodes"].items() if name in reached}
    return value | {
        "nodes": nodes,
        "edges": {name: edge for name, edge in edges.items() if edge["from"][0] in reached},
        "tests": [],
        "layout": {},
    }


def found(document: Document, test: Mapping[str, Any], catalog: Catalog, directory: Path) -> dict[str, list[str]]:
    """Run a test; returns what the nodes made of which it expects something, as texts in a fixed order."""
    program = compile_pipeline(read_document(given(document, test, catalog)), catalog)
    assert program.is_deployable, program.problems
    directory.mkdir()
    run_with_taps(program, directory)
    shown = {
        node_id: [row for batch in what_flowed(directory, f"{node_id}.out") for row in batch["shown"]]
        for node_id in test["expect"]
    }
    return _comparable(document, shown, catalog)


def expected(document: Document, test: Mapping[str, Any], catalog: Catalog) -> dict[str, list[str]]:
    """Return what a test expects, in the form of `found`."""
    return _comparable(document, test["expect"], catalog)


def _comparable(document: Document, rows: Mapping[str, Rows], catalog: Catalog) -> dict[str, list[str]]:
    """Return the rows of each node as texts in a fixed order, with times and numbers in one form."""
    facts = validate(document, catalog).facts
    made: dict[str, list[str]] = {}
    for node_id, items in rows.items():
        known = facts[node_id, "out"]
        assert isinstance(known, StreamFacts)
        plain = [{name: _plain(value, known.columns[name]) for name, value in row.items()} for row in items]
        made[node_id] = sorted(json.dumps(row, sort_keys=True) for row in plain)
    return made


def _plain(value: Any, kind: TypeInformation) -> Any:
    if isinstance(kind, TimestampTypeInfo) and isinstance(value, str):
        return datetime.datetime.fromisoformat(value).isoformat()
    if kind == Types.DOUBLE():
        return float(value)
    return str(Decimal(str(value)).normalize()) if kind == Types.BIG_DEC() else value
