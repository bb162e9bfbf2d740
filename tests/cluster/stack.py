"""The whole of `make run` as a child process, and what tests ask of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import psutil

from backend.supervisor.checks import free_port
from runtime.client.rest import RestClient
from runtime.client.server import Server
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent.parent
START_TIMEOUT_S = 110.0


@dataclass
class Stack:
    """A running session cluster."""

    process: subprocess.Popen[str]
    home: Path
    port: int
    lines: list[str] = field(default_factory=list)

    @property
    def client(self) -> RestClient:
        token = (self.home / "admin-token").read_text().strip()
        return RestClient(Server(f"http://127.0.0.1:{self.port}", token))

    @property
    def login_link(self) -> str | None:
        found = re.search(r"Open (http://\S+/login/\S+)", "".join(self.lines))
        return found[1] if found else None

    def pid_of(self, name: str) -> int:
        """Return the pid of the last started process of that name."""
        found = re.findall(rf"{name} started(?: again)? \(pid (\d+)", "".join(self.lines))
        return int(found[-1])

    def processes(self) -> list[psutil.Process]:
        """Everything that belongs to it, the supervisor first."""
        supervisor = psutil.Process(self.process.pid)
        return [supervisor, *supervisor.children(recursive=True)]

    def job(self, name: str) -> dict[str, Any]:
        """The newest job of that name."""
        named = [job for job in self.client.jobs() if job["name"] == name]
        assert named, "".join(self.lines)
        return named[0]

    def live(self, name: str) -> dict[str, Any]:
        return dict(self.client.live(self.job(name)["jid"]))


@contextmanager
def running_stack(home: Path, python: Path | str = sys.executable, **environment: str) -> Iterator[Stack]:
    """`make run` in that home and with that interpreter, from its last line to its end; whatever is left is killed."""
    port = free_port()
    settings = {
        name: value for name, value in os.environ.items() if name not in ("REDIS_URL", "DJANGO_SETTINGS_MODULE")
    }
    settings |= {"TIDEMARK_HOME": str(home), "TIDEMARK_PORT": str(port), "PYTHONUNBUFFERED": "1", **environment}
    command = (str(python), "-m", "backend.supervisor")
    with subprocess.Popen(
        command, cwd=ROOT, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        stack = Stack(process, home, port)
        reader = threading.Thread(target=_read, args=(process.stdout, stack.lines))
        reader.start()
        try:
            wait_until(
                lambda: stack.login_link is not None or process.poll() is not None, START_TIMEOUT_S, "the login link"
            )
            assert process.poll() is None, "".join(stack.lines)
            yield stack
        finally:
            left = stack.processes() if process.poll() is None else []
            process.terminate()
            psutil.wait_procs(left, timeout=12)
            for leftover in left:
                if leftover.is_running() and leftover.status() != psutil.STATUS_ZOMBIE:
                    leftover.kill()
            reader.join()


def _read(stream: IO[str] | None, lines: list[str]) -> None:
    assert stream is not None
    for line in stream:
        lines.append(line)
