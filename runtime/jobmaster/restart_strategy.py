"""Restart strategies: whether a failed job runs again, and after what delay.

Pure and stateful: one instance per job, asked once per failed attempt; time and randomness are handed in.
Source: Flink, RestartBackoffTimeStrategy and its four implementations.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from runtime.checkpoint.settings import CheckpointSettings
from runtime.common import options
from runtime.common.configuration import Configuration


class RestartStrategy(Protocol):
    """Decides about restarts."""

    def on_failure(self, now_ms: float) -> float | None:
        """Decide about an attempt that has failed.

        Args:
            now_ms: monotonic milliseconds, not before the last call's.

        Returns:
            Milliseconds from now until the next attempt; None = the job has failed for good.
        """


class NoRestart:
    """The first failure ends the job."""

    def on_failure(self, now_ms: float) -> float | None:
        return None


class FixedDelay:
    """Restart a number of times, always after the same delay."""

    def __init__(self, attempts: int, delay_ms: float) -> None:
        self._left = attempts
        self._delay_ms = delay_ms

    def on_failure(self, now_ms: float) -> float | None:
        if self._left <= 0:
            return None
        self._left -= 1
        return self._delay_ms


@dataclass(frozen=True, slots=True)
class Backoff:
    """Shape of an exponential delay; defaults are Flink's."""

    initial_ms: float = 1_000
    max_ms: float = 60_000
    multiplier: float = 1.5
    jitter: float = 0.1
    """Fraction of a delay by which it may be longer or shorter, never outside initial..max."""
    reset_after_ms: float = 3_600_000
    """A run of that length without failure makes the next delay the initial one again."""
    attempts: int = 2**31 - 1
    """Restarts without a reset in between."""


class ExponentialDelay:
    """Restart after delays that grow while the job keeps failing.

    Args:
        backoff: its shape.
        random: uniform in [0, 1); jobs that failed together should not come back together.
    """

    def __init__(self, backoff: Backoff, random: Callable[[], float]) -> None:
        self._backoff = backoff
        self._random = random
        self._restarts = 0
        self._restarted_at_ms = 0.0

    def on_failure(self, now_ms: float) -> float | None:
        backoff = self._backoff
        if self._restarts and now_ms - self._restarted_at_ms >= backoff.reset_after_ms:
            self._restarts = 0
        if self._restarts >= backoff.attempts:
            return None
        delay_ms = backoff.initial_ms
        for _ in range(self._restarts):
            # stepwise, not as a power: that overflows long before the number of attempts is used up
            if delay_ms >= backoff.max_ms or backoff.multiplier <= 1:
                break
            delay_ms *= backoff.multiplier
        delay_ms = min(delay_ms, backoff.max_ms)
        delay_ms *= 1 + backoff.jitter * (2 * self._random() - 1)
        delay_ms = max(backoff.initial_ms, min(delay_ms, backoff.max_ms))
        self._restarts += 1
        self._restarted_at_ms = now_ms + delay_ms
        return delay_ms


class FailureRate:
    """Restart unless there were too many failures lately.

    As documented by Flink: that many failures within the interval are restarted, one more is not.
    """

    def __init__(self, max_failures_per_interval: int, interval_ms: float, delay_ms: float) -> None:
        self._failures_ms: deque[float] = deque(maxlen=max_failures_per_interval)
        self._interval_ms = interval_ms
        self._delay_ms = delay_ms

    def on_failure(self, now_ms: float) -> float | None:
        recent = self._failures_ms
        if len(recent) == recent.maxlen and (not recent or now_ms - recent[0] <= self._interval_ms):
            return None
        recent.append(now_ms)
        return self._delay_ms


