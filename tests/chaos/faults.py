"""The faults: what each one does to a run, and its number in the fault matrix (F1 to F27 of the reliability notes).

A fault is injected into a job that runs, has completed checkpoints and puts out. Its function returns when the fault
has happened and whatever has to be given back (a directory, a server, a frozen process) was given back.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.chaos.fault_points import DAMAGE_KINDS
from tests.chaos.program import ProgramStatus
from tests.chaos.runner import RECOVERY_TIMEOUT_S, ChaosRun, StalledError

HIT_TIMEOUT_S = 60.0
AWAY_TIMEOUT_S = 45.0
LATE_WRITES = ("snapshot", "prepared", "commit", "mid-commit")


@dataclass(frozen=True, slots=True)
class Injected:
    """Expected consequences of a fault."""

    since: float
    """Monotonic time from which the recovery counts."""
    restarts: bool = True
    """Whether the job has to restart; if not, it may."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of fault."""

    name: str
    matrix: str
    inject: Callable[[ChaosRun], Injected]
    needs_postgres: bool = False
    needs_kafka: bool = False
    needs_mount: bool = False
    is_pair: bool = False
    weight: int = 1

    def is_possible(self, run: ChaosRun) -> bool:
        """Return whether the run and the machine support the fault."""
        return (
            (run.postgres is not None or not self.needs_postgres)
            and (run.kafka is not None or not self.needs_kafka)
            and (run.can_be_full or not self.needs_mount)
        )


def inject(run: ChaosRun, fault: Fault) -> None:
    """Wait until the job goes on, inject the fault, and wait for new output.

    Raises:
        StalledError: there is none.
    """
    before = run.settle()
    run.points.hits()
    try:
        injected = fault.inject(run)
        run.wait_recovered(before, injected.since, injected.restarts, fault.name)
    finally:
        run.points.disarm()


# --- processes --------------------------------------------------------------------------------------------------------


def _signal(pid: int, sign: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, sign)


def _workers(run: ChaosRun) -> tuple[int, ...]:
    return run.wait(lambda s: bool(s.workers) and s.state == "RUNNING", RECOVERY_TIMEOUT_S, "workers").workers


def _pause(run: ChaosRun, least_s: float, most_s: float) -> None:
    time.sleep(run.random.uniform(least_s, most_s))


def _kill_worker(run: ChaosRun) -> Injected:
    workers = _workers(run)
    _pause(run, 0.0, 0.7)
    _signal(run.random.choice(workers), signal.SIGKILL)
    return Injected(time.monotonic())


def _kill_all_workers(run: ChaosRun) -> Injected:
    workers = _workers(run)
    _pause(run, 0.0, 0.7)
    for pid in workers:
        _signal(pid, signal.SIGKILL)
    return Injected(time.monotonic())


def _freeze_worker(run: ChaosRun) -> Injected:
    """Shorter than the lease and longer: the job may restart, and the frozen process wakes up in another world."""
    pid = run.random.choice(_workers(run))
    since = time.monotonic()
    _signal(pid, signal.SIGSTOP)
    _pause(run, 2.0, 12.0)
    _signal(pid, signal.SIGCONT)
    return Injected(since, restarts=False)


def _kill_daemon(run: ChaosRun) -> Injected:
    daemons = set()
    for pid in _workers(run):
        with suppress(psutil.NoSuchProcess):
            daemons.add(psutil.Process(pid).ppid())
    for pid in daemons:
        _signal(pid, signal.SIGKILL)
    return Injected(time.monotonic())


def _freeze_program(run: ChaosRun) -> Injected:
    """The JobMaster says nothing for a while: slots end themselves when their lease is over."""
    since = time.monotonic()
    _signal(run.pid, signal.SIGSTOP)
    _pause(run, 2.0, 9.0)
    _signal(run.pid, signal.SIGCONT)
    return Injected(since, restarts=False)


# --- the program ------------------------------------------------------------------------------------------------------


def _start_again(run: ChaosRun, since: float) -> Injected:
    run.start(run.newest()[1])
    return Injected(since)


def _kill_program(run: ChaosRun) -> Injected:
    _pause(run, 0.0, 0.7)
    since = time.monotonic()
    run.kill_program()
    return _start_again(run, since)


