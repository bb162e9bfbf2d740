"""The time for which a process runs an application's job: who gets it, what it records, and how it is lost."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest

from runtime.checkpoint.application_log import ApplicationEntry, ApplicationLog, Holder, Standing
from runtime.checkpoint.completed_store import CompletedCheckpoint
from runtime.checkpoint.entry_log import EntryLog
from runtime.checkpoint.file_completed_store import FileCompletedStore
from runtime.checkpoint.file_system import ArrowFileSystem
from runtime.checkpoint.handles import CheckpointMetadata
from runtime.checkpoint.layout import checkpoint_directory
from runtime.checkpoint.outcome import JobOutcome
from runtime.checkpoint.settings import ClaimMode
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.checkpoint.state_files import default_file_system
from runtime.common import Configuration
from runtime.common.config_options import ConfigurationError
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.ids import Attempt, CheckpointId
from runtime.execution import tenure as tenures
from runtime.execution.errors import (
    ApplicationError,
    ApplicationReplacedError,
    ApplicationRunningError,
    ApplicationStateGoneError,
)
from runtime.execution.process_identity import has_ended, this_process
from runtime.execution.tenure import Application, Tenure, begin, forget
from tests.support.waiting import wait_until

FILES = default_file_system()


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    yield Application("app", tmp_path.as_uri())
    tenures._served.clear()


def log_of(application: Application) -> ApplicationLog:
    return ApplicationLog(application.root, application.application_id, FILES)


def last_of(application: Application) -> ApplicationEntry:
    last = log_of(application).last()
    assert last is not None
    return last


def killed(application: Application) -> None:
    """Leave the log as a process does that has been killed: its pid exists no more."""
    last = last_of(application)
    assert last.holder is not None
    boot, namespace, _, start = last.holder.process.split("/")
    dead = replace(last.holder, pid=2**22 + 1, process=f"{boot}/{namespace}/{2**22 + 1}/{start}")
    assert log_of(application).append(replace(last, number=last.number + 1, holder=dead))
    tenures._served.clear()


def end(tenure: Tenure, application: Application, outcome: JobOutcome) -> None:
    store = FileCompletedStore.open(application.root, tenure.job_id, tenure.epoch, FILES)
    store.end(outcome)
    tenure.end(is_job_over=True)
    tenures._served.clear()


def test_each_tenure_has_a_higher_epoch_and_a_higher_attempt_of_the_same_job(application: Application) -> None:
    first = begin(application)
    assert (first.epoch, first.first_attempt) == (1, 0)
    first.record_attempt(Attempt(0))
    first.record_attempt(Attempt(3))
    killed(application)
    second = begin(application)
    assert (second.job_id, second.epoch, second.first_attempt) == (first.job_id, 2, 4)
    second.end(is_job_over=False)
    third = begin(application)
    assert (third.job_id, third.epoch, third.first_attempt) == (first.job_id, 3, 5)


def test_a_replaced_process_can_record_no_attempt_however_many_entries_follow(application: Application) -> None:
    first = begin(application)
    for _ in range(5):
        killed(application)
        begin(application)
    with pytest.raises(ApplicationReplacedError, match="has taken over job"):
        first.record_attempt(Attempt(1))
    assert last_of(application).epoch == 6
    entry = replace(last_of(application), number=0)
    assert log_of(application).beat(entry, 1) is Standing.REPLACED


@pytest.mark.parametrize("outcome", JobOutcome)
def test_a_job_that_has_ended_is_not_run_again_except_from_another_snapshot(
    application: Application, outcome: JobOutcome
) -> None:
    first = replace(application, restore_path="file:///savepoint-1")
    job_id = (tenure := begin(first)).job_id
    end(tenure, application, outcome)
    for again in (first, application):
        ended = begin(again)
        assert (ended.job_id, ended.outcome) == (job_id, outcome)
        ended.end(is_job_over=True)
    anew = begin(replace(application, restore_path="file:///savepoint-2"))
    assert anew.outcome is None
    assert anew.job_id != job_id
    assert (anew.epoch, anew.first_attempt) == (2, 0)


def test_a_process_runs_one_job_under_an_id(application: Application) -> None:
    begin(application).end(is_job_over=True)
    with pytest.raises(ApplicationRunningError, match="an id of its own"):
        begin(application)


@pytest.mark.parametrize("outcome", JobOutcome)
def test_a_process_that_has_found_a_job_ended_can_run_the_next_one_once_it_is_forgotten(
    application: Application, outcome: JobOutcome
) -> None:
    """As in a notebook, which is told to forget it and to go on."""
    tenure = begin(application)
    end(tenure, application, outcome)
    begin(application).end(is_job_over=True)
    assert forget(application) == tenure.job_id
    anew = begin(application)
    assert anew.outcome is None and anew.job_id != tenure.job_id
    anew.end(is_job_over=True)


def test_a_missing_job_directory_is_told_and_forgotten_on_demand(application: Application, tmp_path: Path) -> None:
    job_id = begin(application).job_id
    killed(application)
    shutil.rmtree(tmp_path / job_id)
    with pytest.raises(ApplicationStateGoneError, match=f"{job_id} is gone.*tidemark application forget"):
        begin(application)
    assert forget(application) == job_id
    anew = begin(application)
    assert anew.job_id != job_id
    assert anew.epoch == 3


def test_forgetting_deletes_the_checkpoints_and_fences_the_former_process(
    application: Application, tmp_path: Path
) -> None:
    former = begin(application)
    killed(application)
    assert forget(application) == former.job_id
    assert not (tmp_path / former.job_id).exists()
    with pytest.raises(ApplicationReplacedError):
        former.record_attempt(Attempt(1))
    assert forget(application) is None


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("how", [Killed, OSError])
@pytest.mark.parametrize("again", ["forget", "begin"])
def test_what_an_interrupted_forgetting_has_left_is_deleted_by_who_comes_next(
    application: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: type[BaseException], again: str
) -> None:
    job_id = begin(application).job_id
    killed(application)
    files = default_file_system()

    def end_here(directory: str) -> None:
        raise how

    with monkeypatch.context() as patched:
        patched.setattr(files, "delete_directory", end_here)
        with pytest.raises((Killed, ApplicationError)):
            forget(application, files)
    assert (tmp_path / job_id).exists()
    if again == "forget":
        assert forget(application) == job_id
    else:
        # a storage that still refuses holds up no start
        with monkeypatch.context() as patched:
            patched.setattr(files, "delete_directory", end_here)
            if how is OSError:
                first = begin(application, files)
                assert (tmp_path / job_id).exists() and first.job_id != job_id
                killed(application)
        anew = begin(application)
        assert anew.job_id != job_id
        assert (tmp_path / anew.job_id).exists()
    assert not (tmp_path / job_id).exists()
    last = ApplicationLog(application.root, application.application_id, files).last()
    assert last is not None and last.leftovers == ()


def test_the_log_may_be_in_an_object_store() -> None:
    bucket = pafs._MockFileSystem()
    files = ArrowFileSystem(lambda _: (bucket, ""))
    application = Application("app", "mock://bucket/checkpoints")
    first = begin(application, files)
    first.record_attempt(Attempt(3))
    log = ApplicationLog(application.root, "app", files)
    entry = log.last()
    assert entry is not None
    for count in (1, 2):
        assert log.beat(entry, count) is Standing.HOLDS
        assert log.newest_beat() == f"beat-1-{count}"
    first.end(is_job_over=False)
    second = begin(application, files)
    assert (second.job_id, second.epoch, second.first_attempt) == (first.job_id, 2, 4)
    assert log.beat(entry, 3) is Standing.REPLACED
    second.end(is_job_over=False)
    assert forget(application, files) == first.job_id


def test_a_process_of_which_nothing_is_known_is_not_taken_for_dead() -> None:
    me = this_process()
    assert me.process
    assert not has_ended(me)
    assert has_ended(replace(me, process=me.process + "0")), "the pid is another process's now"
    assert not has_ended(replace(me, process="")), "its system tells nothing"
    assert not has_ended(Holder("", "elsewhere", 2**22 + 1, "another boot/pid:[1]/1/1"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"high-availability.cluster-id": "a/b"}, "letters, digits"),
        ({"high-availability.cluster-id": "app"}, "execution.checkpointing.dir"),
    ],
)
def test_an_id_that_cannot_work_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Application.of(Configuration.from_dict(options))


def test_without_an_id_there_is_no_application() -> None:
    assert Application.of(Configuration()) is None


def lose_answer_of_next_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next entry is appended, but whoever appends it sees an error."""
    append = ApplicationLog.append

    def lost(log: ApplicationLog, entry: ApplicationEntry) -> bool:
        monkeypatch.setattr(ApplicationLog, "append", append)
        assert append(log, entry)
        raise OSError("the storage went away right after it")

    monkeypatch.setattr(ApplicationLog, "append", lost)


