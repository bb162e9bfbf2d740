"""Scenarios of the whole control plane, each with the faults that it is about."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import pytest

from backend.cluster import bus, job_store, task_metrics
from backend.cluster.models import Checkpoint, Job, Operation
from backend.cluster.task_metrics import ACCUMULATORS
from tests.control_plane.scenario import (
    ADOPTED,
    EVERY_STEP,
    PLACEMENT,
    Action,
    CallFault,
    Event,
    Point,
    Request,
    Scenario,
    Submission,
    TimedFault,
)
from tests.control_plane.simulate import Verdict, check, simulate

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(1800)]

Kind = Operation.Kind


def test_without_faults_jobs_are_restarted_failed_cancelled_and_stopped_as_they_must_be() -> None:
    verdict = simulate(EVERY_STEP)
    check(verdict)
    ends = {int(job_id, 16) - 1: state for job_id, (state, _) in verdict.world.oracle._ends.items()}
    assert ends == {0: "FINISHED", 1: "FAILED", 2: "CANCELED"}, verdict.report()


def test_without_faults_jobs_are_adopted_and_their_operations_done() -> None:
    verdict = simulate(ADOPTED)
    check(verdict)
    counts = verdict.world.oracle.counts
    assert counts["adopted"] and counts["rescale done"] == 1 and counts["savepoint done"] == 2, verdict.report()
    assert [state for state, _ in verdict.world.oracle._ends.values()] == ["CANCELED"], verdict.report()


def test_the_end_of_a_job_is_published_though_the_answer_to_its_commit_is_lost() -> None:
    lost = CallFault(Point.SQL, 1, Action.LOSE_ANSWER, what='"ended_at" =')
    verdict = simulate(dataclasses.replace(EVERY_STEP, calls=(lost,)))
    check(verdict)
    assert lost in verdict.world.happened


def test_a_disposal_that_was_done_and_not_recorded_is_answered_as_done() -> None:
    dies = CallFault(Point.SQL, 3, Action.KILL, what='COMMIT UPDATE "cluster_operation" SET "state" = %s, "result"')
    # the second one shows the next leader that the storage is there
    taken = (Request(3_000, Kind.SAVEPOINT, 0), Request(4_000, Kind.SAVEPOINT, 0))
    verdict = simulate(Scenario(4, requests=(*taken, Request(6_000, Kind.DISPOSE, 0)), calls=(dies,)))
    check(verdict)
    assert verdict.world.happened == [dies]
    assert verdict.world.oracle.counts["dispose done"] == 1, verdict.report()


def test_a_savepoint_that_cancels_its_job_is_answered_whenever_the_leader_dies() -> None:
    for nth in range(1, 40):
        dies = CallFault(Point.BUS, nth, Action.KILL, what="publish job:")
        verdict = simulate(Scenario(6, requests=(Request(3_000, Kind.SAVEPOINT, 0, argument=1),), calls=(dies,)))
        check(verdict)
        if dies not in verdict.world.happened:
            assert nth > 5
            return
    pytest.fail("the document of the job is published without end")


@pytest.mark.parametrize("leader", [None, Event.KILL_LEADER, Event.FREEZE_LEADER], ids=["stays", "dies", "freezes"])
def test_a_job_that_must_leave_and_finds_no_slots_waits_with_its_state_whoever_leads(leader: Event | None) -> None:
    comes, drains, returns = (
        TimedFault(0, Event.ADD_TASKMANAGER),
        TimedFault(3_500, Event.DRAIN_TASKMANAGER),
        TimedFault(11_500, Event.ADD_TASKMANAGER),
    )
    changes = () if leader is None else (TimedFault(9_000, leader, 7_000),)
    # the only other TaskManager has too few slots
    scenario = Scenario(
        9, taskmanagers=(1,), submissions=(Submission(300, parallelism=2),), events=(comes, drains, *changes, returns)
    )
    verdict = simulate(scenario)
    check(verdict)
    job = Job.objects.get()
    assert (job.state, job.restarts, job.exceptions.count()) == ("RUNNING", 0, 0), verdict.report()
    assert job.attempt == (1 if leader is None else 2), verdict.report()
    assert Checkpoint.objects.filter(job=job).exists()


def test_the_only_job_is_cleared_up_when_it_has_ended() -> None:
    """Its JobMaster deletes its directory, and leaves nothing by which a mounted storage could be told."""
    verdict = simulate(Scenario(1, requests=(Request(8_000, Kind.CANCEL, 0),)))
    check(verdict)
    job = Job.objects.get()
    assert (job.state, job.may_have_leftovers) == ("CANCELED", False), verdict.report()


# --- savepoints over a change of leader -------------------------------------------------------------------------------

#: text of the call → whether the leader ends before it (0) or behind it (1), and what becomes of the operation
PROGRESS = 'COMMIT UPDATE "cluster_operation" SET "state" = %s, "progress"'
ANSWER = 'COMMIT UPDATE "cluster_operation" SET "state" = %s, "result"'
STOP_ROW = 'COMMIT INSERT INTO "cluster_checkpoint"'


def savepoints_of(verdict: Verdict) -> tuple[list[str], list[str]]:
    """Return the directories on disk, and those that answers tell."""
    told = Operation.objects.filter(result__location__isnull=False).values_list("result__location", flat=True)
    return sorted(verdict.world.oracle.savepoints), sorted({location.rpartition("/")[2] for location in told})


@pytest.mark.parametrize("is_adopted", [True, False], ids=["adopted", "restarted"])
@pytest.mark.parametrize(("call", "after"), [(PROGRESS, 0), (PROGRESS, 1), (ANSWER, 0), (ANSWER, 1)])
def test_a_savepoint_is_taken_once_whenever_the_leader_dies(call: str, after: int, is_adopted: bool) -> None:
    dies = CallFault(Point.SQL, 1, Action.KILL, after, what=call)
    submissions = (Submission(0, is_adopted=is_adopted),)
    verdict = simulate(
        Scenario(7, submissions=submissions, requests=(Request(3_000, Kind.SAVEPOINT, 0),), calls=(dies,))
    )
    check(verdict)
    assert verdict.world.happened == [dies]
    on_disk, told = savepoints_of(verdict)
    assert on_disk == told and len(told) == 1, verdict.report()


@pytest.mark.parametrize("drains", [0, 1], ids=["suspend", "drain"])
@pytest.mark.parametrize("is_adopted", [True, False], ids=["adopted", "restarted"])
@pytest.mark.parametrize(("call", "after"), [(PROGRESS, 0), (PROGRESS, 1), ("stop row", 0), ("stop row", 1)])
def test_a_stop_takes_one_savepoint_whenever_the_leader_dies(
    call: str, after: int, is_adopted: bool, drains: int
) -> None:
    # the job takes no other checkpoints: the first row is the savepoint's
    dies = CallFault(Point.SQL, 1, Action.KILL, after, what=STOP_ROW if call == "stop row" else call)
    submissions = (Submission(0, is_adopted=is_adopted, takes_checkpoints=False),)
    stop = Request(3_000, Kind.STOP, 0, argument=drains)
    verdict = simulate(Scenario(8, submissions=submissions, requests=(stop,), calls=(dies,)))
    check(verdict)
    assert verdict.world.happened == [dies]
    on_disk, told = savepoints_of(verdict)
    assert len(on_disk) == 1, verdict.report()
    [operation] = Operation.objects.all()
    assert operation.job is not None and operation.result is not None
    assert operation.job.state == "FINISHED", verdict.report()
    assert on_disk == told, verdict.report()


@pytest.mark.parametrize("kind", [Kind.SAVEPOINT, Kind.STOP])
@pytest.mark.parametrize("is_adopted", [True, False], ids=["adopted", "restarted"])
def test_a_leader_that_thaws_completes_no_savepoint_that_its_successor_has_begun_anew(
    is_adopted: bool, kind: Operation.Kind
) -> None:
    asked_ms, refused = 3_000, 0
    for at_ms in range(asked_ms, asked_ms + 60, 10):
        freeze = TimedFault(at_ms, Event.FREEZE_LEADER, 6_000)
        submissions, requests = (Submission(0, is_adopted=is_adopted),), (Request(asked_ms, kind, 0),)
        verdict = simulate(Scenario(12, submissions=submissions, requests=requests, events=(freeze,)))
        check(verdict)
        assert verdict.world.oracle.epoch == 2, verdict.report()
        refused += verdict.world.refused["sql"]
    assert refused, "no leader thawed after it was replaced"


def test_a_stop_asked_for_twice_has_one_savepoint_and_an_answer_under_both_ids() -> None:
    requests = (Request(3_000, Kind.STOP, 0), Request(3_010, Kind.STOP, 0))
    verdict = simulate(Scenario(10, requests=requests, events=(TimedFault(3_100, Event.KILL_LEADER),)))
    check(verdict)
    rows = list(Operation.objects.order_by("created_at"))
    assert [row.trigger_id for row in rows] == [asked.trigger_id for asked in verdict.world.users.asked]
    assert rows[1].follows == rows[0] and rows[0].result == rows[1].result, verdict.report()


@pytest.mark.parametrize("event", [Event.KILL_LEADER, Event.FREEZE_LEADER], ids=lambda event: event.name)
@pytest.mark.parametrize("is_adopted", [True, False], ids=["adopted", "restarted"])
def test_a_rescaling_begins_again_and_is_answered_whenever_the_leader_is_lost(is_adopted: bool, event: Event) -> None:
    asked_ms, attempts = 3_000, set()
    for at_ms in range(asked_ms, asked_ms + 1_500, 150):
        lost = TimedFault(at_ms, event, 6_000 if event is Event.FREEZE_LEADER else 0)
        submissions, requests = (Submission(0, is_adopted=is_adopted),), (Request(asked_ms, Kind.RESCALE, 0, 2),)
        verdict = simulate(Scenario(13, submissions=submissions, requests=requests, events=(lost,)))
        check(verdict)
        [operation] = Operation.objects.select_related("job")
        assert operation.job is not None and "error" not in (operation.result or {"error": ""}), verdict.report()
        assert (operation.job.state, set(operation.job.vertex_parallelism.values())) == ("RUNNING", {2})
        attempts.add(operation.job.attempt)
    assert max(attempts) <= 2, "one more than the rescaling itself needs, at most"
    assert min(attempts) == (1 if is_adopted else 2), "none more if the job was not torn down"


def test_checkpoints_are_counted_over_a_change_of_leader() -> None:
    events = (TimedFault(7_000, Event.KILL_LEADER), TimedFault(11_000, Event.KILL_LEADER))
    verdict = simulate(Scenario(11, submissions=(Submission(0, is_adopted=True),), events=events))
    check(verdict)
    assert verdict.world.oracle.epoch == 3, verdict.report()
    [job_id] = verdict.world.users.job_ids
    shown = verdict.world.redis.documents[bus.JOB_KEY.format(job_id)]
    counts, newest = shown["checkpoints"]["counts"], Checkpoint.objects.order_by("checkpoint_id").last()
    assert newest is not None and counts["completed"] > 3
    # every id was used for one that is completed, has failed, or is in progress
    assert counts["completed"] + counts["failed"] + counts["in_progress"] == counts["total"]
    assert newest.checkpoint_id <= counts["total"] <= newest.checkpoint_id + 1, verdict.report()


@pytest.mark.parametrize("kind", [Kind.STOP, Kind.CANCEL])
@pytest.mark.parametrize("is_adopted", [True, False], ids=["adopted", "restarted"])
def test_no_checkpoint_outlives_its_job_whichever_deletion_of_rows_the_leader_dies_behind(
    kind: Kind, is_adopted: bool
) -> None:
    """Rows are deleted before their files, so the next leader finds no row of what is left."""
    ended = 0
    for nth in range(1, 20):
        dies = CallFault(Point.SQL, nth, Action.KILL, 1, what='COMMIT DELETE FROM "cluster_checkpoint"')
        submissions = (Submission(0, is_adopted=is_adopted, num_retained=2),)
        verdict = simulate(Scenario(12, submissions=submissions, requests=(Request(6_000, kind, 0),), calls=(dies,)))
        check(verdict)
        if dies not in verdict.world.happened:
            break
        ended += 1
    assert 1 <= ended < 19


# --- what users' code says ------------------------------------------------------------------------------------------

NAN = (
    ("op.__accumulator__.AverageAccumulator.sum.mean", math.nan),
    ("op.__accumulator__.DoubleCounter.sum.n", math.inf),
)
BAD = "ValueError: bad \ud800\0 record"


def test_a_job_with_accumulators_that_json_does_not_have_is_cancelled() -> None:
    submissions, requests = (Submission(0, metrics=NAN),), (Request(5_000, Kind.CANCEL, 0),)
    verdict = simulate(Scenario(1, submissions=submissions, requests=requests))
    check(verdict)
    [row] = Job.objects.all()
    vertices = (row.document or {})[ACCUMULATORS].values()
    reports = [["mean", "AverageAccumulator", {"sum": "NaN"}], ["n", "DoubleCounter", {"sum": "Infinity"}]]
    assert [subtasks["0"] for subtasks in vertices] == [reports] * len(row.graph["vertices"])


def test_a_job_whose_failure_no_database_and_no_log_can_take_as_it_is_restarts() -> None:
    fails = TimedFault(6_000, Event.FAIL_TASK, text=BAD)
    verdict = simulate(Scenario(1, events=(fails,)))
    check(verdict)
    [row] = Job.objects.all()
    assert (row.state, row.restarts) == ("RUNNING", 1), verdict.report()
    assert "bad \ufffd\ufffd record" in row.exceptions.get().message


@pytest.mark.parametrize("seed", [1, 2])
def test_a_job_whose_row_the_database_refuses_ends_alone_and_answers_its_operations(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Nobody has foreseen what it is: documents are cleaned where they are written, and here they are not.

    It depends on the seed whether the database is first asked while the job is being cancelled or when it has been.
    """
    for module in (job_store, task_metrics):
        monkeypatch.setattr(module, "storable", lambda value: dict(value) if isinstance(value, Mapping) else value)
    submissions = (Submission(0, metrics=NAN, is_restarted=False), Submission(0))
    verdict = simulate(Scenario(seed, submissions=submissions, requests=(Request(8_000, Kind.CANCEL, 0),)))
    check(verdict)
    rows = {row.id: row for row in Job.objects.all()}
    refused, other = (rows[job_id] for job_id in verdict.world.users.job_ids)
    assert refused.state in ("FAILED", "CANCELED") and other.state == "RUNNING", verdict.report()
    assert "IntegrityError" in (refused.failure or {})["message"]
    assert (refused.document or {})["state"] == refused.state and refused.ended_at is not None
    assert not Operation.objects.exclude(state=Operation.State.COMPLETED).exists()
    [manager] = [process.manager for process in verdict.world.leaders if process.manager is not None]
    assert set(manager.jobs.runners) == {other.id}, "its runner is dropped"


