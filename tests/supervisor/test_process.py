"""ManagedProcess: started, started again, stopped, and nothing left behind."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from backend.supervisor.process import ManagedProcess
from tests.support.waiting import wait_until


def managed(tmp_path: Path, program: str) -> ManagedProcess:
    return ManagedProcess("child", (sys.executable, "-c", program), dict(os.environ), tmp_path / "child.log")


def test_a_process_that_died_is_started_again_and_its_last_words_are_told(tmp_path: Path) -> None:
    child = managed(tmp_path, "import sys; print('no room'); sys.exit(3)")
    child.start()
    told: list[str] = []

    def look() -> bool:
        said = child.poll()
        if said is not None:
            told.append(said)
        return len(told) >= 3

    wait_until(look, 10, "an end, a start, an end")
    assert "ended with 3 (no room); starts again in 0.5 s" in told[0]
    assert "child started again" in told[1]
    assert "starts again in 1 s" in told[2]
    child.terminate()
    assert child.poll() is None
    assert child.wait(time.monotonic()) is None


def test_a_process_that_ignores_the_signal_is_killed_with_all_it_left(tmp_path: Path) -> None:
    program = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "left = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(left.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    child = managed(tmp_path, program)
    child.start()
    wait_until(lambda: child.log.read_text().endswith("\n"), 10, "the grandchild")
    grandchild = int(child.log.read_text())
    child.terminate()
    assert child.wait(time.monotonic() + 0.2) == "child had to be killed"
    wait_until(lambda: not runs(grandchild), 5, "the grandchild's end")


def test_a_process_that_was_killed_says_by_what(tmp_path: Path) -> None:
    child = managed(tmp_path, "import time; time.sleep(60)")
    child.start()
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    told: list[str | None] = []

    def has_ended() -> bool:
        told.append(child.poll())
        return told[-1] is not None

    wait_until(has_ended, 5, "its end")
    assert told[-1] is not None
    assert "was killed by SIGKILL" in told[-1]


def runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
