"""Fixes that change more than the node that is complained of: JSON Patches of the whole document. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from runtime.pipeline.catalog import Catalog
from runtime.pipeline.document import Document, Edge, Node
from runtime.pipeline.facts import StreamFacts, is_time
from runtime.pipeline.problems import Fix

MAX_FIXES = 3
BOUND = "5 s"


def watermark_fixes(
    document: Document, catalog: Catalog, node: Node, port: str, inputs: Mapping[str, tuple[StreamFacts, ...]]
) -> tuple[Fix, ...]:
    """Return ways to give the stream at an input event time and watermarks: in its source, or by a node in between."""
    edge = next((edge for edge in document.inputs_of(node.node_id) if edge.target_port == port), None)
    if edge is None:
        return ()
    above = document.nodes[edge.source]
    source = catalog.get(above.type)
    has_section = source is not None and "time" in source.schema.get("properties", {})
    columns = inputs[port][0].columns if port in inputs else {}
    made = []
    for column in [name for name, type_info in columns.items() if is_time(type_info)][:MAX_FIXES]:
        if has_section:
            time = {"kind": "column", "column": column, "bound": BOUND, "idle": None}
            patch = {"op": "add", "path": f"/nodes/{above.node_id}/params/time", "value": time}
            made.append(Fix(f"Take the event time of {above.name} from {column}", (patch,)))
        else:
            made.append(_inserted(document, edge, column))
    return tuple(made)


def _inserted(document: Document, edge: Edge, column: str) -> Fix:
    digest = hashlib.sha256(f"{edge.edge_id} {column} {len(document.nodes)}".encode()).hexdigest()
    node_id, edge_id, uid = f"n{digest[:6]}", f"e{digest[6:12]}", f"watermarks-{digest[12:16]}"
    names = {node.name for node in document.nodes.values()}
    name = next(text for text in ["Watermarks", *(f"Watermarks {n}" for n in range(2, 2000))] if text not in names)
    added = {
        "type": "time.watermark",
        "type_version": 1,
        "name": name,
        "uid": uid,
        "params": {"column": column, "bound": BOUND},
        # complete, as documents are read: a merge compares what the page has with what the server has
        "parallelism": None,
        "max_parallelism": None,
        "slot_group": None,
        "chaining": "always",
        "disabled": False,
    }
    below = {"from": [node_id, "out"], "to": [edge.target, edge.target_port], "partitioning": None}
    return Fix(
        f"Take event times from {column}",
        (
            {"op": "add", "path": f"/nodes/{node_id}", "value": added},
            {"op": "add", "path": f"/edges/{edge_id}", "value": below},
            {"op": "replace", "path": f"/edges/{edge.edge_id}/to", "value": [node_id, "in"]},
        ),
    )
