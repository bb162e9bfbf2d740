"""Several web processes on one port: what happens when one dies, and when the one that starts them does."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from runtime.client.errors import ClientError
from tests.cluster.stack import Stack, running_stack
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(290)]


def workers_of(stack: Stack) -> list[psutil.Process]:
    """The processes that answer; not the one that starts them."""
    found = []
    for process in psutil.Process(stack.pid_of("web")).children():
        # others end meanwhile
        with suppress(psutil.Error):
            if "resource_tracker" not in " ".join(process.cmdline()):
                found.append(process)
    return found


def answers(stack: Stack) -> bool:
    try:
        stack.client.jobs()
    except ClientError:
        return False
    return True


def test_web_processes_on_one_port_are_replaced_one_by_one_and_end_together(tmp_path: Path) -> None:
    with running_stack(tmp_path, TIDEMARK_WEB_PROCESSES="2") as stack:
        wait_until(lambda: len(workers_of(stack)) == 2, 30, "two web processes")
        lost, other = workers_of(stack)
        lost.kill()
        wait_until(lambda: len(workers_of(stack)) == 2 and lost not in workers_of(stack), 30, "another one")
        assert other in workers_of(stack)
        wait_until(lambda: answers(stack), 30, "an answer")
        ended, first = workers_of(stack), stack.pid_of("web")
        psutil.Process(first).kill()
        assert not psutil.wait_procs(ended, timeout=30)[1]
        wait_until(lambda: stack.pid_of("web") != first and answers(stack), 60, "web is started again")
