"""What a job prints, in the session cluster's logs: every line once and in order, whatever becomes of the leaders."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cluster.proving import answers
from tests.cluster.stack import ROOT, Stack, running_stack
from tests.cluster.test_adoption_on_spark import jobmanagers, leads_another
from tests.cluster.test_stack import DEMO, is_running, lives
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(500)]

PARALLELISM = 2
WAIT_S = 60.0
BLOCK = 10_000
SIGNS = [signal.SIGKILL, signal.SIGSTOP, signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM]
#: prints far more than a leader has written when it is lost
PROGRAM = """
from runtime.common import Types, WatermarkStrategy
from runtime.connectors import DataGeneratorSource
from runtime.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda index: index, rows_per_second=20_000)
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
numbers.map(lambda n: f"number {n}", Types.STRING()).print()
env.execute("numbers")
"""


#: a jobmanager all of whose acknowledgements are lost
DEAF = """
import os, sys
sys.path.insert(0, os.getcwd())
from backend.cluster.job_logs import SlotLogWriter
put = SlotLogWriter.put
SlotLogWriter.put = lambda self, *output: put(self, *output[:-1], lambda *taken: None)
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", "jobmanager"])
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("home"), TIDEMARK_SLOTS="2", TIDEMARK_JOBMANAGERS="2") as running:
        wait_until(lambda: is_running(running, DEMO), WAIT_S, "the demo runs")
        running.client.cancel(running.job(DEMO)["jid"])
        yield running


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """The stack outlives the tests; its processes are looked after by `running_stack`."""


def printed(stack: Stack, job_id: str) -> dict[int, list[str]]:
    """The lines of each slot."""
    lines: dict[int, list[str]] = {}
    for file in stack.client.log_files(job_id):
        if file["kind"] != "out":
            continue
        assert file["attempt"] == 0
        text, offset, size = "", 0, 1
        while offset < size:
            part = stack.client.log_text(job_id, file["name"], offset, 1 << 20)
            assert (part["begin"], part["offset"]) == (0, offset)
            text, offset, size = text + part["text"], part["next_offset"], part["size"]
        lines[file["slot"]] = text.splitlines()
    return lines


def count(stack: Stack, job_id: str) -> int:
    return sum(file["size"] for file in stack.client.log_files(job_id) if file["kind"] == "out")


def goes_on(stack: Stack, job_id: str, before: int) -> bool:
    return answers(lambda: count(stack, job_id) > before)


@contextmanager
def deaf_jobmanager(stack: Stack) -> Iterator[int]:
    """Its pid."""
    settings = os.environ | {"TIDEMARK_HOME": str(stack.home), "DJANGO_SETTINGS_MODULE": "backend.config.settings"}
    with (stack.home / "logs" / "deaf.log").open("wb") as log:
        process = subprocess.Popen((sys.executable, "-c", DEAF), cwd=ROOT, env=settings, stdout=log, stderr=log)
    try:
        wait_until(lambda: answers(lambda: process.pid in jobmanagers(stack, "STANDBY")), WAIT_S, "it stands by")
        yield process.pid
    finally:
        process.kill()
        process.wait()


def test_every_line_is_in_the_log_once_whatever_becomes_of_the_leader(stack: Stack, tmp_path: Path) -> None:
    path = tmp_path / "numbers.py"
    path.write_text(PROGRAM)
    client = stack.client
    job_id = client.run(client.upload(path), [], {}, PARALLELISM, None, None)
    wait_until(lambda: goes_on(stack, job_id, 0), WAIT_S, "the first lines")
    with deaf_jobmanager(stack) as deaf:
        while (pid := jobmanagers(stack, "LEADER")[0]) != deaf:
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda pid=pid: leads_another(stack, pid), WAIT_S, "another leader")  # type: ignore[misc]
        before = count(stack, job_id)
        # it has written what no slot knows to be written
        wait_until(lambda: goes_on(stack, job_id, before), WAIT_S, "lines by the deaf leader")
    wait_until(lambda: leads_another(stack, deaf), WAIT_S, "another leader")
    frozen: list[int] = []
    for sign in SIGNS:
        time.sleep(random.uniform(0.2, 0.7))
        [pid] = jobmanagers(stack, "LEADER")
        before = count(stack, job_id)
        os.kill(pid, sign)
        wait_until(lambda pid=pid: leads_another(stack, pid), WAIT_S, "another leader")  # type: ignore[misc]
        if sign is signal.SIGSTOP:
            # while the slots come over to the new leader, and the old one has much that it has not read
            os.kill(pid, signal.SIGCONT)
            frozen.append(pid)
        wait_until(lambda before=before: goes_on(stack, job_id, before), WAIT_S, "more lines")  # type: ignore[misc]
        wait_until(lambda: answers(lambda: bool(jobmanagers(stack, "STANDBY"))), WAIT_S, "a standby")
    for pid in frozen:
        wait_until(lambda pid=pid: not lives(pid), WAIT_S, "the end of a leader that was replaced")  # type: ignore[misc]
    client.cancel(job_id)
    wait_until(lambda: client.live(job_id)["state"] == "CANCELED", WAIT_S, "the end of the job")
    lines = printed(stack, job_id)
    assert len(lines) == PARALLELISM
    for slot, of_slot in lines.items():
        numbers = [int(found[1]) for found in (re.fullmatch(r"\d> number (\d+)", line) for line in of_slot) if found]
        assert len(numbers) == len(of_slot), [line for line in of_slot if "number" not in line][:10]
        # the source deals blocks of numbers to its readers
        ends = [(a, b) for a, b in pairwise(numbers) if b != a + 1]
        wrong = [(a, b) for a, b in ends if b < a or (a + 1) % BLOCK or b % BLOCK]
        assert wrong == [], f"slot {slot}: {len(wrong)} times: {wrong[:10]}"
        print(f"slot {slot}: {len(numbers)} lines")
