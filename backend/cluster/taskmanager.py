"""TaskManager: a process that offers slots. It owns one SparkSession and runs stages for the leader.

Commands arrive through Celery (`backend.cluster.tasks`) and are handed to threads of this process at once; events are
reported on the bus. The reporter thread sends a heartbeat every second and checks the process: a JVM that died, a
session that Spark stopped or a command queue that no longer delivers cannot be repaired from inside, so the process
ends and its supervisor starts another. Source: Flink, TaskExecutor.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import redis
from kombu.exceptions import OperationalError

from backend.cluster import bus, commands
from backend.cluster.commands import SendCommand
from backend.cluster.drain import Drain
from runtime.core.clock import Clock
from runtime.core.ids import Attempt, SlotId
from runtime.execution.spark_slot import SlotSpec
from runtime.execution.spark_stages import SparkStages, kill_worker

logger = logging.getLogger(__name__)

REPORT_INTERVAL_S = 1.0
PING_INTERVAL_MS = 10_000
#: a worker may be busy for seconds; one that reconnected but consumes nothing never answers again
PING_TIMEOUT_MS = 45_000
#: Spark needs up to 4 s to end the workers of a cancelled stage; the process has 5 s to stop
STOP_TIMEOUT_S = 4.0
REMEMBERED_COMMANDS = 1000
#: fewer: a passing fault costs the jobs of this process; more: the leader has dropped it long before it is replaced
REPORT_FAILURES = 10
#: a leader reads a heartbeat within a second; one that has just begun to lead needs some more
TAKEN_WITHIN_MS = 10_000
#: of the log's reminder that no leader has taken this process
UNTAKEN_REPEAT_MS = 60_000
#: a leader that is alive has given a beat within this time
LEADING_MS = 5_000


@dataclass(frozen=True, slots=True)
class TaskManagerIdentity:
    """Identity of a TaskManager; every start has a new one."""

    id: str
    worker_name: str
    host: str
    pid: int
    slots: int
    spark_master: str
    registered_at: int

    @classmethod
    def create(cls, slots: int, spark_master: str, now: int) -> TaskManagerIdentity:
        host, pid = socket.gethostname(), os.getpid()
        name = f"{host}:{pid}-{secrets.token_hex(3)}"
        return cls(name, f"taskmanager-{pid}-{name[-6:]}@{host}", host, pid, slots, spark_master, now)

    def report(self) -> dict[str, Any]:
        """Return the description of this process for heartbeats."""
        return {
            "id": self.id,
            "worker_name": self.worker_name,
            "host": self.host,
            "pid": self.pid,
            "slots": self.slots,
            "spark_master": self.spark_master,
            "registered_at": self.registered_at,
            "hardware": hardware(),
        }


class TaskManager:
    """Runs stages; implements `backend.cluster.tasks.CommandReceiver`.

    Args:
        identity: the identity of this process.
        stages: stages of a session with room for all slots.
        session_defect: returns why the session is unusable; None if it is sound.
        clock: for timeouts.
        die: ends the process at once; called with the cause.
        send: sends a command; used by this process to ping itself.
    """

    def __init__(
        self,
        identity: TaskManagerIdentity,
        stages: SparkStages,
        session_defect: Callable[[], str | None],
        clock: Clock,
        die: Callable[[str], None],
        send: SendCommand = commands.send,
    ) -> None:
        self._send = send
        self.identity = identity
        self._stages = stages
        self._session_defect = session_defect
        self._clock = clock
        self._die = die
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)
        self._epoch = 0
        self._known_commands: deque[str] = deque(maxlen=REMEMBERED_COMMANDS)
        self._running: set[tuple[str, int, int]] = set()
        #: stage ends that could not be reported yet, oldest first
        self._untold: deque[dict[str, Any]] = deque()
        #: the leader ignores heartbeats that a later one has overtaken
        self._num_heartbeats = 0
        #: turns of the reporter that failed in a row
        self._num_failures = 0
        self._unanswered_since_ms: float | None = None
        self._next_ping_ms = 0.0
        #: set once, by the main thread
        self._drain: Drain | None = None
        self._is_taken = False
        self._next_look_ms = self._next_reminder_ms = clock.monotonic_ms() + TAKEN_WITHIN_MS
        self._stopping = threading.Event()
        self._reporter = threading.Thread(target=self._report_for_ever, name="taskmanager-report", daemon=True)

    def start(self) -> None:
        """Start the heartbeats."""
        self._reporter.start()

    def drain(self, timeout_ms: float) -> None:
        """Let the leader move the jobs to other TaskManagers: it hears of it with the next heartbeat."""
        self._drain = Drain(self._clock.monotonic_ms(), timeout_ms)

    def why_drained(self) -> str:
        """Return why this process may end after `drain`; "" if it may not yet."""
        assert self._drain is not None
        with self._lock:
            is_idle = not self._running
        return self._drain.why_over(
            self._clock.monotonic_ms(), is_idle=is_idle and not self._untold, has_jobmanager=_has_jobmanager()
        )

    def stop(self) -> None:
        """End all stages (4 s at most) and sign off."""
        self._stopping.set()
        with self._lock:
            groups = {_group(*key) for key in self._running}
        for group in groups:
            self._stages.cancel(group)
        with self._ended:
            self._ended.wait_for(lambda: not self._running, STOP_TIMEOUT_S)
        self._tell({"type": "gone", "taskmanager": self.identity.id, "cause": "it was stopped"})

    # --- commands: called by threads of the Celery worker -------------------------------------------------------------

    def deploy(self, command_id: str, epoch: int, deployment: dict[str, Any]) -> None:
        job_id, attempt, stage = deployment["job_id"], deployment["attempt"], deployment["stage"]
        key = (job_id, attempt, stage)
        spec = SlotSpec(
            slots=tuple(SlotId(slot) for slot in deployment["slots"]),
            attempt=Attempt(attempt),
            control_address=deployment["control_address"],
            token=deployment["token"],
            local=deployment["local"],
            lease_ms=deployment["lease_ms"],
            window_bytes=deployment["window_bytes"],
            floating_bytes=deployment["floating_bytes"],
            epoch=epoch,
            orphan_timeout_ms=deployment["orphan_timeout_ms"],
            in_passes=deployment["in_passes"],
            forward_logs=True,
        )
        with self._lock:
            if command_id in self._known_commands or not self._accepts(epoch) or self._stopping.is_set():
                return
            self._known_commands.append(command_id)
            if key in self._running:
                return
            self._running.add(key)
        logger.info("job %s, attempt %d: stage %d with %d slots begins", job_id, attempt, stage, len(spec.slots))
        try:
            self._stages.start(_group(*key), spec, lambda error: self._stage_ended(key, error))
        except RuntimeError as error:
            self._tell_end(key, f"it could not begin: {error}")

    def end(self, epoch: int, job_id: str, attempt: int, stages: list[int] | None = None) -> None:
        with self._lock:
            wanted = [
                key for key in self._running if key[:2] == (job_id, attempt) and (stages is None or key[2] in stages)
            ]
            accepted = self._accepts(epoch)
        if accepted and wanted:
            # waits for stages to end by themselves, which must not block a thread of the worker
            target = threading.Thread(target=self._stages.end, args=([_group(*key) for key in wanted],), daemon=True)
            target.start()

    def kill(self, epoch: int, processes: list[tuple[str, int]]) -> None:
        with self._lock:
            if not self._accepts(epoch):
                return
        for host, pid in processes:
            kill_worker(host, pid)

    def lead(self, epoch: int) -> None:
        with self._lock:
            self._accepts(epoch)

    def answered(self) -> None:
        """Note that a ping of this process came back through its own queue."""
        self._unanswered_since_ms = None

    # --- reports: the reporter's thread -------------------------------------------------------------------------------

    def _report_for_ever(self) -> None:
        while not self._stopping.wait(REPORT_INTERVAL_S):
            self.turn()

    def turn(self) -> None:
        """Report and watch; whatever fails is tried again, and ends the process if it fails again and again.

        A process without a reporter would live on, unknown to the leader, and nobody would start another.
        """
        cause = ""
        for step in (self.report, self.watch, self.look_whether_taken):
            try:
                step()
            except Exception as error:
                logger.exception("the reporter failed")
                cause = f"its reporter failed {REPORT_FAILURES} times in a row: {error!r}"
        self._num_failures = self._num_failures + 1 if cause else 0
        if self._num_failures >= REPORT_FAILURES:
            self._die(cause)

    def report(self) -> None:
        """Report ended stages that are not reported yet, then the running ones in a heartbeat."""
        while self._untold:
            if not self._tell(self._untold[0]):
                return
            self._untold.popleft()
        with self._lock:
            running = sorted(self._running)
            self._num_heartbeats += 1
            number = self._num_heartbeats
        report = self.identity.report() | {"number": number}
        if self._drain is not None:
            report["evicts_in_ms"] = self._drain.evicts_in_ms(self._clock.monotonic_ms())
        self._tell({"type": "heartbeat", "taskmanager": report, "stages": running})

    def watch(self) -> None:
        """End the process if it has become unusable; ping its command queue when due."""
        if self._ended_by_defect():
            return
        now = self._clock.monotonic_ms()
        if now >= self._next_ping_ms:
            self._next_ping_ms = now + PING_INTERVAL_MS
            try:
                self._send(self.identity.worker_name, commands.PING_TASK, commands.PING_EXPIRY_S)
            except (OperationalError, OSError):
                # the broker is away, which is not a defect of this process
                self._unanswered_since_ms = None
                return
            if self._unanswered_since_ms is None:
                self._unanswered_since_ms = now

    def look_whether_taken(self) -> None:
        """Log whether a leader has taken this process; if none has, again every minute until one does."""
        now = self._clock.monotonic_ms()
        if self._is_taken or now < self._next_look_ms:
            return
        self._next_look_ms = now + TAKEN_WITHIN_MS
        try:
            reading = bus.read_document(bus.CLUSTER_KEY)
        except redis.RedisError:
            # the failed heartbeat has said so
            return
        known = reading.document["taskmanagers"] if reading.document else []
        self._is_taken = any(entry["id"] == self.identity.id for entry in known)
        if self._is_taken:
            logger.info("the JobManager has taken TaskManager %s", self.identity.id)
            return
        if now < self._next_reminder_ms:
            return
        self._next_reminder_ms = now + UNTAKEN_REPEAT_MS
        if reading.beat_age_ms is None or reading.beat_age_ms > LEADING_MS:
            logger.warning("TaskManager %s waits: no JobManager leads", self.identity.id)
        else:
            logger.warning(
                "the JobManager has not taken TaskManager %s, so its slots are not used: TIDEMARK_CLUSTER_KEY (where "
                "it is not set, TIDEMARK_SECRET_KEY) has probably another value here; the JobManager's log tells",
                self.identity.id,
            )

    def _ended_by_defect(self) -> bool:
        cause = self._defect()
        if cause is None:
            return False
        # otherwise the leader would notice only ten seconds later, and grant these slots until then
        self._tell({"type": "gone", "taskmanager": self.identity.id, "cause": cause})
        self._die(cause)
        return True

    def _defect(self) -> str | None:
        cause = self._session_defect()
        if cause is not None:
            return cause
        since = self._unanswered_since_ms
        if since is not None and self._clock.monotonic_ms() - since > PING_TIMEOUT_MS:
            return f"no command has arrived for {PING_TIMEOUT_MS / 1000:g} s"
        return None

    # --- small things -------------------------------------------------------------------------------------------------

    def _accepts(self, epoch: int) -> bool:
        """Return whether the command's leader is the newest one known."""
        if epoch < self._epoch:
            logger.warning("a command of epoch %d was refused: %d leads", epoch, self._epoch)
            return False
        self._epoch = epoch
        return True

    def _stage_ended(self, key: tuple[str, int, int], error: str | None) -> None:
        if error is None or not self._ended_by_defect():
            self._tell_end(key, error)

    def _tell_end(self, key: tuple[str, int, int], error: str | None) -> None:
        job_id, attempt, stage = key
        logger.info("job %s, attempt %d: stage %d ended: %s", job_id, attempt, stage, error or "normally")
        event = {"type": "stage_ended", "job": job_id, "attempt": attempt, "stage": stage, "error": error}
        if not self._tell(event):
            self._untold.append(event)
        with self._lock:
            # after the event: a heartbeat without the stage must not overtake it
            self._running.discard(key)
            self._ended.notify_all()

    def _tell(self, event: dict[str, Any]) -> bool:
        try:
            bus.post_event(event)
        except redis.RedisError as error:
            logger.warning("the leader could not be notified: %s", error)
            return False
        return True


def _has_jobmanager() -> bool:
    try:
        return bool(bus.jobmanagers())
    except redis.RedisError:
        return False


def hardware() -> dict[str, int]:
    """Return the CPU cores, and the memory in bytes, of this machine; Linux only, else zeros."""
    page = os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu_cores": os.cpu_count() or 0,
        "physical_memory": page * os.sysconf("SC_PHYS_PAGES"),
        "free_memory": page * os.sysconf("SC_AVPHYS_PAGES"),
    }


def _group(job_id: str, attempt: int, stage: int) -> str:
    return f"{job_id}-{attempt}-{stage}"
