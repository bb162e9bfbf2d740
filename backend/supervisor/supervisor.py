"""Supervisor: runs Redis, web, jobmanager and taskmanager from "make run" to Ctrl-C.

One thread and one loop. Slow work (migrations, the first run's pipeline) runs in a child that the loop waits for, so
signals are handled at any moment. Everything ends within ten seconds.
"""

from __future__ import annotations

import http.client
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from backend.config import environment
from backend.supervisor.checks import StartProblem, check_java, check_port, lock_home, prepare_home
from backend.supervisor.process import ManagedProcess
from backend.supervisor.redis_server import configure_redis
from runtime.client.server import HOME_NAME

ROOT = Path(__file__).resolve().parent.parent.parent
BEAT_S = 0.2
#: from the signal to the last kill; Ctrl-C promises ten seconds
STOP_TIMEOUT_S = 7.0
#: of it, for the jobmanagers
LEADERS_STOP_TIMEOUT_S = 4.0
READY_TIMEOUT_S = 120.0
LOCAL_ADDRESSES = "127.0.0.0/8,::1/128,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,unix"
"""What connections are tested with where only this machine's user is served: the databases that such a user has."""
CHILD_TIMEOUT_S = 300.0
"""For the preparation, which takes seconds. Longer: a start that hangs says nothing; shorter: busy machines fail."""


def home_hint(home: Path, directory: Path) -> str:
    """Return a hint on how `tidemark` finds the cluster from a second terminal; "" if it needs none."""
    if home.resolve() == (directory / HOME_NAME).resolve():
        return ""
    return f"In a second terminal, before tidemark: export TIDEMARK_HOME={shlex.quote(str(home.resolve()))}"


class _Stopped(Exception):
    """A signal was received."""


