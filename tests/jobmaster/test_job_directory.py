"""What becomes of the directory of a job that is over, and that whoever is not in charge deletes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.checkpoint.messages import DeleteFiles, ForgetCheckpoints, SweepOrphans
from runtime.checkpoint.outcome import JobOutcome
from runtime.core.ids import Attempt, CheckpointId
from runtime.jobmaster.events import Submitted
from runtime.testing.checkpoint_store import MemoryCheckpointStore
from tests.jobmaster.storage_rig import JOB, Rig, damage, end


@pytest.fixture
def memory() -> MemoryCheckpointStore:
    return MemoryCheckpointStore()


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
