"""CheckpointSettings: a job's checkpoint options, read once, as plain numbers. Frozen; pure.

Source: Flink, CheckpointCoordinatorConfiguration and SavepointRestoreSettings; option keys and defaults are Flink's.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from runtime.checkpoint.outcome import JobOutcome
from runtime.common import options
from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration
from runtime.common.execution_kind import ExecutionKind
from runtime.core.checkpoint_options import Alignment, SnapshotKind

MIN_INTERVAL_MS = 10
"""Flink's minimum; below it a checkpoint would begin before the barriers of the last one have passed."""
MAX_HISTORY_SIZE = 60
"""The history is in the live document, which is sent to every page; as many as have a trace."""
DEFAULT_BATCH_INTERVAL_MS = 1_000
"""Of a job in micro-batches that sets none: its checkpoints are its batches."""


class Retention(enum.Enum):
    """Fate of a job's checkpoints when it ends; those of a job that has finished are always deleted."""

    NO_EXTERNALIZED_CHECKPOINTS = "no_externalized_checkpoints"
    """Deleted whatever the outcome."""
    DELETE_ON_CANCELLATION = "delete_on_cancellation"
    """Kept when it has failed."""
    RETAIN_ON_CANCELLATION = "retain_on_cancellation"
    """Kept when it has failed or was cancelled."""

    def keeps(self, outcome: JobOutcome) -> bool:
        """Return whether checkpoints are kept after this outcome."""
        if self is Retention.NO_EXTERNALIZED_CHECKPOINTS:
            return False
        is_kept_when_canceled = self is Retention.RETAIN_ON_CANCELLATION
        return outcome is JobOutcome.FAILED or (outcome is JobOutcome.CANCELED and is_kept_when_canceled)


class ClaimMode(enum.Enum):
    """Ownership of a snapshot after a job has started from it."""

    CLAIM = "claim"
    """The job owns it: deleted like its own checkpoints."""
    NO_CLAIM = "no_claim"
    """The user keeps it: nothing that the job writes refers to it."""


