"""A TaskManager on a machine whose clock is wrong by an hour: it registers, is deployed to, and its job runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.stack import ROOT, Stack, running_stack
from tests.cluster.test_stack import HOLDS_SLOTS
from tests.cluster.test_two_taskmanagers import taskmanagers_of
from tests.cluster.wrong_clock import skewed, wrong_clock
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """The library that gives processes another clock."""
    return wrong_clock(tmp_path)


@contextmanager
def skewed_taskmanager(stack: Stack, library: Path, skew_s: int) -> Iterator[Path]:
    """Another TaskManager of the stack, whose wall clock is wrong; yields its log."""
    settings = os.environ | {
        "TIDEMARK_HOME": str(stack.home),
        "TIDEMARK_SLOTS": "2",
        "DJANGO_SETTINGS_MODULE": "backend.config.settings",
        **skewed(library, skew_s),
    }
    path = stack.home / "logs" / "skewed.log"
    with path.open("wb") as log:
        command = (sys.executable, "manage.py", "taskmanager")
        process = subprocess.Popen(command, cwd=ROOT, env=settings, stdout=log, stderr=log)
    try:
        yield path
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("skew_s", [3600, -3600])
def test_a_taskmanager_whose_clock_is_wrong_by_an_hour_runs_jobs(skew_s: int, library: Path, tmp_path: Path) -> None:
    options = {"execution.checkpointing.interval": "500 ms"}
    with (
        running_stack(tmp_path / "home", TIDEMARK_SLOTS="1") as stack,
        skewed_taskmanager(stack, library, skew_s) as log,
    ):
        client = stack.client
        for job in client.jobs():
            client.cancel(job["jid"])
        wait_until(lambda: len(client.cluster()["taskmanagers"]) == 2, 90, "the TaskManager registers")
        program = tmp_path / "numbers.py"
        program.write_text(HOLDS_SLOTS)
        job_id = client.run(client.upload(program), [], options, 3, None)
        wait_until(lambda: client.live(job_id)["state"] == "RUNNING", 90, "the job runs")
        assert len(taskmanagers_of(client.live(job_id))) == 2
        completed = lambda: client.checkpoints(job_id)["counts"]["completed"]  # noqa: E731
        # longer than heartbeats are waited for
        wait_until(lambda: completed() > 24, 60, "a dozen seconds of checkpoints")
        document = client.live(job_id)
        assert (document["state"], document["restarts"]) == ("RUNNING", 0), document["exceptions"]
        assert all(t["state"] == "REGISTERED" for t in client.cluster()["taskmanagers"])
        client.cancel(job_id)
        wait_until(lambda: client.live(job_id)["state"] == "CANCELED", 30, "its end")
        assert "came too late" not in log.read_text()