class Supervisor:
    """Starts and watches the processes of a session cluster on this machine.

    Raises:
        EnvironmentProblem: an environment variable is unusable.
        StartProblem: a required resource is missing.
    """

    def __init__(self) -> None:
        self._home = environment.home()
        self._host = environment.host()
        environment.check_exposure(self._host)
        self._port = environment.port()
        environment.slots()
        environment.redis_prefix()
        environment.jobmanagers()
        #: where this process, the command line and the user's browser find it; nobody can go to "every interface"
        self._reached_at = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._host, self._host)
        host = f"[{self._reached_at}]" if ":" in self._reached_at else self._reached_at
        self._url = f"http://{host}:{self._port}{environment.base_path()}"
        self._processes: list[ManagedProcess] = []
        self._stopped = False

    def run(self) -> int:
        """Start everything, watch it until a signal, stop everything."""
        # database, logs and snapshots are nobody else's on this machine
        os.umask(0o077)
        prepare_home(self._home)
        # the open file holds the lock until the process ends
        with lock_home(self._home):
            check_java()
            check_port(self._host, self._port)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, self._on_signal)
            try:
                self._start()
                while True:
                    self._turn()
            except _Stopped:
                return 0
            finally:
                self._stop()

    # --- start --------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        given = os.environ.get("TIDEMARK_ADMIN_TOKEN")
        if given:
            environment.check_secret("TIDEMARK_ADMIN_TOKEN", given)
        environment.secret_key()
        token = environment.ensure_secret(environment.ADMIN_TOKEN_FILE, given)
        environment.write_secret(environment.ADMIN_TOKEN_FILE, token)
        # secrets of jobs are for jobmanagers only: slots, which run users' code, inherit a TaskManager's environment
        rules = environment.reference_rules()
        secrets = environment.job_secrets() | {name: os.environ[name] for name in rules.variables()}
        hidden = {"TIDEMARK_ADMIN_TOKEN", *secrets}
        settings = {name: value for name, value in os.environ.items() if name not in hidden} | {
            "TIDEMARK_HOME": str(self._home),
            "DJANGO_SETTINGS_MODULE": "backend.config.settings",
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        }
        if environment.is_loopback(self._host):
            settings.setdefault("TIDEMARK_OUTSIDE_ADDRESSES", LOCAL_ADDRESSES)
            settings.setdefault("TIDEMARK_PREVIEW_NETWORK", "1")
        redis = None if os.environ.get("REDIS_URL") else configure_redis(self._home / "redis")
        if redis is not None:
            environment.write_secret(environment.REDIS_URL_FILE, redis.url)
            settings["REDIS_URL"] = redis.url
            self._launch("redis", redis.command, {"PATH": os.environ.get("PATH", "")}, f"port {redis.port}")
        self._say("updating the database")
        prepared = json.loads(
            self._finish(self._manage("prepare"), settings | {"TIDEMARK_ADMIN_TOKEN": token}, "the preparation")
        )
        self._launch("web", self._web(), settings, self._url)
        for number in range(1, environment.jobmanagers() + 1):
            name = "jobmanager" if number == 1 else f"jobmanager-{number}"
            self._launch(name, self._manage("jobmanager"), settings | secrets, "")
        # at once: with SIGTERM it would try to move its jobs elsewhere, and all ends here
        self._launch(
            "taskmanager", self._manage("taskmanager"), settings, environment.spark_master(), stop_signal=signal.SIGINT
        )
        self._wait_until("the web process answers", lambda: self._get("/readyz", token) is not None)
        environment.write_secret(environment.URL_FILE, self._url)
        self._wait_until("a TaskManager has registered", lambda: bool(self._overview(token).get("taskmanagers")))
        if prepared["first_run"]:
            self._first_run(settings)
        login = json.loads(
            self._finish(self._manage("prepare"), settings | {"TIDEMARK_ADMIN_TOKEN": token}, "the login link")
        )["login"]
        self._say(f"ready; Ctrl-C ends everything, logs are in {self._home / 'logs'}")
        print(f"\n  Open {self._url}{login}\n  (it logs you in once, within ten minutes)\n", flush=True)
        hint = home_hint(self._home, Path.cwd())
        if hint:
            print(f"  {hint}\n", flush=True)

    def _web(self) -> Sequence[str]:
        where = ("--host", self._host, "--port", str(self._port), "--workers", str(environment.web_processes()))
        return (sys.executable, "-m", "backend.config.web_server", *where)

    def _manage(self, *arguments: str) -> Sequence[str]:
        return (sys.executable, str(ROOT / "manage.py"), *arguments)

    def _first_run(self, settings: Mapping[str, str]) -> None:
        try:
            self._finish(self._manage("first_run"), settings, "the first pipeline")
        except StartProblem as problem:
            self._say(f"{problem} (the cluster works without it, and the next start tries again)")
        else:
            self._say("a pipeline was deployed: a year of flights, one scheduled hour a second")

    def _launch(
        self,
        name: str,
        command: Sequence[str],
        settings: Mapping[str, str],
        detail: str,
        stop_signal: signal.Signals = signal.SIGTERM,
    ) -> None:
        process = ManagedProcess(name, command, settings, self._home / "logs" / f"{name}.log", stop_signal)
        process.start()
        self._processes.append(process)
        self._say(f"{name} started (pid {process.pid}{', ' if detail else ''}{detail})")

    # --- while it runs ------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        """Check on the processes, once per beat.

        Raises:
            _Stopped: a signal was received.
        """
        if self._stopped:
            raise _Stopped
        for process in self._processes:
            told = process.poll()
            if told is not None:
                self._say(told)
        time.sleep(BEAT_S)

    def _wait_until(self, what: str, holds: Any) -> None:
        """Watch the processes until the condition holds, or until a timeout: one may be in back-off."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not holds():
            if time.monotonic() > deadline:
                self._say(f"after {READY_TIMEOUT_S:g} s it is still not true that {what}; see {self._home / 'logs'}")
                return
            self._turn()
        self._say(what)

    def _finish(self, command: Sequence[str], settings: Mapping[str, str], what: str) -> str:
        """Run a child to completion and return its output.

        Raises:
            StartProblem: it failed; the message is its last line.
        """
        with subprocess.Popen(
            command, env=dict(settings), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as child:
            deadline = time.monotonic() + CHILD_TIMEOUT_S
            try:
                while child.poll() is None:
                    if time.monotonic() > deadline:
                        raise StartProblem(f"{what} took longer than {CHILD_TIMEOUT_S:g} s")
                    self._turn()
            finally:
                child.kill()
            output, errors = (
                stream.read().decode(errors="replace") if stream else "" for stream in (child.stdout, child.stderr)
            )
        if child.returncode != 0:
            lines = errors.strip().splitlines() or [f"exit code {child.returncode}"]
            raise StartProblem(f"{what} failed: {lines[-1].removeprefix('CommandError: ')}")
        return output

    def _get(self, path: str, token: str) -> bytes | None:
        """Return the body of the web process's response if its status is 200, else None."""
        connection = http.client.HTTPConnection(self._reached_at, self._port, timeout=5)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        return body if response.status == 200 else None

    def _overview(self, token: str) -> dict[str, Any]:
        body = self._get("/overview", token)
        return {} if body is None else dict(json.loads(body))

    # --- the end ------------------------------------------------------------------------------------------------------

    def _on_signal(self, *_: object) -> None:
        self._stopped = True

    def _stop(self) -> None:
        if self._processes:
            self._say("stopping")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # a second Ctrl-C must not leave processes behind
            signal.signal(number, signal.SIG_IGN)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        leaders = [process for process in self._processes if process.name.startswith("jobmanager")]
        redis = [process for process in self._processes if process.name == "redis"]
        others = [process for process in self._processes if process not in (*leaders, *redis)]
        # jobmanagers first, or the end of the TaskManager would be a failure of their jobs; Redis last, because the
        # others sign off through it
        for group, share_s in ((leaders, LEADERS_STOP_TIMEOUT_S), (others, STOP_TIMEOUT_S), (redis, STOP_TIMEOUT_S)):
            for process in group:
                process.terminate()
            group_deadline = min(deadline, time.monotonic() + share_s)
            for process in group:
                told = process.wait(group_deadline)
                if told is not None:
                    self._say(told)
        for name in (environment.URL_FILE, environment.REDIS_URL_FILE):
            with suppress(OSError):
                (self._home / name).unlink()

    def _say(self, text: str) -> None:
        # a closed terminal must not keep the processes from being stopped
        with suppress(OSError):
            print(f"run: {text}", flush=True)
