"""Every state of a replacement against everything that a job may do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backend.cluster.replacement_machine import (
    SETTLED_MS,
    START_PATIENCE_MS,
    BeginRollback,
    CancelNew,
    Check,
    Fail,
    FinishRollback,
    JobSeen,
    ReplacementSeen,
    Settle,
    Stop,
    Submit,
    next_action,
)

OLD = JobSeen("RUNNING", running_ms=10**6, has_checkpoint=True)
AT = "file:///savepoint-1"


def seen(state: str, **more: object) -> ReplacementSeen:
    return replace(ReplacementSeen(state, 0, OLD), **more)  # type: ignore[arg-type]


def submitted(job: JobSeen | None, **more: object) -> ReplacementSeen:
    return seen("SUBMITTED", location=AT, previous=JobSeen("FINISHED"), job=job, **more)


def test_the_way_to_running() -> None:
    assert next_action(seen("COMPILED")) == Check()
    assert next_action(seen("CHECKED")) == Stop()
    assert next_action(seen("STOPPING")) is None
    assert next_action(seen("STOPPING", stop={"location": AT})) == Submit(AT)
    assert next_action(submitted(JobSeen("INITIALIZING"))) is None
    assert next_action(submitted(JobSeen("RUNNING", running_ms=5))) is None
    assert next_action(submitted(JobSeen("RUNNING", running_ms=5, has_checkpoint=True))) == Settle()
    assert next_action(submitted(JobSeen("RUNNING", running_ms=SETTLED_MS))) == Settle()
    in_batches = JobSeen("RUNNING", running_ms=SETTLED_MS, runs_in_passes=True)
    assert next_action(submitted(in_batches)) is None
    assert next_action(submitted(replace(in_batches, has_checkpoint=True))) == Settle()
    assert next_action(submitted(replace(in_batches, running_ms=START_PATIENCE_MS))) == Settle()
    assert next_action(submitted(JobSeen("FINISHED"))) == Settle()
    for state in ("RUNNING", "ROLLED_BACK", "FAILED"):
        assert next_action(seen(state)) is None


@pytest.mark.parametrize("state", ["COMPILED", "CHECKED"])
@pytest.mark.parametrize("ended", ["FINISHED", "CANCELED", "FAILED"])
def test_a_job_that_ends_by_itself_is_not_replaced(state: str, ended: str) -> None:
    action = next_action(seen(state, previous=JobSeen(ended)))
    assert isinstance(action, Fail) and ended in action.why
    assert isinstance(next_action(seen(state, previous=None)), Fail)


def test_a_stop_that_fails_leaves_the_job_running() -> None:
    action = next_action(seen("STOPPING", stop={"error": "no slots"}))
    assert isinstance(action, Fail) and "no slots; it keeps running" in action.why
    action = next_action(seen("STOPPING", stop={"error": "the job is FAILED"}, previous=JobSeen("FAILED")))
    assert isinstance(action, Fail) and "keeps running" not in action.why


@pytest.mark.parametrize(
    "job",
    [
        JobSeen("FAILED", failure="no such state"),
        JobSeen("RESTARTING", restarts=1, failure="no such state"),
        JobSeen("RUNNING", restarts=1, running_ms=5, failure="no such state"),
    ],
)
def test_a_failure_behind_the_savepoint_rolls_back(job: JobSeen) -> None:
    action = next_action(submitted(job))
    assert isinstance(action, BeginRollback) and "no such state" in action.why


def test_a_job_without_slots_rolls_back_after_a_while() -> None:
    waits = JobSeen("CREATED", waiting_for="needs 2 slots")
    assert next_action(submitted(waits, age_ms=START_PATIENCE_MS)) is None
    action = next_action(submitted(waits, age_ms=START_PATIENCE_MS + 1))
    assert isinstance(action, BeginRollback) and "needs 2 slots" in action.why


def test_nothing_is_written_twice() -> None:
    """Behind its first checkpoint the new job's sinks have committed: the old graph must not begin at the savepoint."""
    assert isinstance(next_action(submitted(JobSeen("FAILED", has_checkpoint=True))), Fail)
    rolling = replace(submitted(JobSeen("CANCELED", has_checkpoint=True)), state="ROLLING_BACK")
    assert isinstance(next_action(rolling), Fail)


def test_a_rollback_waits_for_the_end_of_the_new_job() -> None:
    rolling = replace(submitted(None), state="ROLLING_BACK")
    for state in ("CREATED", "RUNNING", "RESTARTING", "CANCELLING"):
        assert next_action(replace(rolling, job=JobSeen(state))) == CancelNew()
    for state in ("CANCELED", "FAILED"):
        assert next_action(replace(rolling, job=JobSeen(state))) == FinishRollback(AT)
    # refused before it was one
    assert next_action(rolling) == FinishRollback(AT)
    # it came to its end all the same
    assert next_action(replace(rolling, job=JobSeen("FINISHED"))) == Settle()


def test_a_user_who_cancels_the_new_job_means_it() -> None:
    assert isinstance(next_action(submitted(JobSeen("CANCELED"))), Fail)


def test_a_first_deployment_has_nothing_to_roll_back_to() -> None:
    first = ReplacementSeen("SUBMITTED", 0)
    assert isinstance(next_action(first), Fail)
    assert next_action(replace(first, job=JobSeen("CREATED"), age_ms=10**9)) is None
    assert next_action(replace(first, job=JobSeen("RUNNING", running_ms=1))) == Settle()
    assert next_action(replace(first, job=JobSeen("RESTARTING", restarts=3))) == Settle()
    assert isinstance(next_action(replace(first, job=JobSeen("FAILED", failure="x"))), Fail)
