"""What a job restores: its own checkpoints, what it was to stop with, what its user named. Storages may be away."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.checkpoint.completed_store import CompletedCheckpoint
from runtime.checkpoint.errors import FencedError
from runtime.checkpoint.file_completed_store import FileCompletedStore
from runtime.checkpoint.handles import CheckpointMetadata
from runtime.checkpoint.locations import EVERYWHERE, AllowedRoots
from runtime.checkpoint.messages import RecordEnd, StoreCheckpoint, SweepOrphans
from runtime.checkpoint.metadata import KIND, VERSION
from runtime.checkpoint.outcome import JobOutcome
from runtime.checkpoint.sealed import seal
from runtime.checkpoint.settings import CheckpointSettings, ClaimMode, RestoreSettings
from runtime.checkpoint.signatures import SnapshotKeys
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.checkpoint.state_files import default_file_system
from runtime.core.checkpoint_options import AfterSnapshot, CheckpointOptions
from runtime.core.ids import Attempt, CheckpointId
from runtime.jobmaster.events import RecoveryDelayed, Submitted
from runtime.jobmaster.restore_reader import LEFT_STOP_MS
from runtime.jobmaster.storage_worker import MAX_RETRY_MS, RETRY_MS
from runtime.testing.checkpoint_store import MemoryCheckpointStore
from tests.jobmaster.storage_rig import JOB, SETTINGS, Rig, damage


def test_a_new_jobmaster_finds_what_the_one_before_has_completed(tmp_path: Path) -> None:
    first = Rig(tmp_path)
    stored = [first.store(1), first.store(2)]
    submitted = Rig(tmp_path, epoch=1).recover()
    assert submitted.retained == tuple(CompletedCheckpoint(m) for m in stored)


def test_checkpoints_that_others_have_signed_are_refused_and_not_forgotten(tmp_path: Path) -> None:
    ours, theirs = SnapshotKeys((b"ours",), takes_foreign=False), SnapshotKeys((b"theirs",))
    written = Rig(tmp_path, keys=theirs)
    stored = [written.store(1), written.store(2)]
    refused = Rig(tmp_path, epoch=1, keys=ours).recover()
    assert refused.refusal is not None and "TIDEMARK_FOREIGN_SNAPSHOTS=0" in refused.refusal
    # the former key was forgotten
    both = SnapshotKeys((b"ours", b"theirs"), takes_foreign=False)
    submitted = Rig(tmp_path, epoch=2, keys=both).recover()
    assert submitted.retained == tuple(CompletedCheckpoint(m) for m in stored)


def test_a_checkpoint_that_was_changed_after_it_was_signed_is_skipped(tmp_path: Path) -> None:
    keys = SnapshotKeys((b"ours",))
    first = Rig(tmp_path, keys=keys)
    stored = [first.store(1), first.store(2)]
    path = tmp_path / JOB / "chk-2-0.0" / "_metadata"
    document = json.loads(path.read_bytes().partition(b"\n")[2])
    path.write_bytes(seal(KIND, VERSION, {**document, "job_name": "another"}))
    submitted = Rig(tmp_path, epoch=1, keys=keys).recover()
    assert submitted.retained == (CompletedCheckpoint(stored[0]),) and submitted.is_newest_damaged


@pytest.mark.parametrize("num_retained", [1, 2])
def test_a_foreign_snapshot_that_was_claimed_is_not_dropped_before_it_is_replaced(
    tmp_path: Path, num_retained: int
) -> None:
    claimed = RestoreSettings(left_stop(tmp_path, 3), ClaimMode.CLAIM)
    settings = replace(SETTINGS, restore=claimed, num_retained=num_retained)
    stored = Rig(tmp_path, settings=settings, keys=SnapshotKeys((b"ours",))).store(4)
    ours = SnapshotKeys((b"ours",), takes_foreign=False)
    submitted = Rig(tmp_path, settings=settings, epoch=1, is_taken_over=True, keys=ours).recover()
    if num_retained == 1:
        assert submitted.retained == (CompletedCheckpoint(stored),)
    else:
        assert submitted.refusal is not None and "it is not signed" in submitted.refusal


@pytest.mark.parametrize("is_left_stop", [True, False])
def test_a_foreign_snapshot_is_neither_gone_on_behind_nor_started_from(tmp_path: Path, is_left_stop: bool) -> None:
    directory = left_stop(tmp_path, 3)
    ours = SnapshotKeys((b"ours",), takes_foreign=False)

    def give_up() -> None:
        raise AssertionError("it may have committed")

    if is_left_stop:
        rig = Rig(tmp_path, left_stop=directory, epoch=1, give_up_stop=give_up, keys=ours)
    else:
        rig = Rig(tmp_path, settings=replace(SETTINGS, restore=RestoreSettings(directory)), keys=ours)
    refusal = rig.recover().refusal
    assert refusal is not None and "it is not signed" in refusal


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


def test_a_job_that_goes_on_without_its_stop_says_so_before_it_begins(tmp_path: Path) -> None:
    directory = left_stop(tmp_path, 3, is_complete=False)
    Rig(tmp_path).store(2)
    said: list[bool] = []

    def give_up() -> None:
        said.append(not said)
        if len(said) == 1:
            raise ConnectionError("no database")

    rig = Rig(tmp_path, left_stop=directory, epoch=1, give_up_stop=give_up)
    assert isinstance(rig.worker.recover(), RecoveryDelayed), "nothing begins before that is recorded"
    rig.clock.advance(RETRY_MS)
    rig.worker.step()
    [submitted] = [event for event in rig.posted if isinstance(event, Submitted)]
    assert [c.checkpoint_id for c in submitted.retained] == [2] and said == [True, False]


def test_a_stop_that_is_recorded_is_not_given_up(tmp_path: Path) -> None:
    def give_up() -> None:
        raise AssertionError("it is complete")

    directory = left_stop(tmp_path, 3)
    for epoch in (1, 2):
        submitted = Rig(tmp_path, left_stop=directory, epoch=epoch, give_up_stop=give_up).recover()
        assert [c.checkpoint_id for c in submitted.retained] == [3]


def test_a_stop_behind_which_the_job_has_gone_on_is_given_up(tmp_path: Path) -> None:
    """Else it would become the newest once what is newer is found damaged."""
    directory, said = left_stop(tmp_path, 1), []
    Rig(tmp_path).store(2)
    Rig(tmp_path, left_stop=directory, epoch=1, give_up_stop=lambda: said.append("given up")).recover()
    assert said == ["given up"]


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


def test_a_damaged_one_is_forgotten_before_an_attempt_aborts_what_it_holds(tmp_path: Path) -> None:
    """It can be read again later: the files were damaged on the way, or restored from a backup."""
    first = Rig(tmp_path)
    first.store(1)
    first.store(2)
    whole = (tmp_path / JOB / "chk-2-0.0" / "_metadata").read_bytes()
    damage(tmp_path, 2)
    assert [c.checkpoint_id for c in Rig(tmp_path, epoch=1).recover().retained] == [1]
    (tmp_path / JOB / "chk-2-0.0" / "_metadata").write_bytes(whole)
    assert [c.checkpoint_id for c in Rig(tmp_path, epoch=2).recover().retained] == [1]


def test_nothing_begins_until_damage_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Rig(tmp_path)
    first.store(1)
    first.store(2)
    damage(tmp_path, 2)
    remove, tries = FileCompletedStore.remove, []

    def fail_once(store: FileCompletedStore, gone: Iterable[CheckpointId]) -> None:
        tries.append(list(gone))
        if len(tries) == 1:
            raise ConnectionError("no database")
        remove(store, gone)

    monkeypatch.setattr(FileCompletedStore, "remove", fail_once)
    rig = Rig(tmp_path, epoch=1)
    assert isinstance(rig.worker.recover(), RecoveryDelayed)
    rig.clock.advance(RETRY_MS)
    rig.worker.step()
    [submitted] = [event for event in rig.posted if isinstance(event, Submitted)]
    assert [c.checkpoint_id for c in submitted.retained] == [1] and tries == [[2], [2]]


def test_a_checkpoint_that_is_forgotten_is_not_restored_though_it_can_be_read_by_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of the database was lost: its row may be gone."""
    store = MemoryCheckpointStore()
    first = Rig(tmp_path, store)
    first.store(1)
    first.store(2)
    file = tmp_path / JOB / "chk-2-0.0" / "_metadata"
    whole = file.read_bytes()
    damage(tmp_path, 2)
    rig = Rig(tmp_path, store, epoch=1)
    remove, tries = store.remove, []

    def lose_the_answer(gone: Iterable[CheckpointId]) -> None:
        tries.append(list(gone))
        if len(tries) == 1:
            raise ConnectionError("no answer")
        remove(gone)

    monkeypatch.setattr(store, "remove", lose_the_answer)
    assert isinstance(rig.worker.recover(), RecoveryDelayed)
    file.write_bytes(whole)
    rig.clock.advance(RETRY_MS)
    rig.worker.step()
    [submitted] = [event for event in rig.posted if isinstance(event, Submitted)]
    assert [c.checkpoint_id for c in submitted.retained] == [1] == [p.checkpoint_id for p in store.retained()]
    assert submitted.is_newest_damaged and tries == [[2], [2]]


