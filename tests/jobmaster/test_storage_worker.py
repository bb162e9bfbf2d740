"""The storage worker: what is answered, what is tried again, what is deleted, and what is not."""

from __future__ import annotations

import errno
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.checkpoint.completed_store import CompletedCheckpoint, CompletedCheckpointStore
from runtime.checkpoint.errors import CheckpointLogGoneError, FencedError
from runtime.checkpoint.file_completed_store import FileCompletedStore
from runtime.checkpoint.handles import CheckpointMetadata
from runtime.checkpoint.layout import checkpoint_directory
from runtime.checkpoint.locations import EVERYWHERE, AllowedRoots
from runtime.checkpoint.messages import (
    DeleteFiles,
    ForgetCheckpoints,
    NotStored,
    RecordEnd,
    StoreCheckpoint,
    Stored,
    SweepOrphans,
)
from runtime.checkpoint.metadata import KIND, VERSION
from runtime.checkpoint.outcome import JobOutcome
from runtime.checkpoint.sealed import seal
from runtime.checkpoint.settings import CheckpointSettings, ClaimMode, RestoreSettings
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.checkpoint.state_files import Retries, default_file_system
from runtime.common.config_options import ConfigurationError
from runtime.core.checkpoint_options import AfterSnapshot, CheckpointOptions
from runtime.core.ids import Attempt, CheckpointId, JobId
from runtime.jobmaster import storage_worker
from runtime.jobmaster.events import RecoveryDelayed, StorageAnswered, Submitted, Tick
from runtime.jobmaster.storage_worker import LEFT_STOP_MS, MAX_RETRY_MS, RETRY_MS, CheckpointHome, StorageWorker
from runtime.testing.checkpoint_store import MemoryCheckpointStore
from runtime.testing.clock import ManualClock
from tests.support.waiting import wait_until

JOB = JobId("a" * 32)
SETTINGS = CheckpointSettings(interval_ms=1_000)


class Rig:
    """A worker whose answers are kept."""

    def __init__(
        self,
        root: Path,
        store: CompletedCheckpointStore | None = None,
        settings: CheckpointSettings = SETTINGS,
        *,
        is_inline: bool = True,
        epoch: int = 0,
        is_taken_over: bool = False,
        failures: Iterable[OSError] = (),
        may_write: Callable[[], bool] = lambda: True,
        left_stop: str | None = None,
        allowed: AllowedRoots = EVERYWHERE,
    ) -> None:
        self.root = root.as_uri()
        self.clock = ManualClock(0)
        self.posted: list[Any] = []
        files = SnapshotFiles(default_file_system(), allowed, Retries(()))
        home = CheckpointHome.of(
            replace(settings, directory=self.root), JOB, slots_are_local=True, leader_epoch=epoch, files=files
        )
        if store is not None:
            home = replace(home, open_store=lambda: store)
        failing, open_store = iter(failures), home.open_store

        def open_in_the_end() -> CompletedCheckpointStore:
            for failure in failing:
                raise failure
            return open_store()

        home = replace(home, open_store=open_in_the_end, may_write=may_write, left_stop=left_stop)
        self.worker = StorageWorker(home, settings, JOB, self.clock, self.posted.append, is_inline, is_taken_over)

    @property
    def answers(self) -> list[Any]:
        return [event.answer for event in self.posted if isinstance(event, StorageAnswered)]

    def recover(self) -> Submitted:
        submitted = self.worker.recover()
        assert isinstance(submitted, Submitted)
        return submitted

    def recover_when_it_is_back(self, is_back: Callable[[int], None]) -> tuple[list[float], Submitted]:
        """Try again when that is due, after a call with the number of tries so far; the waits, and what is found."""
        assert isinstance(self.worker.recover(), RecoveryDelayed)
        waits: list[float] = []
        while not any(isinstance(event, Submitted) for event in self.posted):
            is_back(len(waits) + 1)
            due_ms = self.worker.next_ms()
            assert due_ms is not None
            assert self.worker.is_idle, "nothing is waited for at the job's end"
            waits.append(due_ms - self.clock.monotonic_ms())
            self.clock.advance(int(waits[-1]))
            assert self.worker.step()
        assert self.worker.next_ms() is None
        *delays, submitted, tick = self.posted
        assert all(isinstance(event, RecoveryDelayed) for event in delays)
        assert isinstance(submitted, Submitted)
        assert tick == Tick()
        return waits, submitted

    def metadata(self, number: int, attempt: int = 0) -> CheckpointMetadata:
        directory = checkpoint_directory(self.root, JOB, CheckpointId(number), 0, Attempt(attempt))
        return CheckpointMetadata(
            JOB, CheckpointId(number), 0, CheckpointOptions(directory, f"{self.root}/{JOB}/shared"), ()
        )

    def store(self, number: int, *, is_recorded: bool = True) -> CheckpointMetadata:
        metadata = self.metadata(number)
        self.worker.put(StoreCheckpoint(metadata, is_owned=True, is_recorded=is_recorded))
        self.worker.step()
        return metadata


@pytest.fixture
def memory() -> MemoryCheckpointStore:
    return MemoryCheckpointStore()


