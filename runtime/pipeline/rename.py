"""Renames a column of a stream in the node that names it and in everything below: one step for an editor. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runtime.pipeline.catalog import Catalog
from runtime.pipeline.document import Document, Node
from runtime.pipeline.facts import StreamFacts
from runtime.pipeline.json_schema import escaped
from runtime.pipeline.node_type import NodeInput
from runtime.pipeline.problems import NodeProblem
from runtime.pipeline.validate import Memo, validate

Names = Mapping[str, str]
"""Old name → new name."""


class RenameError(ValueError):
    """A column cannot be renamed; the message says why."""


@dataclass(frozen=True, slots=True)
class Renamed:
    """A rename.

    Attributes:
        patch: of the document, RFC 6902.
        nodes: that it changes, the one that names the column first.
        by_hand: nodes below with Python that may use the old name.
    """

    patch: tuple[Mapping[str, Any], ...]
    nodes: tuple[str, ...]
    by_hand: tuple[str, ...]


def rename_column(
    document: Document, catalog: Catalog, node_id: str, port: str, old: str, new: str, memo: Memo | None = None
) -> Renamed:
    """Rename a column at an output.

    Args:
        document: the pipeline.
        catalog: the node types.
        node_id: of the node that makes the column.
        port: its output.
        old: the column.
        new: its new name.
        memo: see `validate`.

    Raises:
        RenameError: the node does not name the column itself, nothing is known of its output, or the new name cannot
            be that of a column there or below.
    """
    validation = validate(document, catalog, memo)
    found = validation.nodes.get(node_id)
    facts = validation.facts.get((node_id, port))
    if found is None or not isinstance(facts, StreamFacts) or old not in facts.columns:
        raise RenameError(f"there is no column {old!r} at {node_id}.{port}")
    if new in facts.columns:
        raise RenameError(f"there is a column {new!r} already")
    params = catalog.types[document.nodes[node_id].type].renames_output(found.params, port, old, new)
    if params is None:
        raise RenameError(f"{document.nodes[node_id].name!r} takes the column's name from elsewhere")
    changed: dict[str, Mapping[str, Any]] = {node_id: params}
    by_hand: list[str] = []
    #: outputs of which columns have new names: the facts with these
    facts_now: dict[tuple[str, str], StreamFacts] = {}
    for current in document.order:
        seen = validation.nodes.get(current)
        if seen is None:
            continue
        inputs, names = _inputs_now(document, current, seen, facts_now)
        if current != node_id and not names:
            continue
        node_type = catalog.types[document.nodes[current].type]
        if current != node_id:
            params = node_type.renamed(seen.params, {name: names.get(name, {}) for name in seen.inputs})
            if params != seen.params:
                changed[current] = params
            if "code" in seen.params:
                by_hand.append(current)
        made = NodeInput(current, changed.get(current, seen.params), inputs, seen.row, seen.around)
        try:
            outputs = node_type.infer(made)
        except NodeProblem as problem:
            raise RenameError(f"{document.nodes[current].name!r}: {problem}") from None
        for name, now in outputs.items():
            if list(now.columns) != list(_columns(validation.facts.get((current, name)))):
                facts_now[current, name] = now
    patch = tuple(
        step
        for name, params in changed.items()
        for step in _steps(document.nodes[name], catalog, validation.nodes[name].params, params)
    )
    return Renamed(patch, tuple(changed), tuple(by_hand))


def _steps(
    node: Node, catalog: Catalog, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    """Yield the changes of a node; parameters that a rename leaves alone stay as they were written."""
    version = catalog.types[node.type].version
    if node.type_version < version:
        # these are parameters of the present version
        yield {"op": "replace", "path": f"/nodes/{node.node_id}/params", "value": after}
        yield {"op": "add", "path": f"/nodes/{node.node_id}/type_version", "value": version}
        return
    for name, value in after.items():
        if name not in before or before[name] != value:
            yield {"op": "add", "path": f"/nodes/{node.node_id}/params/{escaped(name)}", "value": value}


def _inputs_now(
    document: Document, node_id: str, seen: NodeInput, facts_now: Mapping[tuple[str, str], StreamFacts]
) -> tuple[dict[str, tuple[StreamFacts, ...]], dict[str, Names]]:
    """Return a node's inputs after the rename, and for each the columns with new names."""
    inputs: dict[str, tuple[StreamFacts, ...]] = {}
    names: dict[str, Names] = {}
    for port, before in seen.inputs.items():
        edges = [edge for edge in document.inputs_of(node_id) if edge.target_port == port]
        now = tuple(
            facts_now.get((edge.source, edge.source_port), facts) for edge, facts in zip(edges, before, strict=False)
        )
        inputs[port] = now
        pairs = zip(before[0].columns, now[0].columns, strict=True)
        found = {old: new for old, new in pairs if old != new}
        if found or any(a is not b for a, b in zip(before, now, strict=True)):
            names[port] = found
    return inputs, names


def _columns(facts: object) -> Mapping[str, Any]:
    return facts.columns if isinstance(facts, StreamFacts) else {}
