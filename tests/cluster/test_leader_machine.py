"""The leader's decisions, as tables: what the rows and the runners show → what is done. No SQL, no Redis."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from backend.cluster.leader_machine import (
    OPERATION_PATIENCE_MS,
    SLOT_PATIENCE_MS,
    SLOTS_LOST,
    SUSPENDED,
    AdoptJob,
    Answer,
    CancelJob,
    CarryOut,
    Conclude,
    Discard,
    Dispose,
    DropJob,
    EndJob,
    JobOnDraining,
    JobRow,
    LeaderMachine,
    LeftSavepoint,
    MoveJob,
    OperationAction,
    OperationRow,
    RegisterTaskManager,
    Remains,
    RunJob,
    RunnerSeen,
    SaveJob,
    SnapshotSeen,
    TakeJob,
    TargetSeen,
    TaskManagerRows,
    UnregisterTaskManager,
)
from backend.cluster.models import Operation

Kind = Operation.Kind
EPOCH = 7
NOT_RESTARTED = (
    f"{SLOTS_LOST}; restart-strategy.type is 'none' and the job takes no checkpoints, so the job is not restarted"
)
SAVEPOINT = {"location": "file:///sp", "checkpoint_id": 3}


@pytest.fixture
def machine() -> LeaderMachine:
    return LeaderMachine(EPOCH)


# --- jobs without a runner --------------------------------------------------------------------------------------------

NEW = JobRow("j", "INITIALIZING", 0, 0)
WAITED = JobRow("j", "CREATED", 6, 2)
RAN = JobRow("j", "RUNNING", 6, 2, has_run=True)
HELD_UP = replace(WAITED, leader_epoch=EPOCH)
#: it was moved away from a TaskManager that drained, and there was nowhere to go
WAITS_AGAIN = replace(RAN, state="RESTARTING")


@pytest.mark.parametrize(
    ("row", "action"),
    [
        pytest.param(NEW, TakeJob("j", "CREATED", 0), id="new"),
        pytest.param(replace(NEW, is_cancelled=True), TakeJob("j", "CREATED", 0), id="new, and cancelled when it runs"),
        pytest.param(replace(WAITED, leader_epoch=EPOCH), RunJob("j"), id="taken, but not run"),
        pytest.param(replace(RAN, leader_epoch=EPOCH, state="RESTARTING"), RunJob("j"), id="taken over, but not run"),
        pytest.param(replace(HELD_UP, is_held_up=True), RunJob("j"), id="taken, and waits for its storage"),
        pytest.param(
            replace(HELD_UP, is_held_up=True, is_cancelled=True), EndJob("j", "CANCELED"), id="cancelled while it does"
        ),
        pytest.param(replace(HELD_UP, is_cancelled=True), RunJob("j"), id="its runner is to be cancelled"),
        pytest.param(WAITED, TakeJob("j", "CREATED", 3), id="waited for slots: a number of its own"),
        pytest.param(replace(WAITED, has_failed=True), TakeJob("j", "CREATED", 3, SLOTS_LOST), id="failed at once"),
        pytest.param(RAN, TakeJob("j", "RESTARTING", 3, SLOTS_LOST), id="ran"),
        pytest.param(replace(RAN, restarts=False), EndJob("j", "FAILED", NOT_RESTARTED), id="ran, no restart strategy"),
        pytest.param(replace(WAITED, restarts=False), TakeJob("j", "CREATED", 3), id="waiting on is no restart"),
        pytest.param(replace(RAN, is_cancelled=True), EndJob("j", "CANCELED"), id="cancelled"),
        pytest.param(replace(RAN, state="CANCELLING"), EndJob("j", "CANCELED"), id="being cancelled"),
        pytest.param(replace(WAITED, is_cancelled=True), EndJob("j", "CANCELED"), id="cancelled while it waited"),
        pytest.param(replace(RAN, state=SUSPENDED), TakeJob("j", "RESTARTING", 3), id="its leader ended as planned"),
        pytest.param(
            replace(RAN, state=SUSPENDED, restarts=False), EndJob("j", "FAILED", NOT_RESTARTED), id="cannot go on"
        ),
        pytest.param(replace(RAN, state="FAILING"), TakeJob("j", "RESTARTING", 3, SLOTS_LOST), id="failing"),
        pytest.param(WAITS_AGAIN, TakeJob("j", "RESTARTING", 3), id="waits for slots: it has none to lose"),
        pytest.param(replace(WAITS_AGAIN, restarts=False), TakeJob("j", "RESTARTING", 3), id="waiting again is none"),
        pytest.param(
            replace(WAITS_AGAIN, attempt_has_failed=True),
            TakeJob("j", "RESTARTING", 3, SLOTS_LOST),
            id="has failed, and was to be restarted",
        ),
        pytest.param(replace(WAITS_AGAIN, is_placed=True), AdoptJob("j"), id="other regions of it run"),
        pytest.param(
            replace(WAITS_AGAIN, is_placed=True, stored_attempt=5),
            TakeJob("j", "RESTARTING", 6, SLOTS_LOST),
            id="has run somewhere else since the backup",
        ),
        pytest.param(replace(NEW, stored_attempt=4), TakeJob("j", "CREATED", 5), id="has run since the backup"),
        pytest.param(replace(RAN, stored_attempt=2), TakeJob("j", "RESTARTING", 3, SLOTS_LOST), id="as the row says"),
        pytest.param(replace(RAN, stored_attempt=7), TakeJob("j", "RESTARTING", 8, SLOTS_LOST), id="from a backup"),
    ],
)
def test_a_job_without_a_runner_is_run_or_ends(machine: LeaderMachine, row: JobRow, action: object) -> None:
    assert machine.job(row) == action
    assert machine.job(row) == action, "nothing is remembered: it is decided again until the rows say that it is done"


# --- jobs that run ----------------------------------------------------------------------------------------------------

RUNNING = RunnerSeen("j", "RUNNING")


@pytest.mark.parametrize(
    ("seen", "actions"),
    [
        (RUNNING, []),
        (replace(RUNNING, is_saved=False), [SaveJob("j")]),
        (replace(RUNNING, answers={"o": SAVEPOINT}), [Answer("o", SAVEPOINT)]),
        (replace(RUNNING, is_saved=False, answers={"o": SAVEPOINT}), [SaveJob("j"), Answer("o", SAVEPOINT)]),
        # what it has been asked is answered in the same write
        (replace(RUNNING, state="FINISHED", is_saved=False, answers={"o": SAVEPOINT}), [SaveJob("j")]),
        (replace(RUNNING, state="FINISHED", is_saved=False, is_over=True), [SaveJob("j")]),
        (replace(RUNNING, state="FINISHED"), []),
        (replace(RUNNING, state="FINISHED", is_over=True), [DropJob("j")]),
    ],
)
def test_a_running_job_is_saved_answered_and_dropped(
    machine: LeaderMachine, seen: RunnerSeen, actions: list[Any]
) -> None:
    assert machine.runner(seen) == actions


# --- operations -------------------------------------------------------------------------------------------------------

CANCEL = OperationRow("o", Kind.CANCEL, "j", 1_000, job_state="RUNNING")
ASKED = OperationRow("o", Kind.SAVEPOINT, "j", 1_000, job_state="RUNNING")
CREATED = RunnerSeen("j", "CREATED", "needs 2 slots, 0 are free")
PREMATURE = replace(RUNNING, requests={"o"}, premature={"o": "not all tasks of the job are running"})
TOO_LATE = OPERATION_PATIENCE_MS + 1


def decided(
    machine: LeaderMachine, row: OperationRow, runner: RunnerSeen | None, age_ms: int = 1_000
) -> OperationAction | None:
    actions = machine.operations([replace(row, age_ms=age_ms)], {} if runner is None else {"j": runner}, {})
    return actions[0] if actions else None


@pytest.mark.parametrize(
    ("row", "runner", "action"),
    [
        pytest.param(CANCEL, RUNNING, CancelJob("o", "j", False), id="cancel"),
        pytest.param(CANCEL, CREATED, CancelJob("o", "j", False), id="cancel a job that waits"),
        pytest.param(replace(CANCEL, is_begun=True), RUNNING, CancelJob("o", "j", True), id="cancel once more"),
        pytest.param(CANCEL, None, None, id="cancel: the job is taken first"),
        pytest.param(
            replace(CANCEL, job_state="FINISHED"), None, Answer("o", {"state": "FINISHED"}), id="cancel, too late"
        ),
        pytest.param(CANCEL, replace(RUNNING, state="FINISHED"), None, id="the end, once saved, answers it"),
        pytest.param(ASKED, RUNNING, CarryOut("o", "j", False), id="a savepoint"),
        pytest.param(replace(ASKED, is_begun=True), RUNNING, CarryOut("o", "j", True), id="begun by an earlier leader"),
        pytest.param(ASKED, replace(RUNNING, requests={"o"}), None, id="in progress"),
        pytest.param(ASKED, PREMATURE, CarryOut("o", "j", False), id="once more: the job did not run just then"),
        pytest.param(ASKED, replace(PREMATURE, state="RESTARTING"), None, id="it waits until the job runs again"),
        pytest.param(ASKED, CREATED, None, id="a savepoint waits for its job"),
        pytest.param(ASKED, None, None, id="a savepoint of a job that is not taken yet"),
        pytest.param(ASKED, replace(RUNNING, state="FAILED"), None, id="the job has ended, and it is not saved yet"),
        pytest.param(
            replace(ASKED, job_state="FAILED"), None, Answer("o", {"error": "the job is FAILED"}), id="after the end"
        ),
    ],
)
def test_an_operation_begins_waits_or_is_answered(
    machine: LeaderMachine, row: OperationRow, runner: RunnerSeen | None, action: object
) -> None:
    assert decided(machine, row, runner) == action


def left(remains: Remains, **fields: Any) -> OperationRow:
    seen = LeftSavepoint("file:///sp", remains, 7 if remains is Remains.COMPLETE else 0)
    return replace(ASKED, is_begun=True, left=seen, **fields)


STOP: Any = {"kind": Kind.STOP, "ends_job": True}
TOLD = Answer("o", {"location": "file:///sp", "checkpoint_id": 7})
RESTARTING = replace(RUNNING, state="RESTARTING")


@pytest.mark.parametrize(
    ("row", "runner", "action"),
    [
        pytest.param(left(Remains.COMPLETE), RUNNING, TOLD, id="complete: it is the answer"),
        pytest.param(left(Remains.COMPLETE), RESTARTING, TOLD, id="complete: the job need not run"),
        pytest.param(left(Remains.COMPLETE, job_state="FAILED"), None, TOLD, id="complete before the job ended"),
        pytest.param(
            left(Remains.COMPLETE, ends_job=True),
            RUNNING,
            Conclude("o", "j", "file:///sp", 7),
            id="the job is to be cancelled behind it",
        ),
        pytest.param(
            left(Remains.COMPLETE, **STOP),
            replace(RUNNING, stops_with="file:///sp"),
            None,
            id="the job stops with it: its recorded end is the answer",
        ),
        pytest.param(left(Remains.COMPLETE, **STOP), RESTARTING, None, id="the job must run first"),
        pytest.param(left(Remains.PARTIAL), RUNNING, Discard("o", "file:///sp"), id="not complete: deleted first"),
        pytest.param(left(Remains.PARTIAL), RESTARTING, None, id="its slots may still write"),
        pytest.param(
            left(Remains.PARTIAL, job_state="CANCELED"),
            None,
            Discard("o", "file:///sp"),
            id="deleted after the end, too",
        ),
        pytest.param(left(Remains.NOTHING), RUNNING, CarryOut("o", "j", True), id="nothing is left: taken again"),
        pytest.param(left(Remains.UNKNOWN), RUNNING, None, id="nobody knows yet"),
        pytest.param(left(Remains.UNKNOWN, job_state="FAILED"), None, None, id="nobody knows yet, after the end"),
    ],
)
def test_a_savepoint_that_an_earlier_leader_began_is_never_taken_twice(
    machine: LeaderMachine, row: OperationRow, runner: RunnerSeen | None, action: object
) -> None:
    assert decided(machine, row, runner) == action


def test_what_is_left_of_a_savepoint_is_named_if_nobody_can_look_at_it(machine: LeaderMachine) -> None:
    answer = decided(machine, left(Remains.UNKNOWN), RUNNING, TOO_LATE)
    assert isinstance(answer, Answer) and "file:///sp" in answer.result["error"]
    ended = left(Remains.COMPLETE, job_state="FINISHED", **STOP)
    answer = decided(machine, ended, None)
    assert isinstance(answer, Answer) and "file:///sp is complete, but the job did not end" in answer.result["error"]


def test_a_stop_whose_job_has_gone_on_behind_its_savepoint_names_it(machine: LeaderMachine) -> None:
    for runner in (RUNNING, replace(RUNNING, stops_with="file:///another")):
        answer = decided(machine, left(Remains.COMPLETE, **STOP), runner)
        assert isinstance(answer, Answer)
        assert "file:///sp is complete, but the job did not stop after it" in answer.result["error"]


@pytest.mark.parametrize("remains", [Remains.COMPLETE, Remains.PARTIAL, Remains.UNKNOWN])
@pytest.mark.parametrize("state", ["RUNNING", "RESTARTING", "RECONCILING"])
def test_a_stop_whose_job_ends_with_its_savepoint_is_answered_with_that_end_only(
    machine: LeaderMachine, remains: Remains, state: str
) -> None:
    """Whatever the storage says of the savepoint: it must not be deleted, nor be called lost."""
    runner = replace(RUNNING, state=state, stops_with="file:///sp")
    for is_given_up in (False, True):
        assert decided(machine, left(remains, is_given_up=is_given_up, **STOP), runner, TOO_LATE) is None


@pytest.mark.parametrize("runner", [RUNNING, RESTARTING, None])
def test_a_savepoint_that_was_completed_after_its_job_had_gone_on_is_named_at_once_and_nobody_is_told_to_restore_it(
    machine: LeaderMachine, runner: RunnerSeen | None
) -> None:
    job_state = "FAILED" if runner is None else "RUNNING"
    answer = decided(machine, left(Remains.COMPLETE, is_given_up=True, job_state=job_state, **STOP), runner)
    assert isinstance(answer, Answer) and "do not restore it" in answer.result["error"]


def test_a_stop_of_a_job_that_ended_by_itself_is_told_so(machine: LeaderMachine) -> None:
    answer = decided(machine, replace(ASKED, job_state="FINISHED", **STOP), None)
    assert isinstance(answer, Answer) and "has ended by itself, as FINISHED" in answer.result["error"]


def test_an_operation_that_follows_another_gets_its_result(machine: LeaderMachine) -> None:
    follower = replace(ASKED, follows="first")
    assert decided(machine, follower, RUNNING) is None
    result = {"location": "file:///sp", "checkpoint_id": 7}
    assert decided(machine, replace(follower, followed_result=result), RUNNING) == Answer("o", result)
    assert decided(machine, replace(follower, job_state="FINISHED"), None) is None


def test_an_operation_whose_job_does_not_run_for_long_is_refused_and_says_why(machine: LeaderMachine) -> None:
    refusal = Answer("o", {"error": "the job does not run, it is CREATED: needs 2 slots, 0 are free"})
    assert decided(machine, ASKED, CREATED, TOO_LATE) == refusal
    assert decided(machine, CANCEL, CREATED, TOO_LATE) == CancelJob("o", "j", False)
    refusal = Answer("o", {"error": "not all tasks of the job are running"})
    assert decided(machine, ASKED, PREMATURE, TOO_LATE) == refusal


def test_an_operation_waits_less_for_a_job_that_lacks_slots(machine: LeaderMachine) -> None:
    lacking, late = replace(CREATED, waits_for_slots=True), SLOT_PATIENCE_MS + 1
    refusal = Answer("o", {"error": "the job does not run, it is CREATED: needs 2 slots, 0 are free"})
    assert (decided(machine, ASKED, lacking), decided(machine, ASKED, CREATED, late)) == (None, None)
    assert decided(machine, ASKED, lacking, late) == refusal
    assert decided(machine, replace(ASKED, kind=Kind.RESCALE), lacking, late - 1) == CarryOut("o", "j", False)


def test_a_stop_whose_savepoint_is_complete_waits_for_its_job_to_end(machine: LeaderMachine) -> None:
    lacking = replace(RESTARTING, waits_for_slots=True)
    assert decided(machine, left(Remains.COMPLETE, **STOP), lacking, TOO_LATE) is None
    refused = decided(machine, left(Remains.PARTIAL, **STOP), lacking, TOO_LATE)
    assert isinstance(refused, Answer) and "error" in refused.result


SILENT = "the storage of /share has not answered yet"


@pytest.mark.parametrize(
    ("target", "age_ms", "action"),
    [
        (TargetSeen("file:///target"), 1_000, CarryOut("o", "j", False, "file:///target")),
        (TargetSeen("file:///target"), TOO_LATE, CarryOut("o", "j", False, "file:///target")),
        (TargetSeen(error="not allowed"), 1_000, Answer("o", {"error": "not allowed"})),
        (TargetSeen(silent=SILENT), 1_000, None),
        (TargetSeen(silent=SILENT), TOO_LATE, Answer("o", {"error": SILENT})),
    ],
)
def test_a_savepoint_waits_for_the_storage_of_the_directory_that_its_user_names(
    machine: LeaderMachine, target: TargetSeen, age_ms: int, action: object
) -> None:
    assert decided(machine, replace(ASKED, target=target), RUNNING, age_ms) == action


def test_what_is_asked_of_a_job_that_waits_for_its_storage_is_refused_in_the_end(machine: LeaderMachine) -> None:
    asked = replace(ASKED, job_state="CREATED", held_up=SILENT)
    assert decided(machine, asked, None) is None
    refusal = Answer("o", {"error": f"the job does not run, it is CREATED: {SILENT}"})
    assert decided(machine, asked, None, TOO_LATE) == refusal
    # the job ends, which is its answer
    assert decided(machine, replace(CANCEL, held_up=SILENT), None, TOO_LATE) is None


DISPOSAL = OperationRow("o", Kind.DISPOSE, None, 1_000, snapshot=SnapshotSeen("file:///sp"))


@pytest.mark.parametrize(
    ("row", "disposals", "actions"),
    [
        (DISPOSAL, {}, [Dispose("o", "file:///sp", False)]),
        (replace(DISPOSAL, is_begun=True), {}, [Dispose("o", "file:///sp", True)]),
        (replace(DISPOSAL, snapshot=None), {"o": None}, []),
        (
            replace(DISPOSAL, snapshot=None, age_ms=OPERATION_PATIENCE_MS + 1),
            {"o": None},
            [Answer("o", {"error": "the storage of the snapshot does not answer; what was begun goes on"})],
        ),
        (replace(DISPOSAL, snapshot=SnapshotSeen(silent="who knows")), {}, []),
        (
            replace(DISPOSAL, snapshot=SnapshotSeen(silent="who knows"), age_ms=OPERATION_PATIENCE_MS + 1),
            {},
            [Answer("o", {"error": "who knows"})],
        ),
        (
            replace(DISPOSAL, snapshot=None),
            {"o": {"location": "file:///sp"}},
            [Answer("o", {"location": "file:///sp"})],
        ),
        (
            replace(DISPOSAL, snapshot=SnapshotSeen(error="not allowed")),
            {},
            [Answer("o", {"error": "not allowed"})],
        ),
        (
            replace(DISPOSAL, snapshot=SnapshotSeen("file:///sp", needed_by="job j2")),
            {},
            [Answer("o", {"error": "job j2 may have to restore from it"})],
        ),
    ],
)
def test_a_snapshot_is_disposed_of_unless_a_job_needs_it(
    machine: LeaderMachine, row: OperationRow, disposals: dict[str, Any], actions: list[Any]
) -> None:
    assert machine.operations([row], {}, disposals) == actions


def test_operations_are_decided_oldest_first_and_each_for_itself(machine: LeaderMachine) -> None:
    rows = [replace(ASKED, trigger_id="a"), replace(CANCEL, trigger_id="b"), replace(ASKED, trigger_id="c", job_id="x")]
    assert machine.operations(rows, {"j": RUNNING}, {}) == [CarryOut("a", "j", False), CancelJob("b", "j", False)]


# --- TaskManagers -----------------------------------------------------------------------------------------------------


def test_rows_of_taskmanagers_follow_those_that_are_there(machine: LeaderMachine) -> None:
    assert machine.taskmanagers(TaskManagerRows({"a", "b"}, {"a", "b"})) == []
    assert machine.taskmanagers(TaskManagerRows({"a", "b", "c"}, {"c", "d"}, {"b"})) == [
        UnregisterTaskManager("a", has_signed_off=False),
        UnregisterTaskManager("b", has_signed_off=True),
        RegisterTaskManager("d"),
    ]


# --- TaskManagers that drain ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("jobs", "moving", "moved"),
    [
        ([JobOnDraining("a", 2, 2, is_evicted=False)], (), ["a"]),
        ([JobOnDraining("a", 3, 2, is_evicted=False)], (), []),
        # the time is over: it waits for slots with its state saved
        ([JobOnDraining("a", 3, 2, is_evicted=True)], (), ["a"]),
        # there is room for one of them
        ([JobOnDraining("a", 2, 3, is_evicted=False), JobOnDraining("b", 2, 3, is_evicted=False)], (), ["a"]),
        # which is on its way
        ([JobOnDraining("a", 2, 3, is_evicted=False), JobOnDraining("b", 2, 3, is_evicted=False)], ("b",), []),
        # others are found slots when they restart
        ([JobOnDraining("restarts", 1, 3, is_evicted=True)], (), []),
    ],
)
def test_jobs_leave_when_there_are_slots_elsewhere_or_no_more_time(
    machine: LeaderMachine, jobs: list[JobOnDraining], moving: tuple[str, ...], moved: list[str]
) -> None:
    assert machine.moves(jobs, {"a", "b"}, moving) == [MoveJob(name) for name in moved]


def test_a_job_that_waits_for_slots_is_told_of_other_bounds_and_of_nothing_else(machine: LeaderMachine) -> None:
    waits = RunnerSeen("j", "RESTARTING", "needs 4 slots, 2 are free", waits_for_slots=True)
    for kind in (Kind.RESCALE, Kind.SAVEPOINT):
        row = OperationRow("t", kind, "j", 0, job_state="RESTARTING")
        decided = machine.operations([row], {"j": waits}, {})
        assert decided == ([CarryOut("t", "j", False)] if kind is Kind.RESCALE else [])
