"""LeftSavepoints: looks at what earlier leaders have left of savepoints that they began and did not answer.

A savepoint is complete if its metadata is written. Asked by the jobmanager's loop; threads look and delete, so that a
storage that does not answer holds up only what is on it. They delete only while the leader's lease is valid.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from concurrent.futures import Future
from contextlib import suppress

from backend.cluster.background import BackgroundWork
from backend.cluster.leader_machine import LeftSavepoint, Remains
from backend.cluster.leadership import LeadershipLostError
from backend.cluster.storage_names import storage_of
from runtime.checkpoint.errors import CheckpointStorageError, NotASnapshotError, StorageAwayError
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.core.clock import Clock
from runtime.jobmaster.restore_reader import LEFT_STOP_MS
from runtime.state.handles import DamagedSnapshotError

logger = logging.getLogger(__name__)


class LeftSavepoints:
    """Looks, by trigger id of the operation.

    Args:
        files: access to the allowed roots.
        may_act: returns whether the leader's lease is valid; may raise LeadershipLostError. Called by any thread.
        clock: for the time after which a storage of which nothing can be found counts as empty.
    """

    def __init__(self, files: SnapshotFiles, may_act: Callable[[], bool], clock: Clock) -> None:
        self._files = files
        self._may_act = may_act
        self._clock = clock
        #: directory → until when its storage may be away, monotonic; used only by the threads, one for a directory
        self._away_until_ms: dict[str, float] = {}
        self._work = BackgroundWork("left-savepoints")
        self._looks: dict[str, Future[LeftSavepoint]] = {}

    def seen(self, trigger_id: str, directory: str) -> LeftSavepoint:
        """Return what is in a savepoint's directory, UNKNOWN until that was looked at; asking begins it.

        Args:
            trigger_id: of the operation.
            directory: URI of the savepoint's own directory.
        """
        look = self._looks.get(trigger_id)
        if look is None:
            try:
                look = self._looks[trigger_id] = self._begin(directory, self._look)
            except RuntimeError as error:
                # there is no thread for it now; it may be complete
                return _unknown(directory, error)
        if not look.done():
            return LeftSavepoint(directory, Remains.UNKNOWN, why="nobody has looked at it yet")
        seen = look.result()
        if seen.remains is Remains.UNKNOWN:
            # the storage does not answer: the next poll looks again
            self.forget(trigger_id)
        return seen

    def discard(self, trigger_id: str, directory: str) -> None:
        """Delete what is left of a savepoint that was never complete, then look again."""
        with suppress(RuntimeError):
            # without a thread for it, the next poll decides so again
            self._looks[trigger_id] = self._begin(directory, self._discard)

    def forget(self, trigger_id: str) -> None:
        """Forget what was seen: the operation is answered, or has begun again."""
        self._looks.pop(trigger_id, None)

    def keep(self, trigger_ids: Collection[str]) -> None:
        """Forget what was seen for all other operations: they are answered, some with the end of their job."""
        self._looks = {name: of for name, of in self._looks.items() if name in trigger_ids}

    def close(self) -> None:
        """Look no more."""
        self._work.close()

    def _begin(self, directory: str, work: Callable[[str], LeftSavepoint]) -> Future[LeftSavepoint]:
        return self._work.submit(lambda: _told(directory, work), directory, storage_of(directory))

    def _look(self, directory: str) -> LeftSavepoint:
        try:
            metadata = self._files.load(directory)
        except (NotASnapshotError, DamagedSnapshotError):
            return self._without_metadata(directory)
        except (CheckpointStorageError, OSError) as error:
            return _unknown(directory, error)
        return LeftSavepoint(directory, Remains.COMPLETE, int(metadata.checkpoint_id))

    def _without_metadata(self, directory: str) -> LeftSavepoint:
        try:
            if self._files.file_system.exists(directory):
                return LeftSavepoint(directory, Remains.PARTIAL)
            if self._files.may_be_away(directory):
                now_ms = self._clock.monotonic_ms()
                if now_ms < self._away_until_ms.setdefault(directory, now_ms + LEFT_STOP_MS):
                    raise StorageAwayError(directory)
        except OSError as error:
            return _unknown(directory, error)
        self._away_until_ms.pop(directory, None)
        return LeftSavepoint(directory, Remains.NOTHING)

    def _discard(self, directory: str) -> LeftSavepoint:
        # again: a leader that was frozen may have completed it meanwhile
        seen = self._look(directory)
        if seen.remains is not Remains.PARTIAL:
            return seen
        try:
            if not self._may_act():
                return seen
            self._files.delete((), [directory])
        except (OSError, LeadershipLostError) as error:
            logger.warning("the unfinished savepoint %s could not be deleted: %s", directory, error)
            return seen
        logger.info("deleted the unfinished savepoint %s", directory)
        return self._look(directory)


def _told(directory: str, work: Callable[[str], LeftSavepoint]) -> LeftSavepoint:
    try:
        return work(directory)
    except Exception as error:
        # unforeseen: the operation is answered with it once patience is at an end
        logger.exception("nobody can say what is left of the savepoint %s", directory)
        return _unknown(directory, error)


def _unknown(directory: str, error: Exception) -> LeftSavepoint:
    return LeftSavepoint(directory, Remains.UNKNOWN, why=str(error) or type(error).__name__)
