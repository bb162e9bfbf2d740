"""The seven ways in which a writer that was replaced, or a storage that fails, could put wrong state in a job's way.

Source of the cases: Spark's RocksDBCheckpointFailureInjectionSuite. In each, what is restored is the newest checkpoint
that was completed by whoever was entitled to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.checkpoint.cleanup import find_orphans
from runtime.checkpoint.completed_store import CompletedCheckpoint
from runtime.checkpoint.errors import FencedError, JobOverError, NotASnapshotError, StorageAwayError
from runtime.checkpoint.file_completed_store import FileCompletedStore
from runtime.checkpoint.file_system import ArrowFileSystem, CheckpointFileSystem
from runtime.checkpoint.handles import CheckpointMetadata
from runtime.checkpoint.layout import completed_directory
from runtime.checkpoint.locations import join, local_path, to_uri
from runtime.checkpoint.outcome import JobOutcome
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.checkpoint.state_files import TaskStateReader, TaskStateWriter
from runtime.core.ids import Attempt, CheckpointId
from runtime.state.canonical import CANONICAL_FILE, CanonicalFile
from runtime.state.handles import DamagedSnapshotError
from tests.checkpoint.faulty import NO_PAUSES, FaultyFileSystem, failing, once
from tests.checkpoint.snapshots import JOB, options_of, stored

CHECKPOINT_5 = CheckpointId(5)


class JobMaster:
    """Takes checkpoints of JOB; their state is `num_keys` counts, by which they are told apart."""

    def __init__(self, root: Path, epoch: int, attempt: int = 0, files: CheckpointFileSystem | None = None) -> None:
        self.root, self.epoch, self.attempt = root, epoch, attempt
        self.files = files or ArrowFileSystem(survives_power_loss=False)
        self.snapshots = SnapshotFiles(self.files, retries=NO_PAUSES)
        self.store = FileCompletedStore.open(to_uri(root), JOB, epoch, self.files, f"epoch {epoch}", NO_PAUSES)

    def checkpoint(self, number: int, num_keys: int, shared: bool = False) -> bool:
        options = options_of(self.root, number, self.epoch, self.attempt)
        metadata = stored(self.files, options, number, num_keys, shared=shared)
        self.snapshots.write_metadata(metadata)
        return self.store.complete(CompletedCheckpoint(metadata))

    def newest(self) -> CheckpointMetadata:
        return self.snapshots.read_metadata(self.store.retained()[-1].location)

    def clean(self) -> None:
        retained = [self.snapshots.read_metadata(pointer.location) for pointer in self.store.retained()]
        orphans = find_orphans(self.files, to_uri(self.root), JOB, self.epoch, Attempt(self.attempt), retained)
        self.snapshots.delete(orphans.files, orphans.directories)


def restored_keys(root: Path) -> int:
    """Return the number of counts in the latest completed checkpoint, as a JobMaster that starts now sees it; all is
    verified."""
    after = JobMaster(root, epoch=99)
    metadata = after.newest()
    after.snapshots.verify(metadata)
    reader = TaskStateReader(after.files, NO_PAUSES)
    keys = 0
    for subtask in metadata.operators[1].subtasks:
        assert subtask.keyed is not None
        file = CanonicalFile.of_bytes(reader.read(subtask.keyed.files[CANONICAL_FILE]))
        keys += sum(len(group.states["count"]) for group in file.snapshot().groups.values())
    return keys


# 1, 2: the upload of state or of the metadata fails


@pytest.mark.parametrize("part", ["keyed-state", "_metadata", "entry-"])
def test_an_upload_that_fails_leaves_the_checkpoint_before_it(tmp_path: Path, part: str) -> None:
    files = FaultyFileSystem()
    leader = JobMaster(tmp_path, 1, files=files)
    assert leader.checkpoint(5, num_keys=7)
    files.fail = failing("write_new", part)
    with pytest.raises(OSError, match="refused"):
        leader.checkpoint(6, num_keys=8)
    assert restored_keys(tmp_path) == 7


def test_the_next_checkpoint_after_a_failed_upload_succeeds(tmp_path: Path) -> None:
    files = FaultyFileSystem()
    leader = JobMaster(tmp_path, 1, files=files)
    files.fail = failing("write_new", "_metadata")
    with pytest.raises(OSError, match="refused"):
        leader.checkpoint(5, num_keys=7)
    files.fail = failing("nothing")
    assert leader.checkpoint(6, num_keys=8)
    assert restored_keys(tmp_path) == 8


# 3: looking for checkpoints fails


@pytest.mark.parametrize("operation", ["list", "read"])
def test_a_log_that_cannot_be_read_is_no_empty_log(tmp_path: Path, operation: str) -> None:
    files = FaultyFileSystem()
    leader = JobMaster(tmp_path, 1, files=files)
    assert leader.checkpoint(5, num_keys=7)
    files.fail = failing(operation, "completed")
    with pytest.raises(OSError, match="refused"):
        leader.store.retained()
    with pytest.raises(OSError, match="refused"):
        JobMaster(tmp_path, 2, files=files)
    files.fail = failing(operation, "completed", times=1)
    assert len(leader.store.retained()) == 1


# 4, 5: a zombie's write lands after its successor has completed a checkpoint of the same number


@pytest.mark.parametrize("shared", [False, True], ids=["own files", "shared files"])
@pytest.mark.parametrize("delayed", ["keyed-state", "_metadata", "entry-"])
@pytest.mark.parametrize("same_epoch", [False, True], ids=["new epoch", "new attempt"])
def test_a_write_that_lands_late_changes_nothing(tmp_path: Path, delayed: str, shared: bool, same_epoch: bool) -> None:
    files = FaultyFileSystem()
    zombie = JobMaster(tmp_path, 1, files=files)
    assert zombie.checkpoint(4, num_keys=4)
    successor_done: list[bool] = []

    def successor() -> None:
        leader = JobMaster(tmp_path, 1 if same_epoch else 2, attempt=1)
        leader.store = FileCompletedStore.open(to_uri(tmp_path), JOB, leader.epoch, leader.files, "successor")
        successor_done.append(leader.checkpoint(5, num_keys=7, shared=shared))

    files.before_landing = once(successor, delayed)
    assert not zombie.checkpoint(5, num_keys=9, shared=shared), "the zombie is told that it was replaced"
    assert successor_done == [True]
    assert restored_keys(tmp_path) == 7


def test_a_zombie_that_was_away_for_many_checkpoints_completes_nothing(tmp_path: Path) -> None:
    files = FaultyFileSystem()
    zombie = JobMaster(tmp_path, 1, files=files)

    def successor() -> None:
        leader = JobMaster(tmp_path, 2)
        for number in range(5, 15):
            assert leader.checkpoint(number, num_keys=number)
            leader.store.remove([CheckpointId(number - 1)])
        # the number that the zombie is about to create is free again
        assert not leader.files.exists(join(completed_directory(to_uri(tmp_path), JOB), "entry-0000000001"))

    files.before_landing = once(successor, "entry-")
    assert not zombie.checkpoint(99, num_keys=9)
    assert restored_keys(tmp_path) == 14


def test_a_zombie_cannot_take_over_again(tmp_path: Path) -> None:
    assert JobMaster(tmp_path, 2).checkpoint(5, num_keys=7)
    with pytest.raises(FencedError, match="epoch 1 was replaced by epoch 2"):
        JobMaster(tmp_path, 1)


def test_a_checkpoint_that_was_completed_before_the_take_over_counts(tmp_path: Path) -> None:
    leader = JobMaster(tmp_path, 1)
    assert leader.checkpoint(5, num_keys=7)
    assert [pointer.checkpoint_id for pointer in JobMaster(tmp_path, 2).store.retained()] == [5]
    with pytest.raises(FencedError):
        leader.store.remove([CHECKPOINT_5])
    assert restored_keys(tmp_path) == 7, "nor can a zombie let it be forgotten"


def test_a_completion_that_was_applied_without_an_answer_is_no_refusal(tmp_path: Path) -> None:
    files = FaultyFileSystem()
    leader = JobMaster(tmp_path, 1, files=files)
    metadata = stored(files, options_of(tmp_path, 5), 5)
    leader.snapshots.write_metadata(metadata)
    files.before_landing = once(lambda: setattr(files, "fail", failing("list")))
    with pytest.raises(OSError, match="refused"):
        leader.store.complete(CompletedCheckpoint(metadata))
    files.fail = failing("nothing")
    assert leader.store.complete(CompletedCheckpoint(metadata)), "asking again finds it done"
    assert [pointer.checkpoint_id for pointer in JobMaster(tmp_path, 2).store.retained()] == [5]


# 6: the tidying of an attempt that was replaced comes late


@pytest.mark.parametrize("shared", [False, True], ids=["own files", "shared files"])
def test_a_late_cleaner_deletes_nothing_that_is_newer(tmp_path: Path, shared: bool) -> None:
    files = FaultyFileSystem()
    zombie = JobMaster(tmp_path, 1, attempt=3, files=files)
    assert zombie.checkpoint(4, num_keys=4, shared=shared)
    leader = JobMaster(tmp_path, 2)
    assert leader.checkpoint(5, num_keys=7, shared=shared)
    in_progress = TaskStateWriter(leader.files, options_of(tmp_path, 6, 2), CheckpointId(6), "map", NO_PAUSES)
    handle = in_progress.write("state", b"under way", shared=shared)
    leader.store.remove([CheckpointId(4)])
    zombie.clean()
    assert restored_keys(tmp_path) == 7
    assert TaskStateReader(leader.files).read(handle) == b"under way"


@pytest.mark.parametrize("shared", [False, True], ids=["own files", "shared files"])
def test_the_leader_cleans_what_older_attempts_left(tmp_path: Path, shared: bool) -> None:
    crashed = JobMaster(tmp_path, 1)
    assert crashed.checkpoint(4, num_keys=4, shared=shared)
    stored(crashed.files, options_of(tmp_path, 5, 1), 5, shared=shared)  # it never wrote the metadata
    (tmp_path / JOB / "shared").mkdir(exist_ok=True)
    (tmp_path / JOB / "shared" / ".5-1.0-map-state-x.12.tmp").write_bytes(b"draft")
    (tmp_path / JOB / "shared" / "somebody's").write_bytes(b"notes")
    (tmp_path / JOB / "chk-notes").mkdir()
    leader = JobMaster(tmp_path, 1, attempt=1)
    stored(leader.files, options_of(tmp_path, 5, 1, 1), 5, shared=shared)  # under way
    leader.clean()
    names = {path.name for path in (tmp_path / JOB).iterdir()}
    assert names == {"chk-4-1.0", "chk-5-1.1", "chk-notes", "shared", "completed"}
    left = sorted(path.name[:6] for path in (tmp_path / JOB / "shared").iterdir())
    assert left == (["4-1.0-"] * 2 + ["5-1.1-"] * 2 if shared else []) + ["somebo"]
    assert restored_keys(tmp_path) == 4


def test_files_that_a_retained_checkpoint_took_from_an_older_one_stay(tmp_path: Path) -> None:
    first = JobMaster(tmp_path, 1)
    assert first.checkpoint(4, num_keys=4, shared=True)
    base = first.newest()
    second = JobMaster(tmp_path, 2)
    # an incremental checkpoint: its own directory, the files of the one before
    incremental = replace(base, options=options_of(tmp_path, 5, 2), checkpoint_id=CHECKPOINT_5)
    second.snapshots.write_metadata(incremental)
    assert second.store.complete(CompletedCheckpoint(incremental))
    second.store.remove([CheckpointId(4)])
    JobMaster(tmp_path, 3).clean()
    assert restored_keys(tmp_path) == 4


# 7: a whole attempt fails with a late write under way, where a new file may replace an old one


class ReplacingFileSystem(ArrowFileSystem):
    """Does not notice that a file exists already, as a slow upload to an object store does not."""

    def write_new(self, uri: str, data: object) -> None:
        if not uri.rpartition("/")[2].startswith("entry-"):
            self.delete_file(uri)
        super().write_new(uri, data)  # type: ignore[arg-type]


@pytest.mark.parametrize("late", ["keyed-state", "_metadata"])
def test_late_files_replace_none_of_the_successors(tmp_path: Path, late: str) -> None:
    files = FaultyFileSystem(ReplacingFileSystem(survives_power_loss=False))
    zombie = JobMaster(tmp_path, 1, files=files)
    assert zombie.checkpoint(4, num_keys=4)

    def successor_runs_and_fails_too() -> None:
        leader = JobMaster(tmp_path, 2, files=ReplacingFileSystem(survives_power_loss=False))
        assert leader.checkpoint(5, num_keys=7)

    files.before_landing = once(successor_runs_and_fails_too, late)
    assert not zombie.checkpoint(5, num_keys=9)
    assert restored_keys(tmp_path) == 7


# --- the log itself ---------------------------------------------------------------------------------------------------


def test_a_damaged_log_is_not_guessed_at(tmp_path: Path) -> None:
    leader = JobMaster(tmp_path, 1)
    assert leader.checkpoint(5, num_keys=7)
    last = sorted(local_path(completed_directory(to_uri(tmp_path), JOB)).iterdir())[-1]
    content = last.read_bytes()
    for position in range(0, len(content), 5):
        last.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
        with pytest.raises(DamagedSnapshotError):
            leader.store.retained()


def test_a_log_that_is_away_is_not_an_empty_one(tmp_path: Path) -> None:
    leader = JobMaster(tmp_path, 1)
    assert leader.checkpoint(1, 10)
    later = stored(leader.files, options_of(tmp_path, 2), 2, 20)
    leader.snapshots.write_metadata(later)
    directory, aside = tmp_path / JOB, tmp_path / "aside"
    directory.rename(aside)
    calls: list[Callable[[], object]] = [
        lambda: leader.store.complete(CompletedCheckpoint(later)),
        lambda: leader.store.remove([CheckpointId(1)]),
        leader.store.retained,
    ]
    for call in calls:
        with pytest.raises(StorageAwayError):
            call()
    aside.rename(directory)
    assert leader.store.complete(CompletedCheckpoint(later))
    assert [pointer.checkpoint_id for pointer in leader.store.retained()] == [1, 2]


def test_a_checkpoint_whose_metadata_were_written_elsewhere_is_not_complete(tmp_path: Path) -> None:
    leader = JobMaster(tmp_path, 1)
    assert leader.checkpoint(1, 10)
    with pytest.raises(NotASnapshotError, match="its _metadata file is gone"):
        leader.store.complete(CompletedCheckpoint(stored(leader.files, options_of(tmp_path, 2), 2, 20)))
    assert restored_keys(tmp_path) == 10


def test_who_takes_over_while_the_log_seems_empty_finds_what_is_in_it(tmp_path: Path) -> None:
    files = FaultyFileSystem()
    leader = JobMaster(tmp_path, 1, files=files)
    for number in range(1, 6):
        assert leader.checkpoint(number, number)
    log = local_path(completed_directory(to_uri(tmp_path), JOB))
    aside = tmp_path / "aside"
    log.rename(aside)

    def come_back(operation: str, uri: str) -> None:
        if operation == "make_directory" and aside.exists():
            aside.rename(log)

    files.fail = come_back
    store = FileCompletedStore.open(to_uri(tmp_path), JOB, 2, files, "epoch 2", NO_PAUSES)
    assert [pointer.checkpoint_id for pointer in store.retained()] == [1, 2, 3, 4, 5]
    assert not leader.checkpoint(6, 6), "it was replaced"


def test_who_has_looked_at_the_log_before_the_job_was_over_finds_that_it_is(tmp_path: Path) -> None:
    leader = JobMaster(tmp_path, 1)
    assert leader.checkpoint(1, 1)
    files = FaultyFileSystem()

    def end(operation: str, uri: str) -> None:
        # the other one is about to write the entry by which it takes over
        if operation == "make_directory":
            files.fail = lambda operation, uri: None
            leader.store.end(JobOutcome.FINISHED)
            leader.store.remove([CheckpointId(1)])

    files.fail = end
    for epoch, of_it in ((2, files), (3, FaultyFileSystem())):
        with pytest.raises(JobOverError, match="it is FINISHED") as caught:
            JobMaster(tmp_path, epoch, files=of_it)
        assert caught.value.outcome is JobOutcome.FINISHED


def test_who_was_replaced_does_not_say_that_the_job_is_over(tmp_path: Path) -> None:
    leader = JobMaster(tmp_path, 1)
    assert leader.checkpoint(1, 1)
    JobMaster(tmp_path, 2)
    with pytest.raises(FencedError):
        leader.store.end(JobOutcome.FINISHED)
    assert [pointer.checkpoint_id for pointer in JobMaster(tmp_path, 3).store.retained()] == [1]


def test_the_log_stays_short(tmp_path: Path) -> None:
    leader = JobMaster(tmp_path, 1)
    metadata = stored(leader.files, options_of(tmp_path, 1))
    leader.snapshots.write_metadata(metadata)
    for number in range(1, 30):
        assert leader.store.complete(CompletedCheckpoint(replace(metadata, checkpoint_id=CheckpointId(number))))
        leader.store.remove([CheckpointId(number - 2)])
    assert [pointer.checkpoint_id for pointer in leader.store.retained()] == [28, 29]
    assert len(list(local_path(completed_directory(to_uri(tmp_path), JOB)).iterdir())) == 3


def test_a_snapshot_that_was_deleted_in_part_is_none(tmp_path: Path) -> None:
    """Whoever deletes it may be killed: `_metadata` is gone before a file that it names."""
    files = FaultyFileSystem()
    job = JobMaster(tmp_path, epoch=1, files=files)
    job.checkpoint(5, num_keys=3, shared=True)
    location = job.store.retained()[-1].location
    shared = [file.uri for file in job.newest().files() if file.is_shared]
    assert shared
    deleted: list[str] = []

    def killed(operation: str, uri: str) -> None:
        if operation.startswith("delete"):
            if deleted:
                raise KeyboardInterrupt
            deleted.append(uri)

    files.fail = killed
    with pytest.raises(KeyboardInterrupt):
        job.snapshots.delete(shared, [location])
    files.fail = lambda operation, uri: None
    with pytest.raises(DamagedSnapshotError, match="no _metadata"):
        job.snapshots.read_metadata(location)
