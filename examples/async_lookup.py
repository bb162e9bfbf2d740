"""Asynchronous I/O: many slow lookups in flight at once, results in the order of the records.

The service here is a coroutine that sleeps and fails now and then; a lookup that fails is made again up to three times.
"""

from __future__ import annotations

import asyncio

from runtime.common import Time, Types
from runtime.datastream import AsyncDataStream, AsyncFunction, RuntimeContext, StreamExecutionEnvironment
from runtime.datastream.functions import AsyncRetryStrategy

HARBOURS = {"EMD": "Emden", "HUS": "Husum", "CUX": "Cuxhaven"}
CODES = ("EMD", "CUX", "ZZZ", "HUS", "EMD")


class Lookup(AsyncFunction[str, str]):
    """Names of harbours, from a service."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.has_failed = False

    async def async_invoke(self, value: str) -> list[str]:
        await asyncio.sleep(0.05 if value == "EMD" else 0.01)
        if value == "CUX" and not self.has_failed:
            self.has_failed = True
            raise ConnectionError("the service is busy")
        return [f"{value} is {HARBOURS.get(value, 'unknown')}"]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    codes = env.from_collection(CODES, Types.STRING())
    again: AsyncRetryStrategy[str] = AsyncRetryStrategy.fixed_delay(
        3, 10, None, lambda error: isinstance(error, ConnectionError)
    )
    names = AsyncDataStream.ordered_wait_with_retry(codes, Lookup(), Time.seconds(10), again, 10, Types.STRING())
    names.print()
    env.execute("async lookup")


if __name__ == "__main__":
    main()
