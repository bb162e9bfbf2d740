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


def test_a_log_begins_anew_while_its_process_runs_and_the_last_one_is_kept(tmp_path: Path) -> None:
    program = (
        "import time\n"
        "for number in range(400):\n"
        "    print(f'line {number:03} ' + 'x' * 40, flush=True)\n"
        "    time.sleep(0.005)\n"
        "time.sleep(60)\n"
    )
    command = (sys.executable, "-c", program)
    child = ManagedProcess("child", command, dict(os.environ), tmp_path / "child.log", max_log_bytes=4000)
    child.start()
    pid = child.pid
    kept = tmp_path / "child.log.1"

    def is_over() -> bool:
        assert child.poll() is None
        return "line 399 " in child.log.read_text() + (kept.read_text() if kept.exists() else "")

    wait_until(is_over, 30, "the last line")
    assert child.pid == pid
    assert child.log.stat().st_size <= 8000 and 4000 < kept.stat().st_size <= 12000
    # it is written on at its end: no hole where the process had been
    assert "\0" not in child.log.read_text()
    child.terminate()
    child.wait(time.monotonic() + 5)


def test_a_log_that_cannot_be_kept_begins_anew_all_the_same(tmp_path: Path) -> None:
    child = ManagedProcess(
        "child", (sys.executable, "-c", "import time; time.sleep(60)"), dict(os.environ), tmp_path / "child.log"
    )
    (tmp_path / "child.log").write_bytes(b"x" * (17 << 20))
    (tmp_path / "child.log.1").mkdir()
    child.start()
    assert child.log.stat().st_size < 1000
    child.terminate()
    child.wait(time.monotonic() + 5)
