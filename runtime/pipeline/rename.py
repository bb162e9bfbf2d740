"""Renames a column of a stream in the node that names it and in everything below: one step for an editor. Pure.

Rows of samples and tests are renamed with it. A parameter of the pipeline that stands in a node stays there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.pipeline.catalog import Catalog
from runtime.pipeline.document import Document, Node
from runtime.pipeline.facts import StreamFacts
from runtime.pipeline.json_schema import escaped
from runtime.pipeline.node_type import NodeInput, Ports
from runtime.pipeline.problems import NodeProblem
from runtime.pipeline.validate import PARAMETER, Memo, validate

Names = Mapping[str, str]
"""Old name → new name."""
Place = tuple[str, str]
"""(node, port)."""


class RenameError(ValueError):
    """A column cannot be renamed; the message says why."""


@dataclass(frozen=True, slots=True)
class Renamed:
    """A rename.

    Attributes:
        patch: of the document, RFC 6902.
        nodes: whose parameters it changes, the one that names the column first.
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
        RenameError: the node does not name the column itself, nothing is known of its output, the new name cannot be
            that of a column there or below, or a parameter of the pipeline holds the old one.
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
    facts_now: dict[Place, StreamFacts] = {}
    #: of outputs, and of the inputs of nodes without any: the columns with new names
    names_at: dict[Place, Names] = {}
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
            if not validation.ports[current].outputs:
                names_at |= {(current, name): found for name, found in names.items()}
        made = NodeInput(current, changed.get(current, seen.params), inputs, seen.row, seen.around)
        try:
            outputs = node_type.infer(made)
        except NodeProblem as problem:
            raise RenameError(f"{document.nodes[current].name!r}: {problem}") from None
        for name, now in outputs.items():
            before = list(_columns(validation.facts.get((current, name))))
            if len(now.columns) != len(before):
                raise RenameError(f"{document.nodes[current].name!r} would make other columns")
            if list(now.columns) != before:
                facts_now[current, name] = now
                names_at[current, name] = _renames(before, now.columns)
    steps = [
        step
        for name, params in changed.items()
        for step in _steps(document.nodes[name], catalog, validation.nodes[name].params, params)
    ]
    steps += _steps_of_rows(document, validation.ports, names_at)
    return Renamed(tuple(steps), tuple(changed), tuple(by_hand))


def _steps(
    node: Node, catalog: Catalog, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    """Yield the changes of a node; what a rename leaves alone stays as it was written.

    Raises:
        RenameError: a parameter of the pipeline would have to be another one.
    """
    node_type = catalog.types[node.type]
    if node.type_version < node_type.version:
        # these are parameters of the present version
        written = node_type.migrate(node.params, node.type_version)
        value = _as_written(node, written, before, after)
        yield {"op": "replace", "path": f"/nodes/{node.node_id}/params", "value": value}
        yield {"op": "add", "path": f"/nodes/{node.node_id}/type_version", "value": node_type.version}
        return
    for name, value in _as_written(node, node.params, before, after).items():
        if name not in node.params or node.params[name] != value:
            yield {"op": "add", "path": f"/nodes/{node.node_id}/params/{escaped(name)}", "value": value}


def _as_written(node: Node, written: Any, before: Any, after: Any) -> Any:
    """Return a value after the rename as the document is to have it: with parameters of the pipeline, without defaults.

    Args:
        node: whose it is, for errors.
        written: what the document has.
        before: what the node's type has seen of it.
        after: what has become of that.

    Raises:
        RenameError: a parameter of the pipeline would have to be another one.
    """
    if before == after:
        return written
    if isinstance(written, dict) and written.keys() == {PARAMETER}:
        raise RenameError(f"{node.name!r} takes the column's name from the parameter {written[PARAMETER]!r}")
    if isinstance(written, Mapping) and isinstance(before, Mapping) and isinstance(after, Mapping):
        return {
            name: _as_written(node, written[name], before[name], value) if name in written and name in before else value
            for name, value in after.items()
            # the others are defaults
            if name in written or name not in before or before[name] != value
        }
    if isinstance(after, list) and isinstance(written, list) and len(written) == len(before) == len(after):
        return [_as_written(node, *parts) for parts in zip(written, before, after, strict=True)]
    return after


def _steps_of_rows(
    document: Document, ports: Mapping[str, Ports], names_at: Mapping[Place, Names]
) -> Iterator[Mapping[str, Any]]:
    """Yield the changes of samples and tests: of their rows that are objects. Lists have their columns by position."""

    def names_of(key: str) -> Names:
        node_id, _, port = key.partition("/")
        there = ports.get(node_id, Ports())
        known = [each.name for each in there.outputs or there.inputs]
        first = "out" if "out" in known or not known else known[0]
        return names_at.get((node_id, port or first), {})

    for node_id, sample in document.value["samples"].items():
        rows = _items_renamed(sample["rows"], names_of(node_id))
        if rows != sample["rows"]:
            yield {"op": "replace", "path": f"/samples/{escaped(node_id)}/rows", "value": rows}
    for index, test in enumerate(document.value["tests"]):
        for node_id, items in test["given"].items():
            renamed = _items_renamed(items, names_of(node_id))
            if renamed != items:
                yield {"op": "replace", "path": f"/tests/{index}/given/{escaped(node_id)}", "value": renamed}
        for key, rows in test["expect"].items():
            expected = [_row_renamed(row, names_of(key)) for row in rows]
            if expected != rows:
                yield {"op": "replace", "path": f"/tests/{index}/expect/{escaped(key)}", "value": expected}


def _items_renamed(items: Sequence[Any], names: Names) -> list[Any]:
    return [[_row_renamed(row, names), *rest] for row, *rest in items]


def _row_renamed(row: Any, names: Names) -> Any:
    return {names.get(name, name): value for name, value in row.items()} if isinstance(row, dict) else row


def _renames(before: Iterable[str], now: Iterable[str]) -> Names:
    return {old: new for old, new in zip(before, now, strict=True) if old != new}


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
        found = _renames(before[0].columns, now[0].columns)
        if found or any(a is not b for a, b in zip(before, now, strict=True)):
            names[port] = found
    return inputs, names


def _columns(facts: object) -> Mapping[str, Any]:
    return facts.columns if isinstance(facts, StreamFacts) else {}
