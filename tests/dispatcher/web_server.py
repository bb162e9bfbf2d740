"""A real web process of a cluster without jobmanager and Redis: the place to see what it does with connections."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from backend.supervisor.checks import free_port
from runtime.client.errors import ClientError
from runtime.client.rest import RestClient
from runtime.client.server import Server
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent.parent
TOKEN = "a-token-of-the-tests-that-nobody-guesses"


@dataclass(frozen=True)
class WebProcess:
    """A running web process."""

    pid: int
    server: Server
    environment: dict[str, str]

    def run_python(self, code: str) -> str:
        """Return the output of code that runs beside it, on its database."""
        command = (sys.executable, "-c", code)
        return subprocess.run(
            command, cwd=ROOT, env=self.environment, check=True, stdout=subprocess.PIPE, text=True, timeout=60
        ).stdout


@contextmanager
def running_web(home: Path, processes: int = 1, files: int | None = None, /, **settings: str) -> Iterator[WebProcess]:
    """Serves until the block ends; with a database of its own, unless these environment variables name another.

    Args:
        home: its directory.
        processes: of the server.
        files: that each may have open; None: as many as this one.
        settings: environment variables.
    """
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"} | {
        "TIDEMARK_HOME": str(home),
        "TIDEMARK_ADMIN_TOKEN": TOKEN,
        "DJANGO_SETTINGS_MODULE": "backend.config.settings",
        "REDIS_URL": "redis://127.0.0.1:1/0",
        **settings,
    }
    prepare = (sys.executable, str(ROOT / "manage.py"), "prepare")
    subprocess.run(prepare, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=120)
    serve = [sys.executable, "-m", "backend.config.web_server", "--port", str(port), "--workers", str(processes)]
    if files is not None:
        serve = ["prlimit", f"--nofile={files}:{files}", *serve]
    with (home / "web.log").open("wb") as log:
        process = subprocess.Popen(serve, cwd=ROOT, env=environment, stdout=log, stderr=log)
        try:
            server = Server(f"http://127.0.0.1:{port}", TOKEN)
            wait_until(lambda: process.poll() is not None or _answers(server), 90, "the web process answers")
            assert process.poll() is None, (home / "web.log").read_text()
            yield WebProcess(process.pid, server, environment)
        finally:
            process.kill()
            process.wait()


def _answers(server: Server) -> bool:
    try:
        RestClient(server).jobs()
    except ClientError:
        return False
    return True