def test_the_metadata_are_written_before_the_checkpoint_is_recorded(
    tmp_path: Path, memory: MemoryCheckpointStore
) -> None:
    rig = Rig(tmp_path, memory)
    rig.store(1)
    written = tmp_path / JOB / "chk-1-0.0" / "_metadata"
    assert rig.answers == [Stored(CheckpointId(1), written.stat().st_size)]
    assert [p.checkpoint_id for p in memory.retained()] == [1]


def test_what_recovery_may_not_start_from_is_written_only(tmp_path: Path, memory: MemoryCheckpointStore) -> None:
    rig = Rig(tmp_path, memory)
    rig.store(1, is_recorded=False)
    assert memory.calls == 0
    assert isinstance(rig.answers[0], Stored)


def test_a_directory_that_cannot_be_written_is_a_failed_checkpoint(
    tmp_path: Path, memory: MemoryCheckpointStore
) -> None:
    (tmp_path / JOB).write_text("in the way")
    rig = Rig(tmp_path, memory)
    rig.store(1)
    (answer,) = rig.answers
    assert isinstance(answer, NotStored)
    assert "its metadata could not be written" in answer.cause
    assert not answer.is_fenced
    assert memory.calls == 0


@pytest.mark.parametrize("is_recorded", [True, False])
@pytest.mark.parametrize("is_lost", [True, False], ids=["lost", "renewed"])
def test_nothing_is_written_while_another_one_may_lead(
    is_lost: bool, is_recorded: bool, tmp_path: Path, memory: MemoryCheckpointStore
) -> None:
    looks = iter([False, not is_lost])

    def may_write() -> bool:
        may = next(looks)
        if is_lost and rig.clock.monotonic_ms() > 0:
            raise FencedError(str(tmp_path), 1, 2)
        return may

    rig = Rig(tmp_path, memory, may_write=may_write)
    rig.store(1, is_recorded=is_recorded)
    written = tmp_path / JOB / "chk-1-0.0" / "_metadata"
    assert not written.exists() and not rig.answers and not rig.worker.is_idle
    assert rig.worker.trouble.startswith("checkpoint 1 to be completed")
    rig.clock.advance(int(RETRY_MS))
    assert rig.worker.step() and rig.worker.is_idle
    [answer] = rig.answers
    if is_lost:
        assert isinstance(answer, NotStored) and answer.is_fenced
        assert not written.exists() and memory.calls == 0
    else:
        assert answer == Stored(CheckpointId(1), written.stat().st_size)
        assert memory.calls == is_recorded


@pytest.mark.parametrize("applies", [False, True])
def test_a_store_that_cannot_say_is_asked_until_it_can(applies: bool, tmp_path: Path) -> None:
    memory = MemoryCheckpointStore(3, applies_failures=applies)
    rig = Rig(tmp_path, memory)
    rig.store(1)
    rig.worker.put(DeleteFiles((), (f"{rig.root}/{JOB}/chk-1-0.0",)))
    waits = []
    while not rig.answers:
        due_ms = rig.worker.next_ms()
        assert due_ms is not None
        waits.append(due_ms - rig.clock.monotonic_ms())
        rig.clock.advance(int(due_ms - rig.clock.monotonic_ms()))
        rig.worker.step()
    assert waits == [RETRY_MS, 2 * RETRY_MS, 4 * RETRY_MS]
    assert max(waits) <= MAX_RETRY_MS
    assert isinstance(rig.answers[0], Stored)
    assert rig.worker.is_idle, "what was asked later came later"


def test_whoever_has_been_replaced_is_told(tmp_path: Path) -> None:
    first = Rig(tmp_path, epoch=1)
    first.store(1)
    Rig(tmp_path, epoch=2).recover()
    first.store(2)
    assert [type(a) for a in first.answers] == [Stored, NotStored]
    assert first.answers[1].is_fenced
    first.worker.close()
    assert (tmp_path / JOB / "chk-1-0.0").exists()


def test_one_that_was_replaced_before_its_first_checkpoint_is_told_too(tmp_path: Path) -> None:
    Rig(tmp_path, epoch=2).recover()
    late = Rig(tmp_path, epoch=1)
    late.store(1)
    assert late.answers[0].is_fenced


