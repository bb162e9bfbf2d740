"""What is found out about a document by running its program: tests, plan, columns, and who would notice a renaming."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from backend.dispatcher.answers.jobs import Plan
from backend.pipelines.answers.problems import Problem


class TestsRequest(TypedDict):
    document: dict[str, Any]
    only: NotRequired[list[str]]
    """Names of tests; default: all."""


class TestRow(TypedDict):
    state: Literal["same", "missing", "unexpected"]
    row: Any
    """As it was expected; an unexpected one as it came."""


class TestPlace(TypedDict):
    node: str
    port: str
    rows: list[TestRow]


class TestResult(TypedDict):
    name: str
    passed: bool
    message: str
    """Why it could not be judged."""
    node: str | None
    """At which it failed, if that is known."""
    places: list[TestPlace]
    output: str
    """What the program has printed, its end."""


class TestsAnswer(TypedDict):
    results: list[TestResult]


class DraftPlanAnswer(TypedDict):
    plan: Plan | None
    """null: there is none, see `message` and `problems`."""
    nodes: dict[str, list[str]]
    """Job vertex → nodes of the pipeline that it runs, first to last."""
    warnings: list[str]
    message: str
    """Why the program defines no job."""
    problems: list[Problem]


class ReadSchemaRequest(TypedDict):
    document: dict[str, Any]
    node: str


class ReadSchemaAnswer(TypedDict):
    """The columns of what a node reads rows of."""

    origin: str
    """What was looked at: a file, or a table of a connection."""
    field: str
    """JSON pointer, below the node, of the parameter that declares the columns."""
    row: str
    columns: list[list[str]]
    """[name, type] of each."""
    fingerprint: str
    read_at: int
    """Milliseconds since the epoch."""


class RenameRequest(TypedDict):
    document: dict[str, Any]
    node: str
    port: str
    column: str
    to: str


class RenameAnswer(TypedDict):
    patch: list[dict[str, Any]]
    """RFC 6902, of the document."""
    nodes: list[str]
    """That it changes, the one that names the column first."""
    by_hand: list[str]
    """Nodes below with Python that may use the old name."""
