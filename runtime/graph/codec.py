"""JobGraph as JSON and back, for a database, the wire and the file that a child process answers with.

User code stays bytes, as in a JobGraph, here as base64; it is never loaded. Types are their
`type_string()`, read back by `parse_type`. Reading is strict: a field that is missing, unknown or of the wrong kind is
refused with its path, because a graph may come from a process that ran a user's code. Pure functions.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from runtime.common.typeinfo import TypeInformation, parse_type
from runtime.core.ids import JobId, OperatorId, VertexId
from runtime.graph.job_graph import ChainEdge, ChainedOperator, JobEdge, JobGraph, JobVertex
from runtime.graph.partitioning import Partitioning
from runtime.state.state_meta import DeclaredStates, StateMeta, StatePart, meta_to_json

VERSION = 1
"""Version of the shape below; a graph of another version is refused, not guessed at."""

T = TypeVar("T")


class GraphFormatError(ValueError):
    """The value is not the JSON of a JobGraph.

    Attributes:
        path: where in it, as "vertices[0].parallelism"; "" = at the top.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"not a job graph: {path + ': ' if path else ''}{problem}")
        self.path = path


def job_graph_to_json(graph: JobGraph) -> dict[str, Any]:
    """Return a value of dicts, lists, text and numbers that `job_graph_from_json` turns into an equal graph.

    Returns:
        {"version", "job_id", "name", "vertices": […], "edges": […], "configuration", "job_parameters",
        "secrets": [[name, key]…]}; the items have the fields of JobVertex and JobEdge, bytes as base64, types as text.
    """
    return {
        "version": VERSION,
        "job_id": graph.job_id,
        "name": graph.name,
        "vertices": [_vertex_to_json(vertex) for vertex in graph.vertices],
        "edges": [_edge_to_json(edge) for edge in graph.edges],
        "configuration": dict(graph.configuration),
        "job_parameters": dict(graph.job_parameters),
        "secrets": [list(name) for name in graph.secrets],
    }


def job_graph_from_json(value: object) -> JobGraph:
    """Return the graph that `job_graph_to_json` made `value` of. No user code is loaded.

    Raises:
        GraphFormatError: it is not one, has another version, or its parts do not fit each other.
    """
    fields = _Fields(value, "")
    version = fields.take("version", int)
    if version != VERSION:
        raise GraphFormatError("version", f"{version} is not supported, only {VERSION} is")
    graph = JobGraph(
        job_id=JobId(_hex_id(fields, "job_id")),
        name=fields.take("name", str),
        vertices=fields.items("vertices", _vertex_from_json),
        edges=fields.items("edges", _edge_from_json),
        configuration=fields.texts("configuration"),
        job_parameters=fields.texts("job_parameters"),
        secrets=fields.pairs_if_there("secrets"),
    )
    fields.end()
    _check_references(graph)
    return graph


# --- to JSON ----------------------------------------------------------------------------------------------------------


def _vertex_to_json(vertex: JobVertex) -> dict[str, Any]:
    return {
        "vertex_id": vertex.vertex_id,
        "name": vertex.name,
        "parallelism": vertex.parallelism,
        "max_parallelism": vertex.max_parallelism,
        "slot_sharing_group": vertex.slot_sharing_group,
        "operators": [_operator_to_json(operator) for operator in vertex.operators],
        "chain_edges": [_chain_edge_to_json(edge) for edge in vertex.chain_edges],
    }


def _operator_to_json(operator: ChainedOperator) -> dict[str, Any]:
    return {
        "operator_id": operator.operator_id,
        "uid": operator.uid,
        "name": operator.name,
        "description": operator.description,
        "factory": _text_of_bytes(operator.factory),
        "output_type": _text_of_type(operator.output_type),
        "key_type": operator.key_type,
        "window_type": operator.window_type,
        "state_content": operator.state_content,
        "state_parts": [list(part) for part in operator.state_parts],
        "declared_states": None if operator.declared_states is None else _states_to_json(operator.declared_states),
        "defined_at": operator.defined_at,
        "unread_columns": list(operator.unread_columns),
    }


def _states_to_json(declared: DeclaredStates) -> dict[str, Any]:
    return {"states": [meta_to_json(state) for state in declared.states], "is_complete": declared.is_complete}


def _chain_edge_to_json(edge: ChainEdge) -> dict[str, Any]:
    return {
        "source": edge.source,
        "target": edge.target,
        "input_index": edge.input_index,
        "side_output_tag": edge.side_output_tag,
    }