@dataclass(frozen=True, slots=True)
class RestoreSettings:
    """Snapshot that a job starts from."""

    path: str
    claim_mode: ClaimMode = ClaimMode.NO_CLAIM


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """Times in milliseconds."""

    interval_ms: int | None = None
    """None: no periodic checkpoints; savepoints can still be taken."""
    timeout_ms: int = 600_000
    min_pause_ms: int = 0
    """From the end of a checkpoint to the start of the next periodic one."""
    max_concurrent: int = 1
    tolerable_failures: int = 0
    """Consecutive failures; one more fails the attempt."""
    num_retained: int = 1
    history_size: int = 10
    """Checkpoints of which there are statistics, 1..MAX_HISTORY_SIZE."""
    retention: Retention = Retention.NO_EXTERNALIZED_CHECKPOINTS
    is_exactly_once: bool = True
    is_unaligned: bool = False
    is_unaligned_forced: bool = False
    aligned_timeout_ms: int = 0
    """With `is_unaligned`: 0 = unaligned from the start, otherwise aligned for at most this time."""
    is_incremental: bool = False
    after_tasks_finish: bool = True
    directory: str | None = None
    """URI as configured; None: a private directory of the JobMaster."""
    savepoint_directory: str | None = None
    restore: RestoreSettings | None = None
    ignores_unclaimed_state: bool = False
    """Whether state of operators that the job does not have may be dropped."""
    state_backend: str = "hashmap"
    rescale_cooldown_ms: int = 30_000
    is_micro_batch: bool = False
    """Whether each checkpoint is a batch: who executes the job asks for it. None begins because an interval is over.
    """
    is_batch: bool = False
    """Whether the job takes no snapshot of any kind: a batch begins anew after a failure."""

    @property
    def is_enabled(self) -> bool:
        """Return whether the job takes periodic checkpoints."""
        return self.interval_ms is not None

    @property
    def alignment(self) -> Alignment:
        """Return the alignment with which a checkpoint begins; savepoints are always aligned."""
        if not self.is_exactly_once:
            return Alignment.AT_LEAST_ONCE
        if self.is_unaligned and self.aligned_timeout_ms == 0:
            return Alignment.UNALIGNED
        return Alignment.ALIGNED

    @property
    def switch_timeout_ms(self) -> int | None:
        """Return the time after which an aligned checkpoint continues unaligned; None = never."""
        return (
            self.aligned_timeout_ms if self.is_exactly_once and self.is_unaligned and self.aligned_timeout_ms else None
        )

    @property
    def kind(self) -> SnapshotKind:
        """Return the form of a checkpoint's state."""
        return SnapshotKind.INCREMENTAL if self.is_incremental else SnapshotKind.FULL

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> CheckpointSettings:
        """Read a job's options.

        Raises:
            ConfigurationError: a value is invalid, or conflicts with another one.
        """
        kind = ExecutionKind.of(configuration)
        is_batch, is_micro_batch = kind is ExecutionKind.BATCH, kind is ExecutionKind.MICRO_BATCH
        interval = None if is_batch else configuration.get(options.CHECKPOINTING_INTERVAL)
        interval_ms = None if interval is None or interval.to_millis() <= 0 else interval.to_millis()
        if interval_ms is not None and interval_ms < MIN_INTERVAL_MS:
            raise ConfigurationError(options.CHECKPOINTING_INTERVAL.key, f"{interval_ms} ms", "at least 10 ms, or 0")
        if is_micro_batch and interval_ms is None:
            interval_ms = DEFAULT_BATCH_INTERVAL_MS
        min_pause_ms = configuration.get(options.CHECKPOINTING_MIN_PAUSE).to_millis()
        # nothing is in flight between two micro-batches
        is_unaligned = configuration.get(options.UNALIGNED_CHECKPOINTS) and not is_micro_batch
        is_forced = configuration.get(options.FORCE_UNALIGNED_CHECKPOINTS)
        max_concurrent = configuration.get(options.MAX_CONCURRENT_CHECKPOINTS)
        if min_pause_ms > 0 or is_micro_batch:
            # a pause between checkpoints rules out concurrent ones
            max_concurrent = 1
        if is_unaligned and max_concurrent > 1 and not is_forced:
            raise ConfigurationError(
                options.MAX_CONCURRENT_CHECKPOINTS.key, str(max_concurrent), "1 with unaligned checkpoints"
            )
        path = configuration.get(options.RECOVERY_PATH)
        restore = None
        if path:
            restore = RestoreSettings(path, ClaimMode(configuration.get(options.RECOVERY_CLAIM_MODE)))
        return cls(
            interval_ms=interval_ms,
            timeout_ms=configuration.get(options.CHECKPOINTING_TIMEOUT).to_millis(),
            min_pause_ms=min_pause_ms,
            max_concurrent=max_concurrent,
            tolerable_failures=configuration.get(options.TOLERABLE_FAILED_CHECKPOINTS),
            num_retained=configuration.get(options.RETAINED_CHECKPOINTS),
            history_size=_history_size(configuration),
            retention=Retention(configuration.get(options.CHECKPOINT_RETENTION)),
            is_exactly_once=is_micro_batch or configuration.get(options.CHECKPOINTING_MODE) == "exactly_once",
            is_unaligned=is_unaligned,
            is_unaligned_forced=is_forced,
            aligned_timeout_ms=configuration.get(options.ALIGNED_CHECKPOINT_TIMEOUT).to_millis(),
            is_incremental=configuration.get(options.INCREMENTAL_CHECKPOINTS),
            after_tasks_finish=is_micro_batch
            or (not is_batch and configuration.get(options.CHECKPOINTS_AFTER_TASKS_FINISH)),
            directory=_directory(configuration),
            savepoint_directory=configuration.get(options.SAVEPOINT_DIRECTORY) or None,
            restore=restore,
            ignores_unclaimed_state=configuration.get(options.IGNORE_UNCLAIMED_STATE),
            state_backend=configuration.get(options.STATE_BACKEND),
            rescale_cooldown_ms=configuration.get(options.RESCALE_COOLDOWN).to_millis(),
            is_micro_batch=is_micro_batch,
            is_batch=is_batch,
        )


def _history_size(configuration: Configuration) -> int:
    size = configuration.get(options.CHECKPOINTS_HISTORY)
    if size > MAX_HISTORY_SIZE:
        raise ConfigurationError(options.CHECKPOINTS_HISTORY.key, str(size), f"at most {MAX_HISTORY_SIZE}")
    return size


def _directory(configuration: Configuration) -> str | None:
    storage = configuration.get(options.CHECKPOINT_STORAGE)
    directory = configuration.get(options.CHECKPOINT_DIRECTORY) or None
    if storage == "filesystem" and directory is None:
        raise ConfigurationError(
            options.CHECKPOINT_STORAGE.key, storage, f"jobmanager, or a directory as {options.CHECKPOINT_DIRECTORY.key}"
        )
    return None if storage == "jobmanager" else directory
