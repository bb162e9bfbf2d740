"""The storage worker: what is answered, what is tried again, what is deleted, and what is not."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from runtime.checkpoint.completed_store import CompletedCheckpoint
from runtime.checkpoint.errors import CheckpointLogGoneError, FencedError, StorageAwayError
from runtime.checkpoint.handles import CheckpointMetadata
from runtime.checkpoint.messages import (
    DeleteFiles,
    ForgetCheckpoints,
    ForgetDamaged,
    Forgotten,
    NotStored,
    StoreCheckpoint,
    Stored,
    SweepOrphans,
)
from runtime.checkpoint.outcome import JobOutcome
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.core.ids import Attempt, CheckpointId
from runtime.jobmaster import storage_worker
from runtime.jobmaster.events import RecoveryDelayed, Submitted, Tick
from runtime.jobmaster.storage_worker import MAX_RETRY_MS, RETRY_MS
from runtime.state.handles import DamagedSnapshotError
from runtime.testing.checkpoint_store import MemoryCheckpointStore
from tests.jobmaster.storage_rig import JOB, Rig, end
from tests.support.waiting import wait_until


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


@pytest.mark.parametrize("kind", ["gone", "damaged"])
def test_damage_is_not_recorded_for_ever_in_a_log_that_is_lost_itself(
    kind: str, tmp_path: Path, memory: MemoryCheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path, memory)
    rig.store(1)
    rig.store(2)
    error = StorageAwayError("the log") if kind == "gone" else DamagedSnapshotError("the log", "sha256 differs")

    def refuse(gone: Iterable[CheckpointId]) -> None:
        raise error

    monkeypatch.setattr(memory, "remove", refuse)
    rig.worker.put(ForgetDamaged(CheckpointId(2)))
    for _ in range(2):
        rig.worker.step()
        rig.clock.advance(storage_worker.GONE_MS / 2)
    with pytest.raises(CheckpointLogGoneError if kind == "gone" else DamagedSnapshotError):
        rig.worker.step()


def test_files_are_deleted_and_what_cannot_be_stops_nobody(tmp_path: Path, memory: MemoryCheckpointStore) -> None:
    rig = Rig(tmp_path, memory)
    rig.store(1)
    rig.worker.put(DeleteFiles(("mock://nowhere/x",), (f"{rig.root}/{JOB}/chk-1-0.0",)))
    rig.store(2)
    assert not (tmp_path / JOB / "chk-1-0.0").exists()
    assert [a.checkpoint_id for a in rig.answers] == [1, 2]


def test_damage_is_recorded_before_it_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryCheckpointStore()
    rig = Rig(tmp_path, store)
    rig.store(1)
    rig.store(2)
    remove = store.remove
    failures: list[Exception] = [ConnectionError("no database"), FencedError("the log", 1, 2)]

    def fail_first(gone: Iterable[CheckpointId]) -> None:
        if len(failures) == 2:
            raise failures.pop(0)
        remove(gone)

    monkeypatch.setattr(store, "remove", fail_first)
    rig.worker.put(ForgetDamaged(CheckpointId(2)))
    rig.worker.step()
    assert len(rig.answers) == 2 and rig.worker.trouble.startswith("checkpoint 2 to be recorded as damaged: ")
    rig.clock.advance(RETRY_MS)
    rig.worker.step()
    assert rig.answers[-1] == Forgotten(CheckpointId(2)) and rig.worker.trouble == ""
    assert [pointer.checkpoint_id for pointer in store.retained()] == [1]

    def refuse(gone: Iterable[CheckpointId]) -> None:
        raise failures[0]

    monkeypatch.setattr(store, "remove", refuse)
    rig.worker.put(ForgetDamaged(CheckpointId(1)))
    rig.worker.step()
    assert rig.answers[-1] == Forgotten(CheckpointId(1), is_fenced=True)


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


# --- a storage that is away at the start ------------------------------------------------------------------------------


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


# --- the end ----------------------------------------------------------------------------------------------------------


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


def test_a_directory_that_is_away_at_the_end_counts_as_not_removed(tmp_path: Path) -> None:
    """A share may be unmounted just then, with the files still on it."""
    for is_away in (False, True):
        root = tmp_path / str(is_away)
        rig = Rig(root, MemoryCheckpointStore())
        rig.recover()
        rig.store(1)
        if is_away:
            root.rename(tmp_path / "unmounted")
        end(rig, 1)
        rig.worker.close()
        assert rig.worker.has_removed_directory is not is_away
