"""A session cluster on two hosts: Spark's worker and a TaskManager on both, everything else on the first.

Every process runs as docs/deployment.md says, with the addresses that it names and no others.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from backend.supervisor.redis_server import find_redis_server
from runtime.client.errors import ClientError
from runtime.client.rest import RestClient
from runtime.client.server import Server
from tests.chaos.postgres import PostgresServer
from tests.cluster.stack import ROOT
from tests.support.hosts import Host, Network
from tests.support.programs import JAVA_OPTIONS
from tests.support.standalone import SPARK_HOME
from tests.support.waiting import wait_until

NAMES = ("alpha", "beta")
WEB_PORT = 8000
START_TIMEOUT_S = 120.0


class TwoHosts:
    """The cluster. `start` is called by a thread that has entered the first host.

    Args:
        directory: for everything that its processes write; both hosts share it.
        network: with two hosts.
        database: on the first one.
    """

    def __init__(self, directory: Path, network: Network, database: PostgresServer) -> None:
        self.directory = directory
        self.home = directory / "home"
        self.network = network
        self.first, self.second = network.hosts.values()
        self.database = database
        # Spark binds to what it is named by, so a name that is a loopback address at home would not do
        self.spark_master = f"spark://{self.first.address}:7077"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._token, redis_password = secrets.token_hex(16), secrets.token_hex(16)
        unset = ("REDIS_URL", "DJANGO_SETTINGS_MODULE", "SPARK_LOCAL_IP")
        self._environment = {name: value for name, value in os.environ.items() if name not in unset} | {
            "DATABASE_URL": database.url,
            "REDIS_URL": f"redis://:{redis_password}@{self.first.name}:6379/0",
            "TIDEMARK_SECRET_KEY": secrets.token_hex(32),
            "TIDEMARK_ADMIN_TOKEN": self._token,
            "TIDEMARK_HOME": str(self.home),
            "TIDEMARK_ALLOWED_HOSTS": self.first.address,
            "TIDEMARK_JOBMANAGER_HOST": self.first.name,
            "TIDEMARK_SPARK_MASTER": self.spark_master,
            "TIDEMARK_SLOTS": "1",
            "DJANGO_SETTINGS_MODULE": "backend.config.settings",
            "SPARK_HOME": str(SPARK_HOME),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONUNBUFFERED": "1",
            **JAVA_OPTIONS,
        }
        self._redis_password = redis_password
        self.client = RestClient(Server(f"http://{self.first.address}:{WEB_PORT}", self._token))

    def start(self) -> None:
        """Start everything, and wait until both TaskManagers offer their slots."""
        self.home.mkdir()
        # the password is on the command line, as in the compose file; who can read it there is on the same machine
        self._start(self.first, "redis", find_redis_server(), "--requirepass", self._redis_password, "--save", "")
        self._start(self.first, "prepare", sys.executable, "docker/prepare.py")
        assert self.processes["prepare"].wait(START_TIMEOUT_S) == 0, self.log("prepare")
        serve = ("-m", "backend.config.web_server", "--host", "0.0.0.0", "--port", str(WEB_PORT))
        self._start(self.first, "web", sys.executable, *serve)
        self._start(self.first, "jobmanager", sys.executable, "manage.py", "jobmanager")
        self._start_spark(self.first, "master", "Master", "--port", "7077")
        wait_until(lambda: "Starting Spark master" in self.log("master"), START_TIMEOUT_S, "Spark's master")
        for host in (self.first, self.second):
            worker = ("--cores", "2", "--memory", "2g", "--work-dir", str(self.directory / f"work-{host.name}"))
            self._start_spark(host, f"worker-{host.name}", "Worker", *worker, self.spark_master)
        registered = "Registering worker"
        wait_until(lambda: self.log("master").count(registered) == 2, START_TIMEOUT_S, "both workers")
        # only now: both executors would be on the worker that is there first
        for host in (self.first, self.second):
            environment = {"TIDEMARK_TASKMANAGER_HOST": host.name}
            self._start(host, f"taskmanager-{host.name}", sys.executable, "manage.py", "taskmanager", **environment)
        wait_until(lambda: self.taskmanagers() == set(NAMES), START_TIMEOUT_S, "both TaskManagers")

    def close(self) -> None:
        """Kill every process."""
        for process in self.processes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def run_program(self, program: Path, timeout_s: float, **environment: str) -> str:
        """Run a program on the first host to its end, without a session cluster; what it printed."""
        self._start(self.first, program.stem, sys.executable, str(program), PYTHONPATH=str(ROOT), **environment)
        assert self.processes[program.stem].wait(timeout_s) == 0, self.log(program.stem)
        return self.log(program.stem)

    def taskmanagers(self) -> set[str]:
        """Hosts whose TaskManagers are registered; none while web does not answer."""
        try:
            found = self.client.cluster()["taskmanagers"]
        except ClientError:
            return set()
        return {str(taskmanager["host"]) for taskmanager in found if taskmanager["state"] == "REGISTERED"}

    def log(self, name: str) -> str:
        """Return what a process has printed."""
        return (self.directory / f"{name}.log").read_text(errors="replace")

    def _start_spark(self, host: Host, name: str, role: str, *arguments: str) -> None:
        program = f"org.apache.spark.deploy.{role.lower()}.{role}"
        self._start(host, name, str(SPARK_HOME / "bin" / "spark-class"), program, "--host", host.address, *arguments)

    def _start(self, host: Host, name: str, *command: str, **environment: str) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self.processes[name] = host.start(command, ROOT, self._environment | environment, log)


@contextmanager
def two_hosts(directory: Path) -> Iterator[TwoHosts]:
    """A running cluster, within the first of its hosts; all processes and both hosts end with the block."""
    with ExitStack() as stack:
        network = Network(NAMES, directory)
        stack.callback(network.close)
        first, _ = network.hosts.values()
        stack.enter_context(first.entered())
        database = PostgresServer(first.address)
        stack.callback(database.close)
        cluster = TwoHosts(directory, network, database)
        stack.callback(cluster.close)
        cluster.start()
        yield cluster
