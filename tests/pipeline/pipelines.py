"""Small pipelines for tests."""

from __future__ import annotations

import itertools
from typing import Any

ORDER = [["id", "long"], ["item", "string"], ["cents", "long"], ["at", "long"]]
ROWS = [[1, "pen", 150, 1_000], [2, "ink", 900, 2_000], [1, "pen", 155, 3_000]]
TIME = {"kind": "column", "column": "at", "bound": "0 s"}


def node(node_type: str, name: str, **params: Any) -> dict[str, Any]:
    return {"type": node_type, "name": name, "uid": name.lower().replace(" ", "-"), "params": params}


def orders(**params: Any) -> dict[str, Any]:
    return node("source.inline", "Orders", **{"type": ORDER, "rows": ROWS, "time": TIME, **params})


def pipeline(nodes: dict[str, Any], *edges: str, **parts: Any) -> dict[str, Any]:
    """Return a document.

    Args:
        nodes: by id.
        edges: "a -> b", or "a.port -> b.port".
        parts: more of the document.
    """
    made = {}
    for index, edge in enumerate(edges):
        source, target = edge.split(" -> ")
        ends = [end.split(".") if "." in end else [end, port] for end, port in ((source, "out"), (target, "in"))]
        made[f"e{index}"] = {"from": ends[0], "to": ends[1]}
    return {"format": "tidemark.pipeline", "version": 1, "name": "Test", "nodes": nodes, "edges": made, **parts}


def chain(*nodes: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """Return a pipeline of nodes one below the other, with the ids n0, n1, …"""
    ids = [f"n{index}" for index in range(len(nodes))]
    edges = [f"{one} -> {other}" for one, other in itertools.pairwise(ids)]
    return pipeline(dict(zip(ids, nodes, strict=True)), *edges, **parts)
