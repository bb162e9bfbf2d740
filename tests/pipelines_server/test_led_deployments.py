"""The leader moves deployments on; it is killed at every call to the database, and its successor goes on."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from pytest_django import Settings

from backend.cluster import services as cluster_services
from backend.cluster.checkpoint_home import check_location
from backend.cluster.leadership import LeadershipLostError
from backend.cluster.models import Job, Operation
from backend.cluster.replacement_machine import SETTLED_MS, START_PATIENCE_MS
from backend.pipelines import services
from backend.pipelines.deployments import deployments_that_keep, switch_obstacle
from backend.pipelines.documents import check
from backend.pipelines.led_deployments import LedDeployments
from backend.pipelines.models import Deployment, Pipeline
from runtime.common import options
from tests.cluster.failing_database import Loss
from tests.cluster.graphs import graph_json
from tests.cluster.leading import take_leadership
from tests.cluster.replacing import Replacing, silent
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


@pytest.fixture
def leader(savepoint: str) -> Replacing:
    return Replacing(LedDeployments, savepoint)


def test_a_job_is_replaced_from_its_savepoint(leader: Replacing, made: Deployment, savepoint: str) -> None:
    assert leader.go_on(made) == ["COMPILED", "CHECKED", "STOPPING", "SUBMITTED", "RUNNING"]
    old, new = Job.objects.get(state="FINISHED"), Job.objects.get(state="RUNNING")
    assert new.id == made.job_id and made.previous is not None and old.id == made.previous.job_id
    assert new.graph["configuration"][options.RECOVERY_PATH.key] == savepoint
    assert new.graph["configuration"][options.RECOVERY_CLAIM_MODE.key] == "no_claim"
    assert [o.kind for o in Operation.objects.all()] == ["stop"]


def test_the_new_job_is_submitted_when_the_storage_answers(leader: Replacing, made: Deployment) -> None:
    leader.check = silent
    assert leader.go_on(made) == ["COMPILED", "CHECKED", "STOPPING"]
    assert made.message.startswith("it waits: the storage of ") and "\n" not in made.message
    leader.check = check_location
    assert leader.go_on(made) == ["STOPPING", "SUBMITTED", "RUNNING"]
    assert made.message == ""


def test_a_new_job_whose_storage_never_answers_gives_way_to_the_old_one(leader: Replacing, made: Deployment) -> None:
    leader.check = silent
    leader.go_on(made)
    leader.clock.advance(START_PATIENCE_MS)
    assert leader.go_on(made, polls=2) == ["STOPPING"]
    leader.clock.advance(1)
    assert leader.go_on(made, polls=4) == ["STOPPING", "ROLLING_BACK"]
    refused, waits = made.message.splitlines()
    assert refused.startswith("the new job was refused: the storage of ")
    assert waits.startswith("it waits: the storage of ")
    leader.check = check_location
    assert leader.go_on(made) == ["ROLLING_BACK", "ROLLED_BACK"]
    assert made.message == refused


def test_the_old_job_is_submitted_again_when_the_storage_answers(leader: Replacing, made: Deployment) -> None:
    assert leader.go_on(made, polls=3, new_state="FAILED", has_checkpoint=False)[-1] == "SUBMITTED"
    leader.check = silent
    assert leader.go_on(made, polls=4) == ["SUBMITTED", "ROLLING_BACK"]
    leader.check = check_location
    assert leader.go_on(made, polls=4) == ["ROLLING_BACK", "ROLLED_BACK"]


def test_no_storage_is_waited_for_while_nobody_else_can_write(leader: Replacing, made: Deployment) -> None:
    asked = list[str]()

    def noted(location: str) -> str:
        assert not connection.in_atomic_block, location
        asked.append(location)
        return check_location(location)

    leader.check = noted
    leader.go_on(made, polls=4, new_state="FAILED", has_checkpoint=False)
    num_submission = len(asked)
    assert leader.go_on(made)[-1] == "ROLLED_BACK"
    assert 0 < num_submission < len(asked)


def test_a_drawn_job_is_switched_by_its_pipelines_setting(made: Deployment) -> None:
    assert made.previous is not None
    why = switch_obstacle(made.previous.job_id)
    assert why is not None and "redeploy" in why
    assert switch_obstacle("0" * 32) is None


def test_state_can_be_left_behind(leader: Replacing, made: Deployment, savepoint: str) -> None:
    Deployment.objects.filter(id=made.id).update(restore={"keeps_state": False})
    assert leader.go_on(made)[-1] == "RUNNING"
    made.refresh_from_db()
    assert options.RECOVERY_PATH.key not in Job.objects.get(id=made.job_id).graph["configuration"]
    # and yet a rollback could have used it
    assert made.restore["savepoint"] == savepoint


def test_a_job_can_be_replaced_from_another_snapshot_and_comes_back_from_its_own(
    leader: Replacing, made: Deployment, savepoint: str
) -> None:
    chosen = savepoint.replace("savepoint-1", "savepoint-earlier")
    made.restore = {"keeps_state": True, "allows_loss": False, "location": chosen}
    made.save()
    assert set(deployments_that_keep([chosen, savepoint])) == {chosen}
    leader.go_on(made, polls=4, new_state="FAILED", has_checkpoint=False)
    assert Job.objects.get(id=made.job_id).configuration[options.RECOVERY_PATH.key] == chosen
    leader.go_on(made, new_state="FAILED", has_checkpoint=False)
    made.refresh_from_db()
    assert (made.state, made.restore["savepoint"]) == ("ROLLED_BACK", savepoint)
    again = Job.objects.get(id=made.rollback_job_id)
    assert again.configuration[options.RECOVERY_PATH.key] == savepoint


def test_a_job_that_fails_is_rolled_back(leader: Replacing, made: Deployment, savepoint: str) -> None:
    Job.objects.update(tags=["nightly"])
    states = leader.go_on(made, polls=4, new_state="FAILED", has_checkpoint=False)
    states += leader.go_on(made)[1:]
    assert states == ["COMPILED", "CHECKED", "STOPPING", "SUBMITTED", "ROLLING_BACK", "ROLLED_BACK"]
    again = Job.objects.get(state="RUNNING")
    assert again.id == made.rollback_job_id
    assert again.graph["configuration"][options.RECOVERY_PATH.key] == savepoint
    assert (again.parallelism, again.tags) == (2, ["nightly"])
    # the old version runs again, and can be replaced again
    assert made.previous is not None
    made.previous.refresh_from_db()
    assert made.previous.job_id == again.id


def test_a_job_that_restarts_is_ended_before_the_old_one_comes_back(leader: Replacing, made: Deployment) -> None:
    leader.go_on(made, polls=2)
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
    assert leader.go_on(made) == ["ROLLING_BACK", "ROLLED_BACK"]


@pytest.mark.parametrize("writer_ms", [3_600_000, -3_600_000], ids=["ahead", "behind"])
def test_a_job_without_checkpoints_is_settled_by_the_leaders_own_clock(
    leader: Replacing, made: Deployment, writer_ms: int
) -> None:
    """The times of states in rows may be of another machine, whose clock is off."""
    assert leader.go_on(made, polls=3, has_checkpoint=False)[-1] == "SUBMITTED"
    at = cluster_services.now_ms() + writer_ms
    Job.objects.filter(id=made.job_id).update(state_times={"RUNNING": at})
    for passes_ms, state in ((0, "SUBMITTED"), (SETTLED_MS - 1, "SUBMITTED"), (1, "RUNNING")):
        leader.clock.advance(passes_ms)
        leader.poll()
        made.refresh_from_db()
        assert made.state == state


def test_a_job_that_is_refused_is_rolled_back(leader: Replacing, made: Deployment) -> None:
    graph = {**made.graph, "configuration": {"execution.checkpointing.interval": "nonsense"}}
    Deployment.objects.filter(id=made.id).update(graph=graph)
    assert leader.go_on(made) == ["COMPILED", "CHECKED", "STOPPING", "ROLLING_BACK", "ROLLED_BACK"]
    assert "refused" in made.message
    assert Job.objects.filter(state="RUNNING").count() == 1


def test_a_leader_that_has_been_replaced_does_nothing(leader: Replacing, made: Deployment) -> None:
    take_leadership("another")
    with suppress(LeadershipLostError):
        leader.poll()
    made.refresh_from_db()
    assert made.state == "COMPILED"


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("fails", [False, True])
def test_a_leader_that_dies_anywhere_changes_nothing_of_it(
    leader: Replacing, alice: User, savepoint: str, fails: bool, step: int
) -> None:
    """Each call of its polls is lost, before or after it is carried out, and all later ones; then another leader goes
    on. The quick test takes every 13th."""
    jobs = 3 if fails else 2
    answers: dict[str, Any] = {"new_state": "FAILED", "has_checkpoint": False} if fails else {}
    for nth in range(1, MOST_CALLS, step):
        for loss in Loss:
            made = replacement(alice)
            has_failed = leader.settle_although_lost(made, nth, loss, answers)
            assert made.state == ("ROLLED_BACK" if fails else "RUNNING"), (nth, loss)
            assert Job.objects.count() == jobs, (nth, loss)
            assert Job.objects.filter(state="RUNNING").count() == 1, (nth, loss)
            assert Operation.objects.filter(kind="stop").count() == 1, (nth, loss)
            if not has_failed:
                assert nth > 30
                return
    raise AssertionError("there are more calls")
