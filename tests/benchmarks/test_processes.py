"""The processes that the reference loops run in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid

import pytest

from tests.support.programs import ROOT, survivors
from tests.support.waiting import wait_until

PROGRAM = """
import signal
from benchmarks.reference.processes import warm_pools

if __name__ == "__main__":
    warm_pools(2)
    print("warm", flush=True)
    signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_they_end_with_the_benchmark_however_it_ends(number: signal.Signals) -> None:
    mark = uuid.uuid4().hex
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TIDEMARK_TEST_MARK": mark}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as benchmark:
        assert benchmark.stdout is not None
        assert benchmark.stdout.readline() == "warm\n"
        assert len(survivors(mark)) >= 4, "the benchmark and the three processes of its two pools"
        benchmark.send_signal(number)
    wait_until(lambda: survivors(mark) == [], 20, "the processes of the pools have ended")
