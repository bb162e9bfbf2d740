"""Decisions that parts of a job's machine leave to the machine, which follows them after each event. Frozen."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.graph.job_graph import JobGraph
from runtime.task.messages import FailureInfo


@dataclass(frozen=True, slots=True)
class FailAttempt:
    """The job has failed."""

    failure: FailureInfo


@dataclass(frozen=True, slots=True)
class CommitJob:
    """All tasks have finished and nothing of what they did can be lost any more: commit and end."""


@dataclass(frozen=True, slots=True)
class CancelJob:
    """The savepoint that the job was to be cancelled with is complete."""


@dataclass(frozen=True, slots=True)
class RedeployJob:
    """Tear the attempt down and go on from the newest checkpoint, on purpose."""

    graph: JobGraph | None
    """None: the same one."""
    cause: str


@dataclass(frozen=True, slots=True)
class RestorePointKnown:
    """The newest checkpoint is known."""


Decision = FailAttempt | CommitJob | CancelJob | RedeployJob | RestorePointKnown
