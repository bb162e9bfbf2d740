"""The phases of a job's attempt, and which states of the job and of its tasks go with them. Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from runtime.jobmaster.job_state import JobState
from runtime.task.messages import TaskState


class Phase(enum.Enum):
    """The phase of the current attempt."""

    IDLE = "no attempt"
    RECONCILING = "waiting for slots of an earlier JobMaster to report"
    REQUESTING = "waiting for slots to register"
    DEPLOYING = "waiting for tasks to be deployed"
    STARTED = "tasks run"
    COMMITTING = "waiting for sinks to commit"
    CANCELLING_TASKS = "waiting for tasks to stop"
    LEAVING = "waiting for slots to end"


#: job states that go with each phase
PHASE_STATES: dict[Phase, frozenset[JobState]] = {
    Phase.IDLE: frozenset(
        {JobState.CREATED, JobState.RESTARTING, JobState.FAILED, JobState.CANCELED, JobState.FINISHED}
    ),
    Phase.RECONCILING: frozenset({JobState.RECONCILING}),
    Phase.REQUESTING: frozenset({JobState.CREATED, JobState.RESTARTING}),
    Phase.DEPLOYING: frozenset({JobState.CREATED, JobState.RESTARTING}),
    Phase.STARTED: frozenset({JobState.CREATED, JobState.RECONCILING, JobState.RUNNING, JobState.RESTARTING}),
    Phase.COMMITTING: frozenset({JobState.RUNNING}),
    Phase.CANCELLING_TASKS: frozenset({JobState.FAILING, JobState.CANCELLING, JobState.RESTARTING}),
    Phase.LEAVING: frozenset({JobState.FAILING, JobState.CANCELLING, JobState.RESTARTING, JobState.RUNNING}),
}
TEARDOWN = (Phase.CANCELLING_TASKS, Phase.LEAVING)
DEPLOYED = (TaskState.INITIALIZING, TaskState.RUNNING, TaskState.FINISHED)
RUNNING = (TaskState.RUNNING, TaskState.FINISHED)


class IllegalTransitionError(Exception):
    """Raised when the machine is asked for something that its state forbids: a bug in it or in its driver."""

    def __init__(self, message: str, story: Iterable[str]) -> None:
        self.story = tuple(story)
        super().__init__("\n  ".join((message, *self.story)))
