"""What the storage knows of earlier leaders, and a database that was restored from a backup and knows less."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from backend.cluster import services
from backend.cluster.candidate import Candidate
from backend.cluster.checkpoint_home import cluster_storage
from backend.cluster.job_logs import JobLogs, SlotLogWriter, job_log_directory
from backend.cluster.jobmanager import JobManager
from backend.cluster.leader_bus import RedisLeaderBus
from backend.cluster.models import Job, LeaderEpoch
from backend.cluster.storage_traces import Traces, find_traces, leave_epoch
from runtime.checkpoint.layout import checkpoint_directory
from runtime.checkpoint.locations import local_path
from runtime.core.clock import SYSTEM_CLOCK
from runtime.core.ids import Attempt, CheckpointId, JobId, SlotId
from tests.cluster.graphs import RESTARTING, graph_json
from tests.cluster.log_reading import read_log
from tests.support.hung_storage import HungStorage
from tests.support.waiting import wait_until

pytestmark = pytest.mark.django_db


def submitted(state: str = "RUNNING", attempt: int = 1, epoch: int = 2) -> Job:
    """A job that ran when the backup was made."""
    job = services.submit_job(graph_json(1, **RESTARTING), None, [], {}, None)
    job.state, job.attempt, job.leader_epoch = state, attempt, epoch
    job.state_times = {"INITIALIZING": 1, "CREATED": 2, "RUNNING": 3}
    job.save()
    return job


def prints(job: Job, epoch: int, attempt: int, text: str) -> None:
    """The slot of an attempt prints its first lines, under the leader of an epoch."""
    writer = SlotLogWriter(epoch)
    taken = threading.Event()
    logs = JobLogs(writer, job_log_directory(job.id))
    logs.deliver(SlotId(0), Attempt(attempt), "stdout", 0, text.encode(), taken.set)
    assert taken.wait(5)
    logs.close()
    writer.close()


def printed(job: Job, attempt: int) -> str:
    return read_log(job_log_directory(job.id) / f"attempt-{attempt}/slot-0.out")


def checkpointed(job: Job, epoch: int, attempt: int) -> None:
    root = cluster_storage().checkpoints
    directory = checkpoint_directory(root, JobId(job.id), CheckpointId(9), epoch, Attempt(attempt))
    local_path(directory).mkdir(parents=True)


def test_logs_checkpoints_and_leaders_tell_epochs_and_attempts(home: Path) -> None:
    silent, talks, stores, over = (submitted() for _ in range(4))
    Job.objects.filter(id=over.id).update(state="FINISHED")
    assert find_traces() == Traces()
    prints(talks, 5, 3, "a\n")
    prints(over, 11, 40, "a\n")
    checkpointed(stores, 7, 2)
    checkpointed(talks, 4, 2)
    assert find_traces() == Traces(7, {talks.id: 3, stores.id: 2})
    assert silent.id not in find_traces().attempts
    leave_epoch(8)
    wait_until(lambda: find_traces().epoch == 8, 5, "the epoch in the storage")
    leave_epoch(9)
    wait_until(lambda: [p.name for p in (home / "leaders").iterdir()] == ["epoch-9"], 5, "the newest epoch alone")


def test_a_storage_that_is_away_holds_up_no_take_over(
    home: Path, settings: Settings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "file").write_text("")
    settings.TIDEMARK_STORAGE_DIR = str(home / "file")
    with caplog.at_level(logging.WARNING):
        assert find_traces() == Traces()
    assert "only the database counts" in caplog.text
    settings.TIDEMARK_STORAGE_DIR = ""
    hung = HungStorage(home, monkeypatch)
    hung.hang()
    with caplog.at_level(logging.WARNING):
        assert find_traces(patience_s=0.01) == Traces()
    hung.answer()
    assert "no answer within 0.01 s" in caplog.text and not hung.touched


def test_a_job_whose_row_is_damaged_keeps_nobody_from_leading(home: Path) -> None:
    good, damaged = submitted(), submitted()
    checkpointed(good, 7, 2)
    prints(damaged, 8, 3, "a\n")
    graphs: list[Any] = [{}, {"configuration": 7}, {"configuration": {"execution.checkpointing.interval": 7}}, []]
    for graph in graphs:
        Job.objects.filter(id=damaged.id).update(graph=graph)
        assert find_traces() == Traces(8, {good.id: 2, damaged.id: 3}), graph
    leadership = Candidate("host:1", "", SYSTEM_CLOCK).wait_to_lead(threading.Event())
    assert leadership is not None and leadership.epoch == 9


def unforeseen() -> Traces:
    raise KeyError("configuration")


def test_a_standby_leads_whatever_is_wrong_with_the_traces(caplog: pytest.LogCaptureFixture) -> None:
    candidate = Candidate("host:1", "", SYSTEM_CLOCK, unforeseen)
    with caplog.at_level(logging.ERROR):
        leadership = candidate.wait_to_lead(threading.Event())
    assert leadership is not None and candidate.traces == Traces()
    assert "only the database counts" in caplog.text


def test_a_standby_does_not_wait_for_a_storage_whose_paths_cannot_be_resolved_in_time(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a share that hangs: every call that looks at a path waits."""
    submitted()
    may_answer = threading.Event()

    def hang(path: Path, strict: bool = False) -> Path:
        may_answer.wait(60)
        return path

    monkeypatch.setattr(Path, "resolve", hang)
    try:
        begun_ms = SYSTEM_CLOCK.monotonic_ms()
        assert find_traces(patience_s=0.1) == Traces()
        leave_epoch(3)
        assert SYSTEM_CLOCK.monotonic_ms() - begun_ms < 30_000
    finally:
        may_answer.set()
    wait_until((home / "leaders" / "epoch-3").exists, 10, "the epoch, once the storage answers")


def test_a_restored_database_uses_no_epoch_and_no_attempt_again(
    home: Path, live_redis: str, caplog: pytest.LogCaptureFixture
) -> None:
    job = submitted(attempt=1, epoch=2)
    prints(job, 5, 3, "before the restore\n")
    LeaderEpoch.objects.create(name="jobmanager", epoch=2)
    stop = threading.Event()
    candidate = Candidate("host:1", "", SYSTEM_CLOCK)
    with caplog.at_level(logging.WARNING):
        leadership = candidate.wait_to_lead(stop)
        assert leadership is not None
        manager = JobManager(
            leadership, RedisLeaderBus(leadership.epoch), "127.0.0.1", stop, attempts=candidate.traces.attempts
        )
        manager.step(0.01)
        manager.close()
    row = Job.objects.get(id=job.id)
    assert (leadership.epoch, row.leader_epoch, row.attempt) == (6, 6, 4)
    assert "older than the storage, which has seen epoch 5" in caplog.text
    assert f"job {job.id} goes on with attempt 4" in caplog.text
    prints(job, leadership.epoch, row.attempt, "after it\n")
    assert (printed(job, 3), printed(job, 4)) == ("before the restore\n", "after it\n")
