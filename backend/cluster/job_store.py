"""The leader's SQL: claims, saves and take-overs, every one in a transaction that holds the leader's epoch.

Called by the jobmanager's loop only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backend.cluster.leadership import Leadership
from backend.cluster.models import TERMINAL_STATES, Job, JobException, Operation, TaskManager

#: what the leader changes of a job; the rest was written by who submitted it
LEADER_FIELDS = ("state", "state_times", "ended_at", "attempt", "restarts", "waiting_for", "failure", "document")
KEPT_EXCEPTIONS = 100


class JobStore:
    """Reads and writes rows as leader.

    Args:
        leadership: whose writes these are.
    """

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self._epoch = leadership.epoch

    def claim_new(self, now: int) -> list[Job]:
        """Take the jobs that nobody has taken, oldest first; they are CREATED then."""
        candidates = Job.objects.filter(state="INITIALIZING").order_by("created_at").values_list("id", flat=True)
        claimed = []
        for job_id in list(candidates):
            with self._leadership.fenced():
                job = Job.objects.filter(id=job_id, state="INITIALIZING").first()
                if job is None:
                    continue
                job.state_times = job.state_times | {"CREATED": now}
                job.state, job.leader_epoch, job.waiting_for = "CREATED", self._epoch, ""
                taken = Job.objects.filter(id=job_id, state="INITIALIZING").update(
                    state=job.state, state_times=job.state_times, leader_epoch=self._epoch, waiting_for=""
                )
            if taken == 1:
                claimed.append(job)
        return claimed

    def orphans(self) -> list[Job]:
        """Jobs that an earlier leader had taken and that have not ended, oldest first; they are this leader's now."""
        with self._leadership.fenced():
            rows = Job.objects.filter(leader_epoch__gt=0, leader_epoch__lt=self._epoch).exclude(
                state__in=TERMINAL_STATES
            )
            jobs = list(rows.order_by("created_at"))
            rows.update(leader_epoch=self._epoch)
        for job in jobs:
            job.leader_epoch = self._epoch
        return jobs

    def save(self, job: Job, exceptions: Sequence[dict[str, Any]]) -> bool:
        """Write what the leader knows of a job; returns False if a later leader has it.

        Args:
            job: its row.
            exceptions: failures of attempts that this leader ran.
        """
        with self._leadership.fenced():
            values = {name: getattr(job, name) for name in LEADER_FIELDS}
            mine = Job.objects.filter(id=job.id, leader_epoch__lte=self._epoch)
            if mine.update(leader_epoch=self._epoch, **values) != 1:
                return False
            for entry in exceptions:
                JobException.objects.update_or_create(
                    job_id=job.id, attempt=entry["attempt"], defaults={k: v for k, v in entry.items() if k != "attempt"}
                )
            if job.is_terminal:
                self._complete(job)
        return True

    def known_exceptions(self, job: Job) -> list[dict[str, Any]]:
        """Failures of earlier attempts, newest first."""
        names = ("timestamp", "name", "message", "stacktrace", "task_name", "location", "attempt", "suppressed")
        rows = job.exceptions.order_by("-timestamp").values(*names)[:KEPT_EXCEPTIONS]
        return [dict(row) for row in rows]

    def due_operations(self) -> list[Operation]:
        """Operations that nobody carries out yet, and those that an earlier leader had begun."""
        rows = Operation.objects.exclude(state=Operation.State.COMPLETED).select_related("job").defer("job__graph")
        return list(rows.order_by("created_at"))

    def begin(self, operation: Operation) -> bool:
        """Take an operation; False if it was taken."""
        with self._leadership.fenced():
            pending = Operation.objects.filter(trigger_id=operation.trigger_id, state=Operation.State.PENDING)
            return pending.update(state=Operation.State.IN_PROGRESS) == 1

    def complete(self, operation: Operation, result: dict[str, Any], now: int) -> None:
        """An operation is over."""
        with self._leadership.fenced():
            Operation.objects.filter(trigger_id=operation.trigger_id).exclude(state=Operation.State.COMPLETED).update(
                state=Operation.State.COMPLETED, result=result, finished_at=now
            )

    def save_taskmanager(self, row: TaskManager) -> None:
        """A TaskManager has come or changed."""
        row.epoch = self._epoch
        with self._leadership.fenced():
            row.save()

    def taskmanager_gone(self, name: str, state: TaskManager.State, now: int) -> None:
        """A TaskManager has ended or cannot be heard."""
        with self._leadership.fenced():
            TaskManager.objects.filter(id=name).update(state=state, last_heartbeat=now, epoch=self._epoch)

    def forget_taskmanagers(self) -> None:
        """A new leader knows none; those that live report within a second."""
        with self._leadership.fenced():
            TaskManager.objects.filter(state=TaskManager.State.REGISTERED).update(
                state=TaskManager.State.LOST, epoch=self._epoch
            )

    def _complete(self, job: Job) -> None:
        # a cancel that came too late has an answer too
        job.operations.exclude(state=Operation.State.COMPLETED).update(
            state=Operation.State.COMPLETED, result={"state": job.state}, finished_at=job.ended_at
        )