def test_a_log_that_was_deleted_breaks_the_job_and_one_that_comes_back_does_not(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.recover()
    log, away = tmp_path / JOB / "completed", tmp_path / "away"
    log.rename(away)
    rig.store(1)
    rig.clock.advance(20_000)
    rig.worker.step()
    away.rename(log)
    rig.clock.advance(20_000)
    rig.worker.step()
    assert isinstance(rig.answers[-1], Stored)
    shutil.rmtree(log)
    rig.store(2)
    rig.clock.advance(20_000)
    rig.worker.step()
    rig.clock.advance(20_000)
    with pytest.raises(CheckpointLogGoneError, match="was deleted while the job was running"):
        rig.worker.step()


def test_files_are_deleted_and_what_cannot_be_stops_nobody(tmp_path: Path, memory: MemoryCheckpointStore) -> None:
    rig = Rig(tmp_path, memory)
    rig.store(1)
    rig.worker.put(DeleteFiles(("mock://nowhere/x",), (f"{rig.root}/{JOB}/chk-1-0.0",)))
    rig.store(2)
    assert not (tmp_path / JOB / "chk-1-0.0").exists()
    assert [a.checkpoint_id for a in rig.answers] == [1, 2]


def test_nothing_is_deleted_for_a_job_that_another_jobmaster_goes_on_with(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.store(1)
    rig.worker.freeze()
    rig.worker.put(ForgetCheckpoints((CheckpointId(1),)))
    rig.worker.put(DeleteFiles((), (f"{rig.root}/{JOB}/chk-1-0.0",)))
    rig.worker.step()
    rig.worker.close()
    assert [c.checkpoint_id for c in Rig(tmp_path, epoch=1).recover().retained] == [1]


def test_what_older_attempts_have_left_is_swept(tmp_path: Path, memory: MemoryCheckpointStore) -> None:
    rig = Rig(tmp_path, memory)
    kept = rig.store(1)
    for name in ("chk-2-0.0", "chk-3-0.1", "unknown"):
        (tmp_path / JOB / name).mkdir()
    rig.worker.put(SweepOrphans(Attempt(1), (kept,)))
    rig.worker.step()
    assert sorted(path.name for path in (tmp_path / JOB).iterdir()) == ["chk-1-0.0", "chk-3-0.1", "unknown"]


def test_what_the_deployer_of_an_adopted_region_has_written_is_not_swept(tmp_path: Path) -> None:
    rig = Rig(tmp_path, epoch=3)
    rig.recover()
    for name in ("chk-2-1.4", "chk-3-1.5", "chk-4-2.5"):
        (tmp_path / JOB / name).mkdir(parents=True)
    rig.worker.put(SweepOrphans(Attempt(5), (), leader_epoch=1))
    rig.worker.step()
    assert sorted(path.name for path in (tmp_path / JOB).iterdir() if path.name.startswith("chk")) == [
        "chk-3-1.5",
        "chk-4-2.5",
    ]


# --- the start --------------------------------------------------------------------------------------------------------


def test_a_new_jobmaster_finds_what_the_one_before_has_completed(tmp_path: Path) -> None:
    first = Rig(tmp_path)
    stored = [first.store(1), first.store(2)]
    submitted = Rig(tmp_path, epoch=1).recover()
    assert submitted.retained == tuple(CompletedCheckpoint(m) for m in stored)


def damage(tmp_path: Path, number: int) -> None:
    path = tmp_path / JOB / f"chk-{number}-0.0" / "_metadata"
    path.write_bytes(path.read_bytes()[:-20])


def left_stop(root: Path, number: int, after: AfterSnapshot = AfterSnapshot.SUSPEND, is_complete: bool = True) -> str:
    """A savepoint in a directory that an earlier JobMaster has made; its URI."""
    directory = (root / "saved").as_uri()
    (root / "saved").mkdir(parents=True)
    options = CheckpointOptions(directory, directory, is_savepoint=True, after=after)
    if is_complete:
        SnapshotFiles(default_file_system()).write_metadata(
            CheckpointMetadata(JOB, CheckpointId(number), 0, options, ())
        )
    return directory


def retained_by_one_that_follows(root: Path, directory: str) -> list[int]:
    before = Rig(root)
    before.recover()
    before.worker.put(StoreCheckpoint(before.metadata(2), True, True))
    before.worker.step()
    submitted = Rig(root, left_stop=directory, epoch=1).recover()
    again = Rig(root, epoch=2).recover()
    assert [c.checkpoint_id for c in again.retained] == [c.checkpoint_id for c in submitted.retained], "it is recorded"
    return [c.checkpoint_id for c in submitted.retained]


def test_a_savepoint_to_stop_with_that_was_complete_and_not_recorded_is_recorded(tmp_path: Path) -> None:
    assert retained_by_one_that_follows(tmp_path, left_stop(tmp_path, 3)) == [2, 3]


@pytest.mark.parametrize(
    ("number", "after", "is_complete"),
    [
        pytest.param(1, AfterSnapshot.SUSPEND, True, id="the job has gone on behind it"),
        pytest.param(3, AfterSnapshot.GO_ON, True, id="the job does not stop with it"),
        pytest.param(3, AfterSnapshot.SUSPEND, False, id="it is not complete"),
    ],
)
def test_any_other_is_not(number: int, after: AfterSnapshot, is_complete: bool, tmp_path: Path) -> None:
    assert retained_by_one_that_follows(tmp_path, left_stop(tmp_path, number, after, is_complete)) == [2]


def refusal_of_a_job_that_was_to_stop(root: Path, directory: str, allowed: AllowedRoots = EVERYWHERE) -> str:
    before = Rig(root)
    before.store(2)
    following = Rig(root, left_stop=directory, epoch=1, allowed=allowed)
    submitted = following.recover()
    following.worker.put(RecordEnd(JobOutcome.FAILED))
    following.worker.step()
    following.worker.close()
    assert [
        c.checkpoint_id for c in FileCompletedStore(root.as_uri(), JOB, 2, default_file_system(), "").retained()
    ] == [2]
    assert (root / JOB / "chk-2-0.0" / "_metadata").exists(), "nothing is lost"
    return submitted.refusal or ""


def test_a_job_whose_stop_a_newer_release_has_written_fails_with_that_reason(tmp_path: Path) -> None:
    directory = left_stop(tmp_path, 3, is_complete=False)
    (tmp_path / "saved" / "_metadata").write_bytes(seal(KIND, VERSION + 1, {}))
    why = refusal_of_a_job_that_was_to_stop(tmp_path, directory)
    assert why.startswith(f"the savepoint to stop with cannot be read: {directory}/_metadata has version 2")
    assert (tmp_path / "saved" / "_metadata").exists()


def test_a_job_whose_stop_is_in_a_directory_that_is_not_allowed_any_more_fails_with_that_reason(tmp_path: Path) -> None:
    directory = left_stop(tmp_path, 3)
    why = refusal_of_a_job_that_was_to_stop(tmp_path, directory, AllowedRoots.of([(tmp_path / "elsewhere").as_uri()]))
    assert why.startswith(f"the savepoint to stop with cannot be read: {directory} is not below a directory that is")


def test_a_stop_that_is_gone_from_a_storage_that_is_there_was_never_complete(tmp_path: Path) -> None:
    directory = left_stop(tmp_path / "savepoints", 3)
    (tmp_path / "savepoints" / "another").mkdir()
    shutil.rmtree(tmp_path / "savepoints" / "saved")
    submitted = Rig(tmp_path, MemoryCheckpointStore(), left_stop=directory).recover()
    assert submitted == Submitted()


def test_a_stop_in_a_share_that_is_mounted_again_is_recorded(tmp_path: Path) -> None:
    directory = left_stop(tmp_path / "share", 3)
    (tmp_path / "share").rename(tmp_path / "unmounted")
    (tmp_path / "share").mkdir()
    rig = Rig(tmp_path, MemoryCheckpointStore(), left_stop=directory)

    def is_back(tries: int) -> None:
        if tries == 3:
            (tmp_path / "share").rmdir()
            (tmp_path / "unmounted").rename(tmp_path / "share")

    _, submitted = rig.recover_when_it_is_back(is_back)
    assert [c.checkpoint_id for c in submitted.retained] == [3]


def test_a_stop_in_a_share_that_stays_away_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    directory = left_stop(tmp_path / "share", 3)
    shutil.rmtree(tmp_path / "share")
    waits, submitted = Rig(tmp_path, MemoryCheckpointStore(), left_stop=directory).recover_when_it_is_back(
        lambda _: None
    )
    assert submitted == Submitted()
    assert LEFT_STOP_MS <= sum(waits) <= LEFT_STOP_MS + MAX_RETRY_MS


def test_a_stop_that_is_damaged_begins_anew(tmp_path: Path) -> None:
    directory = left_stop(tmp_path, 3)
    metadata = tmp_path / "saved" / "_metadata"
    metadata.write_bytes(metadata.read_bytes()[:-5])
    assert retained_by_one_that_follows(tmp_path, directory) == [2]


class DoubtfulStore(MemoryCheckpointStore):
    """Does not know at first whether it has recorded something."""

    num_asked = 0

    def complete(self, checkpoint: CompletedCheckpoint) -> bool:
        self.num_asked += 1
        if self.num_asked == 2:
            super().complete(checkpoint)
        if self.num_asked <= 2:
            raise RuntimeError("the answer was lost")
        return super().complete(checkpoint)


def test_nothing_begins_before_it_is_known_that_it_is_recorded(tmp_path: Path) -> None:
    rig = Rig(tmp_path, DoubtfulStore(), left_stop=left_stop(tmp_path, 3))
    _, submitted = rig.recover_when_it_is_back(lambda _: None)
    assert [c.checkpoint_id for c in submitted.retained] == [3]


def test_a_job_does_not_wait_for_ever_for_the_storage_of_its_savepoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path, MemoryCheckpointStore(), left_stop=left_stop(tmp_path, 3))

    def load(self: SnapshotFiles, path: str) -> CheckpointMetadata:
        raise OSError(errno.EHOSTUNREACH, "no route to host")

    monkeypatch.setattr(SnapshotFiles, "load", load)
    waits, submitted = rig.recover_when_it_is_back(lambda _: None)
    assert submitted.retained == ()
    assert LEFT_STOP_MS <= sum(waits) <= LEFT_STOP_MS + MAX_RETRY_MS


def test_one_that_was_replaced_records_no_stop_and_begins_nothing(tmp_path: Path) -> None:
    store = MemoryCheckpointStore()
    store.complete = lambda checkpoint: False  # type: ignore[method-assign]
    assert isinstance(Rig(tmp_path, store, left_stop=left_stop(tmp_path, 3)).worker.recover(), RecoveryDelayed)


def test_a_damaged_one_is_left_out(tmp_path: Path) -> None:
    first = Rig(tmp_path)
    first.store(1)
    first.store(2)
    damage(tmp_path, 2)
    submitted = Rig(tmp_path, epoch=1).recover()
    assert [c.checkpoint_id for c in submitted.retained] == [1]
    assert submitted.is_newest_damaged


def test_an_older_one_that_is_damaged_says_nothing_of_the_newest(tmp_path: Path) -> None:
    first = Rig(tmp_path)
    first.store(1)
    first.store(2)
    damage(tmp_path, 1)
    assert not Rig(tmp_path, epoch=1).recover().is_newest_damaged


def test_a_damaged_one_is_forgotten_before_its_files_are_swept(tmp_path: Path) -> None:
    first = Rig(tmp_path)
    first.store(1)
    first.store(2)
    damage(tmp_path, 2)
    second = Rig(tmp_path, epoch=1)
    (left,) = second.recover().retained
    second.worker.put(SweepOrphans(Attempt(1), (left.metadata,)))
    second.worker.step()
    assert not (tmp_path / JOB / "chk-2-0.0").exists()
    # the next one reads what there is, and finds nothing that is missing
    third = Rig(tmp_path, epoch=2)
    assert [c.checkpoint_id for c in third.recover().retained] == [1]
    pointers = FileCompletedStore(tmp_path.as_uri(), JOB, 2, default_file_system(), "").retained()
    assert [pointer.checkpoint_id for pointer in pointers] == [1]


def test_a_job_of_which_all_are_damaged_does_not_begin_anew(tmp_path: Path) -> None:
    Rig(tmp_path).store(1)
    damage(tmp_path, 1)
    refusal = Rig(tmp_path, epoch=1).recover().refusal
    assert refusal is not None
    assert "none of the job's 1 checkpoints can be read" in refusal


@pytest.mark.parametrize("mode", list(ClaimMode))
def test_a_job_is_started_from_a_savepoint_unless_it_has_checkpoints_of_its_own(
    mode: ClaimMode, tmp_path: Path
) -> None:
    saved = Rig(tmp_path / "saved").store(7, is_recorded=False)
    settings = replace(SETTINGS, restore=RestoreSettings(saved.options.directory, mode))
    rig = Rig(tmp_path / "own", settings=settings)
    claims = mode is ClaimMode.CLAIM
    initial = CompletedCheckpoint(saved, is_owned=claims, is_claimed=claims)
    assert rig.recover().initial == initial
    rig.store(8)
    again = Rig(tmp_path / "own", settings=settings, epoch=1).recover()
    # what is claimed is still the job's, and its checkpoints may refer to files of it
    assert again.initial == (initial if claims else None)
    assert [c.checkpoint_id for c in again.retained] == [8]
    shutil.rmtree(tmp_path / "saved")
    replaced = Rig(tmp_path / "own", settings=settings, epoch=2, is_taken_over=True).recover()
    assert (replaced.initial, replaced.refusal) == (None, None)
    assert [c.checkpoint_id for c in replaced.retained] == [8]


@pytest.mark.parametrize("mode", list(ClaimMode))
def test_if_its_own_checkpoints_are_damaged_it_goes_on_from_what_it_has_claimed(
    mode: ClaimMode, tmp_path: Path
) -> None:
    saved = Rig(tmp_path / "saved").store(7, is_recorded=False)
    settings = replace(SETTINGS, restore=RestoreSettings(saved.options.directory, mode))
    Rig(tmp_path / "own", settings=settings).store(8)
    damage(tmp_path / "own", 8)
    again = Rig(tmp_path / "own", settings=settings, epoch=1).recover()
    assert again.retained == ()
    if mode is ClaimMode.CLAIM:
        assert again.initial == CompletedCheckpoint(saved, is_claimed=True)
    else:
        assert "none of the job's 1 checkpoints can be read" in (again.refusal or "")


def test_a_path_that_is_none_is_a_refusal(tmp_path: Path) -> None:
    settings = replace(SETTINGS, restore=RestoreSettings(str(tmp_path / "nothing")))
    refusal = Rig(tmp_path / "own", settings=settings).recover().refusal
    assert refusal is not None
    assert "is not a checkpoint or savepoint" in refusal


def test_a_job_without_checkpoints_leaves_no_log_of_them(tmp_path: Path) -> None:
    rig = Rig(tmp_path, settings=CheckpointSettings())
    assert rig.recover().retained == ()
    rig.worker.close()
    assert list(tmp_path.iterdir()) == []


# --- a storage that is away at the start ------------------------------------------------------------------------------


def move(source: Path, target: Path) -> None:
    source.rename(target)


def test_what_is_away_is_waited_for(tmp_path: Path) -> None:
    first = Rig(tmp_path / "root")
    stored = [first.store(1), first.store(2)]
    store = MemoryCheckpointStore()
    for metadata in stored:
        store.complete(CompletedCheckpoint(metadata))
    (tmp_path / "root").rename(tmp_path / "aside")
    again = Rig(tmp_path / "root", store, epoch=1)

    def is_back(tries: int) -> None:
        if tries == 4:
            (tmp_path / "aside").rename(tmp_path / "root")

    waits, submitted = again.recover_when_it_is_back(is_back)
    assert waits == [RETRY_MS, 2 * RETRY_MS, 4 * RETRY_MS, 8 * RETRY_MS]
    assert max(waits) <= MAX_RETRY_MS
    assert submitted.retained == tuple(CompletedCheckpoint(m) for m in stored)
    assert "its storage is unavailable" in again.posted[0].cause
    # it goes on as any other
    again.store(3)
    assert [a.checkpoint_id for a in again.answers] == [3]


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.ENOENT])
def test_so_is_a_log_that_cannot_be_opened(code: int, tmp_path: Path) -> None:
    first = Rig(tmp_path)
    stored = first.store(1)
    again = Rig(tmp_path, epoch=1, failures=(OSError(code, "away"), OSError(code, "still away")))
    waits, submitted = again.recover_when_it_is_back(lambda tries: None)
    assert waits == [RETRY_MS, 2 * RETRY_MS]
    assert submitted.retained == (CompletedCheckpoint(stored),)


