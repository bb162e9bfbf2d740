"""Errors of programs, in words that name the user's operators."""

from __future__ import annotations

from collections.abc import Sequence


class GraphError(ValueError):
    """The program cannot be turned into a job; the user has to change it.

    Attributes:
        operators: names of the operators concerned, as plans show them; empty if it concerns the whole program.
    """

    def __init__(self, message: str, operators: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.operators = tuple(operators)
