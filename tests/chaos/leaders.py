"""`python -m tests.chaos --leaders --faults N --seed S`: leaders of a session cluster are killed and frozen under jobs.

A complete cluster runs two self-proving jobs on Spark. The busy one writes to files and to PostgreSQL; it is saved,
rescaled and stopped while leaders are lost, and goes on from the savepoint of each stop as another job. The quiet one
writes to files, and nobody asks anything of it: from the first fault to the last it must stay the same attempt in the
same processes. Half of the faults strike a cluster on SQLite, half of them one on PostgreSQL.

There are more jobmanagers than lead in turn, because the supervisor waits for up to 15 s before it starts a process
again that ends time after time.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.recovery import quantile
from runtime.client.errors import ClientError
from tests.chaos.leader_rows import ClusterRows, JobRow, LeaderRow, OperationRow
from tests.chaos.postgres import PostgresServer
from tests.chaos.runner import StalledError, stretched
from tests.cluster.proving import RECOVERY_S, ProvingJob, answers
from tests.cluster.stack import Stack, running_stack

SAVEPOINT, RESCALE, STOP = "savepoint", "rescale", "stop"
JOBMANAGERS = 6
SLOTS = 6
POLL_S = 0.02
#: more than that is a stall, and ends the run; what is promised is in PROMISES
LEADER_S = 15.0
CHECKPOINT_S = 30.0
ANSWER_S = 60.0
END_S = 15.0
STANDBY_S = 60.0
#: a leader that stands still for so long still has its lease when it goes on
BRIEFLY_S = 0.8
#: after a leader was lost, the next one is struck within that time: it adopts, and takes its first checkpoint
ADOPTION_S = 0.8
MAX_SHOWN = 50
KILLED, FROZEN = "killed: another leader", "frozen: another leader"
CHECKPOINT = "a completed checkpoint behind the loss"
#: what is waited for → seconds for nineteen in twenty, and at most, on a machine of one's own
PROMISES = {KILLED: (2.0, 5.0), FROZEN: (4.0, 5.0), CHECKPOINT: (10.0, 10.0)}


@dataclass(frozen=True, slots=True)
class LeaderFault:
    """Something that befalls the leader."""

    name: str
    first: signal.Signals
    """SIGKILL, or SIGSTOP: it goes on when another one leads."""
    second: signal.Signals | None = None
    """The same for the leader that adopts."""
    operation: str = ""
    """Under way when the leader is lost; each is asked for before that, or now and then after it."""
    is_brief: bool = False
    """Whether it goes on while it still has its lease."""
    weight: int = 1


KILL, FREEZE = signal.SIGKILL, signal.SIGSTOP
FAULTS = (
    LeaderFault("killed", KILL, weight=6),
    LeaderFault("frozen past its lease", FREEZE, weight=3),
    LeaderFault("frozen briefly", FREEZE, is_brief=True),
    LeaderFault("killed, and the next one killed while it adopts", KILL, KILL, weight=2),
    LeaderFault("killed, and the next one frozen while it adopts", KILL, FREEZE),
    LeaderFault("frozen, and the next one killed while it adopts", FREEZE, KILL),
    LeaderFault("killed during a savepoint", KILL, operation=SAVEPOINT, weight=2),
    LeaderFault("frozen during a savepoint", FREEZE, operation=SAVEPOINT),
    LeaderFault("killed during a rescale", KILL, operation=RESCALE, weight=2),
    LeaderFault("frozen during a rescale", FREEZE, operation=RESCALE),
    LeaderFault("killed during a stop", KILL, operation=STOP),
    LeaderFault("frozen during a stop", FREEZE, operation=STOP),
    LeaderFault("killed twice during a savepoint", KILL, KILL, operation=SAVEPOINT),
    LeaderFault("killed twice during a rescale", KILL, KILL, operation=RESCALE),
)


def leader_schedule(draw: random.Random, count: int) -> list[LeaderFault]:
    """Return the faults of a run: each kind once before any comes twice, as far as they reach, in random order."""
    planned: list[LeaderFault] = []
    while len(planned) < count:
        round_of = [fault for fault in FAULTS for _ in range(fault.weight if planned else 1)]
        draw.shuffle(round_of)
        planned += round_of
    return planned[:count]


@dataclass
class LeaderReport:
    """Results of a run."""

    violations: list[str] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    """What was seen, and is no violation."""
    struck: Counter[str] = field(default_factory=Counter)
    """Faults, by name."""
    lost: Counter[str] = field(default_factory=Counter)
    """Leaders that were replaced, by how they were lost."""
    times: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Seconds, by what they were waited for."""
    loads: list[float] = field(default_factory=list)
    """The machine's load of a minute, at each fault."""
    rows: int = 0

    def judge_times(self) -> None:
        """Compare the times with what is promised: more is a violation, unless others wanted the machine too."""
        is_own = max(self.loads, default=0.0) <= (os.cpu_count() or 1)
        for what, (p95_s, most_s) in PROMISES.items():
            times = self.times.get(what)
            if not times:
                continue
            found = quantile(times, 0.95), max(times)
            if found[0] <= p95_s and found[1] <= most_s:
                continue
            line = f"{what}: p95 {found[0]:.2f} s, most {found[1]:.2f} s; promised are {p95_s:g} s and {most_s:g} s"
            if is_own:
                self.violations.append(line)
            else:
                self.notes[f"{line}, on a machine of one's own"] += 1

    def lines(self) -> Iterator[str]:
        """Return the report for people; the last line says how many violations there are."""
        yield from (f"{count:4} times {name}" for name, count in sorted(self.struck.items()))
        for what, times in self.times.items():
            quantiles = f"p50 {statistics.median(times):.2f} s, p95 {quantile(times, 0.95):.2f} s"
            yield f"{what}: {quantiles}, most {max(times):.2f} s, of {len(times)}"
        if self.loads:
            yield f"load: mean {statistics.fmean(self.loads):.1f}, most {max(self.loads):.1f}, of {os.cpu_count()} CPUs"
        leaders = ", ".join(f"{count} {how}" for how, count in self.lost.items())
        yield f"{self.struck.total()} faults, {self.lost.total()} leaders lost ({leaders}), {self.rows} records"
        yield from (f"note: {note} ({count} times)" for note, count in self.notes.items())
        yield from (f"VIOLATION {violation}" for violation in self.violations[:MAX_SHOWN])
        yield f"violations={len(self.violations)}"


