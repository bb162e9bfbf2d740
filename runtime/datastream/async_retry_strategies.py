"""Strategies for retrying asynchronous calls, at PyFlink's module path."""

from runtime.operators.async_functions import NO_RETRY_STRATEGY as NO_RETRY_STRATEGY
from runtime.operators.async_functions import (
    ExponentialBackoffDelayRetryStrategy as ExponentialBackoffDelayRetryStrategy,
)
from runtime.operators.async_functions import FixedDelayRetryStrategy as FixedDelayRetryStrategy
from runtime.operators.async_functions import NoRetryStrategy as NoRetryStrategy
from runtime.operators.async_functions import RetryPredicate as RetryPredicate

__all__ = [
    "NO_RETRY_STRATEGY",
    "ExponentialBackoffDelayRetryStrategy",
    "FixedDelayRetryStrategy",
    "NoRetryStrategy",
    "RetryPredicate",
]
