"""The jobmanager's loop and what it does about checkpoints: operations, take-overs, leftovers. No job runs here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from pytest_django import Settings

from backend.cluster import jobmanager, services
from backend.cluster.checkpoint_counts import write_statistics
from backend.cluster.checkpoint_home import cluster_storage
from backend.cluster.checkpoint_store import SqlCompletedStore
from backend.cluster.job_store import JobStore
from backend.cluster.jobmanager import JobManager
from backend.cluster.leader_bus import BusError, RedisLeaderBus
from backend.cluster.leader_machine import OPERATION_PATIENCE_MS
from backend.cluster.models import Checkpoint, Job, Operation
from runtime.checkpoint.errors import ForeignSnapshotError
from runtime.checkpoint.statistics import StatisticsRecord
from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration
from runtime.core.clock import SYSTEM_CLOCK
from runtime.core.ids import Attempt
from tests.checkpoint.snapshots import with_checksum
from tests.cluster.graphs import graph_json
from tests.cluster.leading import new_leader, take_leadership
from tests.cluster.snapshots import completed
from tests.cluster.test_events import REPORT
from tests.support.waiting import wait_until

pytestmark = pytest.mark.django_db

CHECKPOINTING = {"execution.checkpointing.interval": "1 s"}
Kind = Operation.Kind
HOUR_MS = 3_600_000


@pytest.fixture
def lead(home: Path, live_redis: str) -> Iterator[Any]:
    """Makes jobmanagers, which end with the test."""
    made: list[JobManager] = []

    def send(worker_name: str, task: str, expires_s: float, **arguments: Any) -> None:
        pass

    def start() -> JobManager:
        made.append(new_leader(home, send))
        return made[-1]

    yield start
    for manager in made:
        manager.close()


def submit(**options: str) -> Job:
    return services.submit_job(graph_json(2, **options), None, [], {}, None)


def turn(manager: JobManager) -> None:
    manager.hasten()
    manager.step(0.01)


def ran_before(job: Job, attempt: int = 3) -> None:
    """Mark the job as run by an earlier leader."""
    Job.objects.filter(id=job.id).update(
        state="RUNNING", state_times={"RUNNING": 5}, attempt=attempt, leader_epoch=take_leadership("earlier").epoch
    )


def checkpoint_row(job: Job, number: int, root: Path) -> str:
    """A completed checkpoint of the job; its directory."""
    store = SqlCompletedStore(take_leadership("earlier"), job.id, [], SYSTEM_CLOCK)
    checkpoint = completed(root, job.id, number)
    assert store.complete(checkpoint)
    return checkpoint.location


def test_a_job_with_checkpoints_goes_on_whatever_its_restart_strategy(lead: Any) -> None:
    job = submit(**CHECKPOINTING, **{"restart-strategy.type": "none"})
    ran_before(job)
    turn(lead())
    job.refresh_from_db()
    assert (job.state, job.attempt, job.restarts) == ("RESTARTING", 4, 1)


def test_jobs_sign_their_snapshots_and_restore_no_others_where_only_those_are_taken(
    lead: Any, home: Path, settings: Settings
) -> None:
    job, manager = submit(**CHECKPOINTING), lead()
    turn(manager)
    [runner] = manager.jobs.runners.values()
    foreign = completed(home / "checkpoints", job.id, 1).location
    storage = cluster_storage()
    assert runner._home(storage, Configuration(), None).files.load(foreign).checkpoint_id == 1
    settings.TIDEMARK_FOREIGN_SNAPSHOTS = False
    files = runner._home(storage, Configuration(), None).files
    with pytest.raises(ForeignSnapshotError):
        files.load(foreign)
    own = completed(home / "checkpoints", job.id, 2, files=files).location
    assert files.load(own).checkpoint_id == 2
    # whoever disposes of it or asks who needs it does not ask for signatures
    assert storage.files().load(foreign).checkpoint_id == 1


def test_an_attempts_number_is_saved_before_it_begins_and_never_used_again(lead: Any) -> None:
    job = submit(**CHECKPOINTING)
    ran_before(job)
    turn(lead())
    runner_epoch = take_leadership("same test")
    store = JobStore(runner_epoch)
    Job.objects.filter(id=job.id).update(leader_epoch=runner_epoch.epoch)
    assert store.record_attempt(job.id, Attempt(6))
    assert store.record_attempt(job.id, Attempt(5)), "of another region: a later one is recorded already"
    assert Job.objects.get(id=job.id).attempt == 6
    job.refresh_from_db()
    # what the loop knows may be older than what the driver has recorded
    job.attempt = 5
    assert store.save(job, [])
    job.refresh_from_db()
    assert job.attempt == 6


def test_a_job_that_was_rescaled_starts_as_it_ran(lead: Any) -> None:
    job = submit(**CHECKPOINTING)
    assert job.document is not None
    vertex = job.document["vertices"][-1]["id"]
    ran_before(job)
    Job.objects.filter(id=job.id).update(vertex_parallelism={vertex: 1})
    turn(lead())
    parallelism = {v["id"]: v["parallelism"] for v in services.job_document(job.id)["vertices"]}
    assert parallelism[vertex] == 1


def test_a_job_whose_directory_is_not_allowed_is_refused_at_submission(home: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"execution.checkpointing.dir.*not below"):
        submit(**{"execution.checkpointing.dir": "/etc"})
    assert not Job.objects.exists()


def test_directories_are_the_clusters_unless_the_job_names_one_that_is_allowed(home: Path, settings: Settings) -> None:
    storage = cluster_storage()
    assert storage.checkpoints == (home / "checkpoints").as_uri()
    assert storage.savepoints == (home / "savepoints").as_uri()
    settings.TIDEMARK_STORAGE_ROOTS = ["s3://bucket/flink"]
    submit(**{"execution.checkpointing.dir": "s3://bucket/flink/jobs"})


@pytest.mark.parametrize("web_ms", [0, HOUR_MS, -HOUR_MS], ids=["the same clock", "ahead", "behind"])
def test_an_operation_waits_for_its_job_and_is_given_up_in_the_end(lead: Any, web_ms: int) -> None:
    """However far the clock is off of the machine on which it was asked for."""
    manager, job = lead(), submit(**CHECKPOINTING)
    operation = services.request_operation(job, Kind.SAVEPOINT, {}, None)
    Operation.objects.update(created_at=operation.created_at + web_ms)
    turn(manager)
    operation.refresh_from_db()
    assert operation.state == Operation.State.PENDING
    manager._operations._ages._since_ms[operation.trigger_id] -= OPERATION_PATIENCE_MS
    turn(manager)
    operation.refresh_from_db()
    assert operation.state == Operation.State.COMPLETED
    assert operation.result is not None
    assert operation.result["error"].startswith("the job does not run, it is CREATED: needs 2 slots")


def test_what_waits_for_a_job_is_answered_when_it_ends(lead: Any) -> None:
    manager, job = lead(), submit(**CHECKPOINTING)
    turn(manager)
    asked = services.request_operation(job, Kind.STOP, {}, None)
    cancel = services.request_cancel(job, None)

    def is_over() -> bool:
        turn(manager)
        return Job.objects.get(id=job.id).is_terminal

    wait_until(is_over, 10, "the job's end")
    asked.refresh_from_db()
    cancel.refresh_from_db()
    assert (asked.result, cancel.result) == ({"error": "the job is CANCELED"}, {"state": "CANCELED"})


def test_the_same_trigger_id_is_the_same_operation(home: Path) -> None:
    job, other, trigger = submit(), submit(), "ab" * 16
    first = services.request_operation(job, Kind.SAVEPOINT, {}, None, trigger)
    assert services.request_operation(job, Kind.SAVEPOINT, {}, None, trigger) == first
    assert Operation.objects.count() == 1
    for wrong in ((other, Kind.SAVEPOINT), (job, Kind.STOP), (None, Kind.DISPOSE)):
        with pytest.raises(services.TriggerTakenError):
            services.request_operation(*wrong, {}, None, trigger)  # type: ignore[call-arg]


def test_a_stop_that_waits_is_not_asked_for_twice_but_savepoints_are_as_many_as_are_asked_for(home: Path) -> None:
    job = submit()
    stop = services.request_operation(job, Kind.STOP, {}, None)
    assert services.request_operation(job, Kind.STOP, {"drain": True}, None) == stop
    rescale = services.request_operation(job, Kind.RESCALE, {"parallelism": {"a": 2}}, None)
    assert services.request_operation(job, Kind.RESCALE, {"parallelism": {"a": 2}}, None) == rescale
    assert services.request_operation(job, Kind.RESCALE, {"parallelism": {"a": 3}}, None) != rescale
    savepoints = {services.request_operation(job, Kind.SAVEPOINT, {}, None).trigger_id for _ in range(2)}
    assert len(savepoints) == 2


def test_a_stop_under_an_id_of_its_own_follows_the_one_that_is_open_or_is_refused(home: Path) -> None:
    job, own = submit(), "ab" * 16
    stop = services.request_operation(job, Kind.STOP, {}, None)
    follower = services.request_operation(job, Kind.STOP, {}, None, own)
    assert follower.trigger_id == own and follower.follows == stop
    assert services.request_operation(job, Kind.STOP, {}, None, own) == follower
    assert services.get_operation(own, job, (Kind.STOP,)) == follower
    with pytest.raises(services.OperationOpenError, match=stop.trigger_id):
        services.request_operation(job, Kind.STOP, {"drain": True}, None, "cd" * 16)
    assert Operation.objects.count() == 2


def dispose_answer(manager: JobManager, location: str) -> dict[str, Any]:
    operation = services.request_operation(None, Kind.DISPOSE, {"path": location}, None)

    def is_done() -> bool:
        turn(manager)
        operation.refresh_from_db()
        return operation.state == Operation.State.COMPLETED

    wait_until(is_done, 10, "the disposal")
    assert operation.result is not None
    answer: dict[str, Any] = operation.result
    return answer


def test_a_savepoint_is_disposed_of(lead: Any, home: Path) -> None:
    location = completed(home / "savepoints", "c" * 32, 1).location
    directory = Path(location.removeprefix("file://"))
    assert directory.is_dir()
    assert dispose_answer(lead(), location) == {"location": location}
    assert not directory.exists()


def test_damaged_metadata_hold_up_no_other_operation(lead: Any, home: Path) -> None:
    damaged = home / "savepoints" / "savepoint-a"
    damaged.mkdir(parents=True)
    (damaged / "_metadata").write_bytes(with_checksum(b"1", b"{"))
    manager = lead()
    assert dispose_answer(manager, damaged.as_uri()) == {"location": damaged.as_uri()}
    assert "not below" in dispose_answer(manager, "/etc")["error"]


def test_an_operation_that_nobody_can_carry_out_is_answered_and_holds_up_no_other(lead: Any, home: Path) -> None:
    unreadable = services.request_operation(None, Kind.DISPOSE, {"path": "/a"}, None)
    Operation.objects.update(parameters=[])
    assert "not below" in dispose_answer(lead(), "/etc")["error"]
    unreadable.refresh_from_db()
    assert unreadable.result is not None and "cannot carry it out" in unreadable.result["error"]


@pytest.mark.parametrize(
    ("path", "error"),
    [("/etc/passwd", "not below a directory that is allowed"), ("savepoints/none", "is not a checkpoint or savepoint")],
)
def test_what_is_no_savepoint_is_not_disposed_of(lead: Any, home: Path, path: str, error: str) -> None:
    assert error in dispose_answer(lead(), str(home / path))["error"]


def test_a_checkpoint_that_a_job_needs_is_neither_disposed_of_nor_claimed(lead: Any, home: Path) -> None:
    job = submit(**CHECKPOINTING)
    location = checkpoint_row(job, 1, home / "checkpoints")
    operation = services.request_operation(None, Kind.DISPOSE, {"path": location}, None)
    turn(lead())
    operation.refresh_from_db()
    assert operation.result == {"error": f"job {job.id} may have to restore from it"}
    restore = {"execution.state-recovery.path": location, "execution.state-recovery.claim-mode": "claim"}
    # its next checkpoint replaces it: nobody can rely on it
    for claim_mode in ("claim", "no_claim"):
        with pytest.raises(services.SnapshotNeededError, match="take a savepoint of that job"):
            submit(**restore | {"execution.state-recovery.claim-mode": claim_mode})
    Job.objects.update(state="CANCELED")
    submit(**restore | {"execution.state-recovery.claim-mode": "no_claim"})


def test_a_savepoint_is_claimed_when_its_job_has_ended(lead: Any, home: Path) -> None:
    job = submit(**CHECKPOINTING)
    location = (home / "savepoints" / "savepoint-1").as_uri()
    services.request_operation(job, Kind.SAVEPOINT, {}, None)
    Operation.objects.update(state="COMPLETED", result={"location": location, "checkpoint_id": 1})
    restore = {"execution.state-recovery.path": location, "execution.state-recovery.claim-mode": "claim"}
    with pytest.raises(services.SnapshotNeededError, match=f"is needed by job {job.id}, which has not ended"):
        submit(**restore)
    Job.objects.update(state="CANCELED")
    submit(**restore)


@pytest.mark.parametrize("claim_mode", ["claim", "no_claim"])
def test_what_a_job_was_started_from_stays_until_it_has_a_checkpoint_of_its_own(
    lead: Any, home: Path, claim_mode: str
) -> None:
    location = completed(home / "savepoints", "d" * 32, 1).location
    job = submit(
        **CHECKPOINTING,
        **{"execution.state-recovery.path": f"{location}/_metadata", "execution.state-recovery.claim-mode": claim_mode},
    )
    refusal = {"error": f"job {job.id} may have to restore from it"}
    assert dispose_answer(lead(), location) == refusal
    with pytest.raises(services.SnapshotNeededError, match=job.id):
        submit(**{"execution.state-recovery.path": location, "execution.state-recovery.claim-mode": "claim"})
    checkpoint_row(job, 2, home / "checkpoints")
    manager = lead()
    if claim_mode == "claim":
        # later checkpoints may refer to its files
        assert dispose_answer(manager, location) == refusal
        Job.objects.update(state="CANCELED")
    assert dispose_answer(manager, location) == {"location": location}
    assert not Path(location.removeprefix("file://")).exists()


@pytest.mark.parametrize("has_row", [True, False])
@pytest.mark.parametrize(
    ("state", "retention", "is_kept"),
    [
        ("FINISHED", "retain_on_cancellation", False),
        ("CANCELED", "retain_on_cancellation", True),
        ("CANCELED", "delete_on_cancellation", False),
        ("FAILED", "delete_on_cancellation", True),
    ],
)
def test_a_new_leader_deletes_what_an_ended_job_does_not_keep(
    lead: Any, home: Path, state: str, retention: str, is_kept: bool, has_row: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # there are none to wait for
    monkeypatch.setattr(jobmanager, "TASKMANAGER_TIMEOUT_MS", 0)
    key = "execution.checkpointing.externalized-checkpoint-retention"
    job = submit(**CHECKPOINTING, **{key: retention})
    directory = Path(checkpoint_row(job, 1, home / "checkpoints").removeprefix("file://"))
    if not has_row:
        Checkpoint.objects.all().delete()
    Job.objects.filter(id=job.id).update(state=state, leader_epoch=1, may_have_leftovers=True)
    manager = lead()

    def is_swept() -> bool:
        turn(manager)
        return not Job.objects.get(id=job.id).may_have_leftovers

    wait_until(is_swept, 10, "the look at the files")
    assert Checkpoint.objects.exists() is (is_kept and has_row)
    assert directory.is_dir() is directory.parent.exists() is is_kept


def test_what_an_ended_job_does_not_keep_stays_while_a_slot_may_write_more_of_it(
    lead: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobmanager, "TASKMANAGER_TIMEOUT_MS", 0)
    job = submit(**CHECKPOINTING)
    directory = Path(checkpoint_row(job, 1, home / "checkpoints").removeprefix("file://"))
    Job.objects.filter(id=job.id).update(state="FINISHED", leader_epoch=1, may_have_leftovers=True)
    manager = lead()
    manager.resources.heartbeat({**REPORT, "number": 1}, [(job.id, 0, 0)], 0)
    turn(manager)
    assert not manager._disposal.sweeping and directory.exists()
    manager.resources.heartbeat({**REPORT, "number": 2}, [], 0)

    def is_swept() -> bool:
        turn(manager)
        return not Job.objects.get(id=job.id).may_have_leftovers

    wait_until(is_swept, 10, "the look at the files")
    assert not directory.parent.exists()


def test_a_job_that_took_savepoints_only_is_cleared_up_though_no_job_has_a_checkpoint(
    lead: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobmanager, "TASKMANAGER_TIMEOUT_MS", 0)
    job = submit()
    write_statistics(job.id, StatisticsRecord(0, 1, 1, {}, savepoints=2))
    Job.objects.filter(id=job.id).update(state="FINISHED", leader_epoch=1, may_have_leftovers=True)
    (home / "checkpoints").mkdir(exist_ok=True)
    manager = lead()

    def is_swept() -> bool:
        turn(manager)
        return not Job.objects.get(id=job.id).may_have_leftovers

    wait_until(is_swept, 10, "the look at the files")
    assert job.id not in manager._disposal.sweeping


@pytest.mark.parametrize("is_away", [True, False], ids=["Redis is away", "the leader is behind"])
def test_what_an_ended_job_does_not_keep_stays_until_the_leader_has_read_who_may_write_more_of_it(
    lead: Any, home: Path, is_away: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that takes: without reports, nobody knows of a slot that goes on without a leader."""
    monkeypatch.setattr(jobmanager, "TASKMANAGER_TIMEOUT_MS", 0)
    job = submit(**CHECKPOINTING)
    directory = Path(checkpoint_row(job, 1, home / "checkpoints").removeprefix("file://"))
    Job.objects.filter(id=job.id).update(state="FINISHED", leader_epoch=1, may_have_leftovers=True)
    manager = lead()

    def take_events(wait_s: float) -> NoReturn:
        raise BusError("it does not answer")

    with monkeypatch.context() as patched:
        if is_away:
            patched.setattr(manager._bus, "take_events", take_events)
        else:
            patched.setattr(RedisLeaderBus, "is_behind", True)
        turn(manager)
        assert not manager._disposal.sweeping
    turn(manager)
    # while Redis was away, no TaskManager could report
    assert bool(manager._disposal.sweeping) is not is_away

    def is_swept() -> bool:
        turn(manager)
        return not Job.objects.get(id=job.id).may_have_leftovers

    wait_until(is_swept, 10, "the look at the files")
    assert not directory.parent.exists()


