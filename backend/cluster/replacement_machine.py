"""ReplacementMachine: decides how the replacement of a job goes on. Pure.

A replacement goes COMPILED → CHECKED → STOPPING → SUBMITTED → RUNNING. Until the old job has stopped, a failure leaves
that running. Behind the savepoint a failure ends the new job and starts the old graph from the savepoint:
ROLLING_BACK → ROLLED_BACK. That is over once the new job has completed a checkpoint: its sinks have committed what
comes behind the savepoint then, and the old graph would write it again.

The leader shows the machine what SQL says, does what it decides in one transaction with the new state, and asks again
at its next poll (`led_replacements`); what a dead leader has begun is in SQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backend.cluster.models import TERMINAL_STATES

SETTLED_MS = 30_000
"""A job that has run for so long without a restart and without a checkpoint counts as settled. Shorter: code that
fails with its first records is not rolled back; longer: jobs without checkpoints look unfinished."""
START_PATIENCE_MS = 300_000
"""Time for the new job to get slots and to restore, and for its first micro-batch. The old graph needs no more slots
than it had."""
OPEN_STATES = ("COMPILED", "CHECKED", "STOPPING", "SUBMITTED", "ROLLING_BACK")
"""States of replacements that the leader moves on."""


@dataclass(frozen=True, slots=True)
class JobSeen:
    """A job according to SQL."""

    state: str
    restarts: int = 0
    failure: str = ""
    """Cause of its last failure."""
    running_ms: int | None = None
    """For how long it has been RUNNING; None: it is not."""
    has_checkpoint: bool = False
    """Whether it has completed a checkpoint of its own."""
    waiting_for: str = ""
    runs_in_passes: bool = False
    """Whether RUNNING says only that its first pass may begin, behind which it has a checkpoint."""

    @property
    def is_over(self) -> bool:
        return self.state in TERMINAL_STATES


@dataclass(frozen=True, slots=True)
class ReplacementSeen:
    """An open replacement according to SQL."""

    state: str
    age_ms: int
    """Time in this state."""
    previous: JobSeen | None = None
    """The job that it replaces; None: none."""
    stop: Mapping[str, Any] | None = None
    """Result of that job's stop; None: it has none yet."""
    location: str = ""
    """Of the savepoint that the stop left; empty: there is none."""
    job: JobSeen | None = None
    """Its own job; None: there is none yet."""


@dataclass(frozen=True, slots=True)
class Check:
    """Record CHECKED."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Ask the old job to stop with a savepoint, and record STOPPING."""


@dataclass(frozen=True, slots=True)
class Submit:
    """Submit the new job, from a snapshot if state is to be kept, and record SUBMITTED."""

    location: str
    """Of the savepoint of the old job, from which the new one starts unless another snapshot was chosen."""


@dataclass(frozen=True, slots=True)
class Settle:
    """Record RUNNING."""


@dataclass(frozen=True, slots=True)
class BeginRollback:
    """Record ROLLING_BACK."""

    why: str


@dataclass(frozen=True, slots=True)
class CancelNew:
    """Ask the new job to end; repeated until it has."""


@dataclass(frozen=True, slots=True)
class FinishRollback:
    """Submit the old graph from the savepoint, and record ROLLED_BACK."""

    location: str


@dataclass(frozen=True, slots=True)
class Fail:
    """Record FAILED."""

    why: str


Action = Check | Stop | Submit | Settle | BeginRollback | CancelNew | FinishRollback | Fail


def next_action(seen: ReplacementSeen) -> Action | None:
    """Return what is to be done about an open replacement; None: wait."""
    match seen.state:
        case "COMPILED":
            return _unless_over(seen, Check())
        case "CHECKED":
            return _unless_over(seen, Stop())
        case "STOPPING":
            return _stopping(seen)
        case "SUBMITTED":
            return _submitted(seen)
        case "ROLLING_BACK":
            return _rolling_back(seen)
    return None


def refused_at_submission(why: str) -> BeginRollback:
    """Return what follows when the new job cannot even be submitted, with the old one stopped."""
    return BeginRollback(f"the new job was refused: {why}")


def _unless_over(seen: ReplacementSeen, action: Action) -> Action:
    if seen.previous is None:
        return Fail("the job to be replaced is no longer known")
    if seen.previous.is_over:
        return Fail(f"the job to be replaced has ended on its own, as {seen.previous.state}")
    return action


def _stopping(seen: ReplacementSeen) -> Action | None:
    if seen.stop is None:
        return None
    location = seen.stop.get("location")
    if location:
        return Submit(str(location))
    why = f"the job could not be stopped with a savepoint: {seen.stop.get('error', 'no savepoint')}"
    return Fail(why if seen.previous is None or seen.previous.is_over else f"{why}; it keeps running")


def _submitted(seen: ReplacementSeen) -> Action | None:
    job = seen.job
    if job is None:
        return _failed(seen, "the new job has been deleted")
    if job.state == "FINISHED":
        return Settle()
    if job.state == "CANCELED":
        return Fail("the new job was canceled before it had shown that it runs")
    if job.state == "FAILED":
        return _failed(seen, f"the new job has failed: {job.failure}")
    settled_ms = START_PATIENCE_MS if job.runs_in_passes else SETTLED_MS
    if job.has_checkpoint or (job.running_ms is not None and job.running_ms >= settled_ms):
        return Settle()
    if not seen.location:
        # nothing was replaced: restarts are the job's own affair
        return Settle() if job.state == "RUNNING" or job.restarts > 0 else None
    if job.restarts > 0:
        return _failed(seen, f"the new job fails: {job.failure}")
    if job.running_ms is None and seen.age_ms > START_PATIENCE_MS:
        return _failed(seen, f"the new job did not start in time: {job.waiting_for or job.state}")
    return None


def _failed(seen: ReplacementSeen, why: str) -> Action:
    if not seen.location:
        return Fail(why)
    if seen.job is not None and seen.job.has_checkpoint:
        # no rollback: see the module
        return Fail(why)
    return BeginRollback(why)


def _rolling_back(seen: ReplacementSeen) -> Action | None:
    if seen.job is None:
        return FinishRollback(seen.location)
    if not seen.job.is_over:
        return CancelNew()
    if seen.job.state == "FINISHED":
        return Settle()
    if seen.job.has_checkpoint:
        return Fail(
            "the new job completed a checkpoint while it was being ended: the old graph would write again what the new "
            f"job's sinks have committed since the savepoint {seen.location}"
        )
    return FinishRollback(seen.location)
