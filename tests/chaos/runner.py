"""ChaosRun: one self-proving job under faults, from its first start to the comparison of everything it put out.

The job's program is a child process. A fault is injected, then new output is waited for: the job runs, has completed
more checkpoints, and files have appeared. Nothing here knows how a fault is injected; `faults.py` does.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from tests.chaos.fault_points import newest_checkpoint
from tests.chaos.job import JobConfig
from tests.chaos.kafka_topic import KafkaTopic
from tests.chaos.postgres import PostgresServer
from tests.chaos.program import ProgramStatus
from tests.chaos.verify import FileWatch, compare, compare_state, pending_timers, positions_of
from tests.support.programs import JAVA_OPTIONS, ROOT

POLL_S = 0.03
START_TIMEOUT_S = 90.0
RECOVERY_TIMEOUT_S = 90.0
"""More than that is a stall, and a violation."""
LIVENESS_TIMEOUT_S = 30.0
"""Behind a fault there is new output, or another completed checkpoint, within that time; else the job hangs."""
LEFT_TIMEOUT_S = 12.0
MOST_PATIENCE = 4.0
_MARK = "TIDEMARK_CHAOS_RUN"


def stretched(timeout_s: float) -> float:
    """A time for a machine of one's own, on this one as it is now: others may want its processors too."""
    return timeout_s * min(MOST_PATIENCE, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


class StalledError(Exception):
    """Something expected did not happen in time."""


@dataclass
class Recovery:
    """Time for which a fault kept the job from making progress, seconds."""

    fault: str
    first_record_s: float | None
    """From the fault to the first record that reaches the last operator in a new process; None: no process ended."""
    output_s: float
    """From the fault, or from when what it had taken away was given back, until new output was visible."""


@dataclass
class Report:
    """Results of a run."""

    violations: list[str] = field(default_factory=list)
    recoveries: list[Recovery] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What is documented and no violation, and was seen."""
    rows: int = 0
    restarts: int = 0
    refused: int = 0


class ChaosRun:
    """A job that runs until `finish`.

    Args:
        seed: of all that is random.
        with_postgres: whether there is a second sink, a table.
        kafka: version of the transactions of the broker that a third sink writes to; None: there is none.
        regions: how many pipelines the job has that restart alone.
        options: of the job, beside what the program sets itself.
        vary: whether each start of the program draws state backend, alignment, and slot sharing anew.
        log: told what happens.
    """

    def __init__(
        self,
        seed: int,
        *,
        with_postgres: bool = False,
        kafka: int | None = None,
        regions: int = 1,
        options: Mapping[str, str] | None = None,
        vary: bool = False,
        log: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.random = random.Random(seed)
        self.log = log
        self.report = Report()
        self.directory = Path(tempfile.mkdtemp(prefix="tidemark-chaos-"))
        JobConfig(str(self.directory)).make_directories()
        self._is_mounted = self._mount()
        self.postgres = PostgresServer() if with_postgres else None
        self.kafka = KafkaTopic(kafka) if kafka is not None else None
        self._vary = vary
        self._base_options = dict(options or {})
        self.config = JobConfig(
            str(self.directory),
            postgres_url=self.postgres.url if self.postgres is not None else "",
            kafka_servers=self.kafka.servers if self.kafka is not None else "",
            regions=regions,
            options=self._base_options,
        )
        self.points = self.config.points
        self.files = FileWatch(self.directory / "out")
        self._table_count = 0
        self._mark = f"{os.getpid()}-{seed}-{time.monotonic_ns()}"
        self._process: subprocess.Popen[str] | None = None
        self._programs = 0
        #: ids of the jobs of the programs that have ended
        self._old_jobs: list[str] = []
        self._restarts_before = 0

    # --- the program --------------------------------------------------------------------------------------------------

    @property
    def checkpoints(self) -> Path:
        return self.directory / "checkpoints"

    @property
    def can_be_full(self) -> bool:
        """Return whether checkpoints are on a file system of their own, which may be filled."""
        return self._is_mounted

    def start(self, restore: str | None = None) -> None:
        """Start the program, from a snapshot if one is named, and wait until the job runs."""
        options = dict(self._base_options)
        separate = False
        if self._vary:
            options |= self._drawn_options()
            separate = self.random.random() < 0.25
        if restore is not None:
            # the program before it has ended; what that has prepared would hold up the same rows
            options |= {"execution.state-recovery.path": restore, "execution.state-recovery.claim-mode": "CLAIM"}
        self.config = replace(self.config, options=options, separate_slots=separate)
        self.launch()
        self.wait(lambda s: s.state == "RUNNING", START_TIMEOUT_S, "the program's start")

    def launch(self) -> None:
        """Start the program with the configuration as it is."""
        (self.directory / "status.json").unlink(missing_ok=True)
        path = self.directory / f"config-{self._programs}.json"
        self._programs += 1
        self.config.write(path)
        environment = os.environ | JAVA_OPTIONS
        environment |= {"PYTHONPATH": str(ROOT), "TIDEMARK_HOME": str(self.directory), _MARK: self._mark}
        with (self.directory / "program.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.program", str(path)],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
            )

    def _drawn_options(self) -> dict[str, str]:
        draw = self.random.random
        options = {"state.backend.type": "rocksdb" if draw() < 0.5 else "hashmap"}
        options["execution.checkpointing.incremental"] = "true" if draw() < 0.5 else "false"
        options["execution.checkpointing.unaligned.enabled"] = "true" if draw() < 0.5 else "false"
        self.log("  " + ", ".join(f"{key.rpartition('.')[0].rpartition('.')[2]}={v}" for key, v in options.items()))
        return options

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def command(self, line: str) -> None:
        """Say something to the program."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def ask(self, line: str) -> str:
        """Say something to the program, and wait for its answer."""
        asked = len(self.status().answers)
        self.command(line)
        return self.wait(lambda s: len(s.answers) > asked, RECOVERY_TIMEOUT_S, line).answers[asked]

    def status(self) -> ProgramStatus:
        """Return the latest state of the job."""
        with suppress(FileNotFoundError):
            document = json.loads((self.directory / "status.json").read_text())
            for name in ("workers", "errors", "answers"):
                document[name] = tuple(document[name])
            return ProgramStatus(**document)
        return ProgramStatus()

    def has_ended(self) -> bool:
        """Return whether no program is running."""
        return self._process is None or self._process.poll() is not None

    def wait(self, condition: Callable[[ProgramStatus], bool], timeout_s: float, what: str) -> ProgramStatus:
        """Poll until the condition holds.

        Raises:
            StalledError: it does not within the time, or the program has ended.
        """
        started = time.monotonic()
        while True:
            status = self.status()
            if condition(status):
                return status
            if self.has_ended():
                raise StalledError(f"{what}: the program ended with {self._exit_code()}: {self._log_tail()}")
            waited_s = time.monotonic() - started
            if waited_s > stretched(timeout_s):
                raise StalledError(f"{what}: not within {waited_s:.0f} s; {status}; {self._log_tail()}")
            time.sleep(POLL_S)

    def wait_ended(self, timeout_s: float, what: str) -> int:
        """Wait for the program's end; its exit code."""
        assert self._process is not None
        try:
            code = self._process.wait(stretched(timeout_s))
        except subprocess.TimeoutExpired:
            raise StalledError(f"{what}: the program has not ended within {timeout_s:g} s; {self.status()}") from None
        self._note_end()
        return code

    def _note_end(self) -> None:
        status = self.status()
        if status.job_id and status.job_id not in self._old_jobs:
            self._old_jobs.append(status.job_id)
            self.report.restarts += status.restarts
            self.report.refused += status.refused
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def _exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def _log_tail(self) -> str:
        return (self.directory / "program.log").read_text(errors="replace")[-1500:]

    # --- around a fault -----------------------------------------------------------------------------------------------

    def newest(self) -> tuple[int, str]:
        """Number and directory of the newest completed checkpoint of the program that runs, or ran last."""
        found = newest_checkpoint(str(self.checkpoints), self.status().job_id)
        if found is None:
            raise StalledError("there is no completed checkpoint")
        return found[0], str(found[1])

    def settle(self) -> ProgramStatus:
        """Wait until the job goes on: it runs, completes checkpoints and puts out."""
        status = self.wait(lambda s: s.state == "RUNNING" and s.completed > 0, RECOVERY_TIMEOUT_S, "a checkpoint")
        files = self.files.read()
        return self.wait(
            lambda s: s.completed >= status.completed + 2 and self.files.read() > files, RECOVERY_TIMEOUT_S, "output"
        )

    def wait_recovered(self, before: ProgramStatus, since: float, restarts: bool, fault: str) -> None:
        """Wait for new output after a fault.

        Args:
            before: the job before the fault.
            since: monotonic time from which recovery counts.
            restarts: whether the job has to have restarted.
            fault: for the report.

        Raises:
            StalledError: there is none.
        """
        wall = time.time() - (time.monotonic() - since)
        self._wait_progress(fault)
        if restarts:
            self.wait(
                lambda s: s.pid != before.pid or s.attempt > before.attempt, RECOVERY_TIMEOUT_S, f"{fault}: a restart"
            )
        running = self.wait(lambda s: s.state == "RUNNING", RECOVERY_TIMEOUT_S, f"{fault}: a running job")
        files = self.files.read()
        self.wait(
            lambda s: s.state == "RUNNING" and s.completed > running.completed and self.files.read() > files,
            RECOVERY_TIMEOUT_S,
            f"{fault}: new output",
        )
        output_s = time.monotonic() - since
        taps = []
        for path in (self.directory / "taps").iterdir():
            with suppress(ValueError):
                at = float(path.read_text())
                if at > wall:
                    taps.append(at - wall)
        self.report.recoveries.append(Recovery(fault, min(taps) if taps and restarts else None, output_s))
        self.check_output(fault)

    def _wait_progress(self, fault: str) -> None:
        """Wait for a sign of life, now that nothing goes wrong any more."""
        files, at = self.files.read(), self.status()

        def moves(now: ProgramStatus) -> bool:
            is_further = now.completed > (at.completed if now.pid == at.pid else 0)
            return is_further or self.files.read() > files

        self.wait(moves, LIVENESS_TIMEOUT_S, f"{fault}: output or a checkpoint, the job hangs")

    def check_output(self, fault: str) -> None:
        """Compare what is visible with what was visible before."""
        self.files.read()
        if self.files.violations:
            self.report.violations += [f"{fault}: {line}" for line in self.files.violations]
            self.files.violations.clear()
        if self.postgres is not None:
            count = self.postgres.count()
            if count is not None and count < self._table_count:
                self.report.violations.append(f"{fault}: aborted read: {count} rows, there were {self._table_count}")
            self._table_count = count or self._table_count
        if self.kafka is not None:
            self.kafka.read()
            self.report.violations += [f"{fault}: {line}" for line in self.kafka.violations]
            self.kafka.violations.clear()

    def kill_program(self) -> None:
        """kill -9 of the program, with its JVM and workers behind it."""
        os.kill(self.pid, signal.SIGKILL)
        self.wait_ended(10, "kill -9 of the program")
        self.wait_nothing_runs()

    def wait_nothing_runs(self) -> None:
        """Wait until no process of the run lives."""
        started = time.monotonic()
        while self.survivors():
            if time.monotonic() - started > stretched(LEFT_TIMEOUT_S):
                left = [f"{p.pid} {' '.join(p.cmdline())[:120]}" for p in self.survivors()]
                self.report.violations.append(f"left behind: processes {left}")
                for process in self.survivors():
                    with suppress(psutil.NoSuchProcess):
                        process.kill()
                return
            time.sleep(0.1)

    def survivors(self) -> list[psutil.Process]:
        """Processes of the run that live."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if process.environ().get(_MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    # --- the end ------------------------------------------------------------------------------------------------------

    def stop(self) -> str:
        """Stop the job behind a savepoint; its directory."""
        target = self.directory / "savepoints"
        while True:
            answer = self.ask(f"stop {target}")
            words = answer.split()
            if words[1] != "failed:":
                break
            self.log(f"  {answer}")
            self.settle()
        self.wait_ended(30, "the end of the job that was stopped")
        return words[1].removeprefix("file://")

    def finish(self) -> Report:
        """Stop the job, compare everything, and remove all of the run."""
        try:
            self.points.disarm()
            self.settle()
            savepoint = self.stop()
            self.wait_nothing_runs()
            self.check_output("the end")
            positions, pending = positions_of(savepoint), pending_timers(savepoint)
            self.report.rows = sum(positions.values())
            self.report.violations += compare("files", self.files.rows, positions, pending)
            self.report.violations += compare_state(positions, savepoint)
            if self.postgres is not None:
                self.report.violations += compare("table", self.postgres.rows(), positions, pending)
            if self.kafka is not None:
                self.report.violations += compare("topic", self.kafka.rows, positions, pending)
            self._check_leftovers()
        except StalledError as error:
            self.report.violations.append(f"stalled: {error}")
        finally:
            self.close()
        return self.report

    def _check_leftovers(self) -> None:
        """Hidden files of programs that were killed may be left, as the documentation of sinks says; no other thing.
        So may directories of checkpoints that were retained for whoever starts from them."""
        last = self._old_jobs[-1]
        hidden = self.files.hidden()
        if len(self._old_jobs) == 1:
            self.report.violations += [f"left behind: {path.name}" for path in hidden]
        elif hidden:
            self.report.notes.append(f"{len(hidden)} hidden files of programs that were killed")
        if self.postgres is not None:
            self.report.violations += [f"left behind: {gid}" for gid in self.postgres.prepared()]
        if self.kafka is not None:
            self.report.violations += [f"left behind: {name}" for name in self.kafka.open_transactions()]
        if (self.checkpoints / last).exists():
            self.report.violations.append(f"left behind: checkpoints of the job that has finished: {last}")
        # those of slots that were killed are swept by the next ones that need some
        left = [path.name for path in (self.directory / "tmp").glob("*/*")]
        if left and len(self._old_jobs) == 1 and not self.report.restarts:
            self.report.violations.append(f"left behind: {left}")

    def close(self) -> None:
        """End everything, and remove it unless something was wrong; idempotent."""
        if not self.has_ended():
            os.kill(self.pid, signal.SIGCONT)
            os.kill(self.pid, signal.SIGKILL)
            self.wait_ended(10, "the end of the program")
        for process in self.survivors():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        if self.postgres is not None:
            self.postgres.close()
            self.postgres = None
        if self.kafka is not None:
            self.kafka.close()
            self.kafka = None
        if self._is_mounted:
            subprocess.run(("umount", "-l", str(self.checkpoints)), check=False, stderr=subprocess.DEVNULL)
            self._is_mounted = False
        if self.report.violations:
            self.report.notes.append(f"for whoever looks into it there is still {self.directory}")
        else:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _mount(self) -> bool:
        """Put checkpoints on a small file system of their own; only root can."""
        if os.geteuid() != 0 or shutil.which("mount") is None:
            return False
        command = ("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(self.checkpoints))
        return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0