def test_a_checkpoint_of_which_nothing_is_left_beside_another_one_is_left_out(tmp_path: Path) -> None:
    first = Rig(tmp_path)
    first.store(1)
    first.store(2)
    shutil.rmtree(tmp_path / JOB / "chk-2-0.0")
    assert [c.checkpoint_id for c in Rig(tmp_path, epoch=1).recover().retained] == [1]


def test_but_what_is_elsewhere_says_nothing_of_it(tmp_path: Path) -> None:
    store = MemoryCheckpointStore()
    store.complete(CompletedCheckpoint(Rig(tmp_path / "elsewhere").store(1)))
    store.complete(CompletedCheckpoint(Rig(tmp_path / "root").store(2)))
    (tmp_path / "root").rename(tmp_path / "aside")
    again = Rig(tmp_path / "root", store, epoch=1)
    _, submitted = again.recover_when_it_is_back(lambda tries: move(tmp_path / "aside", tmp_path / "root"))
    assert [c.checkpoint_id for c in submitted.retained] == [1, 2]


@pytest.mark.parametrize("is_taken_over", [False, True])
def test_a_savepoint_that_is_not_there_is_waited_for_by_who_has_taken_the_job_over(
    is_taken_over: bool, tmp_path: Path
) -> None:
    saved = Rig(tmp_path / "saved").store(7, is_recorded=False)
    settings = replace(SETTINGS, restore=RestoreSettings(saved.options.directory))
    (tmp_path / "saved").rename(tmp_path / "aside")
    rig = Rig(tmp_path / "own", settings=settings, is_taken_over=is_taken_over)
    if not is_taken_over:
        assert "nothing exists at this location" in (rig.recover().refusal or "")
        return
    _, submitted = rig.recover_when_it_is_back(lambda tries: move(tmp_path / "aside", tmp_path / "saved"))
    assert submitted.initial == CompletedCheckpoint(saved, is_owned=False)