@dataclass(frozen=True, slots=True)
class Before:
    """A job before a fault."""

    row: JobRow
    processes: frozenset[tuple[int, float]]
    """Of its slots: pid, and when it began."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A leader is about to be lost."""

    at_ms: int
    """Epoch ms."""
    newest: dict[str, int]
    """Job → its newest checkpoint."""


class LeaderRun:
    """A cluster with its two jobs, until `finish`.

    Args:
        stack: runs, and has room.
        rows: of its database.
        directory: for what the jobs write.
        postgres: that the busy job writes to; None: files only.
        draw: for all that is random.
        report: to be filled.
        log: told what happens.
    """

    def __init__(
        self,
        stack: Stack,
        rows: ClusterRows,
        directory: Path,
        postgres: PostgresServer | None,
        draw: random.Random,
        report: LeaderReport,
        log: Callable[[str], None],
    ) -> None:
        self._stack, self._rows, self._draw, self._report, self._log = stack, rows, draw, report, log
        for name in ("busy", "quiet"):
            (directory / name).mkdir()
        self._busy = ProvingJob(stack, directory / "busy", postgres, rows_per_second=20.0)
        self._quiet = ProvingJob(stack, directory / "quiet", None, parallelism=1, rows_per_second=10.0)
        self._parallelism = 2
        #: operation → the answer that it was given
        self._answers: dict[str, OperationRow] = {}
        #: leaders that have been frozen and replaced: they have to end themselves
        self._replaced: list[psutil.Process] = []
        self._fault = "the start"
        for job in self._jobs:
            job.wait_until_it_moves("the job runs")
        self._quiet_before = self._before(self._quiet)

    @property
    def _jobs(self) -> tuple[ProvingJob, ProvingJob]:
        return self._busy, self._quiet

    # --- a fault ------------------------------------------------------------------------------------------------------

    def inject(self, fault: LeaderFault) -> None:
        """Lose the leader, and wait until all is as it has to be.

        Raises:
            StalledError: it is not within its time.
        """
        self._fault = fault.name
        self._report.struck[fault.name] += 1
        self._report.loads.append(os.getloadavg()[0])
        self._wait_for_standbys(1 + (fault.second is not None))
        before = self._before(self._busy)
        operation = ""
        is_asked_late = fault.operation and self._draw.random() < 0.2
        if fault.operation and not is_asked_late:
            operation = self._ask(fault.operation)
        time.sleep(self._draw.uniform(0.0, 0.7))
        loss = self._loss()
        self._lose_leader(fault.first, fault.is_brief)
        if is_asked_late:
            operation = self._ask(fault.operation)
        if fault.second is not None:
            time.sleep(self._draw.uniform(0.0, ADOPTION_S))
            loss = self._loss()
            self._lose_leader(fault.second)
        # before anything else takes its time: only a job's newest checkpoints tell when they were completed
        self._time_checkpoints([self._quiet] if fault.operation else [*self._jobs], loss)
        if fault.operation:
            self._check_operation(fault.operation, operation, before, loss)
        else:
            self._check_unchanged(self._busy, before)
        self._check_unchanged(self._quiet, self._quiet_before)
        self._check_replaced()
        self._check_answers()
        for job in self._jobs:
            self._report.violations += [f"{fault.name}: {line}" for line in job.aborted_reads()]

    def _loss(self) -> Loss:
        return Loss(_now_ms(), {job.id: self._rows.newest_checkpoint(job.id) for job in self._jobs})

    def _lose_leader(self, sign: signal.Signals, is_brief: bool = False) -> None:
        """Strike the leader, and wait for the next one; a frozen one goes on behind that."""
        leader = self._rows.leader()
        process, since_s = psutil.Process(leader.pid), time.monotonic()
        process.send_signal(sign)
        if is_brief:
            time.sleep(BRIEFLY_S)
            process.send_signal(signal.SIGCONT)
            return
        how = "killed" if sign is KILL else "frozen"
        try:
            if self._wait_for_leader(leader, since_s):
                self._report.lost[how] += 1
                self._report.times[KILLED if sign is KILL else FROZEN].append(time.monotonic() - since_s)
                # sometimes it goes on at once, sometimes when the job has gone on without it
                time.sleep(self._draw.choice([0.0, 0.0, 1.0]) if sign is FREEZE else 0.0)
                self._replaced.append(process)
        finally:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)

    def _wait_for_leader(self, before: LeaderRow, since_s: float) -> bool:
        """Return whether another one leads; False: it cannot, for the old one stands still in a write to SQLite."""
        while True:
            now = self._rows.leader()
            if now.epoch > before.epoch and now.pid:
                return True
            if time.monotonic() - since_s > stretched(LEADER_S):
                raise StalledError(f"{self._fault}: nobody leads")
            if time.monotonic() - since_s > LEADER_S / 2 and self._rows.is_locked():
                self._report.notes["frozen in a write to SQLite: nobody could take over, and it went on"] += 1
                return False
            time.sleep(POLL_S)

    def _wait_for_standbys(self, count: int) -> None:
        def stand_by() -> bool:
            entries = self._stack.client.jobmanagers()["jobmanagers"]
            pids = [int(e["id"].rpartition(":")[2]) for e in entries if e["role"] == "STANDBY"]
            return sum(_lives(pid) for pid in pids) >= count

        self._wait(lambda: answers(stand_by), STANDBY_S, f"{count} standbys")

    # --- operations ---------------------------------------------------------------------------------------------------

    def _ask(self, operation: str) -> str:
        """Ask something of the busy job; return the id of the operation."""
        client, job_id = self._stack.client, self._busy.id
        format_type = self._draw.choice(["CANONICAL", "NATIVE"])
        if operation == SAVEPOINT:
            return client.trigger_savepoint(job_id, None, format_type)
        if operation == STOP:
            return client.stop(job_id, None, format_type, drain=False)
        self._parallelism = self._draw.choice([p for p in (1, 2, 3) if p != self._parallelism])
        vertices = [vertex["id"] for vertex in self._busy.live()["vertices"]]
        return client.rescale(job_id, dict.fromkeys(vertices, self._parallelism))

    def _check_operation(self, kind: str, trigger_id: str, before: Before, loss: Loss) -> None:
        """The operation is answered, and has its effect."""
        self._wait(lambda: self._rows.operation(trigger_id).state == "COMPLETED", ANSWER_S, f"the answer to the {kind}")
        row = self._rows.operation(trigger_id)
        took_s = ((row.finished_at or 0) - loss.at_ms) / 1000
        if took_s > 0:
            self._report.times[f"{kind} answered behind the loss"].append(took_s)
        else:
            self._report.notes[f"a {kind} was answered before the leader was lost"] += 1
        answer = json.loads(row.result)
        if "error" in answer:
            self._violate(f"the {kind} was answered with {answer['error']!r}")
            self._wait_for_checkpoint(self._busy)
        elif kind == SAVEPOINT:
            if not (Path(answer["location"].removeprefix("file://")) / "_metadata").exists():
                self._violate(f"there is no savepoint at {answer['location']}")
            self._check_unchanged(self._busy, before)
        elif kind == STOP:
            self._check_stopped(answer["location"], before)
        else:
            self._check_rescaled(before)

    def _check_rescaled(self, before: Before) -> None:
        """The job goes on with the other parallelism."""
        self._wait_for_checkpoint(self._busy)
        self._wait(lambda: self._rows.job(self._busy.id).state == "RUNNING", CHECKPOINT_S, "the rescaled job runs")
        row = self._rows.job(self._busy.id)
        if row.parallelism != {self._parallelism}:
            self._violate(f"the job was rescaled to {self._parallelism} and is {row}")
        if row.restarts != before.row.restarts:
            self._report.notes["a job that was being rescaled was restarted"] += 1

    def _check_stopped(self, savepoint: str, before: Before) -> None:
        """The job has stopped, with all its output; it goes on as another one."""
        self._wait(lambda: self._rows.job(self._busy.id).state == "FINISHED", ANSWER_S, "the end of the job")
        row = self._rows.job(self._busy.id)
        if row.attempt != before.row.attempt:
            # some of its slots had left when the leader was lost: who is going cannot be adopted
            self._report.notes["a job that was being stopped got slots once more, to end"] += 1
        if row.restarts != before.row.restarts:
            self._violate(f"the job was stopped, and restarted before: {before.row} became {row}")
        checkpoints = self._stack.home / "checkpoints" / self._busy.id
        with suppress(StalledError):
            # they are deleted behind the row that says so; what stays is told as left behind
            self._wait(lambda: not list(checkpoints.glob("*")), END_S, "the end of its checkpoints")
        self._report.violations += [f"{self._fault}: {line}" for line in self._busy.violations(savepoint)]
        backend = self._draw.choice(["hashmap", "rocksdb"])
        self._parallelism = self._draw.choice([1, 2, 3])
        self._busy.resume(savepoint, {"state.backend.type": backend}, self._parallelism)
        self._wait_for_checkpoint(self._busy)

    # --- checks -------------------------------------------------------------------------------------------------------

    def _before(self, job: ProvingJob) -> Before:
        row = self._rows.job(job.id)
        processes = set()
        for pid in row.pids:
            with suppress(psutil.NoSuchProcess):
                processes.add((pid, psutil.Process(pid).create_time()))
        return Before(row, frozenset(processes))

    def _check_unchanged(self, job: ProvingJob, before: Before) -> None:
        """A job completes a checkpoint under the newest leader: of the same attempt, in the same processes."""
        self._wait_for_checkpoint(job)
        after = self._before(job)
        if after != before:
            self._violate(f"{self._name(job)} job: {before} became {after}: {job.live()['exceptions']}")
        if job is self._quiet:
            self._quiet_before = after

    def _wait_for_checkpoint(self, job: ProvingJob) -> None:
        """Wait for a checkpoint that the present leader completes from now on."""
        above = self._rows.newest_checkpoint(job.id)
        what = f"a checkpoint of the {self._name(job)} job"
        self._wait(lambda: self._rows.completed_ms(job.id, above) is not None, RECOVERY_S, what)

    def _time_checkpoints(self, jobs: list[ProvingJob], loss: Loss) -> None:
        """Wait until the present leader has completed a checkpoint of each job, and note when it did."""

        def are_complete() -> bool:
            for job in [*jobs]:
                completed_ms = self._rows.completed_ms(job.id, loss.newest[job.id])
                if completed_ms is not None:
                    took_s = (completed_ms - loss.at_ms) / 1000
                    self._report.times[CHECKPOINT].append(took_s)
                    jobs.remove(job)
            return not jobs

        self._wait(are_complete, CHECKPOINT_S, "a checkpoint of each job behind the loss")

    def _check_replaced(self) -> None:
        """Leaders that were replaced have ended themselves."""
        self._wait(lambda: not any(map(_runs, self._replaced)), END_S, "the end of a leader that was replaced")
        self._replaced.clear()

    def _check_answers(self) -> None:
        """Answers stay as they were given, and only the newest leader has given some."""
        now = self._rows.operations()
        for trigger_id, answer in self._answers.items():
            if now.get(trigger_id) != answer:
                self._violate(f"{answer} became {now.get(trigger_id)}")
        self._answers = {trigger_id: row for trigger_id, row in now.items() if row.state == "COMPLETED"}
        for row in now.values():
            if row.state != "COMPLETED":
                self._violate(f"{row} is not answered")

    # --- the end ------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Stop both jobs, and compare all that they have put out with the model."""
        self._fault = "the end"
        for job in self._jobs:
            trigger_id = self._stack.client.stop(job.id, None, "CANONICAL", drain=False)
            self._wait(lambda of=trigger_id: self._rows.operation(of).state == "COMPLETED", ANSWER_S, "the last stop")  # type: ignore[misc]
            answer = json.loads(self._rows.operation(trigger_id).result)
            self._wait(lambda of=job: self._rows.job(of.id).state == "FINISHED", ANSWER_S, "the end of the job")  # type: ignore[misc]
            self._report.violations += [f"{self._name(job)}: {line}" for line in job.violations(answer["location"])]
            self._report.rows += len(job.files.rows)
        self._check_answers()
        taken = sum(row.kind in (SAVEPOINT, STOP) for row in self._answers.values())
        found = len(list((self._stack.home / "savepoints").glob("*/_metadata")))
        if found > taken:
            self._violate(f"{found - taken} savepoints were taken twice, of {taken}")

    # --- small things -------------------------------------------------------------------------------------------------

    def _name(self, job: ProvingJob) -> str:
        return "quiet" if job is self._quiet else "busy"

    def _violate(self, what: str) -> None:
        self._log(f"  VIOLATION {what}")
        self._report.violations.append(f"{self._fault}: {what}")

    def _wait(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        started = time.monotonic()
        while not condition():
            if time.monotonic() - started > stretched(timeout_s):
                raise StalledError(f"{self._fault}: {what}: not within {time.monotonic() - started:.0f} s")
            time.sleep(POLL_S)


def _now_ms() -> int:
    return int(time.time() * 1000)


def _lives(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return _runs(psutil.Process(pid))
    return False


def _runs(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_STOPPED)
    return False


# --- a whole run ------------------------------------------------------------------------------------------------------


@contextmanager
def leader_run(
    draw: random.Random, on_postgres: bool, report: LeaderReport, log: Callable[[str], None]
) -> Iterator[LeaderRun]:
    """A cluster with its two jobs; all of it ends with the block.

    Args:
        draw: for all that is random.
        on_postgres: whether the cluster's own database is PostgreSQL; else SQLite.
        report: to be filled.
        log: told what happens.
    """
    directory = Path(tempfile.mkdtemp(prefix="tidemark-leaders-"))
    with ExitStack() as stack:
        sink = database = None
        if PostgresServer.is_installed():
            sink = PostgresServer()
            stack.callback(sink.close)
        environment = {"TIDEMARK_SLOTS": str(SLOTS), "TIDEMARK_JOBMANAGERS": str(JOBMANAGERS)}
        if on_postgres:
            database = PostgresServer()
            stack.callback(database.close)
            environment["DATABASE_URL"] = database.url
        running = stack.enter_context(running_stack(directory / "home", **environment))
        for demo in running.client.jobs():
            running.client.cancel(demo["jid"])
        rows = ClusterRows("" if database is None else database.url, running.home / "db.sqlite3")
        yield LeaderRun(running, rows, directory, sink, draw, report, log)
    if report.violations:
        report.notes[f"for whoever looks into it there is still {directory}"] += 1
    else:
        shutil.rmtree(directory, ignore_errors=True)


def lose_leaders(
    count: int, seed: int, only: str, log: Callable[[str], None], limit_s: float = math.inf
) -> LeaderReport:
    """Run a cluster on SQLite, then one on PostgreSQL if it is installed, under so many faults in all.

    Args:
        count: number of faults.
        seed: of all that is random.
        only: faults with that text in their names.
        log: told what happens.
        limit_s: no fault begins later than that, and the first cluster has half of it.
    """
    begun_s = time.monotonic()
    draw, report = random.Random(seed), LeaderReport()
    faults = [fault for fault in leader_schedule(draw, count * len(FAULTS)) if only in fault.name][:count]
    half = len(faults) // 2 if PostgresServer.is_installed() else 0
    first_s = limit_s / 2 if half else limit_s
    for on_postgres, share, until_s in ((False, faults[half:], first_s), (True, faults[:half], limit_s)):
        if not share:
            continue
        log(f"a cluster on {'PostgreSQL' if on_postgres else 'SQLite'}, {len(share)} faults")
        try:
            with leader_run(draw, on_postgres, report, log) as run:
                for number, fault in enumerate(share, 1):
                    started = time.monotonic()
                    if started - begun_s > until_s:
                        break
                    log(f"{number:3} {fault.name}")
                    run.inject(fault)
                    log(f"      {time.monotonic() - started:.1f} s")
                run.finish()
        except (StalledError, ClientError, AssertionError) as error:
            report.violations.append(f"stalled: {error}")
    report.judge_times()
    return report
