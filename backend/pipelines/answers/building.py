"""What the editor asks of a document while it is built, and of the catalog of nodes."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from backend.pipelines.answers.problems import Problem


class DocumentBody(TypedDict):
    document: dict[str, Any]


class ValidateBody(DocumentBody):
    known: NotRequired[str]
    """Tag of an earlier answer that the client still has."""


class Column(TypedDict):
    name: str
    type: str
    dtype: str
    """Of Polars."""


class Facts(TypedDict):
    """Describes the stream that leaves a port."""

    columns: list[Column] | None
    """null: Python objects."""
    changelog: Literal["append", "retract"]
    unique_key: list[str] | None
    event_time: bool
    watermarks: bool
    time_column: str | None
    bounded: bool
    origin: dict[str, list[str]]
    """Column → [node, column] that it comes from."""


class NodePort(TypedDict):
    name: str
    label: str
    many: bool
    help: str
    takes_changelogs: bool
    """Of an input: whether it takes streams whose rows take earlier ones back."""
    changelog_option: str
    """What to set so that an input which does not take them does; "" = nothing."""


class NodePorts(TypedDict):
    inputs: list[NodePort]
    outputs: list[NodePort]


class ValidationAnswer(TypedDict):
    tag: str
    """Of this answer."""
    since: str | None
    """Tag of the earlier answer that said the same of all nodes that are not in `ports`; null: all nodes are in it."""
    semantic_hash: str
    is_deployable: bool
    problems: list[Problem]
    facts: dict[str, dict[str, Facts | None]]
    """Node → output port → facts; null: not known yet."""
    ports: dict[str, NodePorts]
    labels: dict[str, str]
    """Node → one line of what it does, from its parameters; "" if its type has none."""
    inactive: list[str]
    """Nodes that are disabled, or get nothing because nodes above them are."""


class ProgramLines(TypedDict):
    node: str | None
    """null: the pipeline's shared code."""
    first: int
    last: int
    code_line: int | None
    """Line of the node's own Python that `first` is; null: the lines are generated."""


class ProgramAnswer(TypedDict):
    source: str
    lines: list[ProgramLines]
    is_deployable: bool
    problems: list[Problem]
    semantic_hash: str


class Template(TypedDict):
    id: str
    name: str
    description: list[str]
    """Its story, in lines."""
    document: dict[str, Any]


class TemplatesAnswer(TypedDict):
    templates: list[Template]


class NodeExample(TypedDict):
    title: str
    params: dict[str, Any]


class NodeType(TypedDict):
    type: str
    version: int
    title: str
    summary: str
    icon: str
    category: str
    keywords: list[str]
    docs: str
    schema: dict[str, Any]
    """JSON Schema of its parameters, with hints for the form."""
    ports: NodePorts
    examples: list[NodeExample]
    is_parallel: bool
    has_operator: bool
    """Whether parallelism, chaining and slot group are for the document to say."""
    is_sink: bool
    reads_schema: bool
    """Whether its columns can be read from what it reads: files, or a table."""


class BrokenNodeType(TypedDict):
    name: str
    traceback: str


class SqlFunction(TypedDict):
    """A function of SQL expressions."""

    name: str
    detail: str
    """What it takes and gives: "(x: number) → DOUBLE"."""
    is_aggregate: bool


class CatalogAnswer(TypedDict):
    types: list[NodeType]
    broken: list[BrokenNodeType]
    functions: list[SqlFunction]
    etag: str
