"""Problems of a pipeline: what is wrong, where, and what would mend it. The codes are a closed list.

Plain values, made by `runtime.pipeline.validate` and by node types; `docs/pipelines.md` describes every code.
"""

from __future__ import annotations

import difflib
import enum
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runtime.pipeline.identifiers import identifier


class Severity(enum.Enum):
    """How bad a problem is. Errors and unfinished parts keep a pipeline from being deployed."""

    ERROR = "error"
    INCOMPLETE = "incomplete"
    WARNING = "warning"
    INFO = "info"


class Code(enum.Enum):
    """What is wrong. The value is the code in JSON and the anchor in the documentation."""

    # unfinished
    EMPTY = "empty"
    NOT_CONNECTED = "not-connected"
    MISSING_PARAM = "missing-param"
    # parameters
    BAD_PARAM = "bad-param"
    NAME_TAKEN = "name-taken"
    UID_TAKEN = "uid-taken"
    NOT_PARALLEL = "not-parallel"
    OPTION_IGNORED = "option-ignored"
    NOT_IN_MICRO_BATCHES = "not-in-micro-batches"
    PARAMETER_MISSING = "parameter-missing"
    # types
    UNKNOWN_COLUMN = "unknown-column"
    NOT_A_CONDITION = "not-a-condition"
    BAD_EXPRESSION = "bad-expression"
    TYPE_MISMATCH = "type-mismatch"
    NO_COLUMNS = "no-columns"
    # time
    NO_EVENT_TIME = "no-event-time"
    NO_WATERMARKS = "no-watermarks"
    # changelogs
    SINK_TAKES_APPENDS_ONLY = "sink-takes-appends-only"
    NEEDS_APPENDS = "needs-appends"
    UPSERT_KEY_MISSING = "upsert-key-missing"
    CHANGES_OUT_OF_ORDER = "changes-out-of-order"
    # state
    GROWS_WITHOUT_BOUND = "grows-without-bound"
    # delivery
    EXACTLY_ONCE_WITHOUT_CHECKPOINTS = "exactly-once-without-checkpoints"
    AT_LEAST_ONCE_SINK = "at-least-once-sink"
    # Python
    SYNTAX = "syntax"
    UNDEFINED_NAME = "undefined-name"
    NAME_DEFINED_TWICE = "name-defined-twice"
    # the graph
    CYCLE = "cycle"
    PORT_MISSING = "port-missing"
    DUPLICATE_INPUT = "duplicate-input"
    DISABLED_UPSTREAM = "disabled-upstream"
    # plug-ins
    NODE_TYPE_MISSING = "node-type-missing"
    NODE_TYPE_BROKEN = "node-type-broken"
    NODE_TYPE_NEWER = "node-type-newer"


_SEVERITIES = {
    Code.EMPTY: Severity.INCOMPLETE,
    Code.NOT_CONNECTED: Severity.INCOMPLETE,
    Code.MISSING_PARAM: Severity.INCOMPLETE,
    Code.OPTION_IGNORED: Severity.WARNING,
    Code.GROWS_WITHOUT_BOUND: Severity.WARNING,
    Code.EXACTLY_ONCE_WITHOUT_CHECKPOINTS: Severity.WARNING,
    Code.AT_LEAST_ONCE_SINK: Severity.INFO,
    Code.DISABLED_UPSTREAM: Severity.INFO,
    Code.NODE_TYPE_NEWER: Severity.INFO,
}


@dataclass(frozen=True, slots=True)
class Fix:
    """A change of the document that would mend a problem."""

    title: str
    patch: tuple[Mapping[str, Any], ...]
    """RFC 6902; a node's type gives paths below the node: "/params/condition"."""

    def at(self, node: str) -> Fix:
        """Return the fix with the paths of a node as those of the document."""
        return Fix(self.title, tuple({**step, "path": _in_document(step["path"], node)} for step in self.patch))


def _in_document(path: str, node: str) -> str:
    return path if path.startswith(("/nodes/", "/edges/")) else f"/nodes/{node}{path}"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a node, or with the whole pipeline."""

    code: Code
    message: str
    node: str | None = None
    port: str | None = None
    field: str | None = None
    """JSON pointer below the node: "/params/aggregates/0/1"."""
    span: tuple[int, int] | None = None
    """Offsets in the field's text, from and to."""
    hint: str = ""
    fixes: tuple[Fix, ...] = ()
    related: tuple[tuple[str, str], ...] = ()
    """(node, field) of other places that have to do with it."""

    @property
    def severity(self) -> Severity:
        return _SEVERITIES.get(self.code, Severity.ERROR)

    @property
    def is_blocking(self) -> bool:
        """Return whether the pipeline cannot be deployed with it."""
        return self.severity in (Severity.ERROR, Severity.INCOMPLETE)

    @property
    def problem_id(self) -> str:
        """Return an id that stays the same while the problem does."""
        text = json.dumps([self.code.value, self.node, self.port, self.field, self.span, self.message])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def at(self, node: str) -> Problem:
        """Return the problem as one of a node; its fixes become changes of the document."""
        return replace(self, node=node, fixes=tuple(fix.at(node) for fix in self.fixes))

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.problem_id,
            "node": self.node,
            "port": self.port,
            "field": self.field,
            "span": None if self.span is None else list(self.span),
            "severity": self.severity.value,
            "code": self.code.value,
            "message": self.message,
            "hint": self.hint,
            "fixes": [{"title": fix.title, "patch": list(fix.patch)} for fix in self.fixes],
            "related": [{"node": node, "field": field} for node, field in self.related],
        }


def unknown_column(
    name: str, pointer: str, columns: Sequence[str], text: str = "", span: tuple[int, int] | None = None
) -> Problem:
    """Return the problem of a column that is not there, with names that may be meant.

    Args:
        name: that is not there.
        pointer: of the field.
        columns: that are there.
        text: of the field, if it is more than the name.
        span: of the name in it.
    """
    fixes = []
    for close in difflib.get_close_matches(name, columns, 2, 0.6):
        value = close if span is None else text[: span[0]] + identifier(close) + text[span[1] :]
        fixes.append(Fix(f"Use {close}", ({"op": "replace", "path": pointer, "value": value},)))
    known = ", ".join(columns[:12]) + (", …" if len(columns) > 12 else "")
    message, hint = f"there is no column {name!r}", f"The columns are {known}."
    return Problem(Code.UNKNOWN_COLUMN, message, field=pointer, span=span, hint=hint, fixes=tuple(fixes))


class NodeProblem(Exception):
    """Ends the inference of a node: nothing is known of its outputs.

    Attributes:
        problems: at least one.
    """

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems: Sequence[Problem] = problems