def test_a_stop_that_is_given_up_stays_so_when_its_storage_is_back(tmp_path: Path) -> None:
    """It was away for longer than a stop is waited for, and the checkpoints with it."""
    share, store, said = tmp_path / "share", MemoryCheckpointStore(), []
    two = Rig(share / "checkpoints").store(2)
    directory = left_stop(share / "savepoints", 3)
    store.complete(CompletedCheckpoint(two))
    share.rename(tmp_path / "unmounted")
    share.mkdir()

    def give_up() -> None:
        said.append(rig.clock.monotonic_ms())

    rig = Rig(share / "checkpoints", store, left_stop=directory, epoch=1, give_up_stop=give_up)

    def mount(tries: int) -> None:
        if said and len(list(tmp_path.iterdir())) == 2 and tries > 6:
            share.rmdir()
            (tmp_path / "unmounted").rename(share)

    _, submitted = rig.recover_when_it_is_back(mount)
    assert len(said) == 1 and said[0] >= LEFT_STOP_MS, "it is recorded once"
    assert [c.checkpoint_id for c in submitted.retained] == [2] == [p.checkpoint_id for p in store.retained()]


def test_a_jobmaster_that_was_replaced_forgets_nothing_and_begins_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Rig(tmp_path)
    first.store(1)
    first.store(2)
    damage(tmp_path, 2)

    def refuse(store: FileCompletedStore, gone: Iterable[CheckpointId]) -> None:
        raise FencedError("the log", 1, 2)

    monkeypatch.setattr(FileCompletedStore, "remove", refuse)
    refusal = Rig(tmp_path, epoch=1).recover().refusal
    assert refusal is not None and refusal.startswith("another JobMaster runs the job")


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
