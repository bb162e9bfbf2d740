"""What another process does between two reads of the database, for tests of readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection


@contextmanager
def after_read(number: int, table: str, act: Callable[[], object]) -> Iterator[None]:
    """Act when the query has been made that is the first, second, … of a table in the block."""
    seen = 0

    def execute(run: Callable[..., Any], sql: str, *arguments: Any) -> Any:
        nonlocal seen
        result = run(sql, *arguments)
        if sql.startswith("SELECT") and f'FROM "{table}"' in sql:
            seen += 1
            if seen == number:
                act()
        return result

    with connection.execute_wrapper(execute):
        yield
    assert seen >= number