def test_damage_is_not_waited_for(tmp_path: Path) -> None:
    Rig(tmp_path).store(1)
    damage(tmp_path, 1)
    assert Rig(tmp_path, epoch=1, is_taken_over=True).recover().refusal is not None


def test_a_job_that_ends_while_its_storage_is_away_leaves_everything_as_it_is(tmp_path: Path) -> None:
    first = Rig(tmp_path / "root")
    first.store(1)
    store = MemoryCheckpointStore()
    store.complete(CompletedCheckpoint(first.metadata(1)))
    (tmp_path / "root").rename(tmp_path / "aside")
    again = Rig(tmp_path / "root", store, epoch=1, is_inline=False)
    assert isinstance(again.worker.recover(), RecoveryDelayed)
    assert again.worker.is_idle
    (tmp_path / "aside").rename(tmp_path / "root")
    again.worker.close()
    assert (tmp_path / "root" / JOB / "chk-1-0.0" / "_metadata").exists()
    assert [pointer.checkpoint_id for pointer in store.retained()] == [1]


def test_a_thread_asks_again_too(tmp_path: Path) -> None:
    Rig(tmp_path / "root").store(1)
    store = MemoryCheckpointStore()
    store.complete(CompletedCheckpoint(Rig(tmp_path / "root").metadata(1)))
    (tmp_path / "root").rename(tmp_path / "aside")
    again = Rig(tmp_path / "root", store, epoch=1, is_inline=False)
    assert isinstance(again.worker.recover(), RecoveryDelayed)
    (tmp_path / "aside").rename(tmp_path / "root")
    again.clock.advance(int(RETRY_MS))
    wait_until(lambda: Tick() in again.posted, 30, "what the job goes on from")
    assert [c.checkpoint_id for c in again.posted[-2].retained] == [1]
    again.worker.close()


