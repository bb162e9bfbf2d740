"""A child's own side of `runtime.client.children`: its limits, its lifeline, and the pipe for its answer."""

from __future__ import annotations

import fcntl
import inspect
import json
import os
import resource
import select
import signal
import sys
from collections.abc import Mapping
from typing import Any

BEGUN = b"\n"
"""Comes before the answer, as soon as a child has its request: one that never had a chance to begin is told apart."""


def begin() -> tuple[int, dict[str, Any]]:
    """Bind this process to the one that started it; return the file descriptor for the answer, and the request."""
    # the program's own children must not hold the pipe open
    answer_fd = int(sys.argv[1])
    os.set_inheritable(answer_fd, False)
    end_with(int(sys.argv[2]))
    request: dict[str, Any] = json.load(sys.stdin)
    with open(os.devnull) as nothing:  # noqa: PTH123 (a device, not a path of anyone's)
        os.dup2(nothing.fileno(), 0)
    os.write(answer_fd, BEGUN)
    return answer_fd, request


def end_with(lifeline_fd: int) -> None:
    """Have the kernel kill this process group when a pipe ends: the program must not outlive who waits for its job.

    No thread watches the pipe, as the program's code may keep every thread from running.
    """
    os.set_inheritable(lifeline_fd, False)
    if sys.platform != "linux":
        return
    fcntl.fcntl(lifeline_fd, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline_fd, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline_fd, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    if select.select([lifeline_fd], [], [], 0)[0]:
        os.killpg(0, signal.SIGKILL)


def names_of(program: str) -> Mapping[str, Any]:
    """Return the global names of a program, by the path of its file, that has called this; empty: it has not."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_filename == program and frame.f_code.co_name == "<module>":
            return frame.f_globals
        frame = frame.f_back
    return {}


def limit(memory_bytes: int, cpu_s: int) -> None:
    """Set the limits of this process; those of files and processes are its launcher's."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
