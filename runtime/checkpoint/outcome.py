"""Outcome of a job, as far as its checkpoints are concerned."""

from __future__ import annotations

import enum


class JobOutcome(enum.Enum):
    """Terminal states of a job, with the names of Flink's `JobStatus`."""

    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"
