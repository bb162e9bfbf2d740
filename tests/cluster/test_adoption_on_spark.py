"""A session cluster whose leader is killed, frozen and stopped, under a job that proves itself: it must not notice.

The job's slots stay the same processes of the same attempt; its next checkpoint completes soon under the new leader;
and the last test stops the job and compares everything with the model. What was measured is printed.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.proving import ProvingJob, answers, proving_job
from tests.cluster.stack import Stack, running_stack
from tests.cluster.test_stack import lives
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

#: what users are promised is 10 s; the machine that runs this may do other things
CHECKPOINT_S = 30.0
#: time for which two jobmanagers are watched that ought to leave each other alone
WATCHED_S = 60.0
PAUSE = threading.Event()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("home"), TIDEMARK_SLOTS="4", TIDEMARK_JOBMANAGERS="2") as running:
        yield running


@pytest.fixture(scope="module")
def running_job(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProvingJob]:
    with proving_job(stack, tmp_path_factory.mktemp("job")) as proving:
        yield proving


@pytest.fixture
def job(running_job: ProvingJob) -> Iterator[ProvingJob]:
    """It runs and commits."""
    running_job.wait_until_it_moves("the job runs")
    yield running_job
    running_job.check_that_nothing_visible_has_changed()


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """The stack outlives the tests; its processes are looked after by `running_stack`."""


def jobmanagers(stack: Stack, role: str) -> list[int]:
    """Pids of the living jobmanagers of a role."""
    entries = stack.client.jobmanagers()["jobmanagers"]
    return [int(e["id"].rpartition(":")[2]) for e in entries if e["role"] == role and e["is_alive"] is not False]


def leads_another(stack: Stack, pid: int) -> bool:
    return answers(lambda: any(other != pid for other in jobmanagers(stack, "LEADER")))


def check_that_it_goes_on(job: ProvingJob, before: dict[str, Any], slots: set[int], completed: int) -> float:
    """A new checkpoint completes, of the same attempt in the same processes; seconds until then."""
    took = wait_until(lambda: answers(lambda: job.completed() > completed), CHECKPOINT_S, "the next checkpoint")
    after = job.live()
    assert (after["attempt"], after["restarts"]) == (before["attempt"], before["restarts"]), after["exceptions"]
    assert after["state"] == "RUNNING"
    assert job.slots() == slots
    return took


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM])
def test_a_job_does_not_notice_that_its_leader_is_lost(stack: Stack, job: ProvingJob, sign: signal.Signals) -> None:
    before, slots, completed, pid = job.live(), job.slots(), job.completed(), jobmanagers(stack, "LEADER")[0]
    os.kill(pid, sign)
    lead_s = wait_until(lambda: leads_another(stack, pid), CHECKPOINT_S, "another leader")
    checkpoint_s = check_that_it_goes_on(job, before, slots, completed)
    print(f"{sign.name}: another leader after {lead_s:.1f} s, a checkpoint {checkpoint_s:.1f} s later")
    if sign is signal.SIGSTOP:
        os.kill(pid, signal.SIGCONT)
        wait_until(lambda: not lives(pid), CHECKPOINT_S, "the end of the leader that was replaced")
        check_that_it_goes_on(job, before, slots, job.completed())
    wait_until(lambda: answers(lambda: bool(jobmanagers(stack, "STANDBY"))), 60, "a standby")


def roles(stack: Stack) -> list[tuple[str, str, int | None]]:
    """(id, role, epoch) of the jobmanagers that live, the leader first."""
    entries = stack.client.jobmanagers()["jobmanagers"]
    return [(entry["id"], entry["role"], entry["epoch"]) for entry in entries if entry["is_alive"] is not False]


def test_of_two_jobmanagers_one_leads_for_a_minute_and_the_other_stands_by(stack: Stack, job: ProvingJob) -> None:
    before = roles(stack)
    assert [role for _, role, _ in before] == ["LEADER", "STANDBY"]
    until = time.monotonic() + WATCHED_S
    while time.monotonic() < until:
        assert roles(stack) == before
        PAUSE.wait(0.5)


def test_all_that_the_job_has_put_out_is_as_the_model_says(stack: Stack, job: ProvingJob) -> None:
    job.stop()
