"""Options of one checkpoint, which its barriers carry from the sources to the sinks. Frozen plain values.

Source: Flink, CheckpointOptions and SnapshotType.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class SnapshotKind(enum.Enum):
    """Form in which state is written."""

    CANONICAL = "canonical"
    """Complete, the same whatever the state backend: savepoints by default."""
    FULL = "full"
    """Complete in itself, in the backend's own form: shares no file with another checkpoint."""
    INCREMENTAL = "incremental"
    """In the backend's own form; refers to files of completed checkpoints instead of writing them again."""


class Alignment(enum.Enum):
    """Behaviour of a task between the first barrier of a checkpoint and the last one."""

    ALIGNED = "aligned"
    """Channels whose barrier has come wait for the others."""
    UNALIGNED = "unaligned"
    """The barrier overtakes what is queued, which becomes part of the snapshot."""
    AT_LEAST_ONCE = "at least once"
    """Nothing waits; records after a barrier may be processed before the snapshot."""


class AfterSnapshot(enum.Enum):
    """Action after a snapshot."""

    GO_ON = "go on"
    SUSPEND = "suspend"
    """Sources emit nothing after the barrier; tasks end when the savepoint is complete, no window fires."""
    DRAIN = "drain"
    """Sources end their input before the barrier: windows fire, and the savepoint holds what is left after that."""


@dataclass(frozen=True, slots=True)
class CheckpointOptions:
    """Options of one checkpoint or savepoint."""

    directory: str
    """URI of the directory, made by the JobMaster, that the checkpoint's own files go to."""
    shared_directory: str
    """URI of the directory for files that later checkpoints may refer to; the same as `directory` for savepoints."""
    kind: SnapshotKind = SnapshotKind.INCREMENTAL
    alignment: Alignment = Alignment.ALIGNED
    aligned_timeout_ms: int | None = None
    """ALIGNED only: time between the barrier's birth and a task's alignment after which it continues UNALIGNED."""
    is_savepoint: bool = False
    after: AfterSnapshot = AfterSnapshot.GO_ON
