"""A storage that does not answer holds up what needs it, and neither the leader nor anything else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from backend.cluster import jobmanager, services
from backend.cluster.jobmanager import JobManager
from backend.cluster.leader_machine import OPERATION_PATIENCE_MS
from backend.cluster.models import Job, Operation
from runtime.jobmaster import storage_worker
from tests.cluster.graphs import graph_json
from tests.cluster.leading import new_leader, take_leadership
from tests.cluster.snapshots import completed
from tests.support.hung_storage import HungStorage
from tests.support.waiting import wait_until

pytestmark = pytest.mark.django_db

Kind = Operation.Kind
CHECKPOINTING = {"execution.checkpointing.interval": "1 s"}
CHECKPOINTS = "execution.checkpointing.dir"


@pytest.fixture
def share(home: Path, settings: Settings) -> Path:
    """A directory that users may name, beside the cluster's own; see `hung`."""
    directory = home / "share"
    directory.mkdir()
    settings.TIDEMARK_STORAGE_ROOTS = [str(directory)]
    return directory


@pytest.fixture
def hung(share: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HungStorage]:
    """The share's storage, which answers until it is told not to."""
    storage = HungStorage(share, monkeypatch)
    yield storage
    storage.answer()
    assert not storage.touched, f"the loop has touched it:\n{storage.touched[0]}"


@pytest.fixture
def lead(hung: HungStorage, live_redis: str, home: Path) -> Iterator[Any]:
    """Makes jobmanagers, which end with the test."""
    made: list[JobManager] = []

    def start() -> JobManager:
        made.append(new_leader(home, lambda *_, **__: None))
        return made[-1]

    yield start
    for manager in made:
        manager.close()


def submit(**options: str) -> Job:
    return services.submit_job(graph_json(2, **CHECKPOINTING, **options), None, [], {}, None)


def turn(manager: JobManager) -> None:
    manager.hasten()
    manager.step(0.01)


def waiting_for(manager: JobManager, job: Job) -> str:
    turn(manager)
    return Job.objects.get(id=job.id).waiting_for


def result(manager: JobManager, operation: Operation) -> dict[str, Any] | None:
    turn(manager)
    operation.refresh_from_db()
    return operation.result


def is_cancelled(manager: JobManager, job: Job) -> bool:
    turn(manager)
    return Job.objects.get(id=job.id).state == "CANCELED"


def be_late(manager: JobManager, operation: Operation) -> None:
    """Let the operation's patience end."""
    manager._operations._ages._since_ms[operation.trigger_id] -= OPERATION_PATIENCE_MS + 1


def test_a_job_waits_for_its_storage_and_says_so_while_others_are_run(
    lead: Any, share: Path, hung: HungStorage
) -> None:
    waits, other = submit(**{CHECKPOINTS: str(share)}), submit()
    hung.hang()
    manager = lead()
    turn(manager)
    why = f"the storage of {share} has not answered yet"
    assert Job.objects.get(id=waits.id).waiting_for == why
    document = services.job_document(waits.id)
    assert (document["state"], document["waiting_for"]) == ("CREATED", why)
    wait_until(lambda: "needs 2 slots" in waiting_for(manager, other), 60, "the other job")
    assert manager.jobs.runners.keys() == {other.id}

    asked = services.request_operation(waits, Kind.SAVEPOINT, {}, None)
    assert result(manager, asked) is None
    be_late(manager, asked)
    assert result(manager, asked) == {"error": f"the job does not run, it is CREATED: {why}"}
    cancelled = services.request_cancel(other, None)
    wait_until(lambda: is_cancelled(manager, other), 60, "the other job's end")
    assert result(manager, cancelled) == {"state": "CANCELED"}

    hung.answer()
    wait_until(lambda: "needs 2 slots" in waiting_for(manager, waits), 60, "the job that waited")
    assert services.job_document(waits.id)["waiting_for"].startswith("needs 2 slots")


def test_a_job_that_waits_for_its_storage_can_be_cancelled(lead: Any, share: Path, hung: HungStorage) -> None:
    job = submit(**{CHECKPOINTS: str(share)})
    hung.hang()
    manager = lead()
    turn(manager)
    cancelled = services.request_cancel(job, None)
    wait_until(lambda: is_cancelled(manager, job), 60, "the job's end")
    assert result(manager, cancelled) == {"state": "CANCELED"}
    assert services.job_document(job.id)["state"] == "CANCELED"
    assert not manager.jobs.held_up


def test_a_new_leader_leads_although_the_storage_of_a_job_that_ran_hangs(
    lead: Any, share: Path, hung: HungStorage
) -> None:
    job, epoch = submit(**{CHECKPOINTS: str(share)}), take_leadership("earlier").epoch
    Job.objects.update(state="RUNNING", state_times={"RUNNING": 5}, attempt=3, leader_epoch=epoch)
    hung.hang()
    manager = lead()
    turn(manager)
    job.refresh_from_db()
    assert (job.state, job.attempt) == ("RESTARTING", 4)
    assert services.job_document(job.id)["state"] == "RESTARTING"
    turn(manager)
    hung.answer()
    wait_until(lambda: "needs 2 slots" in waiting_for(manager, job), 60, "the job")
    job.refresh_from_db()
    assert (job.state, job.attempt, job.restarts) == ("RESTARTING", 4, 1)


