"""Types of the routes of checkpoints."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from backend.cluster.document_types import CheckpointState, RestoredCheckpoint
from backend.contract.schema import Named

Quantile = float | Literal["NaN"]


class CheckpointFigures(TypedDict):
    min: float
    max: float
    avg: float
    p50: Quantile
    p90: Quantile
    p95: Quantile
    p99: Quantile
    p999: Quantile


class CheckpointTask(TypedDict):
    """A vertex's part of a checkpoint."""

    id: int
    """Of the checkpoint."""
    status: CheckpointState
    latest_ack_timestamp: int
    end_to_end_duration: int
    checkpointed_size: int
    state_size: int
    processed_data: int
    persisted_data: int
    alignment_buffered: int
    num_subtasks: int
    num_acknowledged_subtasks: int


class CheckpointDetails(TypedDict):
    """A checkpoint with its vertices, by id; in a history without them."""

    className: Literal["completed", "failed", "in_progress"]
    id: int
    status: CheckpointState
    is_savepoint: bool
    savepointFormat: str | None
    trigger_timestamp: int
    latest_ack_timestamp: int
    end_to_end_duration: int
    checkpointed_size: int
    state_size: int
    processed_data: int
    persisted_data: int
    alignment_buffered: int
    num_subtasks: int
    num_acknowledged_subtasks: int
    checkpoint_type: str
    tasks: dict[str, CheckpointTask]
    external_path: NotRequired[str]
    """Of completed ones only, as the next."""
    discarded: NotRequired[bool]
    failure_timestamp: NotRequired[int | None]
    """Of failed ones only, as the next."""
    failure_message: NotRequired[str | None]


class CheckpointCountsAnswer(TypedDict):
    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


class CheckpointsSummary(TypedDict):
    checkpointed_size: CheckpointFigures
    state_size: CheckpointFigures
    end_to_end_duration: CheckpointFigures
    processed_data: CheckpointFigures
    persisted_data: CheckpointFigures
    alignment_buffered: CheckpointFigures


class LatestCheckpointDetails(TypedDict):
    completed: CheckpointDetails | None
    savepoint: CheckpointDetails | None
    failed: CheckpointDetails | None
    restored: RestoredCheckpoint | None


class CheckpointStatistics(TypedDict):
    counts: CheckpointCountsAnswer
    summary: CheckpointsSummary
    latest: LatestCheckpointDetails
    history: list[CheckpointDetails]


class Externalization(TypedDict):
    enabled: bool
    delete_on_cancellation: bool


class CheckpointConfigAnswer(TypedDict):
    mode: Literal["exactly_once", "at_least_once"]
    interval: int
    timeout: int
    min_pause: int
    max_concurrent: int
    externalization: Externalization
    state_backend: str
    checkpoint_storage: str
    unaligned_checkpoints: bool
    tolerable_failed_checkpoints: int
    aligned_checkpoint_timeout: int
    checkpoints_after_tasks_finish: bool
    state_changelog_enabled: bool
    changelog_periodic_materialization_interval: int
    changelog_storage: str


class PendingSubtask(TypedDict):
    className: Literal["pending"]
    index: int
    status: Literal["pending_or_failed"]


# "async" is no name in Python
SubtaskDuration = TypedDict("SubtaskDuration", {"sync": int, "async": int})
SubtaskDurationFigures = TypedDict("SubtaskDurationFigures", {"sync": CheckpointFigures, "async": CheckpointFigures})


class SubtaskAlignment(TypedDict):
    buffered: int
    processed: int
    persisted: int
    duration: int


class SubtaskAlignmentFigures(TypedDict):
    buffered: CheckpointFigures
    processed: CheckpointFigures
    persisted: CheckpointFigures
    duration: CheckpointFigures


class CompletedSubtask(TypedDict):
    className: Literal["completed"]
    index: int
    status: Literal["completed"]
    ack_timestamp: int
    end_to_end_duration: int
    checkpointed_size: int
    state_size: int
    checkpoint: SubtaskDuration
    alignment: SubtaskAlignment
    start_delay: int
    unaligned_checkpoint: bool
    aborted: bool


class SubtasksSummary(TypedDict):
    checkpointed_size: CheckpointFigures
    state_size: CheckpointFigures
    end_to_end_duration: CheckpointFigures
    start_delay: CheckpointFigures
    checkpoint_duration: SubtaskDurationFigures
    alignment: SubtaskAlignmentFigures


CheckpointSubtask = Annotated[PendingSubtask | CompletedSubtask, Named("CheckpointSubtask")]


class CheckpointSubtasks(CheckpointTask):
    summary: SubtasksSummary | None
    """null: no subtask has acknowledged it."""
    subtasks: list[CheckpointSubtask]
