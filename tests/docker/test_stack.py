"""The compose file's services, started without Docker: the same commands, environment, order and health checks.

What differs is what containers give: hosts become the loopback interface, ports free ones, volumes directories. A job
is submitted, runs in the Spark workers and finishes. Slow: a dozen JVMs and Pythons start.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from backend.supervisor.redis_server import find_redis_server
from tests.docker.compose_file import filled_in, read_compose
from tests.job_runs import record_run
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = Path(sys.executable).parent
SECRETS = {
    "POSTGRES_PASSWORD": "pg5ec2e7",
    "REDIS_PASSWORD": "5ed15ec2e7",
    "TIDEMARK_CLUSTER_KEY": "c1057e4" * 6,
    "TIDEMARK_SECRET_KEY": "5ec2e7" * 8,
    "TIDEMARK_ADMIN_TOKEN": "ad31570ce9" * 4,
}
HEALTHY_WITHIN_S = 120.0
_PAUSE = threading.Event()
_LOOPBACK = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    with_ports = [socket.socket() for _ in range(count)]
    try:
        for opened in with_ports:
            opened.bind((_LOOPBACK, 0))
        return [opened.getsockname()[1] for opened in with_ports]
    finally:
        for opened in with_ports:
            opened.close()


def postgres_program(name: str) -> str | None:
    """A server program of PostgreSQL, which Debian keeps out of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name)