def test_a_storage_that_does_not_answer_holds_up_nobody_who_asks_what_to_restore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_worker, "RECOVERY_PROMPT_S", 0.01)
    store, answers = MemoryCheckpointStore(), threading.Event()
    retained = store.retained
    monkeypatch.setattr(store, "retained", lambda: retained() if answers.wait(60) else [])
    rig = Rig(tmp_path, store, is_inline=False)
    assert rig.worker.recover() == RecoveryDelayed(f"the storage of {rig.root} has not told yet what to restore")
    assert rig.worker.is_idle and not rig.posted
    answers.set()
    wait_until(lambda: Tick() in rig.posted, 30, "what the job goes on from")
    assert rig.posted == [Submitted(()), Tick()]
    rig.worker.close()


def test_a_thread_that_is_told_at_once_says_so_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_worker, "RECOVERY_PROMPT_S", 60)
    rig = Rig(tmp_path, is_inline=False)
    assert rig.worker.recover() == Submitted(())
    assert rig.worker.is_idle and not rig.posted
    rig.worker.close()


def test_a_checkpoint_whose_storage_answers_after_the_jobs_end_is_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_worker, "CLOSE_TIMEOUT_S", 0.01)
    store, begun, answers = MemoryCheckpointStore(), threading.Event(), threading.Event()
    write = SnapshotFiles.write_metadata

    def hangs(files: SnapshotFiles, metadata: CheckpointMetadata) -> int:
        begun.set()
        assert answers.wait(60)
        return write(files, metadata)

    monkeypatch.setattr(SnapshotFiles, "write_metadata", hangs)
    rig = Rig(tmp_path, store, is_inline=False)
    rig.store(1)
    assert begun.wait(60)
    rig.worker.close()
    answers.set()
    assert rig.worker._thread is not None
    rig.worker._thread.join(60)
    assert store.retained() == [] and not rig.posted


