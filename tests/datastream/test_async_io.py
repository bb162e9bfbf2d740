"""Asynchronous I/O in programs on a MiniCluster: order, chains, back-pressure, the end of input, time limits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runtime.common.time import Time
from runtime.common.typeinfo import Types
from runtime.connectors.blackhole import BlackHoleSink
from runtime.datastream import AsyncDataStream, AsyncFunction, MapFunction
from runtime.datastream.async_retry_strategies import FixedDelayRetryStrategy
from runtime.datastream.window import TumblingEventTimeWindows
from runtime.execution.application import submit
from runtime.execution.errors import JobExecutionError
from runtime.testing.clock import ManualClock
from tests.datastream.running import (
    ROW_BY_ROW,
    at_each_parallelism,
    environment,
    row_by_row,
    sorted_values_of,
    values_of,
)

EVENT = Types.TUPLE([Types.STRING(), Types.LONG()])
TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))


class Later(AsyncFunction[int, int]):
    """Doubles after some turns of the loop: the fewer, the later the record."""

    async def async_invoke(self, value: int) -> list[int]:
        for _ in range(20 - value):
            await asyncio.sleep(0)
        return [value * 2]


class Counting(AsyncFunction[int, Any]):
    """Tells how many calls were in flight at most."""

    def open(self, runtime_context: Any) -> None:
        self.now = self.most = 0

    async def async_invoke(self, value: int) -> list[int]:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.001)
        self.now -= 1
        return [self.most]


def test_ordered_results_are_in_the_order_of_the_records_through_a_chain_of_calls() -> None:
    numbers = environment().from_collection(list(range(20)), Types.INT())
    once = AsyncDataStream.ordered_wait(numbers, Later(), Time.seconds(30), 7, Types.INT())
    twice = AsyncDataStream.ordered_wait(once.map(lambda n: n // 2), Later(), Time.seconds(30), output_type=Types.INT())
    assert values_of(twice.map(lambda n: n + 1)) == [2 * n + 1 for n in range(20)]


@at_each_parallelism
def test_unordered_results_all_come(parallelism: int) -> None:
    numbers = environment(parallelism).from_collection(list(range(20)), Types.INT()).rebalance()
    assert sorted_values_of(AsyncDataStream.unordered_wait(numbers, Later(), Time.seconds(30))) == list(range(0, 40, 2))


def test_no_more_calls_than_the_capacity_are_in_flight() -> None:
    numbers = environment().from_collection(list(range(50)), Types.INT())
    assert max(values_of(AsyncDataStream.unordered_wait(numbers, Counting(), Time.seconds(30), capacity=4))) == 4


class Slow(AsyncFunction[Any, Any]):
    async def async_invoke(self, value: Any) -> list[Any]:
        await asyncio.sleep(0.002)
        return [value]


def test_event_time_does_not_pass_records_in_flight() -> None:
    env = environment(1, ROW_BY_ROW)
    events = env.from_collection([("a", n) for n in range(0, 60, 5)], EVENT)
    timed = events.assign_timestamps_and_watermarks(row_by_row())
    late = AsyncDataStream.unordered_wait(timed, Slow(), Time.seconds(30), output_type=EVENT)
    counts = late.key_by(lambda event: event[0]).window(TEN).reduce(lambda a, b: (a[0], a[1] + b[1]))
    assert values_of(counts) == [("a", n + n + 5) for n in range(0, 60, 10)]


class Failing(AsyncFunction[Any, Any]):
    async def async_invoke(self, value: Any) -> list[Any]:
        raise LookupError(f"no {value}")


class Hanging(AsyncFunction[Any, Any]):
    async def async_invoke(self, value: Any) -> list[Any]:
        await asyncio.sleep(3600)
        return []

    def timeout(self, value: Any) -> list[Any]:
        return [f"{value} took too long"]


def test_a_failing_call_fails_the_job() -> None:
    numbers = environment().from_collection([7], Types.INT())
    with pytest.raises(JobExecutionError, match="no 7"):
        values_of(AsyncDataStream.ordered_wait(numbers, Failing(), Time.seconds(30)))


def test_a_call_that_takes_too_long_is_replaced() -> None:
    numbers = environment().from_collection([1, 2], Types.INT())
    values = values_of(AsyncDataStream.ordered_wait(numbers, Hanging(), Time.milliseconds(50)))
    assert values == ["1 took too long", "2 took too long"]


class Flaky(AsyncFunction[int, int]):
    def open(self, runtime_context: Any) -> None:
        self.seen: set[int] = set()

    async def async_invoke(self, value: int) -> list[int]:
        if value not in self.seen:
            self.seen.add(value)
            raise ConnectionError("try again")
        return [value]


def test_a_failing_call_is_made_again() -> None:
    numbers = environment().from_collection(list(range(5)), Types.INT())
    strategy = FixedDelayRetryStrategy[int](1, 5, None, lambda error: isinstance(error, ConnectionError))
    retried = AsyncDataStream.ordered_wait_with_retry(numbers, Flaky(), Time.seconds(30), strategy)
    assert values_of(retried) == list(range(5))


class Patient(AsyncFunction[Any, Any]):
    async def async_invoke(self, value: Any) -> list[Any]:
        await asyncio.sleep(0.05)
        return [value]


class Remember(MapFunction):
    seen: list[Any] = []  # noqa: RUF012

    def map(self, value: Any) -> Any:
        Remember.seen.append(value)
        return value


def test_a_clock_that_jumps_goes_at_the_pace_of_real_time_while_calls_are_in_flight() -> None:
    Remember.seen.clear()
    env = environment()
    numbers = env.from_collection([1, 2], Types.INT())
    AsyncDataStream.ordered_wait(numbers, Patient(), Time.seconds(5)).map(Remember()).sink_to(BlackHoleSink())
    submit(env.create_job_graph("patient"), wait_in_caller=True, clock=ManualClock()).wait()
    assert Remember.seen == [1, 2]