# --- leaders ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ms", "is_replaced"), [(1_500, False), (8_000, True)])
def test_a_leader_that_thaws_finds_itself_replaced_or_goes_on(ms: int, is_replaced: bool) -> None:
    verdict = simulate(Scenario(2, events=(TimedFault(5_000, Event.FREEZE_LEADER, ms),)))
    check(verdict)
    assert verdict.world.refused["sql"] == is_replaced, verdict.report()
    assert verdict.world.oracle.epoch == 1 + is_replaced, verdict.report()


def test_slots_are_adopted_when_only_leaders_fail_and_no_attempt_begins_anew() -> None:
    submissions = (Submission(0, parallelism=2, is_adopted=True), Submission(1_000, is_adopted=True))
    events = (TimedFault(4_000, Event.KILL_LEADER), TimedFault(8_000, Event.FREEZE_LEADER, 7_000))
    verdict = simulate(Scenario(5, submissions=submissions, events=events))
    check(verdict)
    oracle = verdict.world.oracle
    assert oracle.epoch == 3 and oracle.counts["adopted"] == 6, verdict.report()
    assert {attempt for _, attempt, _ in oracle._started} == {0}, verdict.report()


@pytest.mark.parametrize("call", [PLACEMENT, f"COMMIT {PLACEMENT}"], ids=["statement", "commit"])
@pytest.mark.parametrize("action", [Action.FAIL, Action.LOSE_ANSWER], ids=lambda action: action.name)
def test_a_job_is_adopted_whose_placement_could_not_be_recorded_at_once(action: Action, call: str) -> None:
    fault = CallFault(Point.SQL, 1, action, what=call)
    submissions = (Submission(0, parallelism=2, is_adopted=True),)
    events = (TimedFault(6_000, Event.KILL_LEADER),)
    verdict = simulate(Scenario(5, submissions=submissions, calls=(fault,), events=events))
    check(verdict)
    assert len(verdict.world.happened) == 2, verdict.report()
    assert verdict.world.oracle.counts["adopted"] == 2, verdict.report()
    assert {attempt for _, attempt, _ in verdict.world.oracle._started} == {0}, verdict.report()


def test_no_taskmanager_is_lost_because_the_leaders_loop_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    # it falls behind, as it would with a hundred TaskManagers
    monkeypatch.setattr("tests.control_plane.bus.MAX_EVENTS_AT_ONCE", 25)
    stalls = CallFault(Point.SQL, 5, Action.LATE, 30_000, what='FROM "cluster_operation"')
    submissions = (Submission(0, is_adopted=True),)
    verdict = simulate(Scenario(3, (1, 1, 1), submissions, calls=(stalls,), jobmanagers=1))
    check(verdict)
    assert verdict.world.happened == [stalls]
    assert not verdict.world.oracle.counts["TaskManagers gone"], verdict.report()
    assert {attempt for _, attempt, _ in verdict.world.oracle._started} == {0}, verdict.report()


def test_without_a_standby_the_same_leader_goes_on() -> None:
    events = (TimedFault(5_000, Event.FREEZE_LEADER, 8_000),)
    verdict = simulate(Scenario(3, submissions=(Submission(0),), events=events, jobmanagers=1))
    check(verdict)
    assert verdict.world.oracle.epoch == 1, verdict.report()
