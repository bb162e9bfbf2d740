"""ResourceManager: the TaskManagers known to the leader, and the jobs' stages on them.

The jobmanager's loop passes on what TaskManagers report; the jobs' drivers, each on its own thread, request slots.
SlotPool decides; this module has the lock, the commands and the callbacks. Nothing is called with the lock held.
Source: Flink, ResourceManager, FineGrainedSlotManager.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kombu.exceptions import OperationalError

from backend.cluster import commands
from backend.cluster.commands import SendCommand
from backend.cluster.leader_machine import JobOnDraining
from backend.cluster.slot_pool import SlotPool, SlotRequest, Stage, StageKey
from runtime.core.clock import Clock
from runtime.core.ids import Attempt

logger = logging.getLogger(__name__)

#: heartbeats come every second; a JVM starting on a loaded machine can delay several of them
TASKMANAGER_TIMEOUT_MS = 10_000
#: a deployment that has not become a stage by then was lost, or has expired
DEPLOY_TIMEOUT_MS = 1000 * commands.DEPLOY_EXPIRY_S + 5_000
#: a deployment is sent so often before its attempt fails: a broker that was emptied has lost it
MAX_DEPLOYMENTS = 3
#: interval of repeating the command to end stages; Spark takes up to 4 s to end one
END_RETRY_MS = 5_000


class JobSlots(Protocol):
    """Callbacks of a job."""

    def granted(self, request: SlotRequest, stages: Sequence[Stage]) -> None:
        """Handle granted slots; any thread."""

    def stage_ended(self, stage: Stage, error: str | None) -> None:
        """Handle the end of one of the job's stages; any thread."""


@dataclass(slots=True)
class KnownTaskManager:
    """A TaskManager that sends heartbeats."""

    id: str
    worker_name: str
    slots: int
    report: Mapping[str, Any]
    """Its description of itself in the last heartbeat."""
    heard_ms: float
    """Time of the last heartbeat, monotonic ms."""
    heard_at: int
    """Time of the last heartbeat, epoch ms."""
    evicts_at_ms: float | None = None
    """While it drains, when jobs must leave even if there are no other slots for them, monotonic ms; else None."""
    seen: set[StageKey] = field(default_factory=set)
    """Stages that it last reported as running."""
    orphans_ms: dict[StageKey, float] = field(default_factory=dict)
    """Those of them that no job has → time of the last command to end them, monotonic ms."""


@dataclass(slots=True)
class _Deployment:
    """A command that is on its way."""

    arguments: dict[str, Any]
    is_sent: bool = True
    """False: the broker has not taken it."""
    count: int = 0
    """How often the broker has taken it."""


@dataclass(frozen=True, slots=True)
class SlotCounts:
    """Slots of the cluster, counted."""

    free: int
    total: int
    """Of TaskManagers that stay."""
    held: Mapping[str, tuple[int, int]]
    """Job → number of its slots on TaskManagers that stay, and on those that are draining."""
    lacking: Mapping[str, tuple[int, bool]]
    """Job → number of slots that it lacks, and whether it has had them before."""


