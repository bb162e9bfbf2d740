"""Database connections of threads that need one now and then: taken for a piece of work, and closed behind it.

A thread that waits for minutes must not hold a connection meanwhile, which the server may end, nor leave one behind
when it ends itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import close_old_connections, connection


@contextmanager
def brief_connection() -> Iterator[None]:
    """The calling thread's connection, new and for the block only; within a transaction the one that it has."""
    if connection.in_atomic_block:
        yield
        return
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


@contextmanager
def without_connection() -> Iterator[None]:
    """None is held for the block; within a transaction the one that it has stays."""
    if not connection.in_atomic_block:
        connection.close()
    yield
