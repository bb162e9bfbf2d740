"""Outcome of a job, as far as its checkpoints are concerned."""

from __future__ import annotations

import enum


class JobOutcome(enum.Enum):
    """States of a job that has ended; values are the names that Flink's `JobStatus` uses."""

    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"
