"""CheckpointConfig: the settings of checkpoints as methods; each is an option of the Configuration behind it.

Settings are checked and kept. Whether a job can take checkpoints is decided when it is executed. Source: PyFlink,
checkpoint_config.py.
"""

from __future__ import annotations

from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.common.time import Duration
from runtime.datastream.checkpointing_mode import CheckpointingMode
from runtime.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention

__all__ = ["MIN_CHECKPOINT_TIME_MS", "CheckpointConfig"]

MIN_CHECKPOINT_TIME_MS = 10
"""Minimum of interval and timeout, as in Flink."""
_ANY_NUMBER = 2**31 - 1


class CheckpointConfig:
    """Settings of one job's checkpoints.

    Args:
        configuration: is read and written; None = a new one.
    """

    __slots__ = ("_configuration",)

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration

    def is_checkpointing_enabled(self) -> bool:
        return self.get_checkpoint_interval() > 0

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the mode that was set; AT_LEAST_ONCE where there are no checkpoints, as Flink has it."""
        if not self.is_checkpointing_enabled():
            return CheckpointingMode.AT_LEAST_ONCE
        return CheckpointingMode[self._configuration.get(options.CHECKPOINTING_MODE).upper()]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        self._configuration.set(options.CHECKPOINTING_MODE, checkpointing_mode.name)
        return self

    def get_checkpoint_interval(self) -> int:
        """Return milliseconds; -1 = no checkpoints."""
        interval = self._configuration.get(options.CHECKPOINTING_INTERVAL)
        return -1 if interval is None or interval.to_millis() <= 0 else interval.to_millis()

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Set how often checkpoints are taken, ms.

        Raises:
            ValueError: it is below 10 ms.
        """
        if checkpoint_interval < MIN_CHECKPOINT_TIME_MS:
            raise ValueError(f"the checkpoint interval must be at least 10 ms, not {checkpoint_interval}")
        self._configuration.set(options.CHECKPOINTING_INTERVAL, Duration.of_millis(checkpoint_interval))
        return self

    def get_checkpoint_timeout(self) -> int:
        """Return milliseconds."""
        return self._configuration.get(options.CHECKPOINTING_TIMEOUT).to_millis()

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Set after how long a checkpoint is given up, ms.

        Raises:
            ConfigurationError: it is below 10 ms.
        """
        self._configuration.set(options.CHECKPOINTING_TIMEOUT, Duration.of_millis(checkpoint_timeout))
        return self

    def get_min_pause_between_checkpoints(self) -> int:
        """Return milliseconds."""
        return self._configuration.get(options.CHECKPOINTING_MIN_PAUSE).to_millis()

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Set the minimum pause between two checkpoints, ms; with a pause, only one checkpoint can be in progress.

        Raises:
            ConfigurationError: it is negative.
        """
        self._configuration.set(options.CHECKPOINTING_MIN_PAUSE, Duration.of_millis(min_pause_between_checkpoints))
        return self

    def get_max_concurrent_checkpoints(self) -> int:
        return self._configuration.get(options.MAX_CONCURRENT_CHECKPOINTS)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Set the maximum number of concurrent checkpoints.

        Raises:
            ConfigurationError: it is below 1.
        """
        self._configuration.set(options.MAX_CONCURRENT_CHECKPOINTS, max_concurrent_checkpoints)
        return self

    def is_fail_on_checkpointing_errors(self) -> bool:
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Let the first failed checkpoint fail the job, or none."""
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else _ANY_NUMBER)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        return self._configuration.get(options.TOLERABLE_FAILED_CHECKPOINTS)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        """Set how many checkpoints may fail in a row before the job does.

        Raises:
            ConfigurationError: it is negative.
        """
        self._configuration.set(options.TOLERABLE_FAILED_CHECKPOINTS, tolerable_checkpoint_failure_number)
        return self

    def set_externalized_checkpoint_retention(
        self, externalized_checkpoint_retention: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Set what becomes of the last checkpoint when the job is cancelled."""
        self._configuration.set(options.CHECKPOINT_RETENTION, externalized_checkpoint_retention.name)
        return self

    def is_externalized_checkpoints_enabled(self) -> bool:
        return (
            self.get_externalized_checkpoint_retention()
            is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        )

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        return ExternalizedCheckpointRetention[self._configuration.get(options.CHECKPOINT_RETENTION).upper()]

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Return whether they are enabled and possible: at least once has nothing to align."""
        return self.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE and self._configuration.get(
            options.UNALIGNED_CHECKPOINTS
        )

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Let barriers overtake records in flight."""
        self._configuration.set(options.UNALIGNED_CHECKPOINTS, enabled)
        return self

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        return self.enable_unaligned_checkpoints(False)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Set after how long of alignment an unaligned checkpoint takes over.

        Raises:
            ConfigurationError: it is negative.
        """
        self._configuration.set(options.ALIGNED_CHECKPOINT_TIMEOUT, alignment_timeout)
        return self

    def get_aligned_checkpoint_timeout(self) -> Duration:
        return self._configuration.get(options.ALIGNED_CHECKPOINT_TIMEOUT)

    def set_alignment_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Set the timeout under its former name, see `set_aligned_checkpoint_timeout`."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        return self.get_aligned_checkpoint_timeout()

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Allow unaligned checkpoints on edges too where records could be restored to the wrong subtask."""
        self._configuration.set(options.FORCE_UNALIGNED_CHECKPOINTS, force_unaligned_checkpoints)
        return self

    def is_force_unaligned_checkpoints(self) -> bool:
        return self._configuration.get(options.FORCE_UNALIGNED_CHECKPOINTS)
