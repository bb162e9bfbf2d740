"""An application under a stable id, in processes that are killed, frozen, interrupted and started again."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.connectors.postgres_fixture import running_postgres
from tests.execution.application_program import KEYS, POINTS
from tests.job_runs import record_run
from tests.support.programs import ROOT
from tests.support.waiting import wait_until

COUNT = 2_000
END_S = 120.0


class Run:
    """One start of the program. What it tells is collected; `close` ends it."""

    def __init__(self, directory: Path, *arguments: str, application_id: str = "app") -> None:
        command = [sys.executable, "-m", "tests.execution.application_program", str(directory), application_id]
        self._log = (directory / "log").open("a")
        self.process = subprocess.Popen(
            [*command, "--count", str(COUNT), *arguments],
            cwd=ROOT,
            env={**os.environ, "TIDEMARK_HOME": str(directory / "home")},
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.told: dict[str, Any] = {}
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        record_run("application process")

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with suppress(json.JSONDecodeError):
                self.told |= json.loads(line)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def begun(self) -> str:
        """Wait until the job has begun; returns its id."""
        wait_until(lambda: "job" in self.told or self.process.poll() is not None, END_S, "the job's start")
        return str(self.told["job"])

    def ended(self) -> int:
        """Wait for the end; returns the exit code."""
        code = self.process.wait(END_S)
        self._reader.join()
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()


class Application:
    """Starts the program in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._runs: list[Run] = []

    def start(self, *arguments: str, application_id: str = "app") -> Run:
        self._runs.append(Run(self.directory, *arguments, application_id=application_id))
        return self._runs[-1]

    def wait_for_checkpoint(self) -> None:
        """Wait until the third checkpoint has begun, and so others are recorded."""
        directories = (self.directory / "checkpoints").glob
        wait_until(lambda: any(directories("*/chk-[3-9]*")), END_S, "a checkpoint")

    def log(self) -> str:
        return (self.directory / "log").read_text()

    def output(self) -> Counter[tuple[int, int]]:
        rows = [
            json.loads(line) for part in self.directory.glob("out/*/part-*") for line in part.read_text().splitlines()
        ]
        return Counter((row["key"], row["nth"]) for row in rows)

    def leftovers(self) -> list[Path]:
        return list(self.directory.glob("out/*/.*"))

    def close(self) -> None:
        for run in self._runs:
            run.close()


EXPECTED = Counter((key, nth + 1) for key in range(KEYS) for nth in range(len(range(key, COUNT, KEYS))))


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    application = Application(tmp_path)
    yield application
    application.close()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_postgres(max_prepared_transactions=32) as url:
        yield url


@pytest.fixture
def table(server: str) -> Iterator[str]:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS counted")
        connection.execute("CREATE TABLE counted (key bigint, nth bigint, UNIQUE (key, nth))")
        yield server
        prepared = connection.execute("SELECT gid FROM pg_prepared_xacts").fetchall()
        assert not prepared, "something is left prepared"


def rows_of(url: str) -> Counter[Any]:
    with psycopg.connect(url) as connection:
        return Counter(connection.execute("SELECT key, nth FROM counted").fetchall())


# --- killed -----------------------------------------------------------------------------------------------------------


def test_a_killed_application_resumes_its_job_by_the_same_command_and_ends_only_once(application: Application) -> None:
    killed = application.start("--kill-at", "after the checkpoint is recorded:4")
    job = killed.begun()
    assert killed.ended() == -signal.SIGKILL
    resumed = application.start()
    assert resumed.ended() == 0, application.log()
    assert resumed.told["job"] == job
    assert (resumed.told["ended"], resumed.told["attempt"]) == ("FINISHED", 1)
    assert application.output() == EXPECTED
    assert not application.leftovers()
    again = application.start()
    assert again.ended() == 0
    assert (again.told["job"], again.told["ended"]) == (job, "FINISHED")
    assert "FINISHED already, so nothing is run" in application.log()
    assert application.output() == EXPECTED


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_output_is_exact_wherever_the_process_is_killed(
    application: Application, table: str, point: str, backend: str
) -> None:
    options = ("--backend", backend, "--postgres", table)
    number = 1 if "application's entry" in point or "end is" in point else 3
    killed = application.start(*options, "--kill-at", f"{point}:{number}")
    assert killed.ended() == -signal.SIGKILL
    resumed = application.start(*options)
    assert resumed.ended() == 0, application.log()
    assert "job" not in killed.told or killed.told["job"] == resumed.told["job"]
    assert application.output() == EXPECTED
    assert rows_of(table) == EXPECTED
    assert not application.leftovers()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_output_is_exact_after_kills_at_random_times(application: Application, table: str, backend: str) -> None:
    randomly, options = random.Random(f"kills {backend}"), ("--backend", backend, "--postgres", table, "--rate", "300")
    jobs, kills = set(), 0
    while True:
        run = application.start(*options)
        jobs.add(run.begun())
        if kills == 5:
            assert run.ended() == 0, application.log()
            break
        with suppress(subprocess.TimeoutExpired):
            run.process.wait(randomly.uniform(0.0, 1.5))
        run.signal(signal.SIGKILL)
        kills += run.ended() == -signal.SIGKILL
    assert len(jobs) == 1
    assert run.told["attempt"] == 5
    assert application.output() == EXPECTED
    assert rows_of(table) == EXPECTED
    assert not application.leftovers()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_output_is_exact_after_kills_on_spark(application: Application, table: str, backend: str) -> None:
    options = ("--target", "spark", "--backend", backend, "--postgres", table, "--rate", "150")
    jobs = set()
    for _ in range(2):
        run = application.start(*options)
        jobs.add(run.begun())
        application.wait_for_checkpoint()
        with suppress(subprocess.TimeoutExpired):
            run.process.wait(2)
        run.signal(signal.SIGKILL)
        assert run.ended() == -signal.SIGKILL
    run = application.start(*options)
    assert run.ended() == 0, application.log()
    assert jobs == {run.told["job"]}
    assert run.told["attempt"] >= 2
    assert application.output() == EXPECTED
    assert rows_of(table) == EXPECTED
    assert not application.leftovers()


