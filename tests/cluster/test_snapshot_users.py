"""Who needs a snapshot: nobody deletes or claims what a job, an open deployment or a rollback may start from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from backend.cluster import led_operations, services, snapshot_users
from backend.cluster.job_store import JobStore
from backend.cluster.jobmanager import JobManager
from backend.cluster.location_checks import StorageSilentError
from backend.cluster.models import Checkpoint, Job, Operation
from backend.cluster.snapshot_disposal import SnapshotDisposal
from backend.cluster.snapshot_users import Need, SnapshotUses, who_needs
from backend.pipelines.documents import check
from backend.pipelines.models import Deployment
from backend.pipelines.services import create_pipeline
from runtime.common import options
from tests.cluster.graphs import graph_json
from tests.cluster.leading import new_leader
from tests.cluster.snapshots import completed
from tests.pipelines_server.documents import document

pytestmark = pytest.mark.django_db

PATH, MODE = options.RECOVERY_PATH.key, options.RECOVERY_CLAIM_MODE.key
Kind, State = Operation.Kind, Operation.State


@pytest.fixture
def manager(home: Path, live_redis: str) -> Iterator[JobManager]:
    """The leader."""
    made = new_leader(home, lambda *_, **__: None)
    yield made
    made.close()


def start(location: str, claim_mode: str = "no_claim", **given: Any) -> Job:
    """Submit a job that starts from a snapshot."""
    return services.submit_job(graph_json(1, **{PATH: location, MODE: claim_mode}), None, [], {}, None, **given)


def own_checkpoint(job: Job, location: str) -> None:
    Checkpoint.objects.create(
        job=job,
        checkpoint_id=1,
        location=location,
        is_owned=True,
        is_savepoint=False,
        leader_epoch=1,
        triggered_at=1,
        completed_at=2,
        size=0,
    )


def dispose(location: str) -> Operation:
    return services.request_operation(None, Kind.DISPOSE, {"path": location}, None)


def turn(manager: JobManager) -> None:
    manager.hasten()
    manager.step(0.01)


@pytest.fixture
def rolling_back(home: Path) -> Deployment:
    """A deployment whose new job has failed; what it has replaced comes back, as soon as a storage answers."""
    user = User.objects.create_user("alice")
    pipeline, version = create_pipeline(check(document()), user)
    values = {"pipeline": pipeline, "version": version, "created_by": user, "created_at": 1, "graph": graph_json(1)}
    location = completed(home / "savepoints", "c" * 32, 1).location
    old, new = (services.submit_job(graph_json(1, name), None, [], {}, user) for name in ("old", "new"))
    Job.objects.filter(id=old.id).update(state="FINISHED")
    Job.objects.filter(id=new.id).update(state="FAILED")
    first = Deployment.objects.create(state="RUNNING", job_id=old.id, idempotency_key="1", **values)
    made = Deployment.objects.create(
        state="ROLLING_BACK", job_id=new.id, previous=first, idempotency_key="2", restore={}, **values
    )
    result = {"location": location, "checkpoint_id": 1}
    Operation.objects.create(
        trigger_id=made.stop_id, job=old, kind=Kind.STOP, state=State.COMPLETED, result=result, created_at=1
    )
    return made


@pytest.mark.parametrize("is_recorded", [False, True], ids=["answer of the stop", "deployment"])
def test_the_savepoint_of_a_deployment_that_rolls_back_is_neither_deleted_nor_claimed(
    manager: JobManager, rolling_back: Deployment, is_recorded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = Operation.objects.get(trigger_id=rolling_back.stop_id)
    assert stop.result is not None and rolling_back.previous is not None
    location = stop.result["location"]
    if is_recorded:
        Deployment.objects.filter(id=rolling_back.id).update(restore={"savepoint": location})
        Operation.objects.all().delete()
    # its checkpoints' storage does not answer, however long
    monkeypatch.setattr(manager, "_further", [])
    disposal = dispose(location)
    turn(manager)
    disposal.refresh_from_db()
    assert "the deployment of version 1 of pipeline" in (disposal.result or {})["error"]
    assert Path(location.removeprefix("file://")).exists()
    need = who_needs(location)
    assert need is not None and need.job_id == rolling_back.previous.job_id
    assert need.who.startswith("the deployment of version 1 of pipeline")
    with pytest.raises(services.SnapshotNeededError, match="deployment of version 1"):
        start(location, "claim")
    Deployment.objects.update(state="FAILED")
    assert who_needs(location) is None


def test_checkpoints_that_may_share_files_have_one_owner(home: Path) -> None:
    ended = services.submit_job(graph_json(1), None, [], {}, None)
    Job.objects.update(state="CANCELED")
    older, newer = (completed(home / "checkpoints", ended.id, number).location for number in (6, 7))
    savepoint = completed(home / "savepoints", "d" * 32, 1).location
    owner = start(newer, "claim")
    for claim_mode in ("claim", "no_claim"):
        with pytest.raises(services.SnapshotNeededError, match=f"belongs to job {owner.id}"):
            start(older, claim_mode)
    start(savepoint, "claim")
    # but for shared files, what a checkpoint has is its own: it may be deleted
    assert who_needs(older) is None and who_needs(newer) == Need(owner.id, f"job {owner.id}", is_owner=True)
    Job.objects.update(state="FAILED")
    start(older, "claim")


def test_a_checkpoint_beside_those_of_a_job_that_goes_on_is_not_claimed(home: Path) -> None:
    job = services.submit_job(graph_json(1), None, [], {}, None)
    forgotten, kept = (completed(home / "checkpoints", job.id, number).location for number in (1, 2))
    for claim_mode in ("claim", "no_claim"):
        # before its row of it is written, and after
        with pytest.raises(services.SnapshotNeededError, match=f"belongs to job {job.id}"):
            start(forgotten, claim_mode)
    own_checkpoint(job, kept)
    with pytest.raises(services.SnapshotNeededError, match=f"belongs to job {job.id}"):
        start(forgotten, "claim")


def test_a_job_that_has_not_a_checkpoint_of_its_own_keeps_others_from_claiming_what_it_shares(home: Path) -> None:
    older, newer = (completed(home / "checkpoints", "c" * 32, number).location for number in (6, 7))
    reader = start(older)
    with pytest.raises(services.SnapshotNeededError, match=f"needed by job {reader.id}"):
        start(newer, "claim")
    start(newer)
    own_checkpoint(reader, "file:///elsewhere")
    Job.objects.exclude(id=reader.id).update(state="CANCELED")
    start(newer, "claim")


def test_a_savepoint_that_is_being_taken_is_not_deleted(home: Path) -> None:
    job = services.submit_job(graph_json(1), None, [], {}, None)
    location = completed(home / "savepoints", job.id, 1).location
    services.request_operation(job, Kind.STOP, {}, None)
    Operation.objects.update(state=State.IN_PROGRESS, progress={"directory": location, "attempt": 0})
    need = who_needs(location)
    assert need is not None and need.job_id == job.id
    with pytest.raises(services.SnapshotNeededError):
        start(location, "claim")


@pytest.mark.parametrize("second", ["claim", "no_claim"])
def test_of_two_jobs_that_claim_a_snapshot_at_once_one_gets_it(home: Path, second: str) -> None:
    """Both have looked before either is recorded."""
    older, newer = (completed(home / "checkpoints", "c" * 32, number).location for number in (6, 7))
    graphs = [graph_json(1, **{PATH: path, MODE: mode}) for path, mode in ((newer, "claim"), (older, second))]
    looks = [services.check_locations(graph["configuration"]) for graph in graphs]
    first = services.submit_job(graphs[0], None, [], {}, None, locations=looks[0])
    with pytest.raises(services.SnapshotNeededError, match=f"belongs to job {first.id}"):
        services.submit_job(graphs[1], None, [], {}, None, locations=looks[1])
    Job.objects.update(state="FAILED")
    services.submit_job(graphs[1], None, [], {}, None, locations=looks[1])


def test_a_request_that_is_repeated_is_not_in_its_own_way(home: Path) -> None:
    location = completed(home / "savepoints", "c" * 32, 1).location
    start(location, "claim", job_id="ab" * 16)
    with pytest.raises(services.JobExistsError):
        start(location, "claim", job_id="ab" * 16)


def test_a_submission_asks_no_storage_within_its_transaction(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = completed(home / "savepoints", "c" * 32, 1).location
    graph = graph_json(1, **{PATH: location, MODE: "claim"})
    checked = services.check_locations(graph["configuration"])
    other = start(completed(home / "savepoints", "d" * 32, 1).location, "claim")

    def never(*_: Any, **__: Any) -> str:
        raise AssertionError("the storage was asked")

    monkeypatch.setattr("backend.cluster.storage_calls.ask", never)
    job = services.submit_job(graph, None, [], {}, None, locations=checked)
    assert job.id != other.id
    with pytest.raises(AssertionError, match="was asked"):
        start(location)


def test_what_a_job_starts_from_is_recorded_without_links(home: Path) -> None:
    location = completed(home / "savepoints", "c" * 32, 1).location
    (home / "savepoints" / "newest").symlink_to(location.removeprefix("file://"))
    job = start(str(home / "savepoints" / "newest"))
    assert job.graph["configuration"][PATH] == location


def test_a_job_of_which_a_storage_says_nothing_holds_up_deletions_and_no_restore(home: Path) -> None:
    one, other = (completed(home / "savepoints", letter * 32, 1).location for letter in "cd")
    job = start(one)

    def silent(location: str) -> str:
        raise StorageSilentError(location)

    uses = SnapshotUses.read(silent)
    with pytest.raises(StorageSilentError):
        uses.hindering_deletion(other)
    # what is known suffices
    found = uses.hindering_deletion(one)
    assert found is not None and found.job_id == job.id
    assert uses.hindering_restore(other) is None


@pytest.mark.django_db(transaction=True)
def test_a_job_that_is_submitted_before_a_disposal_begins_keeps_its_snapshot(
    manager: JobManager, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = completed(home / "savepoints", "c" * 32, 1).location
    begin = JobStore.begin_disposal

    def too_late(store: JobStore, *arguments: Any) -> Any:
        start(location)
        return begin(store, *arguments)

    monkeypatch.setattr(JobStore, "begin_disposal", too_late)
    operation = dispose(location)
    turn(manager)
    operation.refresh_from_db()
    assert (operation.result or {})["error"] == f"job {Job.objects.get().id} may have to restore from it"
    assert Path(location.removeprefix("file://")).exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("claim_mode", ["claim", "no_claim"])
def test_no_job_starts_from_what_is_being_deleted(
    manager: JobManager, home: Path, claim_mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = completed(home / "savepoints", "c" * 32, 1).location
    graph = graph_json(1, **{PATH: f"{location}/_metadata", MODE: claim_mode})
    checked = services.check_locations(graph["configuration"])
    # it is queued
    monkeypatch.setattr(SnapshotDisposal, "dispose", lambda *_, **__: None)
    operation = dispose(location)
    turn(manager)
    operation.refresh_from_db()
    assert operation.state == State.IN_PROGRESS
    for locations in (None, checked):
        with pytest.raises(services.SnapshotDisposedError, match="is being deleted"):
            services.submit_job(graph, None, [], {}, None, locations=locations)
    JobStore.complete(manager._store, operation.trigger_id, {"error": "the storage is away"}, 1)
    services.submit_job(graph, None, [], {}, None, locations=checked)


@pytest.mark.django_db(transaction=True)
def test_very_many_disposals_take_turns_and_read_what_jobs_started_from_once_a_poll(
    manager: JobManager, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(led_operations, "MAX_LOOKS", 2)
    reads, began = list[int](), list[str]()
    starts = snapshot_users._starts

    def counted(*arguments: Any) -> Any:
        reads.append(1)
        return starts(*arguments)

    monkeypatch.setattr(snapshot_users, "_starts", counted)
    monkeypatch.setattr(SnapshotDisposal, "dispose", lambda _, trigger_id, *__, **___: began.append(trigger_id))
    monkeypatch.setattr(SnapshotDisposal, "__contains__", lambda _, trigger_id: trigger_id in began)
    monkeypatch.setattr(SnapshotDisposal, "answer", lambda *_: None)
    check, silent = manager._operations._check, {"a", "b", "c"}

    def answers(location: str) -> str:
        if location.rpartition("/")[2] in silent:
            raise StorageSilentError(location)
        return check(location)

    monkeypatch.setattr(manager._operations, "_check", answers)
    rows = [dispose((home / "savepoints" / name).as_uri()).trigger_id for name in "abcdefg"]
    for number, due in enumerate(([], rows[3:4], rows[3:6], rows[3:7])):
        turn(manager)
        assert began == due and len(reads) <= number + 1
    silent.clear()
    for _ in range(2):
        turn(manager)
    assert sorted(began) == sorted(rows)