def test_a_savepoint_waits_for_the_storage_that_its_user_names_and_others_do_not(
    lead: Any, share: Path, hung: HungStorage
) -> None:
    manager, job = lead(), submit()
    turn(manager)
    runner = manager.jobs.runners[job.id]

    def begun(operation: Operation) -> str | None:
        # as the machine says when all tasks run
        runner.job.state = "RUNNING"
        turn(manager)
        operation.refresh_from_db()
        return (operation.progress or {}).get("directory")

    hung.hang()
    waits = services.request_operation(job, Kind.SAVEPOINT, {"target_directory": str(share)}, None)
    late = services.request_operation(job, Kind.STOP, {"target_directory": str(share / "other")}, None)
    free = services.request_operation(job, Kind.SAVEPOINT, {}, None)
    assert begun(waits) is begun(late) is None
    assert begun(free) is not None
    be_late(manager, late)
    assert begun(late) is None
    assert late.result == {"error": f"the storage of {share / 'other'} has not answered yet"}
    hung.answer()
    wait_until(lambda: begun(waits) is not None, 60, "the savepoint's beginning")
    assert str(begun(waits)).startswith(f"{share.as_uri()}/savepoint-")
    assert runner.requests.trigger_ids == {waits.trigger_id, free.trigger_id}


def test_a_disposal_waits_for_its_storage_and_others_do_not(
    lead: Any, share: Path, home: Path, hung: HungStorage
) -> None:
    there, here = (completed(root, "c" * 32, 1).location for root in (share, home / "savepoints"))
    manager = lead()
    hung.hang()
    waits, late, free = (
        services.request_operation(None, Kind.DISPOSE, {"path": path}, None)
        for path in (there, str(share / "other"), here)
    )
    wait_until(lambda: result(manager, free) == {"location": here}, 60, "the other disposal")
    assert result(manager, waits) is None
    be_late(manager, late)
    assert result(manager, late) == {"error": f"the storage of {share / 'other'} has not answered yet"}
    hung.answer()
    wait_until(lambda: result(manager, waits) == {"location": there}, 60, "the disposal")


def test_a_snapshot_is_not_deleted_before_it_is_known_that_no_job_needs_it(
    lead: Any, share: Path, home: Path, hung: HungStorage
) -> None:
    here = completed(home / "savepoints", "c" * 32, 1).location
    (share / "link").symlink_to(here.removeprefix("file://"))
    path = "execution.state-recovery.path"
    job = submit(**{path: str(share / "link")})
    # as earlier releases have recorded it
    job.graph["configuration"][path] = str(share / "link")
    job.save()
    manager = lead()
    hung.hang()
    disposal = services.request_operation(None, Kind.DISPOSE, {"path": here}, None)
    assert result(manager, disposal) is None
    hung.answer()
    wait_until(lambda: result(manager, disposal) is not None, 60, "the answer")
    assert disposal.result == {"error": f"job {job.id} may have to restore from it"}


def test_what_ended_jobs_have_left_is_deleted_where_the_storage_answers(
    lead: Any, share: Path, home: Path, hung: HungStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    # there are none to wait for
    monkeypatch.setattr(jobmanager, "TASKMANAGER_TIMEOUT_MS", 0)
    there, here = submit(**{CHECKPOINTS: str(share)}), submit()
    for job, root in ((there, share), (here, home / "checkpoints")):
        completed(root, job.id, 1)
    Job.objects.update(state="FINISHED", leader_epoch=1, may_have_leftovers=True)
    manager = lead()
    hung.hang()

    def is_swept(job: Job) -> bool:
        turn(manager)
        return not Job.objects.get(id=job.id).may_have_leftovers

    wait_until(lambda: is_swept(here), 60, "the other job's files")
    assert not is_swept(there) and not (home / "checkpoints" / here.id).exists()
    hung.answer()
    wait_until(lambda: is_swept(there), 60, "the job's files")
    assert not (share / there.id).exists()


def test_a_job_whose_storage_hangs_when_it_reads_what_to_restore_can_be_cancelled(
    lead: Any, share: Path, hung: HungStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its directories were checked while the storage answered."""
    monkeypatch.setattr(storage_worker, "RECOVERY_PROMPT_S", 0.01)
    snapshot = completed(share, "c" * 32, 1).location
    manager, job = lead(), submit(**{"execution.state-recovery.path": snapshot})
    wait_until(lambda: "needs 2 slots" in waiting_for(manager, job), 60, "its runner")
    hung.hang()
    cancelled = services.request_cancel(job, None)
    wait_until(lambda: is_cancelled(manager, job), 60, "the job's end")
    assert result(manager, cancelled) == {"state": "CANCELED"}
    wait_until(lambda: is_cancelled(manager, job) and job.id not in manager.jobs.runners, 60, "the runner's end")


def test_what_is_being_deleted_of_ended_jobs_is_not_looked_for_again(
    lead: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobmanager, "TASKMANAGER_TIMEOUT_MS", 0)
    job, goes_on = submit(), threading.Event()
    Job.objects.update(state="FINISHED", leader_epoch=1, may_have_leftovers=True)
    manager = lead()
    monkeypatch.setattr(manager._disposal, "_sweep", lambda *_: goes_on.wait(60) and None)
    found: list[Any] = []
    leftovers = manager._store.leftovers

    def noted(*arguments: Any) -> Any:
        found.append(leftovers(*arguments))
        return found[-1]

    monkeypatch.setattr(manager._store, "leftovers", noted)

    def is_being_deleted() -> bool:
        turn(manager)
        return job.id in manager._disposal.sweeping

    wait_until(is_being_deleted, 60, "the deletion")
    found.clear()
    turn(manager)
    assert found == [[]]
    goes_on.set()