class ResourceManager:
    """Grants slots to jobs.

    Args:
        epoch: the leader's epoch, sent with every command.
        clock: for timeouts.
        send: sends a command to a worker: (worker, task, expiry in s, arguments).
        may_grant: returns whether slots may be granted now; any thread.
    """

    def __init__(
        self,
        epoch: int,
        clock: Clock,
        send: SendCommand = commands.send,
        may_grant: Callable[[], bool] = lambda: True,
    ) -> None:
        self._send = send
        self._may_grant = may_grant
        self._epoch = epoch
        self._clock = clock
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._pool = SlotPool()
        self._jobs: dict[str, JobSlots] = {}
        self._taskmanagers: dict[str, KnownTaskManager] = {}
        self._planned_ms: dict[StageKey, float] = {}
        #: what was sent for stages that no heartbeat has named yet
        self._deployments: dict[StageKey, _Deployment] = {}
        #: stages that jobs go on with, of TaskManagers that this leader has not heard of yet, by TaskManager
        self._adopted: dict[str, list[Stage]] = {}
        #: when they were adopted, monotonic ms: reports from before may be older than these stages
        self._adopted_ms = float("-inf")
        #: stages of attempts that are over → time of the last command to end them, monotonic ms
        self._ending_ms: dict[StageKey, float] = {}

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def attach(self, job_id: str, job: JobSlots) -> None:
        """Register a job's callbacks."""
        with self._lock:
            self._jobs[job_id] = job

    def detach(self, job_id: str) -> None:
        """Unregister a job that has ended."""
        with self._lock:
            self._jobs.pop(job_id, None)
        self.withdraw(job_id)

    def adopt(self, stages: Iterable[Stage]) -> None:
        """Have jobs go on with these stages of an earlier leader and no others; before any TaskManager is heard."""
        with self._lock:
            self._adopted_ms = self._clock.monotonic_ms()
            self._adopted.clear()
            for stage in stages:
                self._adopted.setdefault(stage.taskmanager, []).append(stage)

    def disown(self, job_id: str) -> None:
        """Disown and end this job's stages: it starts over or has ended."""
        with self._lock:
            self._disown(lambda stage: stage.key.job_id == job_id)
            for stage in self._pool.stages(job_id):
                self._forget(stage.key)
            # nor are any slots kept for it
            self._pool.withdraw(job_id)
        self._serve()

    def request(self, request: SlotRequest) -> None:
        """Request slots; `granted` is called at once or much later."""
        with self._lock:
            self._pool.request(request)
        self._serve()

    def request_instead(self, request: SlotRequest) -> None:
        """Replace a request of the same attempt, unless that has been granted or withdrawn."""
        with self._lock:
            if self._pool.is_waiting(request.job_id, request.attempt):
                self._pool.request(request)
        self._serve()

    def withdraw(self, job_id: str, attempt: Attempt | None = None) -> None:
        """Withdraw the requests of a job, or of one of its attempts; slots kept for it become free for others."""
        with self._lock:
            self._pool.withdraw(job_id, attempt)
        self._serve()

    def deploy(self, stage: Stage, deployment: dict[str, Any]) -> None:
        """Deploy a granted stage. Where the broker does not take the command, each heartbeat sends it again, until the
        job gives the attempt up.
        """
        with self._lock:
            self._deployments[stage.key] = _Deployment(deployment)
        self._send_deployment(stage)

    def _send_deployment(self, stage: Stage) -> bool:
        """Return whether the broker has taken it, or it is not wanted any more."""
        worker = self._worker_of(stage)
        with self._lock:
            sent = self._deployments.get(stage.key)
        if sent is None:
            return True
        if worker is None:
            self.stage_ended(stage.key, f"it could not be deployed: TaskManager {stage.taskmanager} is gone")
            return True
        try:
            self._send(
                worker,
                commands.DEPLOY_TASK,
                commands.DEPLOY_EXPIRY_S,
                epoch=self._epoch,
                job_id=stage.key.job_id,
                attempt=stage.key.attempt,
                stage=stage.key.stage,
                slots=list(stage.slots),
                **sent.arguments,
            )
        except (OperationalError, OSError) as error:
            logger.warning("stage %s could not be deployed yet: %s", stage.key, error)
            with self._lock:
                sent.is_sent = False
                is_given_up = stage.key not in self._deployments and not sent.count
            if is_given_up:
                self.stage_ended(stage.key, "it was not deployed")
            return False
        sent.is_sent, sent.count = True, sent.count + 1
        with self._lock:
            if stage.key in self._planned_ms:
                self._planned_ms[stage.key] = self._clock.monotonic_ms()
        return True

    def end_attempt(self, job_id: str, attempt: Attempt, regions: Collection[int] | None = None) -> None:
        """End the stages of an attempt, or of some of its regions; `stage_ended` follows."""
        by_worker: dict[str, list[int]] = {}

        def is_over(stage: Stage) -> bool:
            is_of_attempt = stage.key.job_id == job_id and stage.key.attempt == attempt
            return is_of_attempt and (regions is None or stage.region in regions)

        unsent: list[StageKey] = []
        with self._lock:
            self._disown(is_over)
            for stage in self._pool.stages(job_id):
                known = self._taskmanagers.get(stage.taskmanager)
                if is_over(stage) and known is not None:
                    self._ending_ms[stage.key] = self._clock.monotonic_ms()
                    by_worker.setdefault(known.worker_name, []).append(stage.key.stage)
                    deployment = self._deployments.pop(stage.key, None)
                    if deployment is not None and not (deployment.is_sent or deployment.count):
                        unsent.append(stage.key)
        for key in unsent:
            # if it has arrived all the same, a heartbeat tells
            self.stage_ended(key, "it was not deployed")
        for worker, stages in by_worker.items():
            self._end(worker, job_id, attempt, None if regions is None else stages)

    def kill(self, job_id: str, processes: Sequence[tuple[str, str, int]]) -> None:
        """Kill slots' processes, given as (TaskManager, host, pid), with SIGKILL."""
        for name in {name for name, _, _ in processes}:
            known = self._taskmanagers.get(name)
            if known is not None:
                targets = [[host, pid] for of, host, pid in processes if of == name]
                self._command(known.worker_name, commands.KILL_TASK, commands.DEPLOY_EXPIRY_S, processes=targets)

    def give_back(self, stage: Stage) -> None:
        """Return a granted stage that was never deployed."""
        with self._lock:
            self._forget(stage.key)
        self._serve()

    def wait_until_free(self, job_id: str, timeout_s: float) -> None:
        """Wait until the job has no stages left; after a timeout their slots stay taken until they report their end."""
        with self._changed:
            self._changed.wait_for(lambda: not self._pool.stages(job_id), timeout_s)

    def shortage(self, job_id: str, least: int | None = None) -> str:
        """Return a message on what a waiting job lacks; empty if it does not wait.

        Args:
            job_id: the job.
            least: number of slots in all with which it would run; None: as many as it has requested.
        """
        with self._lock:
            return self._pool.shortage(job_id, least)

    def is_waiting(self, job_id: str) -> bool:
        """Return whether the job has requested slots that are not granted yet."""
        with self._lock:
            return self._pool.is_waiting(job_id)

    def claim(self, claims: Mapping[str, int]) -> None:
        """Keep that many slots in all for each of these jobs, and grant the others what they may have."""
        with self._lock:
            self._pool.claim(claims)
        self._serve()

    def slots(self) -> SlotCounts:
        """Return the number of free slots, and how many each job holds and lacks."""
        with self._lock:
            jobs = {stage.key.job_id for stage in self._pool.stages()}
            held = {job_id: self._pool.held(job_id) for job_id in jobs}
            return SlotCounts(self._pool.free, self._pool.total, held, self._pool.lacking())

    def runs(self, job_id: str) -> bool:
        """Return whether stages of a job run, or were there when their TaskManager was last heard."""
        with self._lock:
            reported = [key for known in self._taskmanagers.values() for key in known.seen]
            return any(key.job_id == job_id for key in [*reported, *(stage.key for stage in self._pool.stages())])

    # --- what TaskManagers report -------------------------------------------------------------------------------------

    def heartbeat(
        self, report: Mapping[str, Any], running: Sequence[tuple[str, int, int]], now: int, age_ms: float = 0.0
    ) -> bool:
        """Handle a heartbeat of a TaskManager.

        Args:
            report: its description: "id", "worker_name", "slots", "number" of the heartbeat, "evicts_in_ms" while it
                drains, and fields that are only displayed.
            running: (job, attempt, stage) of each of its stages.
            now: epoch ms.
            age_ms: time since the TaskManager sent it.

        Returns:
            Whether the TaskManager is new.
        """
        name, stages = report["id"], {StageKey(job, Attempt(a), s) for job, a, s in running}
        with self._lock:
            known = self._taskmanagers.get(name)
            is_new = known is None
            number = report.get("number", 0)
            if known is not None and number < known.report.get("number", 0):
                # a later one has overtaken it: the stages that it lacks may have begun since
                return False
            if known is None:
                known = KnownTaskManager(name, report["worker_name"], report["slots"], report, 0.0, 0)
                self._taskmanagers[name] = known
                self._pool.add(name, known.slots)
                for stage in self._adopted.pop(name, ()):
                    self._pool.place(stage)
            known.report, known.heard_ms, known.heard_at = report, self._clock.monotonic_ms() - age_ms, now
            evicts_in_ms = report.get("evicts_in_ms")
            if evicts_in_ms is not None and known.evicts_at_ms is None:
                logger.info("TaskManager %s is draining: it gets no more slots", name)
                known.evicts_at_ms = known.heard_ms + evicts_in_ms
                self._pool.drain(name)
            missing, unsent = self._missing(known, stages)
            expected = {stage.key for stage in self._pool.stages(taskmanager=name)}
            known.seen = stages
            orphans = self._due_orphans(known, stages - expected)
            hanging = self._hanging(stages)
        if is_new:
            # an earlier leader may wake up, and not know yet that it does not lead
            self._command(known.worker_name, commands.LEAD_TASK, commands.DEPLOY_EXPIRY_S)
        for key, why in missing:
            self.stage_ended(key, why)
        for stage in unsent:
            if not self._send_deployment(stage):
                # the others would wait in vain, too
                break
        for (job, attempt), orphaned in orphans.items():
            logger.info("ending orphaned stages %s of attempt %s of job %s", orphaned, attempt, job)
            self._end(known.worker_name, job, attempt, orphaned)
        for key in hanging:
            logger.info("ending stage %s once more", key)
            self._end(known.worker_name, key.job_id, key.attempt, [key.stage])
        self._serve()
        return is_new

    def stage_ended(self, key: StageKey, error: str | None) -> None:
        """Handle the end of a stage; repeated calls are ignored."""
        with self._lock:
            stage = self._forget(key)
            job = self._jobs.get(key.job_id)
        if stage is not None:
            if job is not None:
                job.stage_ended(stage, error)
            self._serve()

    def remove(self, name: str, cause: str) -> bool:
        """Remove a TaskManager that is gone, with its stages. Return whether it was known."""
        with self._lock:
            known = self._taskmanagers.pop(name, None)
            stages = self._pool.remove(name)
            jobs = [(stage, self._jobs.get(stage.key.job_id)) for stage in stages]
            for stage in stages:
                self._planned_ms.pop(stage.key, None)
                self._ending_ms.pop(stage.key, None)
                self._deployments.pop(stage.key, None)
            self._changed.notify_all()
        for stage, job in jobs:
            if job is not None:
                job.stage_ended(stage, cause)
        return known is not None

    def silent(self, read_until_ms: float) -> list[str]:
        """Return the TaskManagers whose heartbeat has timed out.

        Args:
            read_until_ms: all that they have reported up to this monotonic time is handled. Later silence only means
            that the leader has not read.
        """
        deadline = read_until_ms - TASKMANAGER_TIMEOUT_MS
        with self._lock:
            return [known.id for known in self._taskmanagers.values() if known.heard_ms < deadline]

    def renew_all(self) -> None:
        """Restart all heartbeat timeouts, because the bus was away and no heartbeat could arrive."""
        now = self._clock.monotonic_ms()
        with self._lock:
            for known in self._taskmanagers.values():
                known.heard_ms = now

    def on_draining(self) -> list[JobOnDraining]:
        """Return the jobs with slots on TaskManagers that are draining."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            evicting = [
                t.id for t in self._taskmanagers.values() if t.evicts_at_ms is not None and now_ms >= t.evicts_at_ms
            ]
            evicted = {stage.key.job_id for name in evicting for stage in self._pool.stages(taskmanager=name)}
            slots = self._pool.slots_on_draining()
            return [JobOnDraining(job, count, self._pool.free_for(job), job in evicted) for job, count in slots.items()]

    def taskmanagers(self) -> list[tuple[KnownTaskManager, int]]:
        """Return all TaskManagers with their free slots."""
        with self._lock:
            return [(known, self._pool.free_of(known.id)) for known in self._taskmanagers.values()]

    # --- small things -------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        if not self._may_grant():
            # nothing could be deployed; the next heartbeat asks again
            return
        with self._lock:
            granted = [(r, stages, self._jobs.get(r.job_id)) for r, stages in self._pool.grant()]
            now = self._clock.monotonic_ms()
            self._planned_ms.update({stage.key: now for _, stages, _ in granted for stage in stages})
        for request, stages, job in granted:
            if job is None:
                for stage in stages:
                    self.give_back(stage)
            else:
                job.granted(request, stages)

    def _disown(self, is_over: Callable[[Stage], bool]) -> None:
        for name, stages in self._adopted.items():
            self._adopted[name] = [stage for stage in stages if not is_over(stage)]

    def _forget(self, key: StageKey) -> Stage | None:
        self._planned_ms.pop(key, None)
        self._ending_ms.pop(key, None)
        self._deployments.pop(key, None)
        stage = self._pool.release(key)
        self._changed.notify_all()
        return stage

    def _missing(
        self, known: KnownTaskManager, running: set[StageKey]
    ) -> tuple[list[tuple[StageKey, str]], list[Stage]]:
        """Return stages that should run there but do not: the report of their end was lost; and those whose deployment
        is to be sent again.
        """
        if known.heard_ms < self._adopted_ms:
            return [], []
        overdue = self._clock.monotonic_ms() - DEPLOY_TIMEOUT_MS
        missing: list[tuple[StageKey, str]] = []
        unsent: list[Stage] = []
        for stage in self._pool.stages(taskmanager=known.id):
            sent = self._deployments.get(stage.key)
            if stage.key in running:
                self._deployments.pop(stage.key, None)
            elif stage.key in known.seen:
                missing.append((stage.key, "its TaskManager does not run it any more"))
            elif sent is not None and not sent.is_sent:
                unsent.append(stage)
            elif self._planned_ms.get(stage.key, overdue) <= overdue:
                if sent is not None and sent.count < MAX_DEPLOYMENTS:
                    unsent.append(stage)
                else:
                    missing.append((stage.key, "its deployment did not arrive"))
        return missing, unsent

    def _hanging(self, running: set[StageKey]) -> list[StageKey]:
        """Return the stages that still run long after the command to end them, which may have been lost."""
        now = self._clock.monotonic_ms()
        hanging = [key for key, told_ms in self._ending_ms.items() if key in running and now - told_ms >= END_RETRY_MS]
        self._ending_ms |= dict.fromkeys(hanging, now)
        return hanging

    def _due_orphans(self, known: KnownTaskManager, orphans: set[StageKey]) -> dict[tuple[str, Attempt], list[int]]:
        """Return the stages without a job that are to be told to end, by job and attempt.

        They are named: a heartbeat may be older than the end of a stage, whose siblings of the same attempt run on.
        """
        now = self._clock.monotonic_ms()
        told = {key: known.orphans_ms.get(key, -END_RETRY_MS) for key in sorted(orphans, key=str)}
        due: dict[tuple[str, Attempt], list[int]] = {}
        for key, told_ms in told.items():
            if now - told_ms >= END_RETRY_MS:
                told[key] = now
                due.setdefault((key.job_id, key.attempt), []).append(key.stage)
        known.orphans_ms = told
        return due

    def _worker_of(self, stage: Stage) -> str | None:
        with self._lock:
            known = self._taskmanagers.get(stage.taskmanager)
            return None if known is None else known.worker_name

    def _end(self, worker_name: str, job_id: str, attempt: Attempt, stages: Sequence[int] | None = None) -> None:
        # commands for a whole attempt omit "stages", so that every TaskManager understands them
        only = {} if stages is None else {"stages": list(stages)}
        self._command(worker_name, commands.END_TASK, commands.END_EXPIRY_S, job_id=job_id, attempt=attempt, **only)

    def _command(self, worker_name: str, task: str, expires_s: float, **arguments: Any) -> None:
        try:
            self._send(worker_name, task, expires_s, epoch=self._epoch, **arguments)
        except (OperationalError, OSError) as error:
            # harmless: slots end by themselves when their control stream or lease ends
            logger.warning("a command could not be sent: %s", error)