def test_an_entry_whose_answer_was_lost_is_this_processes_own(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenure = begin(application)
    lose_answer_of_next_append(monkeypatch)
    with pytest.raises(OSError, match="went away"):
        tenure.record_attempt(Attempt(1))
    failures: list[Exception] = []
    tenure.start_beating(failures.append)
    # the attempt failed, and the restart strategy begins the next one
    tenure.record_attempt(Attempt(2))
    wait_until(lambda: bool(log_of(application).newest_beat() or failures), 5, "a beat")
    tenure.end(is_job_over=False)
    assert failures == []
    last = last_of(application)
    assert (last.attempt, last.holder) == (2, None)


def test_beats_know_an_entry_whose_answer_was_lost(application: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    tenure = begin(application)
    lose_answer_of_next_append(monkeypatch)
    with pytest.raises(OSError, match="went away"):
        tenure.record_attempt(Attempt(1))
    failures: list[Exception] = []
    tenure.start_beating(failures.append)
    wait_until(lambda: bool(log_of(application).newest_beat() or failures), 5, "a beat")
    tenure.end(is_job_over=False)
    assert failures == []


def test_a_foreign_file_ends_no_signs_of_life(application: Application, tmp_path: Path) -> None:
    tenure = begin(application)
    (tmp_path / "application-app" / "entry-0000000000.bak").write_text("a backup's")
    failures: list[Exception] = []
    tenure.start_beating(failures.append)
    wait_until(lambda: bool(log_of(application).newest_beat() or failures), 5, "a beat")
    tenure.end(is_job_over=False)
    assert failures == []


# --- what the job began from ------------------------------------------------------------------------------------------


def complete_checkpoint(tenure: Tenure, application: Application) -> None:
    """Record a first checkpoint of the job, as its process does."""
    directory = checkpoint_directory(application.root, tenure.job_id, CheckpointId(1), tenure.epoch, Attempt(0))
    shared = f"{application.root}/{tenure.job_id}/shared"
    metadata = CheckpointMetadata(tenure.job_id, CheckpointId(1), 0, CheckpointOptions(directory, shared), ())
    SnapshotFiles(FILES).write_metadata(metadata)
    store = FileCompletedStore.open(application.root, tenure.job_id, tenure.epoch, FILES)
    assert store.complete(CompletedCheckpoint(metadata))


@pytest.fixture
def claiming(application: Application) -> Application:
    return replace(application, restore_path="file:///savepoint-1", claim_mode=ClaimMode.CLAIM)


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({}, True),
        ({"restore_path": "file:///savepoint-2"}, False),
        ({"restore_path": ""}, False),
        ({"claim_mode": ClaimMode.NO_CLAIM}, False),
    ],
)
def test_a_job_with_checkpoints_has_begun_from_what_it_first_began_from(
    claiming: Application, change: dict[str, Any], is_same: bool
) -> None:
    first = begin(claiming)
    assert first.has_begun_from(claiming)
    complete_checkpoint(first, claiming)
    now = replace(claiming, **change)
    for _ in range(2):
        killed(claiming)
        again = begin(now)
        assert again.job_id == first.job_id
        assert again.has_begun_from(now) is is_same
        assert again.has_begun_from(claiming)


