"""Hints of the jobmanager, as the connections of a process hear them: over a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import redis
from channels.layers import get_channel_layer

from backend.live.hints import Hints

pytestmark = pytest.mark.usefixtures("bus_redis")

JOB = f"job:{'a' * 32}"
VERTEX = f"{JOB}/vertex:{'b' * 32}"
Heard = list[tuple[str, int]]


@pytest.fixture
async def hints(bus_redis: redis.Redis) -> AsyncIterator[Hints]:
    layer: Any = get_channel_layer()
    yield Hints()
    await layer.close_pools()


def into(heard: Heard) -> Callable[[str, int], None]:
    return lambda topic, version: heard.append((topic, version))


async def announce(topic: str, version: int) -> None:
    layer: Any = get_channel_layer()
    await layer.group_send(topic.replace(":", "."), {"type": "live.changed", "topic": topic, "version": version})


async def until(heard: Heard, expected: Heard) -> None:
    async with asyncio.timeout(5):
        while heard != expected:
            await asyncio.sleep(0.01)


async def test_all_who_follow_a_part_of_a_document_hear_its_hints(hints: Hints, bus_redis: redis.Redis) -> None:
    heard: list[Heard] = [[] for _ in range(50)]
    hears = [into(each) for each in heard]
    for number, hear in enumerate(hears):
        await hints.hear(VERTEX if number % 2 else JOB, hear)
    # one channel of the process, not one for each connection
    [group] = [key for key in bus_redis.scan_iter() if "group" in key and "job." in key]
    assert bus_redis.zcard(group) == 1
    await announce(JOB, 7)
    for each in heard:
        await until(each, [(JOB, 7)])
    for hear in hears:
        await hints.leave(JOB, hear)
    assert not bus_redis.exists(group)


async def test_one_who_leaves_takes_the_hints_from_nobody_else(hints: Hints) -> None:
    stays: Heard = []
    leaves: Heard = []
    hear, other = into(stays), into(leaves)
    await hints.hear(JOB, hear)
    await hints.hear("cluster", hear)
    await hints.hear(JOB, other)
    hints.forget(other)
    await announce(JOB, 1)
    await announce("cluster", 2)
    await until(stays, [(JOB, 1), ("cluster", 2)])
    assert leaves == []
    hints.forget(hear)


async def test_a_topic_that_was_left_can_be_followed_again(hints: Hints) -> None:
    heard: Heard = []
    hear = into(heard)
    await hints.hear(JOB, hear)
    leaving = asyncio.create_task(hints.leave(JOB, hear))
    await asyncio.sleep(0)
    await hints.hear(JOB, hear)
    await leaving
    await announce(JOB, 3)
    await until(heard, [(JOB, 3)])
    await hints.leave(JOB, hear)


async def test_a_redis_that_does_not_answer_delays_a_connection_by_a_second_at_most(
    hints: Hints, frozen: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.live.hints.LAYER_TIMEOUT_S", 0.1)
    monkeypatch.setattr("backend.live.hints.RENEW_S", 0.05)
    heard: Heard = []
    hear = into(heard)
    with frozen():
        await hints.hear(JOB, hear)
    async with asyncio.timeout(10):
        # joined once it answers again
        while JOB not in hints._joined:
            await asyncio.sleep(0.01)
    await announce(JOB, 4)
    await until(heard, [(JOB, 4)])
    await hints.leave(JOB, hear)
