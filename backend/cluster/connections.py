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


def lift_limits() -> None:
    """Let the calling thread's connection wait for locks and statements: a migration takes as long as it takes."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = 0")
            cursor.execute("SET statement_timeout = 0")


def limit_silence(limit_ms: float) -> None:
    """Have the database roll back the calling thread's transaction if it hears nothing from it for that time.

    SQLite cannot: its lock belongs to the process.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL idle_in_transaction_session_timeout = {round(limit_ms)}")
