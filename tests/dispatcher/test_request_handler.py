"""Django's end of HTTP: threads of requests, and their connections."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.urls import path
from pytest_django import Settings

from backend.config import request_handler
from backend.config.request_handler import OneThreadHandler
from backend.dispatcher.presence import ClientWatch, has_left
from tests.support.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

seen: list[tuple[str, int, object]] = []
#: holds up the view that waits
meeting = threading.Barrier(3)
has_begun, is_released = threading.Event(), threading.Event()


class SeesThread:
    """Middleware that notes its thread."""

    def __init__(self, get_response: Any) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        seen.append(("middleware", threading.get_ident(), None))
        response: HttpResponse = self._get_response(request)
        return response


def quick(_: HttpRequest) -> HttpResponse:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    seen.append(("view", threading.get_ident(), connection.connection))
    return HttpResponse("quick")


def waits(_: HttpRequest) -> HttpResponse:
    meeting.wait(30)
    return HttpResponse("met")


def held(_: HttpRequest) -> HttpResponse:
    has_begun.set()
    is_released.wait(30)
    return HttpResponse("released")


def told(request: HttpRequest, name: str) -> HttpResponse:
    assert request.resolver_match is not None
    return HttpResponse(f"{request.resolver_match.route} {name}")


def left(request: HttpRequest) -> HttpResponse:
    has_begun.set()
    wait_until(has_left(request), 30, "the client has left")
    return HttpResponse("left")


urlpatterns = [
    path("left", left),
    path("told/<str:name>", told),
    path("quick", quick),
    path("waits", waits),
    path("held", held),
]


@pytest.fixture
def handler(settings: Settings) -> Iterator[OneThreadHandler]:
    settings.ROOT_URLCONF = __name__
    settings.MIDDLEWARE = ["django.middleware.common.CommonMiddleware", f"{__name__}.SeesThread"]
    seen.clear()
    has_begun.clear()
    before = set(threading.enumerate())
    handler = OneThreadHandler()
    yield handler
    handler.threads.close()
    wait_until(lambda: not set(threading.enumerate()) - before, 10, "the end of the threads")


async def asked(handler: OneThreadHandler | ClientWatch, of: str) -> ApplicationCommunicator:
    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "method": "GET", "path": of, "query_string": b"", "headers": headers}
    talk = ApplicationCommunicator(handler, scope)
    await talk.send_input({"type": "http.request", "body": b"", "more_body": False})
    return talk


async def get(handler: OneThreadHandler, of: str) -> bytes:
    talk = await asked(handler, of)
    start = await talk.receive_output(30)
    body: bytes = (await talk.receive_output(30))["body"]
    await talk.wait(30)
    assert start["status"] == 200
    return body


async def test_a_request_and_the_next_one_run_in_one_thread_with_one_connection(handler: OneThreadHandler) -> None:
    for _ in range(3):
        assert await get(handler, "/quick") == b"quick"
    assert [name for name, *_ in seen] == ["middleware", "view"] * 3
    assert len({thread for _, thread, _ in seen}) == 1
    assert seen[0][1] != threading.get_ident()
    if connection.vendor == "sqlite":
        assert len({id(used) for name, _, used in seen if name == "view"}) == 1


async def test_requests_at_the_same_time_do_not_wait_for_each_other(handler: OneThreadHandler) -> None:
    assert await asyncio.gather(*(get(handler, "/waits") for _ in range(3))) == [b"met"] * 3


async def test_a_request_does_not_wait_for_one_whose_client_has_left(handler: OneThreadHandler) -> None:
    is_released.clear()
    talk = await asked(handler, "/held")
    await asyncio.to_thread(has_begun.wait, 30)
    await talk.send_input({"type": "http.disconnect"})
    try:
        assert await get(handler, "/quick") == b"quick"
    finally:
        is_released.set()
    # the thread is lent until the view has ended
    await talk.wait(30)


async def test_a_view_that_lasts_is_told_that_its_client_has_left(handler: OneThreadHandler) -> None:
    talk = await asked(ClientWatch(handler), "/left")
    await asyncio.to_thread(has_begun.wait, 30)
    await talk.send_input({"type": "http.disconnect"})
    await talk.wait(30)


async def test_a_path_leads_to_its_own_view_however_often_and_however_long(handler: OneThreadHandler) -> None:
    for name in ("a", "b", "a", "a" * request_handler.MAX_KNOWN_PATH_CHARS, "b"):
        assert await get(handler, f"/told/{name}") == f"told/<str:name> {name}".encode()


async def test_a_path_that_leads_nowhere_is_told_so_each_time(handler: OneThreadHandler) -> None:
    for _ in range(2):
        talk = await asked(handler, "/nowhere")
        assert (await talk.receive_output(30))["status"] == 404
        await talk.receive_output(30)
        await talk.wait(30)


async def test_of_many_threads_a_few_are_kept(handler: OneThreadHandler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_handler, "MAX_IDLE_THREADS", 1)
    before = threading.active_count()
    await asyncio.gather(*(get(handler, "/waits") for _ in range(3)))
    wait_until(lambda: threading.active_count() <= before + 1, 10, "the end of threads")
