"""AsyncDataStream: adds an asynchronous function to a stream. Source: PyFlink, async_data_stream.py."""

from __future__ import annotations

from typing import Any

from runtime.common.time import Duration, Time
from runtime.common.typeinfo import TypeInformation
from runtime.datastream.data_stream import DataStream
from runtime.datastream.joined_streams import millis_of
from runtime.operators.async_functions import NO_RETRY_STRATEGY, AsyncFunction, AsyncRetryStrategy
from runtime.operators.async_operator import AsyncWaitOperatorFactory

__all__ = ["AsyncDataStream"]


class AsyncDataStream:
    """Adds calls that take their time, many of them in flight. All four methods have these arguments and errors.

    Args:
        data_stream: the records.
        async_function: called for each of them.
        timeout: time limit of a record, all attempts together; 0 = none. Then `AsyncFunction.timeout` is asked.
        async_retry_strategy: when a call is made again.
        capacity: most calls in flight per subtask; more than that is back-pressure.
        output_type: type of the results; None = Python objects.

    Raises:
        TypeError: the function is not an AsyncFunction or has no `async def async_invoke`, or the strategy is not an
            AsyncRetryStrategy.
        ValueError: the capacity is not positive, or there are retries without a timeout.
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time | Duration,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Emit results as they are ready; none passes a watermark."""
        return _added(data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type, is_ordered=False)

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Emit results as they are ready, like `unordered_wait`, with calls retried as the strategy says."""
        return _added(
            data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, is_ordered=False
        )

    @staticmethod
    def ordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time | Duration,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Emit results in the order of the records."""
        return _added(data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type, is_ordered=True)

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Emit results in order, like `ordered_wait`, with calls retried as the strategy says."""
        return _added(
            data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, is_ordered=True
        )


def _added(
    data_stream: DataStream,
    async_function: AsyncFunction[Any, Any],
    timeout: Time | Duration,
    async_retry_strategy: AsyncRetryStrategy[Any],
    capacity: int,
    output_type: TypeInformation | None,
    *,
    is_ordered: bool,
) -> DataStream:
    factory = AsyncWaitOperatorFactory(
        async_function,
        millis_of(timeout),
        capacity,
        is_ordered,
        async_retry_strategy,
        data_stream.get_type(),
        output_type,
    )
    return data_stream.transform("async wait operator", factory, output_type)
