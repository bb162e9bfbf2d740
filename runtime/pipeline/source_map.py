"""Which lines of a generated program belong to which node. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of a program that a node has made; numbers begin with 1, the last one is included."""

    node: str | None
    """None: the pipeline's shared code."""
    first: int
    last: int
    code_line: int | None = None
    """The line of the node's own Python that `first` is; None: the lines are generated."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a line of a program is."""

    node: str | None
    code_line: int | None
    """The line of the node's own Python, from 1; None: the line is generated."""


@dataclass(frozen=True, slots=True)
class SourceMap:
    """Lines of a program, by node, in order and without overlap."""

    statements: Sequence[Lines]

    def at(self, line: int) -> Place | None:
        """Return what a line is; None if it belongs to no node."""
        for lines in self.statements:
            if lines.first <= line <= lines.last:
                code_line = None if lines.code_line is None else lines.code_line + line - lines.first
                return Place(lines.node, code_line)
        return None

    def at_definition(self, defined_at: str) -> Place | None:
        """Return what an operator's "file:line" is."""
        _, _, line = defined_at.rpartition(":")
        return self.at(int(line)) if line.isdigit() else None

    def to_json(self) -> list[dict[str, Any]]:
        return [
            {"node": lines.node, "first": lines.first, "last": lines.last, "code_line": lines.code_line}
            for lines in self.statements
        ]
