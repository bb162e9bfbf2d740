"""Two TaskManagers on one standalone Spark cluster: each has its cores, and a region may span both."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.stack import ROOT, Stack, running_stack
from tests.cluster.test_stack import DEMO, HOLDS_SLOTS, is_running
from tests.support.standalone import standalone_cluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


@contextmanager
def second_taskmanager(stack: Stack, master: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another TaskManager of the stack, started by hand as on another machine."""
    settings = os.environ | {
        "TIDEMARK_HOME": str(stack.home),
        "TIDEMARK_SPARK_MASTER": master,
        "TIDEMARK_SLOTS": "2",
        "DJANGO_SETTINGS_MODULE": "backend.config.settings",
    }
    with (stack.home / "logs" / "second.log").open("wb") as log:
        process = subprocess.Popen(
            (sys.executable, "manage.py", "taskmanager"), cwd=ROOT, env=settings, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def taskmanagers_of(document: dict[str, Any]) -> set[str]:
    return {subtask["taskmanager"] for vertex in document["vertices"] for subtask in vertex["subtasks"]}


def test_two_taskmanagers_share_a_standalone_cluster(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    with (
        standalone_cluster(tmp_path / "spark", workers=2, cores=2) as master,
        running_stack(tmp_path / "home", TIDEMARK_SPARK_MASTER=master, TIDEMARK_SLOTS="2") as stack,
        second_taskmanager(stack, master) as second,
    ):
        client = stack.client
        wait_until(lambda: is_running(stack, DEMO), 60, "the demo runs on the first")
        program = tmp_path / "numbers.py"
        program.write_text(HOLDS_SLOTS)
        artifact = client.upload(program)
        narrow = client.run(artifact, [], {}, 2, None)
        wait_until(lambda: client.live(narrow)["state"] == "RUNNING", 90, "a second job runs on the second")
        assert is_running(stack, DEMO)
        assert taskmanagers_of(client.live(narrow)).isdisjoint(taskmanagers_of(stack.live(DEMO)))

        client.cancel(narrow)
        client.cancel(stack.job(DEMO)["jid"])
        restarting = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "5"}
        wide = client.run(artifact, [], restarting, 4, None)
        wait_until(lambda: client.live(wide)["state"] == "RUNNING", 60, "a job over both runs")
        assert len(taskmanagers_of(client.live(wide))) == 2

        second.send_signal(signal.SIGKILL)
        wait_until(lambda: "needs 4 slots, 2 are free" in client.live(wide)["waiting_for"], 40, "it waits for slots")
        assert client.live(wide)["state"] in ("CREATED", "RESTARTING")


def test_a_taskmanager_that_gets_sigterm_hands_its_job_over_before_it_ends(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    with (
        standalone_cluster(tmp_path / "spark", workers=2, cores=2) as master,
        running_stack(tmp_path / "home", TIDEMARK_SPARK_MASTER=master, TIDEMARK_SLOTS="2") as stack,
        second_taskmanager(stack, master) as second,
    ):
        client = stack.client
        wait_until(lambda: is_running(stack, DEMO), 60, "the demo runs on the first")
        program = tmp_path / "numbers.py"
        program.write_text(HOLDS_SLOTS)
        job = client.run(client.upload(program), [], {}, 2, None)
        wait_until(lambda: client.live(job)["state"] == "RUNNING", 90, "a second job runs on the second")
        before = taskmanagers_of(client.live(job))

        def draining() -> set[str]:
            return {t["id"] for t in client.cluster()["taskmanagers"] if t["state"] == "DRAINING"}

        second.send_signal(signal.SIGTERM)
        wait_until(lambda: draining() == before, 10, "the cluster shows that it drains")
        cluster = client.cluster()
        assert (cluster["slots_total"], cluster["slots_available"]) == (2, 0)
        # there are no slots for it elsewhere
        assert client.live(job)["attempt"] == 0
        client.cancel(stack.job(DEMO)["jid"])
        wait_until(lambda: client.live(job)["attempt"] > 0, 20, "it leaves as soon as there are")
        wait_until(lambda: client.live(job)["state"] == "RUNNING", 60, "it runs on the first")
        moved = client.live(job)
        assert taskmanagers_of(moved).isdisjoint(before)
        assert (moved["restarts"], moved["exceptions"]) == (0, [])
        assert second.wait(30) == 0
        log = (stack.home / "logs" / "second.log").read_text()
        assert "has drained: nothing runs on it any more" in log
