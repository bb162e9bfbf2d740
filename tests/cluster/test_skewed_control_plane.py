"""A JobManager and a web process on machines whose clocks are wrong by an hour, one ahead and one behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pytest

from backend.cluster import bus
from backend.cluster.freshness import STALE_AFTER_MS
from backend.supervisor.checks import free_port
from runtime.client.rest import RestClient
from runtime.client.server import Server
from tests.cluster.proving import proving_job
from tests.cluster.stack import ROOT, running_stack
from tests.cluster.test_adoption_on_spark import check_that_it_goes_on, jobmanagers
from tests.cluster.test_two_jobmanagers import Pair, name_of, pair
from tests.cluster.wrong_clock import skewed, wrong_clock
from tests.support.waiting import wait_until

__all__ = ["pair"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TOKEN = "a-token-of-the-tests-that-nobody-guesses"
ADMIN = f"""
import django
django.setup()
from backend.accounts.services import ensure_admin
ensure_admin({TOKEN!r})
"""


@contextmanager
def web_process(pair: Pair, directory: Path, **environment: str) -> Iterator[RestClient]:
    """A web process over the same database."""
    port = free_port()
    app = ("-m", "backend.config.web_server", "--port", str(port))
    path = directory / "web.log"
    with path.open("wb") as log:
        process = subprocess.Popen(
            (sys.executable, *app), cwd=ROOT, env=pair.environment | environment, stdout=log, stderr=log
        )
    try:
        wait_until(lambda: "Uvicorn running" in path.read_text(), 120, "the web process listens")
        yield RestClient(Server(f"http://127.0.0.1:{port}", TOKEN))
    finally:
        process.kill()
        process.wait()


def waits(client: RestClient, job_id: str) -> bool:
    return "needs 1 slot" in client.live(job_id)["waiting_for"]


def has_ended(client: RestClient, job_id: str) -> bool:
    return bool(client.live(job_id)["state"] == "CANCELED")


@pytest.mark.parametrize("skew_s", [3600, -3600])
def test_they_lead_and_are_asked_as_any_others(skew_s: int, pair: Pair, tmp_path: Path) -> None:
    library = wrong_clock(tmp_path)
    pair.run("-c", ADMIN)
    first, second = pair.start(), pair.start(**skewed(library, skew_s))
    wait_until(lambda: pair.epoch_of(first) == 1, 60, "the one with the right clock leads")
    before = pair.submit()
    key = bus.JOB_KEY.format(before)
    wait_until(lambda: bus.read_document(key).document is not None, 60, "the job is taken")
    with web_process(pair, tmp_path, **skewed(library, -skew_s)) as client:
        first.kill()
        wait_until(lambda: pair.epoch_of(second) == 2, 60, "the one with the wrong clock leads")
        wait_until(lambda: (bus.read_document(key).beat_age_ms or 0) < STALE_AFTER_MS, 60, "its beat")
        roles = {entry["id"]: (entry["role"], entry["is_alive"]) for entry in client.jobmanagers()["jobmanagers"]}
        assert roles[name_of(second)] == ("LEADER", True)
        after = pair.submit(**skewed(library, -skew_s))
        for job_id in (before, after):
            wait_until(partial(waits, client, job_id), 60, "it waits")
        assert [client.live(job_id)["restarts"] for job_id in (before, after)] == [0, 0]
        for job_id in (before, after):
            client.cancel(job_id)
            wait_until(partial(has_ended, client, job_id), 60, "its end")
        assert second.poll() is None


@pytest.mark.spark
@pytest.mark.parametrize("skew_s", [3600, -3600])
def test_a_leader_with_a_wrong_clock_adopts_what_runs(skew_s: int, tmp_path: Path) -> None:
    library, directory = wrong_clock(tmp_path), tmp_path / "job"
    directory.mkdir()
    with (
        running_stack(tmp_path / "home", TIDEMARK_SLOTS="4") as stack,
        proving_job(stack, directory) as job,
    ):
        job.wait_until_it_moves("the job runs")
        right = psutil.Process(jobmanagers(stack, "LEADER")[0])
        environment = right.environ() | skewed(library, skew_s)
        with subprocess.Popen(right.cmdline(), cwd=ROOT, env=environment) as wrong:
            try:
                wait_until(lambda: wrong.pid in jobmanagers(stack, "STANDBY"), 60, "the one with the wrong clock")
                before, slots, completed = job.live(), job.slots(), job.completed()
                os.kill(right.pid, signal.SIGKILL)
                wait_until(lambda: jobmanagers(stack, "LEADER") == [wrong.pid], 30, "it leads")
                check_that_it_goes_on(job, before, slots, completed)
                job.stop()
            finally:
                wrong.kill()
