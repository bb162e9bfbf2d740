"""The state of a job and its failures: what may follow what, and what is told of it."""

from __future__ import annotations

import pytest

from runtime.core.ids import Attempt
from runtime.jobmaster.actions import JobMasterAction, JobStateChanged
from runtime.jobmaster.job_history import JobHistory
from runtime.jobmaster.job_state import TRANSITIONS, JobState
from runtime.jobmaster.journal import Journal
from runtime.jobmaster.phases import IllegalTransitionError
from runtime.task.messages import MAX_CAUSE_CHARS, MAX_TRACEBACK_CHARS, FailureInfo

ATTEMPT = Attempt(3)
CAUSE = FailureInfo("ValueError: bad record")


class Rig:
    """A history whose journal the test turns on."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.history = JobHistory(self.journal)
        self.actions: list[JobMasterAction] = []
        self.at(1_000)

    def at(self, now_ms: float) -> None:
        self.actions = self.journal.begin(now_ms)

    def in_state(self, state: JobState) -> JobHistory:
        self.history.state = state
        return self.history


def test_a_state_is_told_and_its_time_is_kept() -> None:
    rig = Rig()
    rig.history.begin(ATTEMPT)
    rig.at(1_400)
    rig.history.enter(JobState.RUNNING, ATTEMPT)
    rig.at(2_000)
    rig.history.enter(JobState.FAILING, ATTEMPT, CAUSE)
    assert rig.actions == [JobStateChanged(JobState.FAILING, ATTEMPT, CAUSE)]
    assert rig.history.state is JobState.FAILING
    assert rig.history.since_ms == {JobState.CREATED: 1_000, JobState.RUNNING: 1_400, JobState.FAILING: 2_000}
    assert rig.journal.story()[-1] == "2000: job RUNNING → FAILING: ValueError: bad record"


def test_every_change_is_remembered_also_that_an_adopted_job_runs() -> None:
    rig = Rig()
    history = rig.in_state(JobState.RECONCILING)
    history.enter(JobState.RUNNING, ATTEMPT)
    rig.at(2_000)
    history.enter(JobState.FAILING, ATTEMPT, CAUSE)
    history.break_off(ATTEMPT, CAUSE, 3_000.0)
    told = [(c.number, c.state, c.attempt, c.at_ms, c.cause) for c in history.changes]
    assert told == [
        (1, JobState.RUNNING, ATTEMPT, 1_000, ""),
        (2, JobState.FAILING, ATTEMPT, 2_000, CAUSE.message),
        (3, JobState.FAILED, ATTEMPT, 3_000, CAUSE.message),
    ]


@pytest.mark.parametrize("before", list(JobState))
@pytest.mark.parametrize("after", list(JobState))
def test_only_what_the_table_has_may_follow(before: JobState, after: JobState) -> None:
    rig = Rig()
    history = rig.in_state(before)
    if after in TRANSITIONS[before]:
        history.enter(after, ATTEMPT)
        assert history.state is after
        return
    with pytest.raises(IllegalTransitionError, match=f"a job cannot go from {before.name} to {after.name}"):
        history.enter(after, ATTEMPT)
    assert (history.state, rig.actions) == (before, [])


def test_a_job_that_was_adopted_has_been_running_all_the_time() -> None:
    rig = Rig()
    rig.history.enter(JobState.RECONCILING, ATTEMPT)
    rig.at(1_300)
    rig.history.enter(JobState.RUNNING, ATTEMPT)
    assert JobState.RUNNING not in rig.history.since_ms


def test_a_job_is_broken_off_in_any_state_but_an_end() -> None:
    for state in JobState:
        rig = Rig()
        history = rig.in_state(state)
        assert history.break_off(ATTEMPT, CAUSE, 7_000) != state.is_terminal
        assert history.is_broken
        assert [entry.cause for entry in history.failures] == [CAUSE]
        assert history.state is (state if state.is_terminal else JobState.FAILED)
        assert history.since_ms == ({} if state.is_terminal else {JobState.FAILED: 7_000})
        # nobody is there to do anything any more
        assert rig.actions == []


def test_a_symptom_gives_way_to_the_failure_that_explains_it() -> None:
    rig = Rig()
    symptom = FailureInfo("connection broken")
    first = rig.history.failed(ATTEMPT, symptom, is_symptom=True)
    rig.at(5_000)
    rig.history.failed(Attempt(4), FailureInfo("another one"))
    rig.history.failed_also(CAUSE, False, first)
    [told, other] = rig.history.failures
    assert (told.attempt, told.timestamp_ms, told.cause, told.suppressed) == (ATTEMPT, 1_000, CAUSE, (symptom,))
    assert (other.timestamp_ms, rig.history.num_failures) == (5_000, 2)
    assert rig.history.latest_failure == FailureInfo("another one")
    rig.history.failed_also(symptom, True)
    assert rig.history.failures[1].suppressed == (symptom,)


def test_before_anything_has_failed_there_is_no_failure() -> None:
    assert (Rig().history.latest_failure, Rig().history.failures, Rig().history.num_failures) == (None, (), 0)


def test_whatever_a_slot_says_a_failure_has_a_bounded_length() -> None:
    """Slots shorten it themselves; programs run in them, though."""
    rig = Rig()
    long = FailureInfo("first" + "x" * 10_000_000 + "last", "Traceback" + "y" * 10_000_000 + "ValueError")
    rig.history.failed(ATTEMPT, long)
    rig.history.failed_also(long, False)
    [told] = rig.history.failures
    for cause in (told.cause, *told.suppressed):
        assert len(cause.message) < MAX_CAUSE_CHARS + 100 and len(cause.traceback) < MAX_TRACEBACK_CHARS + 100
        assert cause.message.startswith("firstx") and cause.message.endswith("xlast")
        assert "(9968019 more characters)" in cause.traceback
