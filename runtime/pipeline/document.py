"""The document of a pipeline: JSON, as people keep it in files and the server in versions.

`read_document` takes text or a value of JSON, brings it to the present version of the format, checks it against
`schema/pipeline-1.json`, and gives a `Document`. Nodes and edges are maps by id, so that changes can be compared and
merged node by node. What a node's parameters mean is known to its type only. Pure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from typing import Any

from runtime.pipeline.json_schema import MAX_DEPTH, depth_of, violations, with_defaults
from runtime.pipeline.migrations import VERSION, migrated

FORMAT = "tidemark.pipeline"
MAX_NODES = 1_000
MAX_BYTES = 2 << 20
MAX_CODE_BYTES = 64 << 10
"""Of one node's Python, or of the shared code."""
TOP_LEVEL = (
    *("format", "version", "name", "description", "settings", "parameters", "types", "code", "nodes", "edges"),
    *("samples", "tests", "layout"),
)
NOT_SEMANTIC = ("layout", "description", "samples", "tests")
"""What changes nothing of the job."""
_MAX_EXACT = 2**53
_PARTS = ("nodes", "edges")
_SMALL = 4 << 10
"""Characters of a node or an edge that is remembered as it was read."""


class DocumentError(ValueError):
    """A document is not one of a pipeline.

    Attributes:
        pointer: JSON pointer of the place.
        reason: what is wrong there.
    """

    def __init__(self, pointer: str, reason: str) -> None:
        super().__init__(f"{pointer or 'the document'}: {reason}")
        self.pointer = pointer
        self.reason = reason


@dataclass(frozen=True)
class Node:
    """A box of the pipeline."""

    node_id: str
    type: str
    type_version: int
    name: str
    uid: str
    params: Mapping[str, Any]
    parallelism: int | None = None
    max_parallelism: int | None = None
    slot_group: str | None = None
    chaining: str = "always"
    disabled: bool = False
    row: str | None = None
    """Type of the rows as it was read from the outside."""

    @cached_property
    def params_text(self) -> str:
        """Return the parameters as JSON, in the order in which they were given: a key for what follows from them."""
        return json.dumps(self.params)


@dataclass(frozen=True)
class Edge:
    """A line from an output port to an input port."""

    edge_id: str
    source: str
    source_port: str
    target: str
    target_port: str
    partitioning: str | None = None


