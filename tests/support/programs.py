"""Programs run as processes of their own, and what is left of them afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
JAVA_OPTIONS = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For the environment: Spark only has to start stages here, and a third of a JVM's work at its start is for compilers
and collectors."""
_MARK = "TIDEMARK_TEST_MARK"


@dataclass(frozen=True, slots=True)
class Finished:
    """Outcome of a program."""

    exit_code: int
    stdout: str
    stderr: str
    mark: str


def run_program(
    *arguments: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None, timeout_s: float = 180.0
) -> Finished:
    """Run `python arguments...` to its end, with a mark in its environment that its descendants inherit."""
    mark = uuid.uuid4().hex
    environment = {**os.environ, "PYTHONPATH": str(ROOT), _MARK: mark, **(env or {})}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return Finished(done.returncode, done.stdout, done.stderr, mark)


def survivors(mark: str) -> list[int]:
    """Pids of processes that carry the mark and still live."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(_MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found
