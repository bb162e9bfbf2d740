"""The leader moves deployments on; it is killed at every call to the database, and its successor goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from pytest_django import Settings

from backend.cluster import services as cluster_services
from backend.cluster.checkpoint_home import check_location
from backend.cluster.containment import Containment
from backend.cluster.leadership import Leadership, LeadershipLostError
from backend.cluster.location_checks import CheckLocation, StorageSilentError
from backend.cluster.models import Checkpoint, Job, Operation
from backend.pipelines import services
from backend.pipelines.deployment_machine import SETTLED_MS, START_PATIENCE_MS
from backend.pipelines.deployments import deployments_that_keep
from backend.pipelines.documents import check
from backend.pipelines.led_deployments import LedDeployments
from backend.pipelines.models import Deployment, Pipeline
from runtime.common import options
from runtime.testing.clock import ManualClock
from tests.cluster.failing_database import FailingDatabase, Loss
from tests.cluster.graphs import graph_json
from tests.cluster.leading import take_leadership
from tests.pipelines_server.documents import document

pytestmark = pytest.mark.django_db(transaction=True)

MOST_CALLS = 250


@pytest.fixture
def savepoint(home: Any, settings: Settings) -> str:
    """A place where savepoints may be."""
    return f"file://{home}/savepoints/savepoint-1"


@pytest.fixture(autouse=True)
def made(alice: User) -> Deployment:
    """The second deployment of a pipeline whose first one runs."""
    return replacement(alice)


def replacement(user: User) -> Deployment:
    Pipeline.objects.all().delete()
    Job.objects.all().delete()
    pipeline, version = services.create_pipeline(check(document()), user)
    old = cluster_services.submit_job(graph_json(2), None, [], {}, user)
    Job.objects.update(state="RUNNING", state_times={"RUNNING": 1})
    values = {"pipeline": pipeline, "version": version, "created_by": user, "created_at": 1}
    first = Deployment.objects.create(
        state="RUNNING", job_id=old.id, graph=old.graph, idempotency_key="first", **values
    )
    return Deployment.objects.create(
        state="COMPILED", previous=first, graph=graph_json(1), idempotency_key="second", **values
    )


class Leader:
    """The part of a leader that moves deployments on, and the JobMasters that do what it asks for."""

    def __init__(self, savepoint: str) -> None:
        self._savepoint = savepoint
        self.clock = ManualClock(cluster_services.now_ms())
        #: says whether a directory is allowed
        self.check: CheckLocation = check_location
        self.become()

    def become(self) -> None:
        """Take the leadership, as a successor."""
        self.leadership: Leadership = take_leadership("leader")
        self._led = LedDeployments(self.leadership, self.clock, Containment(), lambda location: self.check(location))

    def poll(self) -> None:
        self._led.poll()

    def answer(self, new_state: str = "RUNNING", has_checkpoint: bool = True) -> None:
        """Do what JobMasters do: stop what is asked to stop, end what is cancelled, run what is new."""
        now = cluster_services.now_ms()
        for operation in Operation.objects.exclude(state="COMPLETED"):
            is_stop = operation.kind == Operation.Kind.STOP
            state = "FINISHED" if is_stop else "CANCELED"
            result = {"location": self._savepoint, "checkpoint_id": 7} if is_stop else {"state": state}
            Job.objects.filter(id=operation.job_id).update(state=state)
            Operation.objects.filter(trigger_id=operation.trigger_id).update(state="COMPLETED", result=result)
        for job in Job.objects.filter(state="INITIALIZING"):
            job.state, job.state_times = new_state, {new_state: now}
            job.save()
            if has_checkpoint:
                Checkpoint.objects.create(
                    job=job,
                    checkpoint_id=8,
                    location="file:///x",
                    is_owned=True,
                    is_savepoint=False,
                    leader_epoch=1,
                    triggered_at=1,
                    completed_at=2,
                    size=0,
                )


@pytest.fixture
def leader(savepoint: str) -> Iterator[Leader]:
    return Leader(savepoint)  # type: ignore[return-value]


def go_on(leader: Leader, made: Deployment, polls: int = 12, **answers: Any) -> list[str]:
    """Poll until nothing is left to be done; return the states on the way."""
    states = [made.state]
    for _ in range(polls):
        leader.poll()
        made.refresh_from_db()
        if made.state != states[-1]:
            states.append(made.state)
        leader.answer(**answers)
    return states


def test_a_job_is_replaced_from_its_savepoint(leader: Leader, made: Deployment, savepoint: str) -> None:
    assert go_on(leader, made) == ["COMPILED", "CHECKED", "STOPPING", "SUBMITTED", "RUNNING"]
    old, new = Job.objects.get(state="FINISHED"), Job.objects.get(state="RUNNING")
    assert new.id == made.job_id and made.previous is not None and old.id == made.previous.job_id
    assert new.graph["configuration"][options.RECOVERY_PATH.key] == savepoint
    assert new.graph["configuration"][options.RECOVERY_CLAIM_MODE.key] == "no_claim"
    assert [o.kind for o in Operation.objects.all()] == ["stop"]


def silent(location: str) -> str:
    raise StorageSilentError(location)


def test_the_new_job_is_submitted_when_the_storage_answers(leader: Leader, made: Deployment) -> None:
    leader.check = silent
    assert go_on(leader, made) == ["COMPILED", "CHECKED", "STOPPING"]
    assert made.message.startswith("it waits: the storage of ") and "\n" not in made.message
    leader.check = check_location
    assert go_on(leader, made) == ["STOPPING", "SUBMITTED", "RUNNING"]
    assert made.message == ""


def test_a_new_job_whose_storage_never_answers_gives_way_to_the_old_one(leader: Leader, made: Deployment) -> None:
    leader.check = silent
    go_on(leader, made)
    leader.clock.advance(START_PATIENCE_MS)
    assert go_on(leader, made, polls=2) == ["STOPPING"]
    leader.clock.advance(1)
    assert go_on(leader, made, polls=4) == ["STOPPING", "ROLLING_BACK"]
    refused, waits = made.message.splitlines()
    assert refused.startswith("the new job was refused: the storage of ")
    assert waits.startswith("it waits: the storage of ")
    leader.check = check_location
    assert go_on(leader, made) == ["ROLLING_BACK", "ROLLED_BACK"]
    assert made.message == refused


def test_the_old_job_is_submitted_again_when_the_storage_answers(leader: Leader, made: Deployment) -> None:
    assert go_on(leader, made, polls=3, new_state="FAILED", has_checkpoint=False)[-1] == "SUBMITTED"
    leader.check = silent
    assert go_on(leader, made, polls=4) == ["SUBMITTED", "ROLLING_BACK"]
    leader.check = check_location
    assert go_on(leader, made, polls=4) == ["ROLLING_BACK", "ROLLED_BACK"]


def test_no_storage_is_waited_for_while_nobody_else_can_write(leader: Leader, made: Deployment) -> None:
    asked = list[str]()

    def noted(location: str) -> str:
        assert not connection.in_atomic_block, location
        asked.append(location)
        return check_location(location)

    leader.check = noted
    go_on(leader, made, polls=4, new_state="FAILED", has_checkpoint=False)
    num_submission = len(asked)
    assert go_on(leader, made)[-1] == "ROLLED_BACK"
    assert 0 < num_submission < len(asked)


def test_state_can_be_left_behind(leader: Leader, made: Deployment, savepoint: str) -> None:
    Deployment.objects.filter(id=made.id).update(restore={"keeps_state": False})
    assert go_on(leader, made)[-1] == "RUNNING"
    made.refresh_from_db()
    assert options.RECOVERY_PATH.key not in Job.objects.get(id=made.job_id).graph["configuration"]
    # and yet a rollback could have used it
    assert made.restore["savepoint"] == savepoint


def test_a_job_can_be_replaced_from_another_snapshot_and_comes_back_from_its_own(
    leader: Leader, made: Deployment, savepoint: str
) -> None:
    chosen = savepoint.replace("savepoint-1", "savepoint-earlier")
    made.restore = {"keeps_state": True, "allows_loss": False, "location": chosen}
    made.save()
    assert set(deployments_that_keep([chosen, savepoint])) == {chosen}
    go_on(leader, made, polls=4, new_state="FAILED", has_checkpoint=False)
    assert Job.objects.get(id=made.job_id).configuration[options.RECOVERY_PATH.key] == chosen
    go_on(leader, made, new_state="FAILED", has_checkpoint=False)
    made.refresh_from_db()
    assert (made.state, made.restore["savepoint"]) == ("ROLLED_BACK", savepoint)
    again = Job.objects.get(id=made.rollback_job_id)
    assert again.configuration[options.RECOVERY_PATH.key] == savepoint


def test_a_job_that_fails_is_rolled_back(leader: Leader, made: Deployment, savepoint: str) -> None:
    states = go_on(leader, made, polls=4, new_state="FAILED", has_checkpoint=False)
    states += go_on(leader, made)[1:]
    assert states == ["COMPILED", "CHECKED", "STOPPING", "SUBMITTED", "ROLLING_BACK", "ROLLED_BACK"]
    again = Job.objects.get(state="RUNNING")
    assert again.id == made.rollback_job_id
    assert again.graph["configuration"][options.RECOVERY_PATH.key] == savepoint
    assert again.parallelism == 2
    # the old version runs again, and can be replaced again
    assert made.previous is not None
    made.previous.refresh_from_db()
    assert made.previous.job_id == again.id


def test_a_job_that_restarts_is_ended_before_the_old_one_comes_back(leader: Leader, made: Deployment) -> None:
    go_on(leader, made, polls=2)
    leader.poll()
    Job.objects.filter(id=made.job_id).update(state="RESTARTING", restarts=1)
    leader.poll()
    leader.poll()
    made.refresh_from_db()
    assert made.state == "ROLLING_BACK"
    assert Operation.objects.get(kind="cancel").job_id == made.job_id
    for _ in range(3):
        leader.poll()
    assert (Operation.objects.filter(kind="cancel").count(), Job.objects.count()) == (1, 2)
    assert go_on(leader, made) == ["ROLLING_BACK", "ROLLED_BACK"]


@pytest.mark.parametrize("writer_ms", [3_600_000, -3_600_000], ids=["ahead", "behind"])
def test_a_job_without_checkpoints_is_settled_by_the_leaders_own_clock(
    leader: Leader, made: Deployment, writer_ms: int
) -> None:
    """The times of states in rows may be of another machine, whose clock is off."""
    assert go_on(leader, made, polls=3, has_checkpoint=False)[-1] == "SUBMITTED"
    at = cluster_services.now_ms() + writer_ms
    Job.objects.filter(id=made.job_id).update(state_times={"RUNNING": at})
    for passes_ms, state in ((0, "SUBMITTED"), (SETTLED_MS - 1, "SUBMITTED"), (1, "RUNNING")):
        leader.clock.advance(passes_ms)
        leader.poll()
        made.refresh_from_db()
        assert made.state == state


def test_a_job_that_is_refused_is_rolled_back(leader: Leader, made: Deployment) -> None:
    graph = {**made.graph, "configuration": {"execution.checkpointing.interval": "nonsense"}}
    Deployment.objects.filter(id=made.id).update(graph=graph)
    assert go_on(leader, made) == ["COMPILED", "CHECKED", "STOPPING", "ROLLING_BACK", "ROLLED_BACK"]
    assert "refused" in made.message
    assert Job.objects.filter(state="RUNNING").count() == 1


def test_a_leader_that_has_been_replaced_does_nothing(leader: Leader, made: Deployment) -> None:
    take_leadership("another")
    with suppress(LeadershipLostError):
        leader.poll()
    made.refresh_from_db()
    assert made.state == "COMPILED"


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("fails", [False, True])
def test_a_leader_that_dies_anywhere_changes_nothing_of_it(
    leader: Leader, alice: User, savepoint: str, fails: bool, step: int
) -> None:
    """Each call of its polls is lost, before or after it is carried out, and all later ones; then another leader goes
    on. The quick test takes every 13th."""
    jobs = 3 if fails else 2
    answers: dict[str, Any] = {"new_state": "FAILED", "has_checkpoint": False} if fails else {}
    for nth in range(1, MOST_CALLS, step):
        for loss in Loss:
            made = replacement(alice)
            leader.become()
            database = FailingDatabase(nth, loss, is_away=True)
            has_failed = False
            for _ in range(14):
                if made.state in ("RUNNING", "ROLLED_BACK", "FAILED"):
                    break
                _poll(leader, database)
                if database.failed:
                    has_failed = True
                    connection.close()
                    leader.become()
                    database = FailingDatabase(0, loss)
                is_first = not Job.objects.filter(id=made.rollback_job_id).exists()
                leader.answer(**(answers if is_first else {}))
                made.refresh_from_db()
            assert made.state == ("ROLLED_BACK" if fails else "RUNNING"), (nth, loss)
            assert Job.objects.count() == jobs, (nth, loss)
            assert Job.objects.filter(state="RUNNING").count() == 1, (nth, loss)
            assert Operation.objects.filter(kind="stop").count() == 1, (nth, loss)
            if not has_failed:
                assert nth > 30
                return
    raise AssertionError("there are more calls")


def _poll(leader: Leader, database: FailingDatabase) -> None:
    with suppress(OperationalError), database.in_use():
        leader.poll()