class Stack:
    """The services as processes.

    Args:
        directory: for everything that they write.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        filled = filled_in(read_compose(ROOT / "docker" / "compose.yaml"), SECRETS)["services"]
        # those of a profile are no part of the cluster
        self._services: dict[str, dict[str, Any]] = {
            name: service for name, service in filled.items() if "profiles" not in service
        }
        self.has_postgres = postgres_program("initdb") is not None
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        services = ("postgres:5432", "redis:6379", "web:8000", "spark-master:7077", "spark-master:8080")
        addresses = (*services, "spark-worker-1:8081", "spark-worker-2:8081")
        self._ports = dict(zip(addresses, free_ports(len(addresses)), strict=True))
        self.url = f"http://{_LOOPBACK}:{self._ports['web:8000']}"

    # --- what containers give -----------------------------------------------------------------------------------------

    def _here(self, text: str, service: str) -> str:
        for address, port in self._ports.items():
            text = text.replace(address, f"{_LOOPBACK}:{port}")
            host, _, number = address.partition(":")
            if text == number and host == service:
                return str(port)
        return text.replace("/tmp/spark-work", f"{self.directory}/{service}")

    def _environment(self, service: str) -> dict[str, str]:
        given: Mapping[str, str] = self._services[service].get("environment", {})
        environment = {
            "PATH": f"{BIN}:{os.environ['PATH']}:{Path(find_redis_server()).parent}",
            "HOME": str(self.directory),
            "TMPDIR": str(self.directory),
            # a container's own: what others have to know comes by its environment
            "TIDEMARK_HOME": str(self.directory / "homes" / service),
            "SPARK_LOCAL_IP": _LOOPBACK,
            **({"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {}),
            **{
                # its own name, alone or in the network of the slots
                name: _LOOPBACK if value in (service, f"{service}.slots") else self._here(value, service)
                for name, value in given.items()
            },
        }
        if service == "web":
            environment["TIDEMARK_PORT"] = str(self._ports["web:8000"])
        if not self.has_postgres and "DATABASE_URL" in environment:
            environment["DATABASE_URL"] = f"sqlite:///{self.directory}/db.sqlite3"
        return environment

    def command(self, service: str) -> list[str]:
        """The service's command with addresses of this machine; redis and postgres are told their ports besides."""
        given: list[str] = self._services[service]["command"]
        command = [self._here(argument, service) for argument in given]
        if "--host" in command:
            command[command.index("--host") + 1] = _LOOPBACK
        if service == "redis":
            # a script that a shell runs; compose's $$ is a $
            script = command[-1].replace("$$", "$").replace("/run/redis", str(self.directory))
            command[-1] = f"{script} --port {self._ports['redis:6379']} --bind {_LOOPBACK} --dir '{self.directory}'"
        if service == "postgres":
            command[0] = postgres_program("postgres") or "postgres"
            port = str(self._ports["postgres:5432"])
            command += ["-D", str(self.directory / "pg"), "-p", port, "-h", _LOOPBACK, "-k", ""]
        return command

    # --- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start every service once what it depends on is as it asks, and wait until all are healthy."""
        left = [name for name in self._services if name != "postgres" or self.has_postgres]
        while left:
            for name in list(left):
                needed = self._services[name].get("depends_on", {})
                if not set(needed) & set(left):
                    for other, how in needed.items():
                        self._await(other, how["condition"])
                    self._start_one(name)
                    left.remove(name)
        for name, service in self._services.items():
            if "healthcheck" in service:
                self._await(name, "service_healthy")

    def _start_one(self, name: str) -> None:
        user = None
        if name == "postgres":
            user = self._make_database()
        with (self.directory / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                self.command(name),
                cwd=ROOT,
                env=self._environment(name),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=user,
            )

    def _make_database(self) -> str | None:
        """Create the database as the image's entry point does; under its user if this is root, which PostgreSQL
        refuses."""
        user = "postgres" if os.geteuid() == 0 else None
        data = self.directory / "pg"
        data.mkdir()
        password = self.directory / "pg-password"
        password.write_text(SECRETS["POSTGRES_PASSWORD"])
        if user is not None:
            entry = pwd.getpwnam(user)
            os.chown(data, entry.pw_uid, entry.pw_gid)
        initdb = postgres_program("initdb")
        assert initdb is not None
        options = [
            "--username",
            "tidemark",
            f"--pwfile={password}",
            "--auth=scram-sha-256",
            "--no-sync",
            "-D",
            str(data),
        ]
        subprocess.run([initdb, *options], check=True, user=user, stdout=subprocess.DEVNULL, cwd="/")
        single = [self.command("postgres")[0], "--single", "-D", str(data), "postgres"]
        make = b"CREATE DATABASE tidemark OWNER tidemark;\n"
        subprocess.run(single, input=make, check=True, user=user, stdout=subprocess.DEVNULL, cwd="/")
        return user

    def _await(self, name: str, condition: str) -> None:
        if name == "postgres" and not self.has_postgres:
            return
        process = self._processes[name]
        if condition == "service_completed_successfully":
            assert process.wait(HEALTHY_WITHIN_S) == 0, self.log(name)
        elif condition == "service_healthy":
            started = time.monotonic()
            while (complaint := self._complaint(name)) is not None:
                assert process.poll() is None, f"{name} has ended:\n{self.log(name)}"
                assert time.monotonic() - started < HEALTHY_WITHIN_S, f"{name}: {complaint}\n{self.log(name)}"
                _PAUSE.wait(0.5)

    def _complaint(self, name: str) -> str | None:
        """Return the complaint of the service's health check, None if it is healthy."""
        check = [self._here(argument, name) for argument in self._services[name]["healthcheck"]["test"][1:]]
        if name == "redis":
            check[1:1] = ["-p", str(self._ports["redis:6379"])]
        if name == "postgres":
            check[0] = postgres_program(check[0]) or check[0]
            check += ["--port", str(self._ports["postgres:5432"])]
        environment = self._environment(name)
        done = subprocess.run(check, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60)
        return None if done.returncode == 0 else done.stdout + done.stderr

    def log(self, name: str) -> str:
        """The end of what a service has printed."""
        return (self.directory / f"{name}.log").read_text(errors="replace")[-4000:]

    def tidemark(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command line against the stack."""
        environment = {
            **os.environ,
            "TIDEMARK_URL": self.url,
            "TIDEMARK_TOKEN": SECRETS["TIDEMARK_ADMIN_TOKEN"],
        }
        command = [sys.executable, "-m", "runtime.client.cli", *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120
        )

    def stop(self) -> None:
        """End every process: as compose does, the last ones first."""
        for name, process in reversed(self._processes.items()):
            # PostgreSQL's SIGINT is the fast shutdown that its image asks for
            process.send_signal(signal.SIGINT if name == "postgres" else signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def stack() -> Iterator[Stack]:
    # not below pytest's own directory: that one is root's alone, and PostgreSQL has to get through
    with tempfile.TemporaryDirectory(prefix="tidemark-stack-") as name:
        Path(name).chmod(0o755)
        stack = Stack(Path(name))
        try:
            yield stack
        finally:
            stack.stop()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_services_start_become_healthy_and_run_a_job(stack: Stack) -> None:
    stack.start()
    listed = stack.tidemark("list", "-a")
    assert listed.stdout == "There are no jobs.\n", listed.stderr
    ran = stack.tidemark("run", "-p", "2", "examples/hello_events.py", "--", "--count", "4000")
    assert ran.returncode == 0, ran.stdout + ran.stderr + stack.log("jobmanager") + stack.log("taskmanager")
    printed = stack.tidemark("logs", "hello events", "--kind", "out")
    counts = [line for line in printed.stdout.splitlines() if "(home," in line]
    assert sum(int(line.rpartition(",")[2].rstrip(")")) for line in counts) == 1600
    record_run("spark standalone")

    started = stack.tidemark("run", "--detached", "-p", "2", "examples/flights_live.py")
    assert started.returncode == 0, started.stderr
    read = [0]

    def has_read_more() -> bool:
        document = json.loads(stack.tidemark("info", "flights live", "--json").stdout)
        now = sum(v["metrics"]["records_in"] or 0 for v in document["vertices"] if v["is_source"])
        if now > read[-1]:
            read.append(now)
        return len(read) > 3 and all(psutil.pid_exists(slot["pid"]) for slot in document["slots"])

    wait_until(has_read_more, 60, "a live job that reads")
    canceled = stack.tidemark("cancel", "flights live")
    assert canceled.returncode == 0, canceled.stderr
    record_run("spark standalone")
