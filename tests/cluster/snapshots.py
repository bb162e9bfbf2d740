"""Statistics of checkpoints as a job's coordinator makes them, and completed checkpoints with their files."""

from __future__ import annotations

from pathlib import Path

from runtime.checkpoint.completed_store import CompletedCheckpoint
from runtime.checkpoint.handles import CheckpointMetadata, CheckpointMetrics
from runtime.checkpoint.layout import checkpoint_directory
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.checkpoint.state_files import default_file_system
from runtime.checkpoint.statistics import CheckpointsSnapshot, CheckpointStatistics
from runtime.core.checkpoint_options import CheckpointOptions, SnapshotKind
from runtime.core.ids import Attempt, CheckpointId, JobId, TaskId, VertexId

SOURCE, SINK = VertexId("a" * 32), VertexId("b" * 32)
METRICS = CheckpointMetrics(sync_ms=1.6, async_ms=3.2, start_delay_ms=2.0, checkpointed_bytes=100, state_bytes=300)


def statistics() -> CheckpointsSnapshot:
    """Checkpoint 1 is complete, 2 has failed, savepoint 3 is complete, of 4 one of three subtasks has acknowledged."""
    tracker = CheckpointStatistics(CheckpointSettings(interval_ms=5_000))
    parallelism = {SOURCE: 1, SINK: 2}
    for number in (1, 2, 3, 4):
        checkpoint = CheckpointId(number)
        directory = f"file:///chk-{number}"
        is_savepoint = number == 3
        kind = SnapshotKind.CANONICAL if is_savepoint else SnapshotKind.FULL
        options = CheckpointOptions(directory, directory, kind, is_savepoint=is_savepoint)
        tracker.triggered(checkpoint, 1_000 * number, options, parallelism)
        tracker.acknowledged(checkpoint, TaskId(SINK, 1), METRICS, 1_000 * number + 20)
        if number in (1, 3):
            tracker.acknowledged(checkpoint, TaskId(SINK, 0), METRICS, 1_000 * number + 40)
            tracker.acknowledged(checkpoint, TaskId(SOURCE, 0), METRICS, 1_000 * number + 30)
            tracker.completed(checkpoint, 700, 1_000 * number + 55)
        if number == 2:
            tracker.failed(checkpoint, "it took too long", 2_500)
    tracker.restored(CheckpointId(1), 900, is_savepoint=False, external_path="file:///chk-1")
    return tracker.snapshot()


def completed(
    root: Path, job_id: str, number: int, epoch: int = 1, attempt: int = 0, files: SnapshotFiles | None = None
) -> CompletedCheckpoint:
    """A checkpoint without state whose metadata is written; not signed, unless `files` do so."""
    directory = checkpoint_directory(root.as_uri(), JobId(job_id), CheckpointId(number), epoch, Attempt(attempt))
    metadata = CheckpointMetadata(
        JobId(job_id), CheckpointId(number), 1_000 * number, CheckpointOptions(directory, directory), ()
    )
    (files or SnapshotFiles(default_file_system())).write_metadata(metadata)
    return CompletedCheckpoint(metadata)