# --- two at once ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_of_two_that_are_started_at_once_one_runs_and_the_other_says_why_not(application: Application) -> None:
    both = [application.start("--rate", "300") for _ in range(2)]
    codes = [run.ended() for run in both]
    assert sorted(codes) == [0, 1], application.log()
    winner, loser = both[codes.index(0)], both[codes.index(1)]
    assert loser.told["kind"] == "ApplicationRunningError"
    assert f"is running: process {winner.process.pid} on" in loser.told["error"]
    assert application.output() == EXPECTED
    assert len(list((application.directory / "checkpoints").iterdir())) == 2, "the loser left a directory"


@pytest.mark.slow
def test_a_frozen_process_that_thaws_after_another_took_over_completes_nothing(
    application: Application, table: str
) -> None:
    options = ("--postgres", table, "--rate", "50")
    frozen = application.start(*options)
    job = frozen.begun()
    application.wait_for_checkpoint()
    frozen.signal(signal.SIGSTOP)
    second = application.start(*options[:2])
    assert second.begun() == job
    frozen.signal(signal.SIGCONT)
    assert frozen.ended() == 1
    assert second.ended() == 0, application.log()
    assert frozen.told["kind"] == "ApplicationReplacedError" or "another JobMaster" in frozen.told["error"]
    assert application.output() == EXPECTED
    assert rows_of(table) == EXPECTED


# --- gone, changed, ended ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_application_whose_job_directory_is_gone_says_so_and_begins_anew_once_forgotten(
    application: Application,
) -> None:
    run = application.start("--rate", "50")
    job = run.begun()
    application.wait_for_checkpoint()
    run.signal(signal.SIGKILL)
    run.ended()
    shutil.rmtree(application.directory / "checkpoints" / job)
    refused = application.start()
    assert refused.ended() == 1
    assert refused.told["kind"] == "ApplicationStateGoneError"
    assert f"{job} is gone" in refused.told["error"]
    forget = ["-m", "runtime.client", "application", "forget", str(application.directory / "checkpoints"), "app", "-y"]
    subprocess.run([sys.executable, *forget], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    shutil.rmtree(application.directory / "out")
    anew = application.start()
    assert anew.ended() == 0
    assert anew.told["job"] != job
    assert application.output() == EXPECTED


@pytest.mark.slow
def test_a_running_job_whose_directory_is_deleted_fails_and_says_so(application: Application) -> None:
    run = application.start("--rate", "5")
    job = run.begun()
    application.wait_for_checkpoint()
    shutil.rmtree(application.directory / "checkpoints" / job, ignore_errors=True)
    assert run.ended() == 1
    assert "was deleted while the job was running" in run.told["error"] or "nothing was found at" in run.told["error"]


@pytest.mark.slow
def test_a_changed_program_is_told_what_to_do_and_may_leave_state_behind(application: Application) -> None:
    run = application.start("--rate", "50")
    job = run.begun()
    application.wait_for_checkpoint()
    run.signal(signal.SIGKILL)
    run.ended()
    changed = application.start("--uid", "other")
    assert changed.ended() == 1
    assert "execution.state-recovery.ignore-unclaimed-state" in changed.told["error"]
    assert "tidemark application forget" in changed.told["error"]
    allowed = application.start("--uid", "other", "-D", "execution.state-recovery.ignore-unclaimed-state=true")
    assert allowed.ended() == 0, application.log()
    assert allowed.told["job"] == job


@pytest.mark.slow
def test_a_cancelled_job_stays_cancelled(application: Application) -> None:
    run = application.start("--rate", "50")
    job = run.begun()
    application.wait_for_checkpoint()
    run.signal(signal.SIGUSR2)
    assert run.ended() == 1
    again = application.start()
    assert again.ended() == 1
    assert (again.told["job"], again.told["kind"]) == (job, "JobCanceledError")


@pytest.mark.slow
def test_a_job_stopped_with_a_savepoint_starts_again_only_from_another_snapshot(application: Application) -> None:
    run = application.start("--rate", "200")
    job = run.begun()
    application.wait_for_checkpoint()
    run.signal(signal.SIGUSR1)
    assert run.ended() == 0
    assert application.start().ended() == 0, "FINISHED is the end"
    path = f"execution.state-recovery.path={run.told['savepoint']}"
    killed = application.start("-D", path, "--rate", "200", "--kill-at", "after the checkpoint is recorded:2")
    assert killed.ended() == -signal.SIGKILL
    assert killed.told["job"] != job
    resumed = application.start("-D", path)
    assert resumed.ended() == 0, application.log()
    assert resumed.told["job"] == killed.told["job"]
    assert "execution.state-recovery.path is ignored" in application.log()
    assert application.output() == EXPECTED
    assert application.start("-D", path).ended() == 0
    assert application.output() == EXPECTED


@pytest.mark.slow
def test_an_interrupted_application_resumes(application: Application) -> None:
    run = application.start("--wait", "--rate", "50")
    application.wait_for_checkpoint()
    run.signal(signal.SIGINT)
    assert run.ended() != 0
    resumed = application.start("--wait")
    assert resumed.ended() == 0, application.log()
    assert "resumes job" in application.log()
    assert application.output() == EXPECTED
