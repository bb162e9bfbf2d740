"""Asynchronous I/O: ordered and unordered, no results and several, timeouts and retries."""

import asyncio

from pyflink.common import Time, Types
from pyflink.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment
from pyflink.datastream.functions import AsyncRetryStrategy


class Repeating(AsyncFunction):
    async def async_invoke(self, value):
        await asyncio.sleep(0.01 * (3 - value % 3))
        return [value] * (value % 3)


class Hanging(AsyncFunction):
    async def async_invoke(self, value):
        if value % 2:
            await asyncio.sleep(60)
        return [value * 10]

    def timeout(self, value):
        return [-value]


class Flaky(AsyncFunction):
    def open(self, runtime_context):
        self.attempts = {}

    async def async_invoke(self, value):
        attempt = self.attempts[value] = self.attempts.get(value, 0) + 1
        if value == 2 and attempt < 3:
            raise ValueError("not yet")
        if value == 3 and attempt < 2:
            return []
        return [value * 100 + attempt]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([1, 2, 3, 4, 5], Types.INT())
    limit = Time.seconds(20)
    with AsyncDataStream.ordered_wait(numbers, Repeating(), limit, 2, Types.INT()).execute_and_collect() as values:
        print(list(values))
    with AsyncDataStream.unordered_wait(numbers, Repeating(), limit, 3, Types.INT()).execute_and_collect() as values:
        print(sorted(values))
    hanging = AsyncDataStream.ordered_wait(numbers, Hanging(), Time.milliseconds(300), 100, Types.INT())
    with hanging.execute_and_collect() as values:
        print(list(values))
    strategy = AsyncRetryStrategy.fixed_delay(
        3, 10, lambda results: not results, lambda error: isinstance(error, ValueError)
    )
    flaky = AsyncDataStream.ordered_wait_with_retry(numbers, Flaky(), limit, strategy, 100, Types.INT())
    with flaky.execute_and_collect() as values:
        print(list(values))


if __name__ == "__main__":
    main()
