"""SnapshotDisposal: deletes savepoints and checkpoints outside the jobmanager's loop: slow storage must not block it.

Begun and read by the loop. Threads delete, each only while the leader's lease is valid: a leader that was frozen must
not delete what its successor may have kept. A storage that does not answer holds up only what is on it. Where nothing
is found, and nothing beside it either, the storage may only be away: that is looked at again, and never taken for a
deletion.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any, Final

from backend.cluster.background import BackgroundWork
from backend.cluster.leadership import ActingNotAllowedError, check_may_act
from backend.cluster.storage_names import storage_of
from runtime.checkpoint.cleanup import find_remains
from runtime.checkpoint.errors import CheckpointStorageError
from runtime.checkpoint.layout import job_directory
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.core.clock import Clock
from runtime.core.ids import JobId
from runtime.jobmaster.restore_reader import LEFT_STOP_MS

logger = logging.getLogger(__name__)

LOOK_AGAIN_MS: Final = 600_000.0
"""Until checkpoints whose storage may be away are looked for again. Shorter: looks for nothing while no job has any;
longer: the files stay, and the rows of their jobs.
"""
NEVER: Final = math.inf

Document = dict[str, Any]


class NothingLeftError(CheckpointStorageError):
    """The snapshot and everything beside it are gone: it is deleted, or its storage is not mounted."""

    def __init__(self, location: str) -> None:
        super().__init__(
            location,
            f"nothing is left of {location}, nor beside it: it is deleted, unless its storage is not mounted where the "
            "JobManager runs; if so, mount it and ask again",
        )


class SnapshotDisposal:
    """Pending deletions and their results.

    Args:
        files: access to the allowed roots.
        may_act: returns whether the leader's lease is valid; may raise LeadershipLostError. Called by any thread.
        clock: for the time for which a storage on which nothing can be found may be away.
    """

    def __init__(self, files: SnapshotFiles, may_act: Callable[[], bool], clock: Clock) -> None:
        self._files = files
        self._may_act = may_act
        self._clock = clock
        #: directory → until when its storage may be away, monotonic; used only by the threads, one for a directory
        self._away_until_ms: dict[str, float] = {}
        self._work = BackgroundWork("snapshot-disposal")
        self._disposals: dict[str, Future[Document]] = {}
        #: ended jobs → when they are to be swept again, monotonic; None: nothing is left of their checkpoints
        self._sweeps: dict[str, Future[float | None]] = {}

    def dispose(self, trigger_id: str, directory: str, *, is_begun: bool = False) -> None:
        """Delete a savepoint or checkpoint that a user has named.

        Args:
            trigger_id: of the operation.
            directory: URI of the directory.
            is_begun: whether the operation was begun before: if nothing is there, that deleted it.
        """
        work = self._work.submit(lambda: self._dispose(directory, is_begun), directory, storage_of(directory))
        self._disposals[trigger_id] = work

    def __contains__(self, trigger_id: str) -> bool:
        return trigger_id in self._disposals

    def answer(self, trigger_id: str) -> Document | None:
        """Return the result of a disposal; None while it is in progress, or if it was not allowed and is forgotten."""
        future = self._disposals[trigger_id]
        if not future.done():
            return None
        if isinstance(future.exception(), ActingNotAllowedError):
            self.forget(trigger_id)
            return None
        return future.result()

    def forget(self, trigger_id: str) -> None:
        """Drop a result that has been saved."""
        self._disposals.pop(trigger_id, None)

    def keep(self, trigger_ids: Collection[str]) -> None:
        """Drop the results of all other operations: they are answered, though nobody may have heard so."""
        self._disposals = {name: of for name, of in self._disposals.items() if name in trigger_ids}

    def sweep(self, job_id: str, root: str, *, took_any: bool = False) -> None:
        """Delete all checkpoints of a job that has ended, unless this leader did or could not; see `swept`.

        Args:
            job_id: the job.
            root: URI of the directory of all jobs' checkpoints.
            took_any: whether the job may have taken checkpoints; if not, a storage without any is not taken for away.
        """
        if job_id not in self._sweeps:
            work = self._work.submit(lambda: self._sweep(job_id, root, took_any), root, storage_of(root))
            self._sweeps[job_id] = work

    @property
    def sweeping(self) -> Collection[str]:
        """The jobs whose checkpoints are being deleted, or cannot be now."""
        return self._sweeps.keys()

    def swept(self) -> list[str]:
        """Return the jobs whose checkpoints are deleted, until that is recorded; forgets those that are to be repeated.

        What the storage refuses is not repeated by this leader, but by the next one.
        """
        now_ms = self._clock.monotonic_ms()
        found = []
        for job_id, future in list(self._sweeps.items()):
            if not future.done():
                continue
            if isinstance(future.exception(), ActingNotAllowedError):
                del self._sweeps[job_id]
            elif (again_ms := future.result()) is None:
                found.append(job_id)
            elif now_ms >= again_ms:
                del self._sweeps[job_id]
        return found

    def sweep_is_recorded(self, job_id: str) -> None:
        """Drop a job whose row says that nothing is left."""
        self._sweeps.pop(job_id, None)

    def close(self) -> None:
        """Begin no further deletions; the next leader repeats one that the end of this process interrupts."""
        self._work.close()

    def _dispose(self, directory: str, is_begun: bool) -> Document:
        def dispose() -> Document:
            check_may_act(self._may_act)
            if is_begun and not self._files.file_system.exists(directory):
                self._check_deleted(directory)
                return {"location": directory}
            return {"location": self._files.dispose(directory)}

        return _told(dispose)

    def _check_deleted(self, directory: str) -> None:
        """Check that what cannot be found is deleted.

        Raises:
            ActingNotAllowedError: its storage may be away: the next poll looks again.
            NothingLeftError: it may be for too long.
            OSError: the storage cannot be reached.
        """
        if not self._files.may_be_away(directory):
            self._away_until_ms.pop(directory, None)
            return
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._away_until_ms.setdefault(directory, now_ms + LEFT_STOP_MS):
            raise ActingNotAllowedError(f"the storage of {directory} may be away")
        self._away_until_ms.pop(directory)
        raise NothingLeftError(directory)

    def _sweep(self, job_id: str, root: str, took_any: bool) -> float | None:
        """Return when it is to be repeated, monotonic; None: nothing is left."""
        check_may_act(self._may_act)
        directory = job_directory(root, JobId(job_id))
        try:
            if took_any and not self._files.file_system.exists(directory):
                self._check_deleted(directory)
            self._files.delete((), find_remains(self._files.file_system, root, JobId(job_id)).directories)
        except ActingNotAllowedError:
            raise
        except NothingLeftError:
            # no fault if it was the only one there: once another job has a directory, it is known to be gone
            logger.info("nothing is left of the checkpoints of job %s, or their storage is away", job_id)
            return self._clock.monotonic_ms() + LOOK_AGAIN_MS
        except (CheckpointStorageError, OSError) as error:
            logger.warning("checkpoints of job %s could not be deleted: %s", job_id, error)
            return NEVER
        except Exception:
            logger.exception("checkpoints of job %s could not be deleted", job_id)
            return NEVER
        return None


def _told(work: Callable[[], Document]) -> Document:
    try:
        return work()
    except ActingNotAllowedError:
        raise
    except (CheckpointStorageError, OSError) as error:
        return {"error": str(error) or type(error).__name__}
    except Exception as error:
        # unforeseen: whoever asked hears of it, and nobody repeats it for ever
        logger.exception("a disposal failed")
        return {"error": f"the disposal failed: {error!r}"}