def _edge_to_json(edge: JobEdge) -> dict[str, Any]:
    return {
        "edge_id": edge.edge_id,
        "source": edge.source,
        "source_operator": edge.source_operator,
        "target": edge.target,
        "input_index": edge.input_index,
        "partitioning": edge.partitioning.value,
        "partitioner": None if edge.partitioner is None else _text_of_bytes(edge.partitioner),
        "side_output_tag": edge.side_output_tag,
        "record_type": _text_of_type(edge.record_type),
        "buffer_timeout_ms": edge.buffer_timeout_ms,
    }


def _text_of_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _text_of_type(value: TypeInformation | None) -> str | None:
    return None if value is None else value.type_string()


# --- from JSON --------------------------------------------------------------------------------------------------------


class _Fields:
    """An object of the JSON, taken apart field by field; what is left at `end` is refused."""

    def __init__(self, value: object, path: str) -> None:
        if not isinstance(value, dict):
            raise GraphFormatError(path, f"an object is needed, not {_kind(value)}")
        self._left: dict[str, object] = dict(value)
        self._path = path

    def at(self, name: str) -> str:
        """Return the path of a field."""
        return f"{self._path}.{name}" if self._path else name

    def raw(self, name: str) -> object:
        if name not in self._left:
            raise GraphFormatError(self.at(name), "is missing")
        return self._left.pop(name)

    def take(self, name: str, kind: type[T]) -> T:
        value = self.raw(name)
        # True is an int for Python, but no number of JSON
        if not isinstance(value, kind) or isinstance(value, bool):
            raise GraphFormatError(self.at(name), f"{kind.__name__} is needed, not {_kind(value)}")
        return value

    def optional_text(self, name: str) -> str | None:
        value = self.raw(name)
        if value is not None and not isinstance(value, str):
            raise GraphFormatError(self.at(name), f"str or null is needed, not {_kind(value)}")
        return value

    def text_if_there(self, name: str) -> str:
        return self.take(name, str) if name in self._left else ""

    def list_if_there(self, name: str) -> tuple[str, ...]:
        """Return a list of texts; empty if it is missing."""
        found = self.take(name, list) if name in self._left else []
        if not all(isinstance(text, str) for text in found):
            raise GraphFormatError(self.at(name), "must be a list of texts")
        return tuple(found)

    def number(self, name: str, least: int) -> int:
        value = self.take(name, int)
        if value < least:
            raise GraphFormatError(self.at(name), f"must be at least {least}, is {value}")
        return value

    def texts(self, name: str) -> Mapping[str, str]:
        value = self.take(name, dict)
        for key, text in value.items():
            if not isinstance(key, str) or not isinstance(text, str):
                raise GraphFormatError(f"{self.at(name)}.{key}", f"str is needed, not {_kind(text)}")
        return dict(value)

    def pairs_if_there(self, name: str) -> tuple[tuple[str, str], ...]:
        """Return pairs of texts; none if the field is missing, as in graphs of earlier versions."""
        pairs = []
        for index, pair in enumerate(self.take(name, list) if name in self._left else ()):
            if not isinstance(pair, list) or [type(text) for text in pair] != [str, str]:
                raise GraphFormatError(f"{self.at(name)}[{index}]", "a pair of texts is needed")
            pairs.append((pair[0], pair[1]))
        return tuple(pairs)

    def items(self, name: str, read: Callable[[_Fields], T]) -> tuple[T, ...]:
        made = []
        for index, item in enumerate(self.take(name, list)):
            fields = _Fields(item, f"{self.at(name)}[{index}]")
            made.append(read(fields))
            fields.end()
        return tuple(made)

    def part_if_there(self, name: str, read: Callable[[_Fields], T]) -> T | None:
        """Return an object in a field; None if it is null or missing, as in graphs of earlier versions."""
        value = self._left.pop(name, None)
        if value is None:
            return None
        fields = _Fields(value, self.at(name))
        made = read(fields)
        fields.end()
        return made

    def flag(self, name: str) -> bool:
        value = self.raw(name)
        if not isinstance(value, bool):
            raise GraphFormatError(self.at(name), f"bool is needed, not {_kind(value)}")
        return value

    def decoded(self, name: str, text: str, decode: Callable[[str], T], what: str) -> T:
        try:
            return decode(text)
        except (ValueError, RecursionError):
            raise GraphFormatError(self.at(name), f"{text[:80]!r} is not {what}") from None

    def bytes(self, name: str) -> bytes:
        return self.decoded(name, self.take(name, str), _from_base64, "base64")

    def type(self, name: str) -> TypeInformation | None:
        text = self.optional_text(name)
        return None if text is None else self.decoded(name, text, parse_type, "a type")

    def end(self) -> None:
        if self._left:
            raise GraphFormatError(self.at(min(self._left)), "is not a field of a job graph")


