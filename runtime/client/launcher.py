"""Launcher: starts a child of `runtime.client.children` confined, watches it, and ends everything that it has started.

    python -m runtime.client.launcher MODULE FD LIFELINE SETTINGS < request

It runs no untrusted code itself: it forks, confines the fork, which then runs MODULE with FD and LIFELINE, and becomes
the parent of whatever leaves the child's process group or loses its parent. It ends them all when the child has ended,
when the pipe LIFELINE ends (whoever waits for the answer is gone, or wants no more), or when they are too many or too
big together. One thread. It ends as the child did.
"""

from __future__ import annotations

import json
import os
import runpy
import select
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from runtime.client.confinement import MAX_PROCESSES, Confinement, adopt_orphans, confine, end_with_parent, hide_process

LOOK_S = 0.1
"""Interval of counting. Longer: a program that only forks gets further before it is stopped; shorter: it costs more."""
MAX_DIRECTORY_BYTES = 512 << 20
MAX_DIRECTORY_ENTRIES = 10_000
END_S = 5.0
"""Time after which processes that do not end are left; each was killed many times by then."""


class _Process(NamedTuple):
    parent: int
    rss_bytes: int


def main() -> None:
    module, answer_fd, lifeline_fd, settings = sys.argv[1:5]
    given = json.loads(settings)
    adopt_orphans()
    hide_process()
    launcher = os.getpid()
    child = os.fork()
    if child == 0:
        # the lifeline kills the child's group: the launcher has to survive that, in order to end the rest
        os.setpgid(0, 0)
        end_with_parent(launcher)
        confine(
            Confinement(given["hidden"], given["readable"], given["has_network"]),
            given["directory"],
        )
        sys.argv = [module, answer_fd, lifeline_fd]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return
    os.close(int(answer_fd))
    with open(os.devnull) as nothing:  # noqa: PTH123 (a device, not a path of anyone's)
        os.dup2(nothing.fileno(), 0)
    status, problem = _watch(child, int(lifeline_fd), given["directory"], given["memory_bytes"])
    if problem:
        print(f"The program was stopped: {problem}.", flush=True)
    _end_all()
    _end_as(status)


def _watch(child: int, lifeline_fd: int, directory: str, memory_bytes: int) -> tuple[int | None, str]:
    """Wait for the end of the child: (its status, "") or (None, why it must be ended)."""
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    looked_s = time.monotonic()
    while True:
        for pid, status in _ended():
            if pid == child:
                return status, ""
        ready, _, _ = select.select([wake_read, lifeline_fd], [], [], LOOK_S)
        if lifeline_fd in ready:
            return None, ""
        if wake_read in ready:
            os.read(wake_read, 4096)
        if time.monotonic() - looked_s >= LOOK_S:
            if problem := _excess(directory, memory_bytes):
                return None, problem
            looked_s = time.monotonic()


def _ended() -> Iterator[tuple[int, int]]:
    """Yield (process, status) of children that have ended, adopted ones too."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            yield pid, status


def _excess(directory: str, memory_bytes: int) -> str:
    number, rss_bytes = _running()
    if number > MAX_PROCESSES:
        return f"it had started more than {MAX_PROCESSES} processes"
    if rss_bytes > memory_bytes:
        return f"its processes used more than {memory_bytes >> 20} MiB of memory"
    entries = size = 0
    for root, _, files in os.walk(directory):
        entries += 1 + len(files)
        if entries > MAX_DIRECTORY_ENTRIES:
            return f"it had made more than {MAX_DIRECTORY_ENTRIES} files"
        for name in files:
            with suppress(OSError):
                size += os.lstat(f"{root}/{name}").st_blocks * 512
    return f"its files took more than {MAX_DIRECTORY_BYTES >> 20} MiB" if size > MAX_DIRECTORY_BYTES else ""


def _running() -> tuple[int, int]:
    """Return how many processes this one has started, directly or not, and the memory that they hold in bytes.

    Follows the kernel's lists of children, which costs little on a machine with many processes. One that starts or ends
    meanwhile may be missing: the next look has it.
    """
    if not _HAS_LISTS:
        every = _descendants()
        return len(every), sum(process.rss_bytes for process in every.values())
    number = rss_bytes = 0
    pending = [os.getpid()]
    while pending:
        parent = pending.pop()
        with suppress(OSError):
            for task in os.scandir(f"/proc/{parent}/task"):
                pids: list[int] = []
                with suppress(OSError):
                    pids = [int(pid) for pid in (Path(task.path) / "children").read_bytes().split()]
                pending += pids
                number += len(pids)
                for pid in pids:
                    # it may have ended meanwhile
                    with suppress(OSError, IndexError):
                        rss_bytes += int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE_BYTES
    return number, rss_bytes


def _descendants() -> Mapping[int, _Process]:
    """Return the processes that this one has started, directly or not; none is missing that was there all the time."""
    every: dict[int, _Process] = {}
    with suppress(OSError):
        for entry in os.scandir("/proc"):
            if entry.name.isdecimal():
                with suppress(OSError, ValueError, IndexError):
                    # the command, in parentheses, may hold anything
                    fields = (Path(entry.path) / "stat").read_bytes().rpartition(b")")[2].split()
                    every[int(entry.name)] = _Process(int(fields[1]), int(fields[21]) * _PAGE_BYTES)
    children: dict[int, list[int]] = {}
    for pid, process in every.items():
        children.setdefault(process.parent, []).append(pid)
    found: dict[int, _Process] = {}
    pending = [os.getpid()]
    while pending:
        for pid in children.get(pending.pop(), ()):
            found[pid] = every[pid]
            pending.append(pid)
    return found


_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_HAS_LISTS = Path(f"/proc/self/task/{os.getpid()}/children").exists()


def _end_all() -> None:
    until_s = time.monotonic() + END_S
    while (running := _descendants()) and time.monotonic() < until_s:
        for pid in running:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for _ in _ended():
            pass
        time.sleep(0.002)


def _end_as(status: int | None) -> None:
    code = signal.SIGKILL if status is None else os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if code:
        with suppress(OSError, ValueError):
            signal.signal(code, signal.SIG_DFL)
        os.kill(os.getpid(), code)
    os._exit(1 if status is None else os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
