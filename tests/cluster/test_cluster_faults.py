"""Faults of a session cluster's own processes (F6 to F11 of the fault matrix), under a job that proves itself.

One stack serves the tests of this file. Through every fault runs the self-proving job of `tests/chaos`, into files and
into PostgreSQL; what was visible must stay, and the last test stops the job and compares everything with the model.
Bounds are generous; what was measured is printed.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

from tests.cluster.proving import RECOVERY_S, ProvingJob, proving_job
from tests.cluster.stack import ROOT, Stack, running_stack
from tests.cluster.test_stack import HOLDS_SLOTS, lives
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

LEFT_TIMEOUT_S = 5.0
_PAUSE = threading.Event()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("home"), TIDEMARK_SLOTS="6") as running:
        yield running


@pytest.fixture(scope="module")
def running_job(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProvingJob]:
    with proving_job(stack, tmp_path_factory.mktemp("job")) as proving:
        yield proving


@pytest.fixture
def job(running_job: ProvingJob) -> Iterator[ProvingJob]:
    """It runs and commits, and nothing has been done to it yet."""
    running_job.wait_until_it_moves("the job runs")
    yield running_job
    running_job.check_that_nothing_visible_has_changed()


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """The stack outlives the tests; its processes are looked after by `running_stack`."""


def check_that_it_has_not_noticed(job: ProvingJob, before: dict[str, Any]) -> None:
    """No attempt has failed, and the slots are the same processes."""
    after = job.live()
    assert (after["attempt"], after["restarts"]) == (before["attempt"], before["restarts"]), after["exceptions"]


def check_that_commands_come_through(stack: Stack, directory: Path) -> None:
    """A new job is deployed, and ended."""
    program = directory / "numbers.py"
    program.write_text(HOLDS_SLOTS)
    client = stack.client
    job_id = client.run(client.upload(program), [], {}, 1, None)
    took = wait_until(lambda: client.live(job_id)["state"] == "RUNNING", RECOVERY_S, "a job that is deployed now")
    print(f"a new job ran after {took:.1f} s")
    assert client.live(job_id)["restarts"] == 0, client.live(job_id)["exceptions"]
    client.cancel(job_id)
    wait_until(lambda: client.live(job_id)["state"] == "CANCELED", 20, "its end")


def redis_of(stack: Stack) -> redis.Redis:
    return redis.Redis.from_url((stack.home / "redis-url").read_text().strip())


# --- TaskManager ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sign", "patience_s"),
    # drained, with no other to move the job to
    [pytest.param(signal.SIGKILL, 10, id="F6 kill -9"), pytest.param(signal.SIGTERM, 35, id="F7 SIGTERM")],
)
def test_a_taskmanager_that_ends_takes_its_processes_along_and_jobs_go_on(
    sign: signal.Signals, patience_s: float, stack: Stack, job: ProvingJob
) -> None:
    before, taskmanager = job.live(), psutil.Process(stack.pid_of("taskmanager"))
    family = taskmanager.children(recursive=True)
    assert job.slots() <= {process.pid for process in family}
    assert any("java" in process.name() for process in family)
    taskmanager.send_signal(sign)
    gone_s = wait_until(lambda: not lives(taskmanager.pid), patience_s, "the end of the TaskManager")
    left_s = wait_until(lambda: not any(lives(p.pid) for p in family), LEFT_TIMEOUT_S, "the end of JVM and workers")
    wait_until(lambda: job.live()["attempt"] > before["attempt"], RECOVERY_S, "a later attempt")
    on_s = job.wait_until_it_moves("the job goes on")
    # a TaskManager that drains lets go of its jobs with their state saved, which is no restart
    assert sign is signal.SIGKILL or job.live()["restarts"] == before["restarts"]
    print(
        f"{sign.name}: gone after {gone_s:.1f} s, its processes {left_s:.1f} s later, output {on_s:.1f} s behind that"
    )
    assert stack.pid_of("taskmanager") != taskmanager.pid


# --- jobmanager -------------------------------------------------------------------------------------------------------


def test_a_killed_jobmanager_is_replaced_and_jobs_go_on_where_they_are(stack: Stack, job: ProvingJob) -> None:
    """F8."""
    before, completed, leader = job.live(), job.completed(), stack.pid_of("jobmanager")
    os.kill(leader, signal.SIGKILL)
    lead_s = wait_until(lambda: stack.pid_of("jobmanager") != leader, 30, "another jobmanager")
    checkpoint_s = wait_until(lambda: job.completed() > completed, RECOVERY_S, "its first checkpoint")
    on_s = job.wait_until_it_moves("the job goes on")
    print(f"another jobmanager after {lead_s:.1f} s, a checkpoint {checkpoint_s:.1f} s later, output {on_s:.1f} s then")
    check_that_it_has_not_noticed(job, before)


@contextmanager
def standby(stack: Stack) -> Iterator[subprocess.Popen[bytes]]:
    """Another jobmanager, started by hand."""
    settings = os.environ | {
        "TIDEMARK_HOME": str(stack.home),
        "DJANGO_SETTINGS_MODULE": "backend.config.settings",
    }
    with (stack.home / "logs" / "standby.log").open("wb") as log:
        process = subprocess.Popen(
            (sys.executable, "manage.py", "jobmanager"), cwd=ROOT, env=settings, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_leader_that_was_frozen_finds_itself_replaced_and_writes_nothing(stack: Stack, job: ProvingJob) -> None:
    """F9: two leaders at once."""
    before, completed, leader = job.live(), job.completed(), stack.pid_of("jobmanager")
    os.kill(leader, signal.SIGSTOP)
    with standby(stack) as other:
        try:
            wait_until(lambda: job.completed() > completed, RECOVERY_S, "a checkpoint of the other leader")
            job.wait_until_it_moves("the job goes on under the other leader")
        finally:
            os.kill(leader, signal.SIGCONT)
        # it finds another epoch when it renews its lease, and ends; the one that is started in its place stands by
        ended_s = wait_until(lambda: not lives(leader), 30, "the end of the leader that was replaced")
        print(f"a leader that was replaced ended {ended_s:.1f} s after it had thawed")
        wait_until(lambda: stack.pid_of("jobmanager") != leader, 30, "a standby in its place")
        job.wait_until_it_moves("the job goes on")
        assert other.poll() is None, "it was deposed in its turn"
        check_that_it_has_not_noticed(job, before)
    assert "is over" in "".join(stack.lines)
    job.wait_until_it_moves("the job goes on")


# --- Redis ------------------------------------------------------------------------------------------------------------


def wait_for_news(stack: Stack, job: ProvingJob) -> None:
    """The page's document of the job changes, as it does twice a second."""
    version = job.live()["version"]
    took = wait_until(lambda: job.live()["version"] > version + 1, 30, "news of the job")
    print(f"news after {took:.1f} s")