def _vertex_from_json(fields: _Fields) -> JobVertex:
    return JobVertex(
        vertex_id=VertexId(_hex_id(fields, "vertex_id")),
        name=fields.take("name", str),
        parallelism=fields.number("parallelism", 1),
        max_parallelism=fields.number("max_parallelism", 1),
        slot_sharing_group=fields.take("slot_sharing_group", str),
        operators=fields.items("operators", _operator_from_json),
        chain_edges=fields.items("chain_edges", _chain_edge_from_json),
    )


def _operator_from_json(fields: _Fields) -> ChainedOperator:
    return ChainedOperator(
        operator_id=OperatorId(_hex_id(fields, "operator_id")),
        uid=fields.take("uid", str),
        name=fields.take("name", str),
        description=fields.take("description", str),
        factory=fields.bytes("factory"),
        output_type=fields.type("output_type"),
        # graphs of earlier versions are in databases
        key_type=fields.text_if_there("key_type"),
        window_type=fields.text_if_there("window_type"),
        state_content=fields.text_if_there("state_content"),
        state_parts=tuple(StatePart(*pair) for pair in fields.pairs_if_there("state_parts")),
        declared_states=fields.part_if_there("declared_states", _states_from_json),
        defined_at=fields.text_if_there("defined_at"),
        unread_columns=fields.list_if_there("unread_columns"),
    )


def _states_from_json(fields: _Fields) -> DeclaredStates:
    return DeclaredStates(fields.items("states", _state_from_json), fields.flag("is_complete"))


def _state_from_json(fields: _Fields) -> StateMeta:
    return StateMeta(
        name=fields.take("name", str),
        kind=fields.take("kind", str),
        serializer=fields.take("serializer", str),
        namespaced=fields.flag("namespaced"),
        has_ttl=fields.flag("has_ttl"),
        former=fields.list_if_there("former"),
    )


def _chain_edge_from_json(fields: _Fields) -> ChainEdge:
    return ChainEdge(
        source=fields.number("source", 0),
        target=fields.number("target", 0),
        input_index=fields.number("input_index", 0),
        side_output_tag=fields.optional_text("side_output_tag"),
    )


def _edge_from_json(fields: _Fields) -> JobEdge:
    partitioner = fields.optional_text("partitioner")
    return JobEdge(
        edge_id=fields.number("edge_id", 0),
        source=VertexId(_hex_id(fields, "source")),
        source_operator=fields.number("source_operator", 0),
        target=VertexId(_hex_id(fields, "target")),
        input_index=fields.number("input_index", 0),
        partitioning=fields.decoded(
            "partitioning", fields.take("partitioning", str), Partitioning, "a way of partitioning"
        ),
        partitioner=None if partitioner is None else fields.decoded("partitioner", partitioner, _from_base64, "base64"),
        side_output_tag=fields.optional_text("side_output_tag"),
        record_type=fields.type("record_type"),
        buffer_timeout_ms=fields.number("buffer_timeout_ms", -1),
    )


def _hex_id(fields: _Fields, name: str) -> str:
    text = fields.take(name, str)
    if len(text) != 32 or text.strip("0123456789abcdef"):
        raise GraphFormatError(fields.at(name), f"32 hex digits are needed, not {text[:80]!r}")
    return text


def _from_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__


def _check_references(graph: JobGraph) -> None:
    """Refuse edges that lead nowhere: the runtime indexes by them."""
    operators = {vertex.vertex_id: len(vertex.operators) for vertex in graph.vertices}
    if len(operators) != len(graph.vertices):
        raise GraphFormatError("vertices", "a vertex_id occurs twice")
    for index, vertex in enumerate(graph.vertices):
        if not vertex.operators:
            raise GraphFormatError(f"vertices[{index}].operators", "must not be empty")
        if any(max(edge.source, edge.target) >= len(vertex.operators) for edge in vertex.chain_edges):
            raise GraphFormatError(f"vertices[{index}].chain_edges", "an operator does not exist")
    if len({edge.edge_id for edge in graph.edges}) != len(graph.edges):
        raise GraphFormatError("edges", "an edge_id occurs twice")
    for index, edge in enumerate(graph.edges):
        if edge.source not in operators or edge.target not in operators:
            raise GraphFormatError(f"edges[{index}]", "leads from or to a vertex that does not exist")
        if edge.source_operator >= operators[edge.source]:
            raise GraphFormatError(f"edges[{index}].source_operator", "does not exist")
