"""RowRetention: deletes rows of jobs that have ended and of operations that are answered, beyond those that are kept.

Kept are the jobs that ended last; of those with snapshots, which somebody may want to restore, as many again. Never
deleted is a job that has not ended or ended within the hour, whose checkpoints are not cleared up, which has an
operation without an answer, or which something refers to: a deployment that is under way, or a job that was started
from a snapshot of it and has not ended. The savepoints of a job that has not ended stay: by them it is known that the
job goes on, and that nobody may claim them. Deleted with a job are its failures, checkpoints, statistics, decisions
and operations; files of snapshots stay where they are, logs are deleted by `log_retention`. Derived from the rows at
every look; each deletion is a transaction that holds the leader's epoch. Used by the leader's loop; the decisions are
pure.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import Count, F, Q

from backend.cluster.leadership import Leadership
from backend.cluster.models import TERMINAL_STATES, Checkpoint, Job, Operation
from backend.cluster.snapshot_users import SnapshotUses, lock_snapshots
from runtime.core.clock import Clock

logger = logging.getLogger(__name__)

LOOK_MS: Final = 60_000.0
"""Interval of looks. Shorter: queries over all rows for nothing; longer: a burst of jobs stays longer."""
MAX_JOBS_AT_ONCE: Final = 50
"""Jobs deleted by one transaction, with some hundred rows each: the lease cannot be renewed meanwhile."""
MAX_OPERATIONS_AT_ONCE: Final = 500
KEPT_OPERATIONS: Final = 100
"""Answered operations of a job, or of no job, besides savepoints."""
KEPT_SAVEPOINTS: Final = 200
"""Savepoints of a job that has ended: as many as the page lists."""
ANSWERS_KEPT_MS: Final = 3_600_000
"""An answer stays so long whatever follows: whoever has asked may still ask for it. Flink keeps it for five minutes."""
SNAPSHOTS: Final = (Operation.Kind.SAVEPOINT, Operation.Kind.STOP)


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job that has ended and could be deleted.

    Attributes:
        id: its id.
        has_snapshots: whether its rows name snapshots that are not known to be gone.
    """

    id: str
    has_snapshots: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """An operation of a job, or of none, that is answered.

    Attributes:
        id: trigger id.
        follows: trigger id of the operation whose result it shares.
        is_snapshot: whether it has taken a savepoint that is not known to be gone.
        may_go: whether it was answered long enough ago.
    """

    id: str
    follows: str | None
    is_snapshot: bool
    may_go: bool


def jobs_to_delete(ended: Iterable[EndedJob], kept: int, needed: Collection[str]) -> list[str]:
    """Return the jobs that are to be deleted, oldest first.

    Args:
        ended: those that ended last first.
        kept: number of jobs without snapshots that are kept, and of those with.
        needed: jobs that stay; they count as well.
    """
    counts = {False: 0, True: 0}
    found = []
    for job in ended:
        counts[job.has_snapshots] += 1
        if counts[job.has_snapshots] > kept and job.id not in needed:
            found.append(job.id)
    return found[::-1]


def operations_to_delete(answered: Sequence[Answered]) -> list[str]:
    """Return the operations of one job that are to be deleted, none of which one that stays follows.

    Args:
        answered: newest first.
    """
    limits = {False: KEPT_OPERATIONS, True: KEPT_SAVEPOINTS}
    counts = {False: 0, True: 0}
    found: dict[str, None] = {}
    for row in answered:
        counts[row.is_snapshot] += 1
        if counts[row.is_snapshot] > limits[row.is_snapshot] and row.may_go:
            found[row.id] = None
    followed = {row.follows for row in answered if row.id not in found}
    return [trigger_id for trigger_id in reversed(found) if trigger_id not in followed]


