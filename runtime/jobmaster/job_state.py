"""States of a job, and the one table of legal transitions between them. Source: Flink, JobStatus."""

from __future__ import annotations

import enum
from collections.abc import Mapping


class JobState(enum.Enum):
    """Values are the names that Flink's REST API and `JobStatus` use."""

    CREATED = "CREATED"
    """Slots are being asked for and tasks deployed, for the first time."""
    RECONCILING = "RECONCILING"
    """Another JobMaster ran the job; its slots are being adopted, and process records meanwhile."""
    RUNNING = "RUNNING"
    """Every task runs or has finished."""
    FAILING = "FAILING"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELED = "CANCELED"
    FINISHED = "FINISHED"
    RESTARTING = "RESTARTING"
    """The failed attempt is over; the next one waits for its delay, asks for slots, and is deployed, until every task
    runs. Or: the job is being redeployed on purpose. Or: some regions are being restarted, while the others go on."""

    @property
    def is_terminal(self) -> bool:
        return not TRANSITIONS[self]


TRANSITIONS: Mapping[JobState, frozenset[JobState]] = {
    # to the terminal states: before the first attempt, for a job that an earlier JobMaster has ended
    JobState.CREATED: frozenset(
        {
            JobState.RECONCILING,
            JobState.RUNNING,
            JobState.FAILING,
            JobState.CANCELLING,
            JobState.FINISHED,
            JobState.CANCELED,
            JobState.FAILED,
        }
    ),
    JobState.RECONCILING: frozenset({JobState.RUNNING, JobState.RESTARTING, JobState.FAILING, JobState.CANCELLING}),
    JobState.RUNNING: frozenset({JobState.FINISHED, JobState.FAILING, JobState.CANCELLING, JobState.RESTARTING}),
    JobState.FAILING: frozenset({JobState.RESTARTING, JobState.FAILED, JobState.CANCELLING}),
    JobState.CANCELLING: frozenset({JobState.CANCELED}),
    JobState.RESTARTING: frozenset({JobState.RUNNING, JobState.FAILING, JobState.CANCELLING}),
    JobState.FAILED: frozenset(),
    JobState.CANCELED: frozenset(),
    JobState.FINISHED: frozenset(),
}