# --- where ------------------------------------------------------------------------------------------------------------


def test_slots_that_may_be_anywhere_need_a_directory_that_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"execution\.checkpointing\.dir"):
        CheckpointHome.of(SETTINGS, JOB, slots_are_local=False)
    assert CheckpointHome.of(CheckpointSettings(), JOB, slots_are_local=False).root is None


def test_local_ones_get_a_private_directory_that_goes_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    home = CheckpointHome.of(SETTINGS, JOB, slots_are_local=True)
    (directory,) = tmp_path.iterdir()
    assert directory.stat().st_mode & 0o777 == 0o700
    StorageWorker(home, SETTINGS, JOB, ManualClock(0), lambda _: None, is_inline=True).close()
    assert list(tmp_path.iterdir()) == []


def test_the_directory_of_a_job_that_is_over_goes_if_nothing_of_it_is_kept(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.store(1)
    rig.worker.put(ForgetCheckpoints((CheckpointId(1),)))
    rig.worker.put(DeleteFiles((), (f"{rig.root}/{JOB}/chk-1-0.0",)))
    rig.worker.step()
    rig.worker.close()
    assert list(tmp_path.iterdir()) == []


def test_it_stays_with_whatever_somebody_else_has_put_there(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.store(1)
    (tmp_path / JOB / "savepoint-aaaaaa-000000000000").mkdir()
    rig.worker.put(ForgetCheckpoints((CheckpointId(1),)))
    rig.worker.put(DeleteFiles((), (f"{rig.root}/{JOB}/chk-1-0.0",)))
    rig.worker.step()
    rig.worker.close()
    assert (tmp_path / JOB / "savepoint-aaaaaa-000000000000").exists()


# --- on a thread of its own -------------------------------------------------------------------------------------------


@pytest.fixture
def threaded(tmp_path: Path, memory: MemoryCheckpointStore) -> Iterator[Rig]:
    rig = Rig(tmp_path, memory, is_inline=False)
    yield rig
    rig.worker.close()


def test_a_thread_does_the_work_in_order_and_says_when_all_is_done(threaded: Rig, tmp_path: Path) -> None:
    assert threaded.worker.is_idle
    for number in range(1, 6):
        threaded.store(number)
        threaded.worker.put(DeleteFiles((), (f"{threaded.root}/{JOB}/chk-{number}-0.0",)))
    wait_until(lambda: threaded.worker.is_idle, 30, "an idle worker")
    wait_until(lambda: threaded.posted[-1] == Tick(), 30, "the word that all is done")
    assert [a.checkpoint_id for a in threaded.answers] == [1, 2, 3, 4, 5]
    assert threaded.worker.next_ms() is None
    assert not list((tmp_path / JOB).glob("chk-*"))


def test_a_store_that_is_away_for_ever_does_not_keep_the_thread(tmp_path: Path) -> None:
    rig = Rig(tmp_path, MemoryCheckpointStore(10**9), is_inline=False)
    rig.store(1)
    rig.worker.close()
    assert rig.answers == []


def test_the_file_log_is_the_default(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.store(1)
    store = FileCompletedStore(rig.root, JOB, 0, default_file_system(), "reader")
    assert [p.checkpoint_id for p in store.retained()] == [1]


# --- the end ----------------------------------------------------------------------------------------------------------


def end(rig: Rig, number: int) -> None:
    """End the job without keeping its checkpoints."""
    rig.worker.put(RecordEnd(JobOutcome.CANCELED))
    rig.worker.put(ForgetCheckpoints((CheckpointId(number),)))
    rig.worker.put(DeleteFiles((), (f"{rig.root}/{JOB}/chk-{number}-0.0",)))
    rig.worker.step()


def test_an_elected_jobmaster_leaves_the_word_that_the_job_is_over(tmp_path: Path) -> None:
    first = Rig(tmp_path, epoch=1)
    first.recover()
    first.store(1)
    end(first, 1)
    first.worker.close()
    assert [path.name for path in (tmp_path / JOB).iterdir()] == ["completed"]
    late = Rig(tmp_path, epoch=2, is_taken_over=True)
    assert late.recover() == Submitted(outcome=JobOutcome.CANCELED)
    late.worker.close()
    assert Rig(tmp_path, epoch=3).recover() == Submitted(outcome=JobOutcome.CANCELED), "who is too late changes nothing"


def test_one_that_nobody_has_elected_leaves_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.recover()
    rig.store(1)
    end(rig, 1)
    rig.worker.close()
    assert list(tmp_path.iterdir()) == []
    assert Rig(tmp_path).recover() == Submitted()


def test_nothing_is_forgotten_before_it_is_written_down_that_the_job_is_over(tmp_path: Path) -> None:
    class AwayAtTheEnd(MemoryCheckpointStore):
        is_away = True

        def end(self, outcome: JobOutcome) -> None:
            if self.is_away:
                raise OSError("the store is away")

    store = AwayAtTheEnd()
    rig = Rig(tmp_path, store, epoch=1)
    rig.recover()
    rig.store(1)
    end(rig, 1)
    assert [p.checkpoint_id for p in store.retained()] == [1]
    assert (tmp_path / JOB / "chk-1-0.0").exists()
    assert not rig.worker.is_idle
    store.is_away = False
    rig.clock.advance(int(RETRY_MS))
    rig.worker.step()
    assert rig.worker.is_idle
    assert store.retained() == []
    assert not (tmp_path / JOB / "chk-1-0.0").exists()


# --- whoever is not in charge deletes nothing -------------------------------------------------------------------------


def test_checkpoints_that_cannot_be_read_at_the_start_stay(tmp_path: Path) -> None:
    Rig(tmp_path).store(1)
    damage(tmp_path, 1)
    again = Rig(tmp_path, epoch=1)
    assert again.recover().refusal is not None
    again.worker.close()
    assert (tmp_path / JOB / "chk-1-0.0").exists()


def test_so_do_those_of_a_newer_jobmaster_that_an_older_one_meets_at_its_start(tmp_path: Path) -> None:
    newer = Rig(tmp_path, epoch=2)
    newer.recover()
    newer.store(1)
    older = Rig(tmp_path, epoch=1)
    assert "leader epoch 1 was replaced by epoch 2" in (older.recover().refusal or "")
    older.worker.close()
    assert (tmp_path / JOB / "chk-1-0.0").exists()


def test_and_those_that_it_completes_behind_the_back_of_one_that_had_none(tmp_path: Path) -> None:
    older, newer = Rig(tmp_path, epoch=1), Rig(tmp_path, epoch=2)
    assert older.recover().refusal is None
    newer.recover()
    newer.store(1)
    older.worker.close()
    assert (tmp_path / JOB / "chk-1-0.0").exists()


def test_a_directory_that_a_newer_jobmaster_has_written_into_stays_wherever_it_notes_what_is_complete(
    tmp_path: Path, memory: MemoryCheckpointStore
) -> None:
    older = Rig(tmp_path, memory, epoch=1)
    older.recover()
    (tmp_path / JOB / "shared").mkdir(parents=True)
    (tmp_path / JOB / "shared" / "1-2.0-task-state-abc").write_text("of epoch 2")
    older.worker.close()
    assert (tmp_path / JOB / "shared" / "1-2.0-task-state-abc").exists()


def test_what_could_not_be_forgotten_is_not_deleted(tmp_path: Path) -> None:
    older = Rig(tmp_path, epoch=1)
    older.store(1)
    older.store(2)
    assert len(Rig(tmp_path, epoch=2).recover().retained) == 2
    older.worker.put(ForgetCheckpoints((CheckpointId(1), CheckpointId(2))))
    older.worker.put(DeleteFiles((), (f"{older.root}/{JOB}/chk-1-0.0", f"{older.root}/{JOB}/chk-2-0.0")))
    older.worker.step()
    older.worker.close()
    assert [c.checkpoint_id for c in Rig(tmp_path, epoch=3).recover().retained] == [1, 2]


def test_what_is_asked_for_behind_a_refusal_is_not_deleted_either(tmp_path: Path) -> None:
    older = Rig(tmp_path, epoch=1)
    older.store(1)
    Rig(tmp_path, epoch=2).recover()
    older.worker.put(StoreCheckpoint(older.metadata(2), is_owned=True, is_recorded=True))
    older.worker.put(DeleteFiles((), (f"{older.root}/{JOB}/chk-1-0.0",)))
    older.worker.step()
    assert older.answers[-1].is_fenced
    assert (tmp_path / JOB / "chk-1-0.0").exists()


class AwayForOnce(MemoryCheckpointStore):
    """Its first `remove` fails."""

    away = True

    def remove(self, checkpoint_ids: Iterable[CheckpointId]) -> None:
        if self.away:
            self.away = False
            raise OSError("the database is away")
        super().remove(checkpoint_ids)


def test_it_is_once_the_store_has_forgotten_it(tmp_path: Path) -> None:
    store = AwayForOnce()
    rig = Rig(tmp_path, store)
    rig.store(1)
    rig.store(2)
    directory = tmp_path / JOB / "chk-1-0.0"
    rig.worker.put(ForgetCheckpoints((CheckpointId(1),)))
    rig.worker.put(DeleteFiles((), (directory.as_uri(),)))
    rig.worker.step()
    assert not directory.exists()
    assert [p.checkpoint_id for p in store.retained()] == [2]


def test_what_was_found_damaged_stays_for_whoever_looks_into_it(tmp_path: Path, memory: MemoryCheckpointStore) -> None:
    rig = Rig(tmp_path, memory)
    rig.store(1)
    rig.worker.put(ForgetCheckpoints((CheckpointId(1),)))  # and no DeleteFiles
    rig.worker.step()
    rig.worker.close()
    assert (tmp_path / JOB / "chk-1-0.0").exists()


def test_once_a_later_attempt_has_swept_it_nothing_of_the_job_stays(
    tmp_path: Path, memory: MemoryCheckpointStore
) -> None:
    rig = Rig(tmp_path, memory)
    kept, damaged = rig.store(1), rig.store(2)
    rig.worker.put(ForgetCheckpoints((damaged.checkpoint_id,)))
    rig.worker.put(SweepOrphans(Attempt(1), (kept,)))
    rig.worker.step()
    assert [path.name for path in (tmp_path / JOB).glob("chk-*")] == ["chk-1-0.0"]
    rig.worker.put(ForgetCheckpoints((kept.checkpoint_id,)))
    rig.worker.put(DeleteFiles((), (kept.options.directory,)))
    rig.worker.step()
    rig.worker.close()
    assert not (tmp_path / JOB).exists()
