"""Health of a session by its JVM, which answers, is stopped, has ended, or hangs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.execution.session_health import SessionWatch, session_defect

ROOT = Path(__file__).resolve().parent.parent.parent


class Jvm:
    """Stands for a context, its gateway, and its JVM and the JVM's process."""

    def __init__(self) -> None:
        self.is_stopped = False
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.questions = 0
        self.returncode: int | None = None
        self._jsc = self._gateway = self.proc = self

    def poll(self) -> int | None:
        return self.returncode

    def sc(self) -> Jvm:
        return self

    def isStopped(self) -> bool:  # noqa: N802
        self.questions += 1
        self.may_answer.wait(30)
        return self.is_stopped


@pytest.fixture
def jvm() -> Iterator[Any]:
    made = Jvm()
    yield made
    made.may_answer.set()


def test_a_jvm_that_hangs_is_told_after_a_bounded_time(jvm: Any) -> None:
    assert session_defect(jvm) is None
    jvm.may_answer.clear()
    assert session_defect(jvm, 0.1) == "the JVM has not answered for 0.1 s"
    jvm.returncode = -9
    assert session_defect(jvm) == "the JVM ended with -9"


def test_a_watch_asks_a_jvm_that_hangs_only_once_and_tells_in_the_end(jvm: Any) -> None:
    watch = SessionWatch(jvm, patience_s=0.01, timeout_s=0.05)
    assert watch.defect() is None
    jvm.may_answer.clear()
    assert [watch.defect() for _ in range(5)] == [None] * 4 + ["the JVM has not answered for 0.05 s"]
    assert jvm.questions == 2


def test_a_watch_forgives_a_jvm_that_answers_late(jvm: Any) -> None:
    watch = SessionWatch(jvm, patience_s=0.01, timeout_s=0.05)
    for _ in range(3):
        jvm.may_answer.clear()
        assert [watch.defect() for _ in range(4)] == [None] * 4
        jvm.may_answer.set()
        while watch._waited_s:
            watch.defect()
    jvm.is_stopped = True
    assert SessionWatch(jvm).defect() == "Spark stopped the session"


PROGRAM = """
import os, signal
from runtime.common.configuration import Configuration
from runtime.execution import spark_session
from runtime.execution.spark_session import acquire_context

spark_session.ANSWER_TIMEOUT_S = 2.0
spark_session.STOP_TIMEOUT_S = 2.0

def freeze(context):
    os.kill(context._gateway.proc.pid, signal.SIGSTOP)

first = acquire_context(Configuration(), 1)
freeze(first)
second = acquire_context(Configuration(), 1)
assert second is not first
print(second.parallelize([1, 2], 1).sum(), flush=True)
freeze(second)
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(200)
def test_a_program_whose_jvm_is_frozen_takes_another_one_and_ends(tmp_path: Path) -> None:
    environment = os.environ | {"TIDEMARK_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = (sys.executable, "-c", PROGRAM)
    run = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=150, check=False
    )
    assert (run.returncode, run.stdout) == (0, "3\n"), run.stderr
