"""The leader moves switches of the execution on; it is killed at calls to the database, and its successor goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from backend.cluster import services
from backend.cluster.containment import Containment
from backend.cluster.models import Artifact, Job, Operation
from backend.cluster.replacement_machine import SETTLED_MS, START_PATIENCE_MS
from backend.cluster.row_retention import RowRetention
from backend.cluster.snapshot_users import kept_by_apps
from backend.cluster.withheld import given_of, sealed
from backend.dispatcher import artifacts
from backend.dispatcher.led_switches import LedSwitches
from backend.dispatcher.models import ExecutionSwitch
from backend.dispatcher.switch_retention import KEPT, LOOK_MS, SwitchRetention
from runtime.common import options
from runtime.testing.clock import ManualClock
from tests.cluster.failing_database import Loss
from tests.cluster.graphs import graph_json
from tests.cluster.leading import take_leadership
from tests.cluster.replacing import Replacing, silent

pytestmark = pytest.mark.django_db(transaction=True)

MOST_CALLS = 250
SECRET = "canary-7f3a"
OPTIONS = {"pipeline.name": "sums", "s3.secret-key": SECRET}


@pytest.fixture
def savepoint(home: Path) -> str:
    """A place where savepoints may be."""
    return f"file://{home}/savepoints/savepoint-1"


@pytest.fixture(autouse=True)
def made(alice: User, home: Path) -> ExecutionSwitch:
    """A switch of a job that runs."""
    return new_switch(alice)


@pytest.fixture
def leader(savepoint: str) -> Replacing:
    return Replacing(LedSwitches, savepoint)


def new_switch(user: User, **planned_options: str) -> ExecutionSwitch:
    """A switch to micro-batches, as the web process leaves it, of a job whose user is somebody else."""
    ExecutionSwitch.objects.all().delete()
    Job.objects.all().delete()
    owner, _ = User.objects.get_or_create(username="owner")
    program, _ = Artifact.objects.get_or_create(id="a" * 64, file_name="sums.py", size=1, uploaded_at=1, files=["x"])
    submission = {"entry": None, "parallelism": 2, "configuration": OPTIONS}
    args = ["--password", SECRET]
    old = services.submit_job(graph_json(2), program, args, OPTIONS, owner, submission)
    Job.objects.update(state="RUNNING", state_times={"RUNNING": 1}, tags=["nightly"])
    graph = graph_json(2, **{"execution.mode": "micro-batch", **planned_options})
    switched = {**OPTIONS, options.EXECUTION_MODE.key: "micro-batch"}
    row = ExecutionSwitch(
        state="CHECKED",
        old_job_id=old.id,
        execution="micro-batch",
        idempotency_key=old.id,
        created_by=user,
        created_at=services.now_ms(),
    )
    planned = {
        "graph": graph,
        "args": args,
        "configuration": {**graph["configuration"], **switched},
        "submission": submission | {"configuration": switched},
    }
    row.planned = sealed(f"switch {row.id}", json.dumps(planned))
    row.save(force_insert=True)
    return row


def test_the_new_job_is_the_old_one_in_the_other_execution(
    leader: Replacing, made: ExecutionSwitch, savepoint: str
) -> None:
    assert leader.go_on(made) == ["CHECKED", "STOPPING", "SUBMITTED", "RUNNING"]
    assert made.savepoint == savepoint
    old, new = Job.objects.get(id=made.old_job_id), Job.objects.get(id=made.job_id)
    assert (old.state, new.state) == ("FINISHED", "RUNNING")
    assert [o.parameters["format"] for o in Operation.objects.all()] == ["CANONICAL"]
    assert (new.name, new.tags, new.artifact_id) == (old.name, ["nightly"], old.artifact_id)
    assert new.submitted_by is not None and new.submitted_by.username == "owner"
    given = given_of(new)
    assert given.args == ["--password", SECRET] and given.configuration["s3.secret-key"] == SECRET
    assert given.submission["configuration"]["s3.secret-key"] == SECRET
    assert given.graph["configuration"][options.EXECUTION_MODE.key] == "micro-batch"
    assert given.graph["configuration"][options.RECOVERY_PATH.key] == savepoint
    assert given.graph["configuration"][options.RECOVERY_CLAIM_MODE.key] == "no_claim"
    # it can be switched back: its savepoint is none of its submission's options
    assert options.RECOVERY_PATH.key not in given.submission["configuration"]
    columns = json.dumps([new.graph, new.program_args, new.configuration, new.submission])
    assert SECRET not in columns and SECRET not in made.planned


def test_a_rescaled_job_keeps_its_parallelisms_where_they_fit(leader: Replacing, made: ExecutionSwitch) -> None:
    old = Job.objects.get(id=made.old_job_id)
    last = {vertex["vertex_id"]: 1 for vertex in old.graph["vertices"]}
    bounds = {vertex: [1, 4] for vertex in last}
    Job.objects.filter(id=old.id).update(vertex_parallelism=last, requirements=bounds, autoscaler_enabled=False)
    leader.go_on(made)
    new = Job.objects.get(id=made.job_id)
    assert (new.parallelism, new.requirements, new.autoscaler_enabled) == (1, bounds, False)


def test_parallelisms_that_do_not_fit_are_the_programs(leader: Replacing, made: ExecutionSwitch) -> None:
    vertex = Job.objects.get(id=made.old_job_id).graph["vertices"][0]["vertex_id"]
    last = {vertex: 40_000, "f" * 32: 3}
    Job.objects.filter(id=made.old_job_id).update(vertex_parallelism=last, requirements={vertex: [1, 40_000]})
    assert leader.go_on(made)[-1] == "RUNNING"
    new = Job.objects.get(id=made.job_id)
    assert (new.parallelism, new.requirements) == (2, {})


def test_a_job_that_fails_at_once_gives_way_to_the_old_one(
    leader: Replacing, made: ExecutionSwitch, savepoint: str
) -> None:
    states = leader.go_on(made, polls=3, new_state="FAILED", has_checkpoint=False)
    states += leader.go_on(made)[1:]
    assert states == ["CHECKED", "STOPPING", "SUBMITTED", "ROLLING_BACK", "ROLLED_BACK"]
    assert "the new job has failed" in made.message
    again = Job.objects.get(state="RUNNING")
    given = given_of(again)
    assert (again.id, again.tags) == (made.rollback_job_id, ["nightly"])
    assert given.graph["configuration"][options.RECOVERY_PATH.key] == savepoint
    assert options.EXECUTION_MODE.key not in given.graph["configuration"]
    assert given.args == ["--password", SECRET]


def test_a_job_in_batches_is_not_settled_before_its_first_one(leader: Replacing, made: ExecutionSwitch) -> None:
    assert leader.go_on(made, polls=3, has_checkpoint=False)[-1] == "SUBMITTED"
    for passes_ms, state in ((0, "SUBMITTED"), (SETTLED_MS, "SUBMITTED"), (START_PATIENCE_MS, "RUNNING")):
        leader.clock.advance(passes_ms)
        leader.poll()
        made.refresh_from_db()
        assert made.state == state


def test_a_job_that_is_refused_gives_way_to_the_old_one(leader: Replacing, alice: User) -> None:
    made = new_switch(alice, **{"execution.checkpointing.interval": "nonsense"})
    assert leader.go_on(made) == ["CHECKED", "STOPPING", "ROLLING_BACK", "ROLLED_BACK"]
    assert "refused" in made.message and Job.objects.filter(state="RUNNING").count() == 1


def test_what_was_sealed_under_another_key_gives_way_to_the_old_one(leader: Replacing, made: ExecutionSwitch) -> None:
    ExecutionSwitch.objects.update(planned="nonsense")
    assert leader.go_on(made)[-1] == "ROLLED_BACK"
    assert "another key" in made.message and Job.objects.get(id=made.rollback_job_id).state == "RUNNING"


def test_a_storage_that_is_silent_is_waited_for_and_named(leader: Replacing, made: ExecutionSwitch) -> None:
    check, leader.check = leader.check, silent
    assert leader.go_on(made) == ["CHECKED", "STOPPING"]
    assert made.message.startswith("it waits: the storage of ")
    leader.clock.advance(START_PATIENCE_MS + 1)
    assert leader.go_on(made, polls=2)[-1] == "ROLLING_BACK"
    leader.check = check
    assert leader.go_on(made) == ["ROLLING_BACK", "ROLLED_BACK"]


def test_its_users_limit_does_not_keep_the_new_job(leader: Replacing, made: ExecutionSwitch, settings: Any) -> None:
    settings.TIDEMARK_JOBS_PER_USER = 1
    other = services.submit_job(graph_json(1), None, [], {}, User.objects.get(username="owner"), is_limited=False)
    assert leader.go_on(made)[-1] == "RUNNING"
    assert Job.objects.filter(state="RUNNING").count() == 2 and not Job.objects.get(id=other.id).is_terminal


def test_what_a_switch_needs_stays_until_it_has_ended(leader: Replacing, made: ExecutionSwitch, savepoint: str) -> None:
    assert leader.go_on(made, polls=1) == ["CHECKED", "STOPPING"]
    assert Job.objects.get(id=made.old_job_id).is_terminal
    with pytest.raises(artifacts.ArtifactInUse, match="being switched"):
        artifacts.delete(Artifact.objects.get())
    assert set(kept_by_apps([savepoint, "file:///else"])) == {savepoint}
    retention = RowRetention(leader.leadership, 0, leader.led.needed_jobs, leader.clock)
    retention.delete()
    assert Job.objects.filter(id=made.old_job_id).exists()
    leader.go_on(made)
    assert not kept_by_apps([savepoint]) and not leader.led.needed_jobs()


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("fails", [False, True])
def test_a_leader_that_dies_anywhere_changes_nothing_of_it(
    leader: Replacing, alice: User, fails: bool, step: int
) -> None:
    """As with deployments: see there."""
    answers: dict[str, Any] = {"new_state": "FAILED", "has_checkpoint": False} if fails else {}
    for nth in range(1, MOST_CALLS, step):
        for loss in Loss:
            made = new_switch(alice)
            has_failed = leader.settle_although_lost(made, nth, loss, answers)
            assert made.state == ("ROLLED_BACK" if fails else "RUNNING"), (nth, loss)
            assert Job.objects.count() == (3 if fails else 2), (nth, loss)
            assert Job.objects.filter(state="RUNNING").count() == 1, (nth, loss)
            assert Operation.objects.filter(kind="stop").count() == 1, (nth, loss)
            if not has_failed:
                assert nth > 25
                return
    raise AssertionError("there are more calls")


def test_switches_of_jobs_that_are_gone_are_deleted_and_plans_of_ended_ones_at_once(
    made: ExecutionSwitch, alice: User
) -> None:
    clock = ManualClock(services.now_ms())
    retention = SwitchRetention(take_leadership("leader"), clock, Containment())
    retention.poll()
    assert ExecutionSwitch.objects.exclude(planned="").count() == 1
    ended = [
        ExecutionSwitch(
            state="FAILED", old_job_id=made.old_job_id, execution="micro-batch", planned="x",
            idempotency_key=f"key-{number}", created_by=alice, created_at=number,
        )
        for number in range(KEPT + 3)
    ]  # fmt: skip
    ended.append(
        ExecutionSwitch(
            state="RUNNING", old_job_id="0" * 32, execution="micro-batch", idempotency_key="gone", created_at=99
        )
    )
    ExecutionSwitch.objects.bulk_create(ended)
    clock.advance(LOOK_MS)
    retention.poll()
    assert set(ExecutionSwitch.objects.values_list("id", flat=True)) == {made.id, *(row.id for row in ended[3:-1])}
    assert list(ExecutionSwitch.objects.exclude(planned="")) == [made]
