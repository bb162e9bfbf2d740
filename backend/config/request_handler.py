"""Django's end of HTTP: all of a request runs in one thread, its middleware and its view, and the thread is used again.

Views and middleware here are synchronous. Django's own handler calls each of them from the event loop, hands every
request back and forth between threads about twenty times, and starts a thread and opens a connection to the database
for each: more work than the answer to most of them. Used by the event loop's thread only.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import django
from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.db import connection, connections

MAX_IDLE_THREADS: Final = 32
"""Each has a connection to SQLite open. Fewer: a page that asks for much at once starts threads again and again."""


class RequestThreads:
    """Threads for requests, each for one at a time. There are as many as requests: some take a minute."""

    def __init__(self) -> None:
        self._idle: list[ThreadPoolExecutor] = []

    @contextmanager
    def one(self) -> Iterator[ThreadPoolExecutor]:
        """Lend a thread for the block."""
        # the one that was used last
        thread = self._idle.pop() if self._idle else ThreadPoolExecutor(1, "request", initializer=_keep_connection)
        try:
            yield thread
        finally:
            if len(self._idle) < MAX_IDLE_THREADS:
                self._idle.append(thread)
            else:
                _end(thread)

    def close(self) -> None:
        """End those that are idle."""
        while self._idle:
            _end(self._idle.pop())


def _keep_connection() -> None:
    """Keep this thread's connection from one request to the next if that costs no server anything."""
    if connection.vendor == "sqlite":
        connection.settings_dict = connection.settings_dict | {"CONN_MAX_AGE": None}


def _end(thread: ThreadPoolExecutor) -> None:
    thread.submit(connections.close_all)
    thread.shutdown(wait=False)


class OneThreadHandler(ASGIHandler):
    """Implements ASGI for HTTP."""

    def __init__(self) -> None:
        self.threads = RequestThreads()
        super().__init__()

    def load_middleware(self, is_async: bool = False) -> None:
        """Make the chain that ends with the view, and the one step into a thread that leads there."""
        super().load_middleware(is_async=False)
        self._middleware_chain: Any = sync_to_async(self._middleware_chain, thread_sensitive=True)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        with self.threads.one() as thread:
            async with ThreadSensitiveContext(executor=thread):
                await self.handle(scope, receive, send)


def http_application() -> OneThreadHandler:
    """Set Django up, and return its application for HTTP."""
    django.setup(set_prefix=False)
    return OneThreadHandler()
