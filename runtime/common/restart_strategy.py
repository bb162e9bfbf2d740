"""Restart strategies as values. Source: PyFlink, common/restart_strategy.py.

A program sets them through the options `restart-strategy.*`; `to_options` says which ones a strategy stands for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from runtime.common.time import Duration

__all__ = ["RestartStrategies", "RestartStrategyConfiguration"]


class RestartStrategyConfiguration(ABC):
    """A restart strategy and its parameters."""

    @abstractmethod
    def get_description(self) -> str:
        """Return one line for people."""

    @abstractmethod
    def to_options(self) -> dict[str, str]:
        """Return option keys and values that mean this strategy."""


@dataclass(frozen=True, slots=True)
class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
    def get_description(self) -> str:
        return "Restart deactivated."

    def to_options(self) -> dict[str, str]:
        return {"restart-strategy.type": "none"}


@dataclass(frozen=True, slots=True)
class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
    restart_attempts: int
    delay: Duration

    def get_restart_attempts(self) -> int:
        return self.restart_attempts

    def get_delay_between_attempts_interval(self) -> Duration:
        return self.delay

    def get_description(self) -> str:
        return f"Restart with fixed delay ({self.delay}). #{self.restart_attempts} restart attempts."

    def to_options(self) -> dict[str, str]:
        return {
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": str(self.restart_attempts),
            "restart-strategy.fixed-delay.delay": str(self.delay),
        }


@dataclass(frozen=True, slots=True)
class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
    max_failure_rate: int
    failure_interval: Duration
    delay: Duration

    def get_max_failure_rate(self) -> int:
        return self.max_failure_rate

    def get_failure_interval(self) -> Duration:
        return self.failure_interval

    def get_delay_between_attempts_interval(self) -> Duration:
        return self.delay

    def get_description(self) -> str:
        return (
            f"Failure rate restart with maximum of {self.max_failure_rate} failures within {self.failure_interval} "
            f"and fixed delay {self.delay}."
        )

    def to_options(self) -> dict[str, str]:
        return {
            "restart-strategy.type": "failure-rate",
            "restart-strategy.failure-rate.max-failures-per-interval": str(self.max_failure_rate),
            "restart-strategy.failure-rate.failure-rate-interval": str(self.failure_interval),
            "restart-strategy.failure-rate.delay": str(self.delay),
        }


@dataclass(frozen=True, slots=True)
class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
    def get_description(self) -> str:
        return "Cluster level default restart strategy"

    def to_options(self) -> dict[str, str]:
        return {}


class RestartStrategies:
    """Makes strategies. Delays are Durations, or ints in ms as in PyFlink."""

    NoRestartStrategyConfiguration = NoRestartStrategyConfiguration
    FixedDelayRestartStrategyConfiguration = FixedDelayRestartStrategyConfiguration
    FailureRateRestartStrategyConfiguration = FailureRateRestartStrategyConfiguration
    FallbackRestartStrategyConfiguration = FallbackRestartStrategyConfiguration

    @staticmethod
    def no_restart() -> RestartStrategyConfiguration:
        return NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> RestartStrategyConfiguration:
        """Use the strategy of the cluster's configuration."""
        return FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: int | Duration
    ) -> RestartStrategyConfiguration:
        return FixedDelayRestartStrategyConfiguration(restart_attempts, _duration(delay_between_attempts))

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: int | Duration, delay_interval: int | Duration
    ) -> RestartStrategyConfiguration:
        return FailureRateRestartStrategyConfiguration(
            failure_rate, _duration(failure_interval), _duration(delay_interval)
        )


def _duration(value: int | Duration) -> Duration:
    return value if isinstance(value, Duration) else Duration.of_millis(value)
