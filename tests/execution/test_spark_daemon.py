"""The process that workers are forked from has one thread: a lock that another one held would be held for ever."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from runtime.execution.spark_session import FORK_SAFE_ENVIRONMENT
from tests.support.programs import ROOT

COUNT_THREADS = """
import os, sys
import runtime.execution.spark_daemon
print(len(os.listdir("/proc/self/task")), "polars" in sys.modules)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_nothing_that_is_imported_before_workers_are_forked_starts_a_thread() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **FORK_SAFE_ENVIRONMENT}
    done = subprocess.run(
        [sys.executable, "-c", COUNT_THREADS], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["1", "False"]