def test_what_a_job_could_not_go_on_from_is_left_to_people(lead: Any, home: Path, settings: Settings) -> None:
    settings.TIDEMARK_STORAGE_ROOTS = ["s3://bucket/flink"]
    job = submit(**CHECKPOINTING, **{"execution.checkpointing.savepoint-dir": "s3://bucket/flink"})
    directory = Path(checkpoint_row(job, 1, home / "checkpoints").removeprefix("file://"))
    ran_before(job)
    settings.TIDEMARK_STORAGE_ROOTS = []
    turn(lead())
    job.refresh_from_db()
    assert job.state == "FAILED"
    manager = lead()
    turn(manager)
    wait_until(lambda: manager._disposal._work.is_idle, 10, "the storage")
    assert (directory / "_metadata").exists()


def test_a_job_waits_for_its_storage_says_so_and_can_be_cancelled_without_a_loss(lead: Any, home: Path) -> None:
    job = submit(**CHECKPOINTING)
    location = checkpoint_row(job, 1, home / "checkpoints")
    ran_before(job)
    (home / "checkpoints").rename(home / "aside")
    manager = lead()
    turn(manager)
    runner = manager.jobs.runners[job.id]
    # as if it had got its slots
    manager.resources.withdraw(job.id)
    runner._begin()

    def waits() -> bool:
        turn(manager)
        return "its storage is unavailable" in Job.objects.get(id=job.id).waiting_for

    wait_until(waits, 10, "the reason why it waits")
    assert services.job_document(job.id)["state"] == "RESTARTING"
    services.request_cancel(job, None)

    def is_over() -> bool:
        turn(manager)
        return Job.objects.get(id=job.id).state == "CANCELED" and runner.is_over

    wait_until(is_over, 10, "the job's end")
    (home / "aside").rename(home / "checkpoints")
    after = lead()
    turn(after)
    wait_until(lambda: after._disposal._work.is_idle, 10, "the storage")
    assert Path(location.removeprefix("file://"), "_metadata").exists()