class RowRetention:
    """The rows of one cluster.

    Args:
        leadership: fences all writes.
        kept_jobs: see `jobs_to_delete`.
        needed_elsewhere: returns jobs that apps above this one refer to.
        clock: for the interval, and the ages of answers.
    """

    def __init__(
        self,
        leadership: Leadership,
        kept_jobs: int,
        needed_elsewhere: Callable[[], Collection[str]],
        clock: Clock,
    ) -> None:
        self._leadership = leadership
        self._kept_jobs = kept_jobs
        self._needed_elsewhere = needed_elsewhere
        self._clock = clock
        self._look_due_ms = 0.0

    def poll(self, running: Collection[str]) -> None:
        """Delete what is due; at most so much at once that the next look is not far.

        Args:
            running: jobs that have a runner here: some of them may have ended a moment ago.
        """
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._look_due_ms:
            return
        # one transaction at each poll: other work of the leader comes between
        self._look_due_ms = now_ms + LOOK_MS if self.delete(running) else now_ms

    def delete(self, running: Collection[str] = ()) -> bool:
        """Delete some of what is due; return whether that was all.

        Args:
            running: see `poll`.

        Raises:
            LeadershipLostError: another jobmanager leads.
        """
        self._forget_disposed()
        is_all = self._delete_operations()
        return self._delete_jobs(running) and is_all

    def _delete_jobs(self, running: Collection[str]) -> bool:
        """Return whether there are no more to be deleted."""
        if Job.objects.filter(state__in=TERMINAL_STATES).count() <= self._kept_jobs:
            return True
        due = self._due_jobs(running)
        if not due:
            return True
        batch = due[:MAX_JOBS_AT_ONCE]
        with self._leadership.fenced():
            # what was found was found outside of the transaction: meanwhile a job may have started from a snapshot
            lock_snapshots()
            found = set(batch) - _needed_by_rows() - set(self._needed_elsewhere())
            # only the ids: graphs and documents are large
            rows = Job.objects.filter(id__in=found, state__in=TERMINAL_STATES, may_have_leftovers=False).only("pk")
            deleted = rows.delete()[1].get(Job._meta.label, 0)
        logger.info("deleted the rows of %d jobs that ended long ago", deleted)
        return len(due) <= len(batch)

    def _due_jobs(self, running: Collection[str]) -> list[str]:
        ended = Job.objects.filter(state__in=TERMINAL_STATES)
        ids = list(ended.order_by(F("ended_at").desc(nulls_last=True), "-id").values_list("id", flat=True))
        fresh = ended.filter(ended_at__gte=self._clock.now_ms() - ANSWERS_KEPT_MS).values_list("id", flat=True)
        with_snapshots = _jobs_with_snapshots()
        needed = {*running, *fresh, *self._needed_elsewhere(), *_needed_by_rows()}
        return jobs_to_delete((EndedJob(name, name in with_snapshots) for name in ids), self._kept_jobs, needed)

    def _delete_operations(self) -> bool:
        """Return whether there are no more to be deleted."""
        done = Operation.objects.filter(state=Operation.State.COMPLETED)
        is_taken = Q(kind__in=SNAPSHOTS, result__location__isnull=False)
        done = done.exclude(pk__in=done.filter(is_taken).exclude(job__state__in=TERMINAL_STATES).values("pk"))
        many = done.values("job_id").annotate(number=Count("pk")).filter(number__gt=KEPT_OPERATIONS)
        limit_ms = self._clock.now_ms() - ANSWERS_KEPT_MS
        due: list[str] = []
        for job_id in list(many.values_list("job_id", flat=True)):
            rows = done.filter(job_id=job_id).order_by("-created_at", "-pk")
            found = rows.values_list("trigger_id", "follows_id", "kind", "result", "finished_at")
            due += operations_to_delete(
                [
                    Answered(trigger_id, follows, _location(kind, result) is not None, (finished or 0) < limit_ms)
                    for trigger_id, follows, kind, result, finished in found
                ]
            )
        if not due:
            return True
        batch = due[:MAX_OPERATIONS_AT_ONCE]
        with self._leadership.fenced():
            done.filter(trigger_id__in=batch).delete()
        logger.info("deleted %d operations that were answered long ago", len(batch))
        return len(due) <= len(batch)

    def _forget_disposed(self) -> None:
        """Delete the rows that name snapshots that were disposed of, and of the disposals, once their answer is old."""
        limit_ms = self._clock.now_ms() - ANSWERS_KEPT_MS
        done = Operation.objects.filter(state=Operation.State.COMPLETED)
        old = done.filter(kind=Operation.Kind.DISPOSE, finished_at__lt=limit_ms).order_by("created_at")
        gone = {
            trigger_id: str((result or {}).get("location", ""))
            for trigger_id, result in old.values_list("trigger_id", "result")[:MAX_OPERATIONS_AT_ONCE]
        }
        if not gone:
            return
        locations = {location for location in gone.values() if location}
        with self._leadership.fenced():
            # every savepoint has a directory of its own, which no other one is written to later
            done.filter(kind__in=SNAPSHOTS, result__location__in=locations).delete()
            Checkpoint.objects.filter(location__in=locations, job__state__in=TERMINAL_STATES).delete()
            done.filter(trigger_id__in=gone).delete()
        logger.info("forgot %d snapshots that were disposed of", len(locations))


def _location(kind: str, result: object) -> str | None:
    """Return the location of the savepoint that an operation has taken; None: it has taken none."""
    if kind not in SNAPSHOTS or not isinstance(result, dict):
        return None
    return result.get("location")


def _jobs_with_snapshots() -> set[str]:
    """Return the ended jobs whose rows name snapshots."""
    kept = Checkpoint.objects.filter(job__state__in=TERMINAL_STATES).values_list("job_id", flat=True)
    taken = Operation.objects.filter(
        kind__in=SNAPSHOTS, state=Operation.State.COMPLETED, job__state__in=TERMINAL_STATES
    ).filter(result__location__isnull=False)
    return {*kept.distinct(), *(str(job_id) for job_id in taken.values_list("job_id", flat=True).distinct())}


def _needed_by_rows() -> set[str]:
    """Return ended jobs that rows refer to: those with open operations or leftovers, and those of snapshots in use."""
    open_ones = Operation.objects.exclude(state=Operation.State.COMPLETED).exclude(job=None)
    unfinished = Job.objects.filter(state__in=TERMINAL_STATES, may_have_leftovers=True)
    in_use = {start.directory for start in SnapshotUses.read(None).starts}
    taken = Operation.objects.filter(kind__in=SNAPSHOTS, result__location__in=in_use)
    return {
        *(str(job_id) for job_id in open_ones.values_list("job_id", flat=True)),
        *unfinished.values_list("id", flat=True),
        *(str(job_id) for job_id in taken.values_list("job_id", flat=True)),
        *Checkpoint.objects.filter(location__in=in_use).values_list("job_id", flat=True),
    }
