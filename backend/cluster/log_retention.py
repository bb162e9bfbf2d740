"""LogRetention: has threads delete the logs that are not kept, beside the leader's loop.

Of a job the logs of the newest attempts are kept, and of those that a region still runs in, and of all these no more
than a quota, which is looked at when the job has written a part of it (`log_quota`). The logs of a job without a
row are deleted, once two looks an hour apart have found none: a database that was restored may not have it yet. What
fails is told in the process's log, and repeated. Deletes only while the leader's lease is valid: another leader knows
of attempts that this one does not. Used by the leader's loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Final

from backend.cluster.background import BackgroundWork
from backend.cluster.job_store import JobStore
from backend.cluster.leadership import ActingNotAllowedError, check_may_act
from backend.cluster.log_files import delete_attempts, delete_job, marked_jobs
from backend.cluster.log_quota import trim
from runtime.core.clock import Clock

logger = logging.getLogger(__name__)

LOOK_MS: Final = 3_600_000.0
"""Interval of looks at the logs of all jobs. Shorter: the storage lists all directories for nothing; longer: logs
of jobs that are gone stay longer."""
RETRY_MS: Final = 60_000.0
"""Pause after a deletion that failed."""


def growth_of(quota: int) -> int:
    """Return after how many written bytes a job's quota is looked at again: by so much it may be exceeded meanwhile."""
    return max(1 << 20, quota // 16)


class LogRetention:
    """The logs of one cluster.

    Args:
        root: the directory of all jobs' logs.
        kept_attempts: number of attempts of a job whose logs are kept; at least 1.
        store: tells which jobs there are.
        may_act: returns whether the leader's lease is valid; may raise LeadershipLostError. Called by any thread.
        clock: for pauses.
        quota: bytes that the logs of a job may have; 0: any number.
        tell: called by a thread with job, newest attempt and text when the quota has cost a running job logs.
    """

    def __init__(
        self,
        root: Path,
        kept_attempts: int,
        store: JobStore,
        may_act: Callable[[], bool],
        clock: Clock,
        quota: int = 0,
        tell: Callable[[str, int, str], None] = lambda _, __, ___: None,
    ) -> None:
        self._root = root
        self._quota = quota
        self._tell = tell
        #: "" before the first poll
        self._cluster_id = ""
        self._kept_attempts = kept_attempts
        self._store = store
        self._may_act = may_act
        self._clock = clock
        self._work = BackgroundWork("log-retention")
        #: running job → its attempt when its logs were last thought of
        self._running: dict[str, int] = {}
        #: job whose logs are to be looked at → its newest attempt; None: it has no row, and all are to be deleted
        self._wanted: dict[str, int | None] = {}
        #: what is being looked at, with the same
        self._busy: dict[str, tuple[Future[None], int | None]] = {}
        #: job → monotonic ms before which it is not tried again
        self._pauses: dict[str, float] = {}
        self._look_due_ms = 0.0
        self._look: Future[list[str]] | None = None
        #: jobs without a row at the last look
        self._missing: set[str] = set()

    def poll(self, running: Mapping[str, int], grown: Iterable[str] = ()) -> None:
        """Begin what is due; waits for no storage.

        Args:
            running: job that runs → its newest attempt.
            grown: jobs that have written so much that the quota is to be looked at.
        """
        now_ms = self._clock.monotonic_ms()
        self._cluster_id = self._cluster_id or self._store.cluster_id()
        for job_id in self._running.keys() - running.keys():
            # it has ended, and may have written its first lines only now
            self._wanted[job_id] = self._running.pop(job_id)
        for job_id, attempt in running.items():
            if self._running.get(job_id) != attempt:
                self._running[job_id] = self._wanted[job_id] = attempt
        for job_id in grown if self._quota else ():
            if job_id in running:
                self._wanted[job_id] = running[job_id]
        if now_ms >= self._look_due_ms:
            self._look_due_ms = now_ms + LOOK_MS
            self._wanted |= self._store.attempts()
            if self._look is None:
                self._look = self._work.submit(lambda: marked_jobs(self._root, self._cluster_id), "look")
        self._hear_look()
        self._hear(now_ms)
        self._begin(now_ms)

    def close(self) -> None:
        """Begin no further deletions; the next leader looks at all logs."""
        self._work.close()

    def _hear_look(self) -> None:
        """Note which jobs had no row at two looks."""
        if self._look is None or not self._look.done():
            return
        look, self._look = self._look, None
        try:
            marked = look.result()
        except OSError as error:
            logger.warning("logs of jobs without a row cannot be looked for: %s", error)
            return
        missing = self._store.without_row(marked)
        self._wanted |= dict.fromkeys(missing & self._missing)
        self._missing = missing

    def _hear(self, now_ms: float) -> None:
        for job_id, (done, attempt) in list(self._busy.items()):
            if not done.done():
                continue
            del self._busy[job_id]
            error = done.exception()
            if error is None:
                self._pauses.pop(job_id, None)
                continue
            self._pauses[job_id] = now_ms + RETRY_MS
            self._wanted.setdefault(job_id, attempt)
            if not isinstance(error, ActingNotAllowedError):
                logger.warning("logs of job %s could not be deleted, and will be: %s", job_id, error)

    def _begin(self, now_ms: float) -> None:
        due = [job_id for job_id in self._wanted if job_id not in self._busy]
        due = [job_id for job_id in due if self._pauses.get(job_id, now_ms) <= now_ms]
        # of all jobs at once: a leader looks at thousands when it begins
        in_use = self._store.attempts_in_use() if due else {}
        for job_id in due:
            attempt = self._wanted[job_id]
            try:
                begun = self._work.submit(self._work_on(job_id, attempt, in_use.get(job_id, set())))
            except RuntimeError as error:
                logger.warning("logs cannot be looked at: %s", error)
                return
            del self._wanted[job_id]
            self._busy[job_id] = begun, attempt

    def _work_on(self, job_id: str, attempt: int | None, in_use: Collection[int]) -> Callable[[], None]:
        if attempt is None:
            return lambda: delete_job(self._root, job_id, self._cluster_id, self._check_may_act)
        oldest = attempt - self._kept_attempts + 1
        is_running = job_id in self._running

        def work() -> None:
            delete_attempts(self._root, job_id, self._cluster_id, oldest, in_use, self._check_may_act)
            if self._quota:
                self._trim(job_id, attempt, in_use, is_running)

        return work

    def _trim(self, job_id: str, newest: int, in_use: Collection[int], is_running: bool) -> None:
        """Keep to the quota, and say what it has cost."""
        trimmed = trim(self._root, job_id, self._quota, lambda of: of >= newest or of in in_use, self._check_may_act)
        if trimmed is None:
            return
        first, last = trimmed.attempts[0], trimmed.attempts[-1]
        attempts = f"attempt {first}" if first == last else f"attempts {first} to {last}"
        text = (
            f"the logs of this job had more than {_mib(self._quota)} (TIDEMARK_JOB_LOGS_MIB): the oldest "
            f"{_mib(trimmed.size)}, of {attempts}, were deleted; {_mib(trimmed.left)} are left"
        )
        logger.warning("job %s: %s", job_id, text)
        if is_running:
            self._tell(job_id, newest, text)

    def _check_may_act(self) -> None:
        check_may_act(self._may_act)


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
