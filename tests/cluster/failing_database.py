"""A database that fails at one call, or from one on: a statement or a COMMIT, before or after it is carried out."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import OperationalError, connection


class Loss(enum.Enum):
    """Fate of a call."""

    REQUEST = "it is not carried out"
    ANSWER = "it is carried out, and nobody hears so"


@dataclass
class FailingDatabase:
    """Fails once, or for as long as it is in use.

    Args:
        nth: the call that fails; from 1.
        loss: how.
        is_away: whether all later calls fail, too.
    """

    nth: int
    loss: Loss
    is_away: bool = False
    calls: int = 0
    failed: str = ""
    """The call that has failed; empty: none yet."""

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Count the calls of this thread, while the block lasts."""
        with calls_pass(self._call):
            yield

    def _call(self, what: str, carry_out: Callable[[], Any]) -> Any:
        self.calls += 1
        if self.calls != self.nth and not (self.is_away and self.calls > self.nth):
            return carry_out()
        self.failed = what
        # a transaction that has begun ends with its connection, which this one outlives
        if self.loss is Loss.ANSWER and not what.startswith("BEGIN"):
            carry_out()
        raise OperationalError(f"the connection is lost: {what}")


@contextmanager
def calls_pass(handler: Callable[[str, Callable[[], Any]], Any]) -> Iterator[None]:
    """Have every call of this thread to the database pass through a handler, while the block lasts.

    Args:
        handler: given the statement, or "COMMIT", and what carries it out; returns its result.
    """
    # Django's own COMMIT is no statement that a wrapper sees
    database: Any = connection
    commit = database._commit

    def execute(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        return handler(sql, lambda: execute(sql, params, many, context))

    database._commit = lambda: handler("COMMIT", commit)
    try:
        with database.execute_wrapper(execute):
            yield
    finally:
        del database._commit
