"""Django's end of HTTP: all of a request runs in one thread, its middleware and its view, and the thread is used again.

Views and middleware here are synchronous. Django's own handler calls each of them from the event loop, hands every
request back and forth between threads about twenty times, and starts a thread and opens a connection to the database
for each: more work than the answer to most of them. Here the event loop reads the body, hands the request over once,
and sends what comes back. Used by the event loop's thread only, except for what says otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, NamedTuple

import django
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.db import connection, connections
from django.http import FileResponse, HttpRequest
from django.http.response import HttpResponseBase
from django.urls import ResolverMatch, get_resolver, set_script_prefix

MAX_IDLE_THREADS: Final = 32
"""Each has a connection to SQLite open. Fewer: a page that asks for much at once starts threads again and again."""
MAX_KNOWN_PATHS: Final = 1_000
"""Each takes about a KiB. Fewer: pages of many jobs have their paths looked up among all routes again and again."""
MAX_KNOWN_PATH_CHARS: Final = 200
WATCH_AFTER_S: Final = 0.2
"""A request lasts so long before anybody looks whether its client has left. Shorter: every request pays for that."""


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
        except BaseException:
            # it may still be at work: the next request would wait for that
            _end(thread)
            raise
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


class _Answer(NamedTuple):
    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes


class OneThreadHandler(ASGIHandler):
    """Implements ASGI for HTTP."""

    def __init__(self) -> None:
        self.threads = RequestThreads()
        #: the look-up goes through all routes, which takes a tenth of the time of a short answer
        self._known_paths = lru_cache(MAX_KNOWN_PATHS)(_match)
        super().__init__()

    def load_middleware(self, is_async: bool = False) -> None:
        """Make the chain that ends with the view, all of it for threads."""
        super().load_middleware(is_async=False)

    def resolve_request(self, request: HttpRequest) -> ResolverMatch:
        """Find the view of a request. In the thread of the request."""
        if len(request.path_info) > MAX_KNOWN_PATH_CHARS:
            return super().resolve_request(request)
        match = self._known_paths(request.path_info)
        request.resolver_match = match
        return match

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        with self.threads.one() as thread:
            loop = asyncio.get_running_loop()
            watch = _Watch(receive)
            begin = loop.call_later(WATCH_AFTER_S, watch.begin)
            try:
                answer = await loop.run_in_executor(thread, self._answer, scope, body)
            finally:
                begin.cancel()
                watch.end()
        await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
        await send({"type": "http.response.body", "body": answer.body})

    def _answer(self, scope: Any, body: Any) -> _Answer:
        """Return what comes of a request. In the thread of the request."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        try:
            request, refused = self.create_request(scope, body)
            response: Any = refused if request is None else self.get_response(request)
            response._handler_class = self.__class__
            if isinstance(response, FileResponse):
                response.block_size = self.chunk_size
            answer = _Answer(response.status_code, _headers(response), b"".join(response))
            # ends the request for Django, too
            response.close()
        finally:
            body.close()
        return answer


def _match(path: str) -> ResolverMatch:
    match = get_resolver().resolve(path)
    # all routes before it, for pages of errors that are not shown here
    match.tried = None
    return match


class _Watch:
    """Has it noted that the client of a request leaves: whoever made `receive` notes what comes of it."""

    def __init__(self, receive: Any) -> None:
        self._receive = receive
        self._task: asyncio.Task[Any] | None = None

    def begin(self) -> None:
        self._task = asyncio.ensure_future(self._receive())

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()


def _headers(response: HttpResponseBase) -> list[tuple[bytes, bytes]]:
    headers = [(name.encode("ascii"), value.encode("latin-1")) for name, value in response.items()]
    cookies = response.cookies.values()
    return headers + [(b"Set-Cookie", cookie.output(header="").encode("ascii").strip()) for cookie in cookies]


def http_application() -> OneThreadHandler:
    """Set Django up, and return its application for HTTP."""
    django.setup(set_prefix=False)
    return OneThreadHandler()
