"""Connections that wait for their clients have a time and a number; the clock is the test's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import uvicorn
from uvicorn.server import ServerState

from backend.config.patient_http import BODY_S, HEAD_S, LOOK_S, PatientHttp, WaitingConnections

LIMIT = 3


class Connection:
    def __init__(self) -> None:
        self.is_open = True
        self.is_paused = False

    def is_excused(self) -> bool:
        return self.is_paused

    def end(self) -> None:
        self.is_open = False


class World:
    """Connections, and a loop whose time is told."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self._calls: list[tuple[float, Callable[[], None]]] = []
        self.waiting = WaitingConnections(LIMIT, lambda: self.now_s, self._call_later)

    def _call_later(self, delay_s: float, function: Callable[[], None]) -> None:
        self._calls.append((self.now_s + delay_s, function))

    def pass_time(self, seconds: float) -> None:
        until = self.now_s + seconds
        while self._calls and min(self._calls, key=lambda call: call[0])[0] <= until:
            call = min(self._calls, key=lambda call: call[0])
            self._calls.remove(call)
            self.now_s = call[0]
            call[1]()
        self.now_s = until

    def waits(self, wait_s: float, connection: Connection | None = None) -> Connection:
        connection = connection or Connection()
        self.waiting.add(cast("PatientHttp", connection), wait_s)
        return connection

    def goes_on(self, connection: Connection) -> None:
        self.waiting.remove(cast("PatientHttp", connection))


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("wait_s", [HEAD_S, BODY_S])
def test_a_connection_that_says_nothing_is_closed(world: World, wait_s: float) -> None:
    connection = world.waits(wait_s)
    world.pass_time(wait_s - LOOK_S)
    assert connection.is_open
    world.pass_time(2 * LOOK_S)
    assert not connection.is_open and len(world.waiting) == 0


def test_a_head_is_closed_though_a_body_waits_longer_than_it(world: World) -> None:
    body = world.waits(BODY_S)
    world.pass_time(1.0)
    head = world.waits(HEAD_S)
    world.pass_time(HEAD_S + 2 * LOOK_S)
    assert body.is_open and not head.is_open


def test_a_body_that_comes_slowly_is_waited_for(world: World) -> None:
    connection = world.waits(BODY_S)
    for _ in range(10):
        world.pass_time(BODY_S - 2 * LOOK_S)
        world.waits(BODY_S, connection)
    assert connection.is_open


def test_a_client_that_may_not_send_is_waited_for(world: World) -> None:
    connection = world.waits(BODY_S)
    connection.is_paused = True
    world.pass_time(5 * BODY_S)
    assert connection.is_open
    connection.is_paused = False
    world.pass_time(BODY_S + 2 * LOOK_S)
    assert not connection.is_open


def test_what_is_answered_does_not_wait(world: World) -> None:
    connection = world.waits(HEAD_S)
    world.goes_on(connection)
    world.goes_on(connection)
    world.pass_time(10 * HEAD_S)
    assert connection.is_open


def test_the_one_that_has_waited_for_longest_makes_room(world: World) -> None:
    first, second, third = [world.waits(HEAD_S) for _ in range(LIMIT)]
    # a piece of its body has come
    world.waits(BODY_S, first)
    world.waits(HEAD_S)
    assert (first.is_open, second.is_open, third.is_open) == (True, False, True)
    assert len(world.waiting) == LIMIT


@asynccontextmanager
async def serving(application: Any, made: list[PatientHttp]) -> AsyncIterator[tuple[str, int]]:
    """Serve an application; its connections are added to `made`."""
    config = uvicorn.Config(application, lifespan="off", log_config=None)
    config.load()

    def connection() -> PatientHttp:
        made.append(PatientHttp(config=config, server_state=ServerState(), app_state={}))
        return made[-1]

    server = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_client_that_takes_no_answer_is_waited_for_as_long_as_it_takes_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = WaitingConnections(10)
    monkeypatch.setattr("backend.config.patient_http.WAITING", waiting)
    made: list[PatientHttp] = []
    pieces = 64

    async def application(scope: object, receive: object, send: Callable[[object], Awaitable[None]]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(pieces):
            await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": number < pieces - 1})

    async with serving(application, made) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: bool(made) and made[0].flow.write_paused)
        assert len(waiting) == 1
        # the first look is where it begins
        assert made[0].is_excused() and not made[0].is_excused()
        left = made[0].transport.get_write_buffer_size()
        await reader.readexactly(pieces // 2 << 20)
        await until(lambda: 0 < made[0].transport.get_write_buffer_size() != left or not made[0].flow.write_paused)
        await reader.readexactly(pieces // 2 << 20)
        await until(lambda: made[0].cycle.response_complete and not made[0].flow.write_paused)
        assert not made[0].is_excused()
        made[0].end()
        await until(lambda: len(waiting) == 0)
        writer.close()


async def test_the_request_that_is_answered_hears_that_its_client_is_gone() -> None:
    """Not only the last one that has come."""
    made: list[PatientHttp] = []
    heard: list[str] = []

    async def application(scope: Any, receive: Callable[[], Awaitable[dict[str, Any]]], send: object) -> None:
        await receive()
        heard.append(f"{scope['path']} {(await receive())['type']}")

    async with serving(application, made) as address:
        _, writer = await asyncio.open_connection(*address)
        writer.write(b"GET /first HTTP/1.1\r\nHost: x\r\n\r\nGET /second HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: bool(made) and bool(made[0].pipeline))
        writer.close()
        await until(lambda: bool(heard))
    assert heard == ["/first http.disconnect"]