@dataclass(frozen=True)
class Document:
    """A pipeline. Made by `read_document`.

    Attributes:
        value: the JSON, complete with defaults at the top and for nodes and edges; never to be changed.
    """

    value: Mapping[str, Any]
    name: str
    settings: Mapping[str, Any]
    parameters: Mapping[str, Mapping[str, Any]]
    types: Mapping[str, Any]
    code: tuple[str, ...]
    nodes: Mapping[str, Node]
    edges: Mapping[str, Edge]
    _inputs: Mapping[str, tuple[Edge, ...]] = field(repr=False, compare=False, default_factory=dict)

    def inputs_of(self, node_id: str) -> tuple[Edge, ...]:
        """Return the edges into a node, in the order of their ids."""
        return self._inputs.get(node_id, ())

    @cached_property
    def ranks(self) -> Mapping[str, int]:
        """Return for each node the length of the longest way to it; nodes in and below cycles have none."""
        waiting = {node_id: len(self.inputs_of(node_id)) for node_id in self.nodes}
        targets: dict[str, list[str]] = {}
        for edge in self.edges.values():
            targets.setdefault(edge.source, []).append(edge.target)
        ranks = {node_id: 0 for node_id, count in waiting.items() if count == 0}
        ready = list(ranks)
        while ready:
            node_id = ready.pop()
            for target in targets.get(node_id, ()):
                ranks[target] = max(ranks.get(target, 0), ranks[node_id] + 1)
                waiting[target] -= 1
                if waiting[target] == 0:
                    ready.append(target)
        return {node_id: rank for node_id, rank in ranks.items() if waiting[node_id] == 0}

    @cached_property
    def order(self) -> list[str]:
        """Return the ids of nodes, those of lower rank first and then by id; without those in and below cycles."""
        return sorted(self.ranks, key=lambda node_id: (self.ranks[node_id], node_id))

    @cached_property
    def semantic_hash(self) -> str:
        """Return the sha256 of everything that has to do with the job: without layout, texts, samples and tests."""
        kept = {name: value for name, value in self.value.items() if name not in NOT_SEMANTIC}
        return hashlib.sha256(json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_document(source: str | bytes | Mapping[str, Any]) -> Document:
    """Read a pipeline.

    Args:
        source: its text, or the value that the text stands for.

    Raises:
        DocumentError: it is not a pipeline, is of a later version, or exceeds a limit.
    """
    value, texts = _read_by_parts(source) or (_read(source), {})
    _check_limits(value)
    nodes = {
        node_id: _node_of(texts[node_id]) if node_id in texts else _node(node_id, node)
        for node_id, node in value["nodes"].items()
    }
    edges = {edge_id: _edge(edge_id, edge) for edge_id, edge in value["edges"].items()}
    for edge in edges.values():
        for end, node_id in (("from", edge.source), ("to", edge.target)):
            if node_id not in nodes:
                raise DocumentError(f"/edges/{edge.edge_id}/{end}/0", f"there is no node {node_id!r}")
    return Document(
        value=value,
        name=value["name"],
        settings=value["settings"],
        parameters={parameter["name"]: parameter for parameter in value["parameters"]},
        types=value["types"],
        code=tuple(value["code"]),
        nodes=nodes,
        edges=edges,
        _inputs=_by_target(edges.values()),
    )


def _read(source: str | bytes | Mapping[str, Any]) -> dict[str, Any]:
    """Return a document's value in the present version, checked and with its defaults."""
    value = _parsed(source) if isinstance(source, str | bytes) else _copied(source)
    if not isinstance(value, dict):
        raise DocumentError("", "must be a JSON object")
    if value.get("format") != FORMAT:
        raise DocumentError("/format", f"must be {FORMAT!r}")
    try:
        value = migrated(value)
    except ValueError as error:
        raise DocumentError("/version", str(error)) from None
    for violation in violations(document_schema(), value):
        raise DocumentError(violation.pointer, violation.message)
    made: dict[str, Any] = with_defaults(document_schema(), value)
    return made


def _read_by_parts(source: str | bytes | Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]] | None:
    """Return what `_read` does, in a fraction of its time if most nodes and edges were read before.

    With it come the small nodes as members of a JSON object, by id. None: it is not as it should be, or not of the
    present version; `_read` says what is wrong.
    """
    if not isinstance(source, Mapping) or source.get("version") != VERSION:
        return None
    if not all(isinstance(source.get(name), dict) for name in _PARTS):
        return None
    try:
        rest = _read({**source, **{name: {} for name in _PARTS}})
        read = {
            name: {key: _read_part(name, key, json.dumps(part)) for key, part in source[name].items()}
            for name in _PARTS
        }
    except (DocumentError, TypeError, ValueError, RecursionError):
        return None
    texts = [f'"{name}":{{{",".join(members.values())}}}' for name, members in read.items()]
    if sum(map(len, texts)) > MAX_BYTES // 2:
        return None
    parts = json.loads(f"{{{','.join(texts)}}}")
    small = {key: text for key, text in read["nodes"].items() if len(text) <= _SMALL}
    return {name: parts.get(name, value) for name, value in rest.items()}, small


def _read_part(kind: str, key: str, text: str) -> str:
    return (_read_small_part if len(text) <= _SMALL else _read_part_anew)(kind, key, text)


def _read_part_anew(kind: str, key: str, text: str) -> str:
    """Return a node or an edge as a member of a JSON object, checked and with its defaults.

    Raises:
        DocumentError: something is wrong with it.
    """
    value = _exact({key: json.loads(text, parse_constant=_refused)}, MAX_DEPTH - 1)
    schema = document_schema()["properties"][kind]
    for violation in violations(schema, value):
        raise DocumentError(violation.pointer, violation.message)
    return json.dumps(with_defaults(schema, value))[1:-1]


_read_small_part = lru_cache(maxsize=4_096)(_read_part_anew)


def canonical_text(document: Document, param_orders: Mapping[str, Iterable[str]] | None = None) -> str:
    """Return a document as text, in the one order in which files and diffs have it.

    Args:
        document: a pipeline.
        param_orders: for each node type, its parameters in the order of its form; others are in the order of names.
    """
    return json.dumps(canonical_value(document, param_orders), indent=2, ensure_ascii=False) + "\n"


def canonical_value(document: Document, param_orders: Mapping[str, Iterable[str]] | None = None) -> Mapping[str, Any]:
    """Return what `canonical_text` writes; its parts are the document's."""
    value = document.value
    last = len(document.nodes)
    rank = document.ranks.get

    def by_rank(ids: Iterable[str], node_of: Mapping[str, str]) -> list[str]:
        return sorted(ids, key=lambda item: (rank(node_of[item], last), node_of[item], item))

    made = {name: _sorted(value[name]) for name in TOP_LEVEL if name in value}
    made["settings"] = value["settings"]
    ids = by_rank(document.nodes, {node_id: node_id for node_id in document.nodes})
    made["nodes"] = {node_id: _ordered_node(value["nodes"][node_id], param_orders or {}) for node_id in ids}
    targets = {edge.edge_id: edge.target for edge in document.edges.values()}
    made["edges"] = {edge_id: value["edges"][edge_id] for edge_id in by_rank(targets, targets)}
    return made