def test_a_job_without_checkpoints_begins_from_what_is_named_now(claiming: Application) -> None:
    job_id = begin(claiming).job_id
    for now in (
        replace(claiming, restore_path="file:///savepoint-2"),
        replace(claiming, restore_path="", claim_mode=ClaimMode.NO_CLAIM),
        replace(claiming, claim_mode=ClaimMode.NO_CLAIM),
    ):
        killed(claiming)
        again = begin(now)
        assert again.job_id == job_id
        assert again.has_begun_from(now)
        assert (last_of(now).restore_path, last_of(now).claim_mode) == (now.restore_path, now.claim_mode)


def test_a_forgotten_job_leaves_no_path_to_the_next_one(claiming: Application, application: Application) -> None:
    begin(claiming)
    killed(claiming)
    forget(claiming)
    anew = begin(application)
    assert anew.has_begun_from(application)
    killed(application)
    forget(application)
    assert begin(claiming).has_begun_from(claiming)


def test_a_checkpoint_that_the_replaced_process_completes_last_counts(
    claiming: Application, application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = begin(application)
    killed(application)
    append = ApplicationLog.append

    def completed_before(log: ApplicationLog, entry: ApplicationEntry) -> bool:
        monkeypatch.setattr(ApplicationLog, "append", append)
        complete_checkpoint(first, application)
        return append(log, entry)

    # after the next process has seen that there is none
    monkeypatch.setattr(ApplicationLog, "append", completed_before)
    second = begin(claiming)
    assert second.job_id == first.job_id
    assert not second.has_begun_from(claiming)
    assert last_of(application).restore_path == ""


def test_of_a_job_that_an_earlier_release_began_nothing_is_claimed(claiming: Application) -> None:
    first = begin(claiming)
    complete_checkpoint(first, claiming)
    last = last_of(claiming)
    directory = log_of(claiming).directory
    entries = EntryLog(directory, "tidemark-application", 1, FILES)
    saved = entries.last()
    assert saved is not None
    document = {key: value for key, value in saved[1].items() if key != "claim_mode"}
    assert entries.append(last.number + 1, document)
    assert last_of(claiming) == replace(last, number=last.number + 1, claim_mode=None)
    killed(claiming)
    again = begin(claiming)
    assert again.job_id == first.job_id
    assert not again.has_begun_from(claiming)
    assert not again.has_begun_from(replace(claiming, claim_mode=ClaimMode.NO_CLAIM))


def test_a_path_that_was_ignored_starts_a_new_job_when_the_former_one_has_ended(
    claiming: Application, application: Application
) -> None:
    first = begin(application)
    complete_checkpoint(first, application)
    killed(application)
    resumed = begin(claiming)
    assert (resumed.job_id, resumed.outcome) == (first.job_id, None)
    end(resumed, claiming, JobOutcome.FINISHED)
    anew = begin(claiming)
    assert anew.outcome is None
    assert anew.job_id != first.job_id
    assert anew.has_begun_from(claiming)


def test_a_storage_that_fails_while_a_job_is_resumed_leaves_it_to_the_next_process(
    claiming: Application, application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = begin(application).job_id
    killed(application)

    def fail(store: FileCompletedStore) -> None:
        raise OSError("the storage went away")

    with monkeypatch.context() as patched:
        patched.setattr(FileCompletedStore, "take_over", fail)
        with pytest.raises(ApplicationError, match="went away"):
            begin(claiming)
    assert last_of(application).holder is None
    assert begin(claiming).job_id == job_id
