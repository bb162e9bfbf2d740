"""The next TaskManager of a machine reports one that was killed, once."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from backend.cluster.lifelines import dead_taskmanagers, hold_lifeline
from backend.cluster.management.commands.taskmanager import _tell_of_the_dead
from tests.support.bus_contents import take_events
from tests.support.waiting import wait_until

HOLDER = "import sys, pathlib\nfrom backend.cluster.lifelines import hold_lifeline\n"
HOLDER += "file = hold_lifeline(pathlib.Path(sys.argv[1]), 'here', 'here:1-a')\nprint('held', flush=True)\ninput()\n"


def dead(home: Path, host: str = "here") -> list[str]:
    with dead_taskmanagers(home, host) as found:
        return found


def test_one_that_was_killed_is_found_once(tmp_path: Path) -> None:
    command = (sys.executable, "-c", HOLDER, str(tmp_path))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert dead(tmp_path) == []
        os.kill(process.pid, signal.SIGKILL)
        wait_until(lambda: process.poll() is not None, 10, "its end")
    assert dead(tmp_path, "elsewhere") == []
    assert dead(tmp_path) == ["here:1-a"]
    assert dead(tmp_path) == []


def test_one_that_could_not_be_told_of_is_found_again(tmp_path: Path) -> None:
    hold_lifeline(tmp_path, "here", "here:2-b").close()
    with pytest.raises(ConnectionError), dead_taskmanagers(tmp_path, "here"):
        raise ConnectionError
    with hold_lifeline(tmp_path, "here", "here:3-c"):
        assert dead(tmp_path) == ["here:2-b"]


def test_the_leader_is_told_at_the_start_of_the_next_one(home: Path, live_redis: str) -> None:
    hold_lifeline(home, socket.gethostname(), "here:4-d").close()
    _tell_of_the_dead()
    assert take_events() == [{"type": "gone", "taskmanager": "here:4-d", "cause": "its process has ended"}]
