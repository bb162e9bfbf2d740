"""JobHistory: the state of a job, how long it has been in each, and the failures that it has had. Pure.

Whoever decides that the job is in another state says so here: what is no legal transition is refused, and the driver is
told of all others.
"""

from __future__ import annotations

from collections.abc import Mapping

from runtime.core.ids import Attempt
from runtime.jobmaster.actions import JobStateChanged
from runtime.jobmaster.job_state import TRANSITIONS, JobState
from runtime.jobmaster.journal import Journal
from runtime.jobmaster.phases import IllegalTransitionError
from runtime.jobmaster.status import ExceptionEntry, ExceptionHistory, Failure, StateChange, StateHistory
from runtime.task.messages import FailureInfo


class JobHistory:
    """The history of one job under this JobMaster.

    Args:
        journal: tells the time; takes the story and the actions.
    """

    def __init__(self, journal: Journal) -> None:
        self.state = JobState.CREATED
        #: whether the driver could not continue
        self.is_broken = False
        self._journal = journal
        self._since_ms: dict[JobState, float] = {}
        self._changes = StateHistory()
        self._failures = ExceptionHistory()

    # --- states -------------------------------------------------------------------------------------------------------

    @property
    def since_ms(self) -> Mapping[JobState, float]:
        """Return when the job was last put into each state that it has been in; monotonic."""
        return dict(self._since_ms)

    @property
    def changes(self) -> tuple[StateChange, ...]:
        """Return the newest changes of state, oldest first."""
        return self._changes.changes()

    def begin(self, attempt: Attempt) -> None:
        """Note that the first attempt begins."""
        self._since_ms[JobState.CREATED] = self._journal.now_ms
        self._changes.add(JobState.CREATED, attempt, self._journal.now_ms)

    def enter(self, state: JobState, attempt: Attempt, cause: FailureInfo | None = None) -> None:
        """Put the job into another state.

        Args:
            state: the next one.
            attempt: the newest one.
            cause: the failure that leads to it, if one does.

        Raises:
            IllegalTransitionError: it cannot follow the present one.
        """
        if state not in TRANSITIONS[self.state]:
            story = self._journal.story()
            raise IllegalTransitionError(f"a job cannot go from {self.state.name} to {state.name}", story)
        self._journal.tell(f"job {self.state.name} → {state.name}" + (f": {cause.message}" if cause else ""))
        if not (self.state is JobState.RECONCILING and state is JobState.RUNNING):
            # a job that was adopted has been running all the time
            self._since_ms[state] = self._journal.now_ms
        self._changes.add(state, attempt, self._journal.now_ms, "" if cause is None else cause.message)
        self.state = state
        self._journal.act(JobStateChanged(state, attempt, cause))

    def break_off(self, attempt: Attempt, cause: FailureInfo, now_ms: float) -> bool:
        """Make the job FAILED, whatever its state, because the driver cannot continue; False: it had ended.

        Args:
            attempt: the newest one.
            cause: why.
            now_ms: monotonic.
        """
        self._journal.tell(f"broken off: {cause.message}")
        self._failures.add(attempt, now_ms, cause, is_symptom=False)
        self.is_broken = True
        if self.state.is_terminal:
            return False
        self.state = JobState.FAILED
        self._since_ms[JobState.FAILED] = now_ms
        self._changes.add(JobState.FAILED, attempt, now_ms, cause.message)
        return True

    # --- failures -----------------------------------------------------------------------------------------------------

    @property
    def failures(self) -> tuple[ExceptionEntry, ...]:
        """Return the newest failures, oldest first."""
        return self._failures.entries()

    @property
    def num_failures(self) -> int:
        """Return how many there were of all."""
        return self._failures.count

    @property
    def latest_failure(self) -> FailureInfo | None:
        """Return the cause of the newest failure."""
        return self._failures.latest

    def failed(self, attempt: Attempt, cause: FailureInfo, is_symptom: bool = False) -> Failure:
        """Note the first failure of an attempt; return what `failed_also` knows it by.

        Args:
            attempt: the one that failed.
            cause: what broke.
            is_symptom: whether the cause may be elsewhere.
        """
        return self._failures.add(attempt, self._journal.now_ms, cause, is_symptom)

    def failed_also(self, cause: FailureInfo, is_symptom: bool, failure: Failure | None = None) -> None:
        """Note a later failure of the same attempt; `failure` is its first one, None: the newest of all."""
        self._failures.add_suppressed(cause, is_symptom, failure)