def test_jobs_and_checkpoints_go_on_without_redis(stack: Stack, job: ProvingJob, tmp_path: Path) -> None:
    """F10, killed."""
    before, written, pid = job.live(), job.total(), stack.pid_of("redis")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: stack.pid_of("redis") != pid, 20, "another Redis")
    wait_until(lambda: job.total() > written + 1_000, 30, "output of several checkpoints")
    wait_for_news(stack, job)
    check_that_commands_come_through(stack, tmp_path)
    check_that_it_has_not_noticed(job, before)


def test_jobs_and_checkpoints_go_on_while_redis_does_not_answer(stack: Stack, job: ProvingJob, tmp_path: Path) -> None:
    """F10, paused for 30 s: connections stay open and nothing comes back."""
    before, written, pid = job.live(), job.total(), stack.pid_of("redis")
    os.kill(pid, signal.SIGSTOP)
    try:
        _PAUSE.wait(30)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert job.total() > written + 5_000, "no checkpoint was completed meanwhile"
    wait_for_news(stack, job)
    check_that_commands_come_through(stack, tmp_path)
    check_that_it_has_not_noticed(job, before)


def test_a_redis_that_has_forgotten_everything_is_filled_again(stack: Stack, job: ProvingJob, tmp_path: Path) -> None:
    """F10, flushed: documents, metrics, and the broker's queues are gone while all connections stay."""
    before, written = job.live(), job.total()
    with redis_of(stack) as client:
        client.flushall()
    wait_for_news(stack, job)
    wait_until(lambda: bool(stack.client.checkpoints(job.id)["history"]), 20, "the history of checkpoints")
    check_that_commands_come_through(stack, tmp_path)
    wait_until(lambda: job.total() > written + 1_000, 30, "output of several checkpoints")
    check_that_it_has_not_noticed(job, before)


# --- SQL --------------------------------------------------------------------------------------------------------------


def test_no_job_fails_while_the_database_is_locked_for_ten_seconds(
    stack: Stack, job: ProvingJob, tmp_path: Path
) -> None:
    """F11: nothing can be completed meanwhile, and everything is afterwards."""
    before, completed = job.live(), job.completed()
    connection = sqlite3.connect(stack.home / "db.sqlite3", isolation_level=None, timeout=20)
    connection.execute("BEGIN IMMEDIATE")
    try:
        _PAUSE.wait(10)
        # readers need no lock
        assert job.live()["state"] == "RUNNING"
    finally:
        connection.execute("ROLLBACK")
        connection.close()
    took = wait_until(lambda: job.completed() > completed + 2, 30, "checkpoints are completed again")
    print(f"checkpoints {took:.1f} s after the lock")
    wait_for_news(stack, job)
    check_that_commands_come_through(stack, tmp_path)
    check_that_it_has_not_noticed(job, before)


# --- the end ----------------------------------------------------------------------------------------------------------


def test_nothing_was_lost_and_nothing_came_twice(job: ProvingJob) -> None:
    job.stop()