def _kill_jvm(run: ChaosRun) -> Injected:
    since = time.monotonic()
    for child in psutil.Process(run.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if child.name() == "java":
                _signal(child.pid, signal.SIGKILL)
    return Injected(since)


def _cancel_program(run: ChaosRun) -> Injected:
    since = time.monotonic()
    run.command("cancel")
    run.wait_ended(30, "the end of a cancelled job")
    run.wait_nothing_runs()
    return _start_again(run, since)


def _stop_program(run: ChaosRun) -> Injected:
    since = time.monotonic()
    savepoint = run.stop()
    run.wait_nothing_runs()
    run.start(savepoint)
    return Injected(since)


def _kill_program_and_damage_metadata(run: ChaosRun) -> Injected:
    """The newest checkpoint, of which nothing was committed, has damaged metadata: it is refused by name."""
    since = time.monotonic()
    _arm_damage(run, "metadata")
    run.wait_ended(HIT_TIMEOUT_S, "the end of the program")
    run.wait_nothing_runs()
    run.points.disarm()
    job = run.checkpoints / run.status().job_id
    damaged = run.newest()[1]
    run.config.options["execution.state-recovery.path"] = damaged
    run.launch()
    if run.wait_ended(120, "a start from damaged metadata") == 0:
        run.report.violations.append("damaged metadata: the job ran")
    if "_metadata" not in (run.directory / "program.log").read_text(errors="replace")[-3000:]:
        run.report.violations.append("damaged metadata: the error does not name the file")
    older = [p for p in job.glob("chk-*") if (p / "_metadata").exists() and str(p) != damaged]
    newest = max(older, key=lambda path: int(path.name.split("-")[1]))
    run.start(str(newest))
    return Injected(since)


# --- user code --------------------------------------------------------------------------------------------------------


def _armed(place: str, action: str, count: int = 1, restarts: bool = True) -> Callable[[ChaosRun], Injected]:
    def do(run: ChaosRun) -> Injected:
        run.points.arm(place, action, count)
        return Injected(_wait_hits(run, count), restarts)

    return do


def _wait_struck(run: ChaosRun, count: int = 1) -> list[int]:
    """Wait until that many armed faults have struck; the processes that they have struck."""
    struck: list[str] = []

    def all_struck(_: ProgramStatus) -> bool:
        struck.extend(run.points.hits())
        return len(struck) >= count

    run.wait(all_struck, HIT_TIMEOUT_S, "the fault to strike")
    return [int(name.split(".")[3]) for name in struck]


def _wait_hits(run: ChaosRun, count: int = 1) -> float:
    """Wait until that many armed faults have struck; when the last one did."""
    _wait_struck(run, count)
    return time.monotonic()


def _raise_in_close(run: ChaosRun) -> Injected:
    run.points.arm("close", "raise", 2)
    run.points.arm("map", "raise")
    return Injected(_wait_hits(run, 2))


def _raise_in_restore(run: ChaosRun) -> Injected:
    run.points.arm("restore", "raise", 2)
    since = _kill_worker(run).since
    _wait_hits(run, 2)
    return Injected(since)


def _kill_in_restore(run: ChaosRun) -> Injected:
    run.points.arm("restore", "kill")
    since = _kill_worker(run).since
    _wait_hits(run)
    return Injected(since)


def _kill_twice(run: ChaosRun) -> Injected:
    """A second kill while the first is being recovered from, at any time of it."""
    before = run.status()
    first = _kill_worker(run)
    run.wait(
        lambda s: s.attempt > before.attempt and bool(s.workers), RECOVERY_TIMEOUT_S, "workers of the next attempt"
    )
    _pause(run, 0.0, 0.5)
    for pid in run.status().workers[:1]:
        _signal(pid, signal.SIGKILL)
    return first


def _kill_in_commit_and_recovery(run: ChaosRun) -> Injected:
    """Kill a process between two commits, and the next one when it commits again."""
    run.points.arm("mid-commit", "kill")
    since = _wait_hits(run)
    run.points.arm("commit", "kill")
    _wait_hits(run)
    return Injected(since)


def _thaw_late_writer(run: ChaosRun) -> Injected:
    """A process that freezes while it writes, and that nobody can kill, goes on behind a later checkpoint."""
    run.command("spare on")
    run.points.arm(run.random.choice(LATE_WRITES), "freeze")
    [pid] = _wait_struck(run)
    before = run.status().attempt
    try:
        running = run.wait(
            lambda s: s.attempt > before and s.state == "RUNNING", RECOVERY_TIMEOUT_S, "an attempt beside the frozen"
        )
        run.wait(lambda s: s.completed > running.completed + 1, RECOVERY_TIMEOUT_S, "a later checkpoint")
    finally:
        _signal(pid, signal.SIGCONT)
    run.wait(lambda _: not _lives(pid), HIT_TIMEOUT_S, "the end of the process that thawed")
    run.command("spare off")
    return Injected(time.monotonic(), restarts=False)


def _lives(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def _jump_clocks(run: ChaosRun) -> Injected:
    """Set clocks forth and back: by an hour in workers, by minutes in the JobMaster."""
    for index in range(2):
        run.points.arm("map", "clock-ahead")
        run.points.arm("keyed", "clock-back")
        run.command(f"clock {-300 if index else 300}")
        _wait_hits(run, 2)
        _pause(run, 0.0, 1.0)
    return Injected(time.monotonic(), restarts=False)


# --- storage ----------------------------------------------------------------------------------------------------------


def _block_checkpoints(run: ChaosRun) -> Injected:
    """The job's directory is gone, and a file is in its place: nothing can be written there."""
    job = run.checkpoints / run.status().job_id
    aside = job.with_name("aside")
    failed = run.status().failed
    job.rename(aside)
    job.write_text("")
    try:
        run.wait(lambda s: s.failed > failed, RECOVERY_TIMEOUT_S, "a failed checkpoint")
        _pause(run, 0.0, 1.0)
    finally:
        job.unlink()
        aside.rename(job)
    return Injected(time.monotonic(), restarts=False)


def _block_checkpoints_and_kill(run: ChaosRun) -> Injected:
    """A worker dies while the storage is away, which comes back once an attempt has failed to restore anything."""
    job, attempt = run.checkpoints / run.status().job_id, run.status().attempt
    aside = job.with_name("aside")
    workers = _workers(run)
    job.rename(aside)
    try:
        _signal(workers[0], signal.SIGKILL)
        run.wait(
            lambda s: s.attempt > attempt + 1 and any("its storage is unavailable" in error for error in s.errors),
            AWAY_TIMEOUT_S,
            "an attempt that finds nothing to restore",
        )
    except StalledError as error:
        # where a checkpoint was just being recorded no attempt restores anything before that is decided
        run.report.notes.append(f"the storage came back although {error}")
    finally:
        if job.exists():
            # what was written meanwhile belongs to no checkpoint
            subprocess.run(("cp", "-rn", f"{job}/.", str(aside)), check=True)
            subprocess.run(("rm", "-r", str(job)), check=True)
        aside.rename(job)
    return Injected(time.monotonic())


def _make_checkpoints_read_only(run: ChaosRun) -> Injected:
    def remount(how: str) -> bool:
        command = ("mount", "-o", f"remount,{how}", str(run.checkpoints))
        return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0

    failed = run.status().failed
    # refused while a file is open for writing
    deadline = time.monotonic() + HIT_TIMEOUT_S
    while not remount("ro"):
        if time.monotonic() > deadline:
            raise StalledError("the checkpoint directory cannot be made read-only")
        time.sleep(0.01)
    try:
        run.wait(lambda s: s.failed > failed, RECOVERY_TIMEOUT_S, "a failed checkpoint")
        _pause(run, 0.0, 1.0)
    finally:
        remount("rw")
    return Injected(time.monotonic(), restarts=False)


def _fill_checkpoints(run: ChaosRun) -> Injected:
    failed = run.status().failed
    ballast = run.checkpoints / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(b"\0" * (1 << 16)):
            pass
    try:
        run.wait(lambda s: s.failed > failed, RECOVERY_TIMEOUT_S, "a failed checkpoint")
        _pause(run, 0.0, 1.0)
    finally:
        ballast.unlink()
    return Injected(time.monotonic(), restarts=False)


def _arm_damage(run: ChaosRun, kind: str) -> None:
    """Have the workers damage a checkpoint of which nothing is committed: one that nobody can have begun to commit."""
    least = run.newest()[0] + 3
    draft = Path(run.points.directory) / "draft.hit"
    draft.write_text(f"{run.status().job_id} {least}")
    draft.replace(Path(run.points.directory) / f"commit.all-{kind}.0")


def _damage(kind: str) -> Callable[[ChaosRun], Injected]:
    def do(run: ChaosRun) -> Injected:
        _workers(run)
        _arm_damage(run, kind)
        done = Path(run.points.directory) / "damage.done.hit"
        run.wait(lambda s: done.exists(), HIT_TIMEOUT_S, "the damage")
        since = time.monotonic()
        damaged = done.read_text()
        if damaged == "nothing to damage":
            run.report.notes.append(f"{kind}: all state was in the metadata")
            run.points.disarm()
            return Injected(since)
        # a region that comes up before another one has found the damage may not commit what is damaged either
        name = Path(damaged).name
        noticed = run.wait(
            lambda s: any(name in error for error in s.errors), RECOVERY_TIMEOUT_S, f"word of the damage ({damaged})"
        )
        run.wait(
            lambda s: s.attempt > noticed.attempt and not set(noticed.workers).intersection(s.workers),
            RECOVERY_TIMEOUT_S,
            "the end of all workers that know what is damaged",
        )
        run.points.disarm()
        return Injected(since)

    return do


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


def _restart_postgres(sign: signal.Signals) -> Callable[[ChaosRun], Injected]:
    def do(run: ChaosRun) -> Injected:
        assert run.postgres is not None
        run.postgres.stop(sign)
        _pause(run, 0.0, 2.0)
        run.postgres.start()
        return Injected(time.monotonic(), restarts=False)

    return do


def _cut_postgres(run: ChaosRun) -> Injected:
    assert run.postgres is not None
    _pause(run, 0.0, 0.5)
    run.postgres.terminate_connections()
    return Injected(time.monotonic(), restarts=False)


# --- Kafka ------------------------------------------------------------------------------------------------------------


def _restart_kafka(sign: signal.Signals) -> Callable[[ChaosRun], Injected]:
    def do(run: ChaosRun) -> Injected:
        assert run.kafka is not None
        run.kafka.restart(sign, run.random.uniform(0.0, 2.0))
        return Injected(time.monotonic(), restarts=False)

    return do


def _freeze_kafka(run: ChaosRun) -> Injected:
    assert run.kafka is not None
    run.kafka.freeze(run.random.uniform(1.0, 6.0))
    return Injected(time.monotonic(), restarts=False)


# --- rescaling --------------------------------------------------------------------------------------------------------


def _other_parallelism(run: ChaosRun) -> int:
    return run.random.choice([p for p in (1, 2, 3, 4) if p != run.status().parallelism])


def _rescale(run: ChaosRun) -> Injected:
    since = time.monotonic()
    answer = run.ask(f"rescale {_other_parallelism(run)}")
    if "failed" in answer:
        run.report.notes.append(answer)
        return Injected(since, restarts=False)
    return Injected(since)


def _rescale_and_kill(run: ChaosRun) -> Injected:
    """Rescaled, or not: but nothing is lost."""
    workers = _workers(run)
    since = time.monotonic()
    asked = len(run.status().answers)
    run.command(f"rescale {_other_parallelism(run)}")
    _pause(run, 0.0, 1.5)
    for pid in (*run.status().workers, *workers)[:1]:
        _signal(pid, signal.SIGKILL)
    run.wait(lambda s: len(s.answers) > asked, RECOVERY_TIMEOUT_S, "rescaling")
    return Injected(since, restarts=False)


FAULTS: tuple[Fault, ...] = (
    Fault("kill -9 of a worker", "F1", _kill_worker, weight=3),
    Fault("kill -9 of a worker in its snapshot", "F1", _armed("snapshot", "kill")),
    Fault("kill -9 of a worker in a keyed operator", "F1", _armed("keyed", "kill")),
    Fault("kill -9 of a worker in front of its sinks", "F1", _armed("tally", "kill")),
    Fault("kill -9 of all workers", "F2", _kill_all_workers, weight=2),
    Fault("a worker is frozen and thaws", "F3", _freeze_worker, weight=2),
    Fault("kill -9 of pyspark.daemon", "F4", _kill_daemon),
    Fault("kill -9 of the JVM", "F5", _kill_jvm),
    Fault("stopped with a savepoint, started again", "F7", _stop_program),
    Fault("kill -9 of the program, started again", "F8", _kill_program, weight=2),
    Fault("the JobMaster is frozen and thaws", "F9", _freeze_program),
    Fault("checkpoint directory is blocked", "F12", _block_checkpoints),
    Fault("checkpoint directory is read-only", "F12", _make_checkpoints_read_only, needs_mount=True),
    Fault("checkpoint directory is full", "F12", _fill_checkpoints, needs_mount=True),
    Fault("a snapshot takes seconds", "F12", _armed("snapshot", "slow", 2, restarts=False)),
    *(Fault(f"newest checkpoint is damaged: {kind}", "F13", _damage(kind)) for kind in DAMAGE_KINDS),
    Fault("newest metadata are damaged, started again", "F13", _kill_program_and_damage_metadata),
    Fault("frozen while it writes, thaws behind a later checkpoint", "F14", _thaw_late_writer),
    Fault("connections of a slot are cut", "F15", _armed("map", "cut")),
    Fault("user code ends the process", "F16", _armed("keyed", "exit")),
    Fault("user code raises SystemExit", "F16", _armed("map", "system-exit")),
    Fault("a consumer is blocked for seconds", "F17", _armed("tally", "slow", 3, restarts=False)),
    Fault("clocks jump forth and back", "F18", _jump_clocks),
    Fault("user code raises", "F19", _armed("tally", "raise")),
    Fault("user code raises three times", "F19", _armed("keyed", "raise", 3)),
    Fault("user code hangs", "F19", _armed("keyed", "hang")),
    Fault("user code raises in close", "F19", _raise_in_close),
    Fault("user code raises in its snapshot", "F20", _armed("snapshot", "raise", restarts=False)),
    Fault("killed before pre-commit", "F20", _armed("prepare", "kill")),
    Fault("killed behind pre-commit", "F20", _armed("prepared", "kill")),
    Fault("killed before the commit", "F20", _armed("commit", "kill")),
    Fault("killed between two commits", "F20", _armed("mid-commit", "kill")),
    Fault("killed behind the commit", "F20", _armed("committed", "kill")),
    Fault("the commit raises", "F20", _armed("commit", "raise")),
    Fault("PostgreSQL is restarted", "F20", _restart_postgres(signal.SIGINT), needs_postgres=True),
    Fault("PostgreSQL crashes", "F20", _restart_postgres(signal.SIGQUIT), needs_postgres=True),
    Fault("connections to PostgreSQL are cut", "F20", _cut_postgres, needs_postgres=True),
    Fault("Kafka is restarted", "F20", _restart_kafka(signal.SIGTERM), needs_kafka=True),
    Fault("Kafka crashes", "F20", _restart_kafka(signal.SIGKILL), needs_kafka=True),
    Fault("Kafka is frozen and thaws", "F20", _freeze_kafka, needs_kafka=True),
    Fault("restoring raises twice", "F22", _raise_in_restore),
    Fault("killed when restoring", "F22", _kill_in_restore),
    Fault("killed again during recovery", "F22", _kill_twice),
    Fault("rescaled", "F23", _rescale, weight=2),
    Fault("rescaled, and a worker is killed", "F23", _rescale_and_kill),
    Fault("cancelled, started again from its checkpoint", "F24", _cancel_program),
    Fault("killed in the commit, and in the commit of its recovery", "F27", _kill_in_commit_and_recovery, is_pair=True),
    Fault("worker is killed while storage is away", "F27", _block_checkpoints_and_kill, is_pair=True),
)
"""Every kind. F6, F10 and F11 are of the session cluster, under the same job: `tests/cluster/test_cluster_faults.py`.
F21 is of micro-batches, which there are not; F25 and F26 are shown elsewhere."""
