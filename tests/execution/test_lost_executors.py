"""Executors that are killed in the middle of a stage, on a cluster of Spark's own: output comes once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.execution.lost_executor_program import KEYS, NUMBERS
from tests.execution.test_spark_micro_batch import lines
from tests.job_runs import record_run
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parent.parent.parent
EXPECTED = sorted(f"{key}:{nth}" for key in range(KEYS) for nth in range(1, NUMBERS // KEYS + 1))
TIMEOUT_S = 300


def executors_of(program: psutil.Process) -> list[psutil.Process]:
    """Return the executors that a program's session has started."""
    return [
        child
        for child in program.children(recursive=True)
        if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in child.cmdline()
    ]


@pytest.mark.parametrize("mode", ["batch", "micro-batch"])
def test_an_executor_that_is_killed_in_the_middle_of_a_stage_costs_no_record(mode: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.execution.lost_executor_program", mode, str(tmp_path)]
    record_run("spark local-cluster")
    with (tmp_path / "log").open("w+") as log:
        program = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_until((tmp_path / "held").exists, TIMEOUT_S, "a task in its work")
            executors = executors_of(psutil.Process(program.pid))
            assert len(executors) == 2
            executors[0].kill()
            wait_until(lambda: not executors[0].is_running(), TIMEOUT_S, "the executor's end")
            (tmp_path / "lost").touch()
            assert program.wait(TIMEOUT_S) == 0, (tmp_path / "log").read_text()[-4_000:]
        finally:
            program.kill()
            program.wait()
    assert lines(tmp_path / "out") == EXPECTED
    left = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and path.name.startswith(".")]
    assert not left, left
