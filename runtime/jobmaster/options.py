"""The options that a JobMaster's machine reads, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.common import options
from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration


@dataclass(frozen=True, slots=True)
class JobMasterOptions:
    """All times in milliseconds."""

    slot_request_timeout_ms: float = 300_000
    """From the request until every slot has registered; again from there until every task is made."""
    heartbeat_interval_ms: float = 1_000
    heartbeat_timeout_ms: float = 5_000
    cancellation_timeout_ms: float = 180_000
    """For tasks to stop when the job is cancelled."""
    teardown_timeout_ms: float = 3_000
    """For tasks to stop after a failure, for slots to leave, and for a commit to end when the job is cancelled."""
    stall_timeout_ms: float = 0
    """For one call of user code; 0 = none."""
    restarts_regions: bool = True
    """Whether a region that fails restarts alone, where it can."""

    def __post_init__(self) -> None:
        if self.heartbeat_timeout_ms <= self.heartbeat_interval_ms:
            raise ConfigurationError(
                options.HEARTBEAT_TIMEOUT.key,
                f"{self.heartbeat_timeout_ms:g} ms",
                f"longer than {options.HEARTBEAT_INTERVAL.key} ({self.heartbeat_interval_ms:g} ms)",
            )

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> JobMasterOptions:
        """Read `slot.request.timeout`, `heartbeat.*`, `task.cancellation.timeout`, `task.teardown.timeout`,
        `task.stall.timeout` and `jobmanager.execution.failover-strategy`.

        Raises:
            ConfigurationError: a value cannot be read, or the heartbeat timeout is not longer than its interval.
        """
        cancellation_timeout_ms = configuration.get(options.TASK_CANCELLATION_TIMEOUT).to_millis()
        teardown_timeout_ms = configuration.get(options.TASK_TEARDOWN_TIMEOUT).to_millis()
        return cls(
            slot_request_timeout_ms=configuration.get(options.SLOT_REQUEST_TIMEOUT).to_millis(),
            heartbeat_interval_ms=configuration.get(options.HEARTBEAT_INTERVAL).to_millis(),
            heartbeat_timeout_ms=configuration.get(options.HEARTBEAT_TIMEOUT).to_millis(),
            cancellation_timeout_ms=cancellation_timeout_ms,
            teardown_timeout_ms=min(teardown_timeout_ms, cancellation_timeout_ms),
            stall_timeout_ms=configuration.get(options.TASK_STALL_TIMEOUT).to_millis(),
            restarts_regions=configuration.get(options.FAILOVER_STRATEGY) == "region",
        )
