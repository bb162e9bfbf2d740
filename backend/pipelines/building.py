"""What runtime.pipeline says of a document: its problems, what flows at its ports, and its program. Any thread.

The catalog is loaded once by a process. One memo serves all validations, so that an edit costs the nodes below it.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from runtime.client.extract import ExtractedJob
from runtime.pipeline.catalog import Catalog, load_catalog
from runtime.pipeline.compile import Program, compile_pipeline
from runtime.pipeline.document import Document
from runtime.pipeline.facts import StreamFacts
from runtime.pipeline.node_type import Ports
from runtime.pipeline.validate import Facts, Memo, Validation, validate

MAX_TOLD: Final = 32
"""Answers to which later ones may refer; those of one edit after the other share most of what they hold."""


class _Told(NamedTuple):
    """Part of an answer that is about one node."""

    facts: Mapping[str, Facts]
    ports: Ports
    label: str


_memo = Memo()
#: by tag, the oldest first
_told: dict[str, dict[str, _Told]] = {}
#: a memo belongs to one thread at a time, as do the answers
_memo_lock = threading.Lock()


@cache
def catalog() -> Catalog:
    """Return the node types that are installed."""
    return load_catalog()


@cache
def catalog_json() -> tuple[Mapping[str, Any], str]:
    """Return the catalog for the page, and its ETag."""
    value = catalog().to_json()
    return value, str(value["etag"])


def validated(document: Document, known: str | None = None) -> dict[str, Any]:
    """Return what is known of a pipeline: see `backend.pipelines.answers.building.ValidationAnswer`.

    Args:
        document: the pipeline.
        known: tag of an earlier answer; nodes of which that said the same are left out.
    """
    with _memo_lock:
        found = validate(document, catalog(), _memo)
        nodes = _nodes(document, found)
        before = _told.get(known) if known is not None else None
        tag = uuid.uuid4().hex
        _told[tag] = nodes
        if len(_told) > MAX_TOLD:
            del _told[next(iter(_told))]
    told = nodes if before is None else {each: node for each, node in nodes.items() if before.get(each) != node}
    return {
        "tag": tag,
        "since": None if before is None else known,
        "semantic_hash": document.semantic_hash,
        "is_deployable": found.is_deployable,
        "problems": [problem.to_json() for problem in found.problems],
        "facts": {node_id: _facts_json(node.facts) for node_id, node in told.items()},
        "ports": {node_id: node.ports.to_json() for node_id, node in told.items()},
        "labels": {node_id: node.label for node_id, node in told.items()},
        "inactive": sorted(found.inactive),
    }


def compiled(document: Document, version: int | None = None) -> Program:
    """Return the program of a pipeline, with what is known of the pipeline.

    Args:
        document: the pipeline.
        version: its number, for the program's first line; None: it is not saved.
    """
    with _memo_lock:
        return compile_pipeline(document, catalog(), version=version, memo=_memo)


def connections_read(document: Document, program: Program, given: Collection[str] = ()) -> set[str]:
    """Return the names of the connections that a program reads from: those of its sources and look-ups.

    Args:
        document: the pipeline.
        program: what it was compiled to.
        given: nodes in whose place rows are given.
    """
    found: set[str] = set()
    for node_id in program.validation.complete(document):
        node_type = catalog().types[document.nodes[node_id].type]
        if not node_type.is_sink and node_id not in given:
            # with defaults, and values in place of the pipeline's parameters
            found.update(_connections_in(node_type.schema, program.validation.nodes[node_id].params))
    return found


def _connections_in(schema: Mapping[str, Any], value: Any) -> Iterator[str]:
    """Yield what fields for connections hold."""
    if schema.get("x-widget") == "connection" and isinstance(value, str):
        yield value
    if isinstance(value, Mapping):
        for name, field in schema.get("properties", {}).items():
            yield from _connections_in(field, value.get(name))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            fields = schema.get("prefixItems", ())
            field = fields[index] if index < len(fields) else schema.get("items")
            if isinstance(field, Mapping):
                yield from _connections_in(field, item)
    for branch in schema.get("oneOf", ()):
        yield from _connections_in(branch, value)


def _nodes(document: Document, found: Validation) -> dict[str, _Told]:
    facts: dict[str, dict[str, Facts]] = {node_id: {} for node_id in document.nodes}
    for (node_id, port), known in found.facts.items():
        facts[node_id][port] = known
    return {node_id: _Told(facts[node_id], found.ports[node_id], found.labels[node_id]) for node_id in document.nodes}


def _facts_json(facts: Mapping[str, Facts]) -> dict[str, Any]:
    return {port: known.to_json() if isinstance(known, StreamFacts) else None for port, known in facts.items()}


def program_json(document: Document, program: Program) -> dict[str, Any]:
    """Return a program with its problems: see `backend.pipelines.answers.building.ProgramAnswer`."""
    return {
        "source": program.source,
        "lines": program.source_map.to_json(),
        "is_deployable": program.is_deployable,
        "problems": [problem.to_json() for problem in program.problems],
        "semantic_hash": document.semantic_hash,
    }


def outputs_of(program: Program, extracted: ExtractedJob) -> dict[str, dict[str, list[dict[str, str]]]]:
    """Return node → output → what its stream is made of: see `backend.pipelines.answers.deployments.JobPipeline`.

    Args:
        program: the program.
        extracted: its job, with the program's streams.
    """
    found: dict[str, dict[str, list[dict[str, str]]]] = {}
    for (node, port), name in program.streams.items():
        if name in extracted.streams:
            found.setdefault(node, {})[port] = [output._asdict() for output in extracted.streams[name]]
    return found


def operators_of(program: Program, graph: Mapping[str, Any]) -> dict[str, str]:
    """Return operator id → node of a job graph that was made by a program.

    Args:
        program: the program.
        graph: its graph, as `runtime.graph.codec` has it.
    """
    found: dict[str, str] = {}
    for vertex in graph["vertices"]:
        for operator in vertex["operators"]:
            place = program.source_map.at_definition(operator.get("defined_at") or "")
            if place is not None and place.node is not None:
                found[operator["operator_id"]] = place.node
    return found
