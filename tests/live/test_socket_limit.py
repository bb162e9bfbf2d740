"""How many WebSockets a user may have open: over web processes, after crashes, and without Redis."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import redis
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth.models import User
from pytest_django import Settings

from backend.cluster import bus
from backend.live.open_sockets import OpenSockets
from backend.live.socket_limit import CLOSE_TOO_MANY, SocketLimit
from tests.support.waiting import wait_until

ALICE, BOB = 1, 2


def test_web_processes_count_together_and_each_user_alone(bus_redis: redis.Redis) -> None:
    one, other = OpenSockets(), OpenSockets()
    assert one.take(ALICE, "a", 2)
    assert other.take(ALICE, "b", 2)
    assert not one.take(ALICE, "c", 2) and not other.take(ALICE, "c", 2)
    assert other.take(BOB, "d", 2)
    one.release(ALICE, "a")
    assert other.take(ALICE, "c", 2)
    assert 0 < bus_redis.pttl(bus.SOCKETS_KEY.format(ALICE)) <= 90_000


def test_sockets_of_a_process_that_was_killed_are_forgotten_and_open_ones_are_not(bus_redis: redis.Redis) -> None:
    lives, killed = OpenSockets(lease_s=0.5), OpenSockets(lease_s=0.5)
    assert lives.take(ALICE, "a", 2) and killed.take(ALICE, "b", 2)

    def taken_by_another() -> bool:
        lives.renew(ALICE, "a")
        return OpenSockets(lease_s=0.5).take(ALICE, "c", 2)

    assert not taken_by_another()
    wait_until(taken_by_another, 10, "the lease of the killed process ends")
    lives.renew(ALICE, "a")
    assert not OpenSockets().take(ALICE, "d", 2)


def test_leases_from_before_the_clock_was_set_back_do_not_lock_out_for_as_long(bus_redis: redis.Redis) -> None:
    lives = OpenSockets()
    assert lives.take(ALICE, "a", 2)
    key = bus.SOCKETS_KEY.format(ALICE)
    ends = bus_redis.zscore(key, "a")
    assert isinstance(ends, float)
    bus_redis.zadd(key, {"killed": ends + 3_600_000})
    assert OpenSockets().take(ALICE, "b", 2)
    assert not OpenSockets().take(ALICE, "c", 2)


def test_each_process_counts_its_own_while_redis_does_not_answer(
    bus_redis: redis.Redis, frozen: Callable[[], AbstractContextManager[None]]
) -> None:
    one, other = OpenSockets(), OpenSockets()
    assert one.take(ALICE, "a", 2)
    with frozen():
        assert one.take(ALICE, "b", 2)
        assert not one.take(ALICE, "c", 2)
        assert other.take(ALICE, "d", 2)
    # it has lost everything
    bus_redis.flushall()

    def renewed() -> bool:
        for socket in ("a", "b"):
            one.renew(ALICE, socket)
        return bool(bus_redis.zcard(bus.SOCKETS_KEY.format(ALICE)) == 2)

    wait_until(renewed, 10, "Redis is asked again")
    assert not one.take(ALICE, "e", 2) and not other.take(ALICE, "e", 2)


async def opened(limit: SocketLimit, user: User, **scope: Any) -> tuple[ApplicationCommunicator, dict[str, Any]]:
    """A connection to an application that accepts all, and the first answer."""
    talk = ApplicationCommunicator(limit, {"type": "websocket", "user": user, **scope})
    await talk.send_input({"type": "websocket.connect"})
    return talk, await talk.receive_output(10)


async def accepting(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    await receive()


async def test_one_socket_too_many_is_refused_until_another_one_is_closed(
    bus_redis: redis.Redis, settings: Settings
) -> None:
    settings.TIDEMARK_SOCKETS_PER_USER = 2
    limit, user = SocketLimit(accepting), User(pk=ALICE, username="alice")
    first, answer = await opened(limit, user)
    # an end that nobody holds is a connection that is lost
    _second, _ = await opened(limit, user)
    assert answer["type"] == "websocket.accept"
    refused, answer = await opened(limit, user, extensions={"websocket.http.response": {}})
    assert (answer["type"], answer["status"]) == ("websocket.http.response.start", 429)
    assert int(dict(answer["headers"])[b"retry-after"]) > 0
    [error] = json.loads((await refused.receive_output(10))["body"])["errors"]
    assert error["code"] == "too_many_sockets" and "You have 2 live connections open" in error["message"]
    await refused.wait()
    # an older server
    refused, answer = await opened(limit, user)
    assert answer == {"type": "websocket.close", "code": CLOSE_TOO_MANY}
    await refused.wait()
    _, answer = await opened(limit, User(pk=BOB, username="bob"))
    assert answer["type"] == "websocket.accept"
    await first.send_input({"type": "websocket.disconnect", "code": 1000})
    await first.wait(10)
    _, answer = await opened(limit, user)
    assert answer["type"] == "websocket.accept"


async def test_an_open_socket_keeps_its_lease(bus_redis: redis.Redis, settings: Settings) -> None:
    settings.TIDEMARK_SOCKETS_PER_USER = 1
    user = User(pk=ALICE, username="alice")
    _first, answer = await opened(SocketLimit(accepting, renew_s=0.05), user)
    assert answer["type"] == "websocket.accept"
    bus_redis.flushall()
    async with asyncio.timeout(10):
        while not bus_redis.exists(bus.SOCKETS_KEY.format(ALICE)):
            await asyncio.sleep(0.02)
    _, answer = await opened(SocketLimit(accepting), user)
    assert answer["type"] == "websocket.close"


async def test_an_application_that_fails_gives_its_lease_back(bus_redis: redis.Redis, settings: Settings) -> None:
    settings.TIDEMARK_SOCKETS_PER_USER = 1

    async def failing(scope: Any, receive: Any, send: Any) -> None:
        raise ZeroDivisionError

    scope = {"type": "websocket", "user": User(pk=ALICE, username="alice")}
    with pytest.raises(ZeroDivisionError):
        await ApplicationCommunicator(SocketLimit(failing), scope).wait(10)
    assert not bus_redis.exists(bus.SOCKETS_KEY.format(ALICE))
