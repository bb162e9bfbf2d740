"""Database connections of threads that need one occasionally: opened for a piece of work and closed after it.

A thread that waits for minutes must not hold a connection meanwhile, which the server may close, and must not leave one
open when it ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import close_old_connections, connection


@contextmanager
def brief_connection() -> Iterator[None]:
    """Give the calling thread a new connection for the block; within a transaction keep its connection."""
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
    """Close the calling thread's connection for the block; within a transaction keep it."""
    if not connection.in_atomic_block:
        connection.close()
    yield