@cache
def document_schema() -> Mapping[str, Any]:
    """Return the JSON Schema of documents."""
    text = (files("runtime.pipeline") / "schema" / "pipeline-1.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _parsed(text: str | bytes) -> Any:
    if len(text) > MAX_BYTES:
        raise DocumentError("", f"has more than {MAX_BYTES >> 20} MiB")
    try:
        return _exact(json.loads(text, parse_constant=_refused, object_pairs_hook=_object))
    except RecursionError:
        raise DocumentError("", f"is nested more than {MAX_DEPTH} deep") from None
    except DocumentError:
        raise
    except ValueError as error:
        raise DocumentError("", f"is not JSON: {error}") from None


def _copied(value: Any) -> Any:
    """Return a value as it would be read from a file: nobody else's later changes reach it."""
    try:
        return _parsed(json.dumps(value))
    except (TypeError, RecursionError) as error:
        raise DocumentError("", f"is not JSON: {error}") from None


def _refused(constant: str) -> Any:
    raise DocumentError("", f"{constant} is not a JSON number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise DocumentError("", f"{next(name for name in names if names.count(name) > 1)!r} occurs twice in an object")
    return made


def _exact(value: Any, max_depth: int = MAX_DEPTH) -> Any:
    """Return a value with whole numbers as such: browsers write 1.0 as 1, and hashes must not differ."""
    if depth_of(value) > max_depth:
        raise DocumentError("", f"is nested more than {MAX_DEPTH} deep")
    return _whole(value)


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        for name in value:
            _check_text(name)
        return {name: _whole(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= _MAX_EXACT:
        return int(value)
    if isinstance(value, str):
        _check_text(value)
    return value


def _check_text(text: str) -> None:
    if "\0" in text:
        # databases refuse it in JSON, and Polars panics over a column of such a name
        raise DocumentError("", f"has a NUL character in {text[:40]!r}")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise DocumentError("", f"has half of a surrogate pair in {text[:40]!r}") from None


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _ordered_node(node: Mapping[str, Any], param_orders: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    params = node["params"]
    first = [name for name in param_orders.get(node["type"], ()) if name in params]
    names = [*first, *sorted(params.keys() - set(first))]
    return {name: {key: params[key] for key in names} if name == "params" else part for name, part in node.items()}


def _check_limits(value: Mapping[str, Any]) -> None:
    if len(value["nodes"]) > MAX_NODES:
        raise DocumentError("/nodes", f"there are more than {MAX_NODES}")
    if _code_bytes(value["code"]) > MAX_CODE_BYTES:
        raise DocumentError("/code", f"has more than {MAX_CODE_BYTES >> 10} KiB")
    for node_id, node in value["nodes"].items():
        code = node["params"].get("code")
        if isinstance(code, list) and _code_bytes(code) > MAX_CODE_BYTES:
            raise DocumentError(f"/nodes/{node_id}/params/code", f"has more than {MAX_CODE_BYTES >> 10} KiB")
    names = [parameter["name"] for parameter in value["parameters"]]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise DocumentError(f"/parameters/{index}/name", f"{name!r} occurs twice")


def _code_bytes(lines: Iterable[Any]) -> int:
    return sum(len(line.encode()) + 1 for line in lines if isinstance(line, str))


def _node(node_id: str, value: Mapping[str, Any]) -> Node:
    schema = value.get("schema")
    return Node(
        node_id=node_id,
        type=value["type"],
        type_version=value["type_version"],
        name=value["name"],
        uid=value["uid"],
        params=value["params"],
        parallelism=value["parallelism"],
        max_parallelism=value["max_parallelism"],
        slot_group=value["slot_group"],
        chaining=value["chaining"],
        disabled=value["disabled"],
        row=None if schema is None else schema["row"],
    )


@lru_cache(maxsize=4_096)
def _node_of(text: str) -> Node:
    """Return the node that is the one member of a JSON object; documents of the same node share it."""
    ((node_id, value),) = json.loads(f"{{{text}}}").items()
    return _node(node_id, value)


def _edge(edge_id: str, value: Mapping[str, Any]) -> Edge:
    (source, source_port), (target, target_port) = value["from"], value["to"]
    return Edge(edge_id, source, source_port, target, target_port, value["partitioning"])


def _by_target(edges: Iterable[Edge]) -> dict[str, tuple[Edge, ...]]:
    found: dict[str, list[Edge]] = {}
    for edge in sorted(edges, key=lambda edge: edge.edge_id):
        found.setdefault(edge.target, []).append(edge)
    return {target: tuple(edges) for target, edges in found.items()}