def create_restart_strategy(configuration: Configuration, random: Callable[[], float]) -> RestartStrategy:
    """Return the strategy that `restart-strategy.type` and its options ask for.

    Where nothing is set, a job that takes checkpoints gets an exponential delay; one that does not is not restarted.

    Args:
        configuration: the job's.
        random: uniform in [0, 1).

    Raises:
        ConfigurationError: unknown type, or a value that cannot be read.
    """
    match _kind(configuration):
        case "fixeddelay":
            return FixedDelay(
                configuration.get(options.RESTART_FIXED_DELAY_ATTEMPTS),
                configuration.get(options.RESTART_FIXED_DELAY).to_millis(),
            )
        case "exponentialdelay":
            backoff = Backoff(
                initial_ms=configuration.get(options.RESTART_EXPONENTIAL_INITIAL_BACKOFF).to_millis(),
                max_ms=configuration.get(options.RESTART_EXPONENTIAL_MAX_BACKOFF).to_millis(),
                multiplier=configuration.get(options.RESTART_EXPONENTIAL_MULTIPLIER),
                jitter=configuration.get(options.RESTART_EXPONENTIAL_JITTER),
                reset_after_ms=configuration.get(options.RESTART_EXPONENTIAL_RESET_THRESHOLD).to_millis(),
                attempts=configuration.get(options.RESTART_EXPONENTIAL_ATTEMPTS),
            )
            return ExponentialDelay(backoff, random)
        case "failurerate":
            return FailureRate(
                configuration.get(options.RESTART_FAILURE_RATE_MAX),
                configuration.get(options.RESTART_FAILURE_RATE_INTERVAL).to_millis(),
                configuration.get(options.RESTART_FAILURE_RATE_DELAY).to_millis(),
            )
        case _:
            return NoRestart()


def describe_restart_strategy(configuration: Configuration) -> str:
    """Return what `create_restart_strategy` makes of a configuration, in a sentence.

    Raises:
        ConfigurationError: unknown type, or a value that cannot be read.

    Source: Flink, RestartStrategyDescriptionUtils.
    """
    match _kind(configuration):
        case "fixeddelay":
            delay = _java_duration(configuration.get(options.RESTART_FIXED_DELAY).to_millis())
            attempts = configuration.get(options.RESTART_FIXED_DELAY_ATTEMPTS)
            return f"Restart with fixed delay ({delay}). #{attempts} restart attempts."
        case "exponentialdelay":
            initial, largest, reset = (
                _java_duration(configuration.get(option).to_millis())
                for option in (
                    options.RESTART_EXPONENTIAL_INITIAL_BACKOFF,
                    options.RESTART_EXPONENTIAL_MAX_BACKOFF,
                    options.RESTART_EXPONENTIAL_RESET_THRESHOLD,
                )
            )
            multiplier = configuration.get(options.RESTART_EXPONENTIAL_MULTIPLIER)
            jitter = configuration.get(options.RESTART_EXPONENTIAL_JITTER)
            return (
                f"Restart with exponential delay: starting at {initial}, increasing by {multiplier:f}, "
                f"with maximum {largest}. Delay resets after {reset} with jitter {jitter:f}"
            )
        case "failurerate":
            most = configuration.get(options.RESTART_FAILURE_RATE_MAX)
            interval = _java_duration(configuration.get(options.RESTART_FAILURE_RATE_INTERVAL).to_millis())
            delay = _java_duration(configuration.get(options.RESTART_FAILURE_RATE_DELAY).to_millis())
            return (
                f"Failure rate restart with maximum of {most} failures within interval {interval} "
                f"and fixed delay {delay}."
            )
        case _:
            return "Restart deactivated."


def _kind(configuration: Configuration) -> str:
    """Return the type that applies, without its hyphens."""
    kind = configuration.get(options.RESTART_STRATEGY)
    if kind is None:
        kind = "exponential-delay" if CheckpointSettings.from_configuration(configuration).is_enabled else "none"
    return kind.replace("-", "")


def _java_duration(ms: int) -> str:
    """Format a duration as Java's Duration prints itself."""
    hours, rest = divmod(ms, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    seconds = f"{rest / 1000:.3f}".rstrip("0").rstrip(".")
    parts = [(f"{hours}H", hours), (f"{minutes}M", minutes), (f"{seconds}S", rest)]
    return "PT" + ("".join(text for text, value in parts if value) or "0S")
