"""A cluster and a web process of another host: they share SQL, Redis and the storage, and no TIDEMARK_HOME."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.client.rest import RestClient
from tests.cluster.stack import ROOT, running_stack
from tests.dispatcher.web_server import running_web
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_web_process_of_another_host_runs_programs_and_reads_logs(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    other.mkdir()
    storage = tmp_path / "storage"
    with running_stack(home, TIDEMARK_STORAGE_DIR=str(storage), TIDEMARK_SLOTS="8") as stack:
        shared = {
            "DATABASE_URL": f"sqlite:///{home / 'db.sqlite3'}",
            "REDIS_URL": (home / "redis-url").read_text().strip(),
            "TIDEMARK_SECRET_KEY": (home / "secret-key").read_text().strip(),
            "TIDEMARK_STORAGE_DIR": str(storage),
        }
        with running_web(other, **shared) as web:
            client = RestClient(web.server)
            environment = os.environ | {"TIDEMARK_URL": web.server.url, "TIDEMARK_TOKEN": web.server.token or ""}
            command = (sys.executable, "-m", "runtime.client.cli", "run", "-p", "2", "examples/hello_events.py")
            ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
            assert ran.returncode == 0, ran.stdout + ran.stderr + "".join(stack.lines)
            [job] = [job for job in client.jobs() if job["name"] == "hello events"]

            def has_printed() -> bool:
                names = [file["name"] for file in client.log_files(job["jid"]) if file["kind"] == "out"]
                texts = [client.log_text(job["jid"], name, 0, 1 << 18)["text"] for name in names]
                return any("(home," in text for text in texts)

            wait_until(has_printed, 20, "the job's output")
    assert [path.name for path in other.iterdir() if path.name in ("artifacts", "logs")] == []
    assert not (home / "artifacts").exists() and not (home / "logs" / "jobs").exists()
