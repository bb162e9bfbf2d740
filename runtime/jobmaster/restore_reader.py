"""RestoreReader: reads what a job restores, before its first attempt under this JobMaster.

That is the newest checkpoints that can be read; the savepoint to stop with, if an earlier JobMaster has left it
complete and not recorded; and the snapshot that the user named. A storage that is away is no answer: whoever asks reads
again. What one read has given up or forgotten stays so for the next ones, whatever the storage says by then, because it
may be recorded. Used by the thread that does the storage's work; `reads` may be read by any.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from runtime.checkpoint.completed_store import CheckpointPointer, CompletedCheckpoint, CompletedCheckpointStore
from runtime.checkpoint.errors import (
    CheckpointStorageError,
    FencedError,
    ForeignSnapshotError,
    LocationNotAllowedError,
    NewerSnapshotError,
    NotASnapshotError,
    StorageAwayError,
    UnknownFileSystemError,
    described,
)
from runtime.checkpoint.handles import CheckpointMetadata
from runtime.checkpoint.locations import parent_of
from runtime.checkpoint.settings import CheckpointSettings, ClaimMode, RestoreSettings
from runtime.core.checkpoint_options import AfterSnapshot
from runtime.core.clock import Clock
from runtime.core.ids import CheckpointId, JobId
from runtime.jobmaster.checkpoint_home import CheckpointHome
from runtime.jobmaster.events import Submitted
from runtime.state.handles import DamagedSnapshotError

logger = logging.getLogger(__name__)

LEFT_STOP_MS = 20_000.0
"""Time for the storage to say whether the savepoint to stop with is complete, which may be elsewhere than checkpoints.
Longer: slots that nobody adopts end themselves, and a job hangs on a storage that it does not need. Shorter: a stop
fails because its storage is away for a moment.
"""


class RestoreReader:
    """Reads for one job.

    Args:
        home: where its checkpoints are.
        settings: the job's.
        job_id: the job.
        clock: for the time that the savepoint to stop with is waited for.
        open_store: returns the store of completed checkpoints, opened.
        is_over: returns whether the job has ended meanwhile, so that nothing is to be recorded.
        is_taken_over: whether the job was an earlier JobMaster's: what it was to start from was there once.
    """

    def __init__(
        self,
        home: CheckpointHome,
        settings: CheckpointSettings,
        job_id: JobId,
        clock: Clock,
        open_store: Callable[[], CompletedCheckpointStore],
        is_over: Callable[[], bool],
        *,
        is_taken_over: bool,
    ) -> None:
        self._home = home
        self._settings = settings
        self._job_id = job_id
        self._clock = clock
        self._open = open_store
        self._is_over = is_over
        self._is_taken_over = is_taken_over
        #: what is being read
        self.reads = home.root or ""
        #: until when it is asked for the savepoint to stop with; None: it was not yet
        self._left_stop_until_ms: float | None = None
        #: why the job goes on without the savepoint to stop with, whether that is recorded yet or not
        self._given_up: str | None = None
        self._is_giving_up_recorded = False
        #: what is wrong with the checkpoints that are forgotten, whether that is recorded yet or not
        self._forgotten: dict[CheckpointId, str] = {}

    def asks_nobody(self) -> bool:
        """Return whether it is known without the storage what the job restores."""
        if self._home.left_stop is not None or self._settings.restore is not None:
            return False
        return not (self._open().retained() if self._home.is_asked_always else self._settings.is_enabled)

    def read(self) -> Submitted:
        """Return what the job restores, or why it cannot.

        What is damaged is forgotten before: the next attempt aborts the transactions that it holds, so that no later
        JobMaster may restore it, even if it can be read again.

        Raises:
            OSError: the storage cannot be reached, or is away, or damage cannot be recorded: read again later.
            JobOverError: the job has ended.
            CheckpointStorageError, DamagedSnapshotError: what is to be restored cannot be.
        """
        # a job that takes no checkpoints has none, and need not leave a log of them
        is_asked = self._settings.is_enabled or self._home.is_asked_always
        pointers = self._open().retained() if is_asked else []
        if self._home.left_stop is not None:
            self.reads = self._home.left_stop
            try:
                is_recorded = self._record_stop(self._home.left_stop, pointers)
            except (NewerSnapshotError, LocationNotAllowedError, UnknownFileSystemError) as error:
                # it may be complete: the job must not go on after it
                return Submitted(refusal=f"the savepoint to stop with cannot be read: {error}")
            if is_recorded:
                pointers = self._open().retained()
        retained, damage = self._read(pointers)
        restore = self._settings.restore
        self.reads = self.reads if restore is None else restore.path
        initial = self._load_unreplaced(restore, len(pointers)) if pointers else self._load_initial(restore)
        if pointers and not retained and initial is None:
            why = list(damage.values())[-1]
            return Submitted(refusal=f"none of the job's {len(pointers)} checkpoints can be read: {why}")
        if damage:
            try:
                self._forget(damage)
            except FencedError as error:
                return Submitted(refusal=f"another JobMaster runs the job: {error}")
        newest = max(self._forgotten, default=0)
        is_newest_damaged = newest > max((checkpoint.checkpoint_id for checkpoint in retained), default=0)
        return Submitted(tuple(retained), initial, is_newest_damaged=is_newest_damaged)

    def _record_stop(self, directory: str, pointers: Sequence[CheckpointPointer]) -> bool:
        """Record the savepoint with which the job was to stop, if it is complete and its JobMaster ended before that.

        Raises:
            NewerSnapshotError: it was written by a newer program.
            LocationNotAllowedError: its directory is not allowed any more.
            UnknownFileSystemError: nothing can be stored there any more.
            OSError: the storage cannot be reached yet, or it is not known whether it is recorded.
        """
        if self._given_up is not None:
            self._give_up(directory, self._given_up)
            return False
        if any(pointer.location == directory for pointer in pointers):
            # the job restores it as it does any other checkpoint, wherever it is, and gives it up if it is damaged
            return False
        try:
            metadata = self._load_left_stop(directory)
        except (NotASnapshotError, DamagedSnapshotError) as error:
            # it is not recorded, so nothing was committed after it
            self._give_up(directory, str(error))
            return False
        except OSError:
            now_ms = self._clock.monotonic_ms()
            if self._left_stop_until_ms is None:
                self._left_stop_until_ms = now_ms + LEFT_STOP_MS
            if now_ms < self._left_stop_until_ms:
                raise
            self._give_up(directory, "it cannot be read")
            return False
        newest = pointers[-1].checkpoint_id if pointers else 0
        if self._is_over():
            return False
        if metadata.checkpoint_id <= newest or metadata.options.after is AfterSnapshot.GO_ON:
            # said once more: what is newer may be found damaged, and must not make this one the newest
            self._give_up(directory, "the job has gone on")
            return False
        try:
            is_recorded = self._open().complete(CompletedCheckpoint(metadata, is_owned=False))
        except Exception as error:
            raise OSError(f"the savepoint to stop with cannot be recorded: {described(error)}") from error
        if not is_recorded:
            raise OSError("the savepoint to stop with cannot be recorded: another JobMaster has taken over")
        return True

    def _forget(self, damage: Mapping[CheckpointId, str]) -> None:
        """Record that checkpoints are never restored again.

        Raises:
            FencedError: another JobMaster has taken over, and decides.
            OSError: this cannot be recorded; no attempt has begun.
        """
        self._forgotten |= damage
        try:
            self._open().remove(damage)
        except FencedError:
            raise
        except Exception as error:
            message = f"cannot record that checkpoints {', '.join(map(str, damage))} are damaged: {described(error)}"
            raise OSError(message) from error

    def _give_up(self, directory: str, why: str) -> None:
        """Record that the job goes on without the savepoint.

        The next attempt aborts the transactions that the savepoint holds, so the job must not restore it even if an
        earlier JobMaster completes it later.

        Raises:
            OSError: this cannot be recorded; no attempt has begun.
        """
        if self._is_giving_up_recorded:
            return
        self._given_up = why
        logger.warning("job %s goes on without its savepoint %s: %s", self._job_id, directory, why)
        try:
            self._home.give_up_stop()
        except Exception as error:
            message = f"cannot record that the job goes on without the savepoint {directory}: {described(error)}"
            raise OSError(message) from error
        self._is_giving_up_recorded = True

    def _load_left_stop(self, directory: str) -> CheckpointMetadata:
        files = self._home.files
        try:
            return files.load(directory)
        except NotASnapshotError as error:
            if not files.file_system.exists(directory) and files.may_be_away(directory):
                raise StorageAwayError(directory) from error
            raise

    def _read(self, pointers: Sequence[CheckpointPointer]) -> tuple[list[CompletedCheckpoint], dict[CheckpointId, str]]:
        """Return the checkpoints that can be read, oldest first, and what is wrong with the others.

        Raises:
            OSError: the storage cannot be reached, or is away.
        """
        read: dict[CheckpointId, CompletedCheckpoint] = {}
        damage: dict[CheckpointId, str] = {}
        #: where the storage is known to be there, from which on what cannot be found is gone
        present: set[str] = set()
        for pointer in sorted(pointers, key=lambda pointer: self._is_present(pointer.location), reverse=True):
            if pointer.checkpoint_id in self._forgotten:
                damage[pointer.checkpoint_id] = self._forgotten[pointer.checkpoint_id]
                continue
            self.reads = pointer.location
            try:
                metadata = self._home.files.read_metadata(pointer.location)
            except StorageAwayError as error:
                if parent_of(pointer.location) not in present:
                    raise
                damage[pointer.checkpoint_id] = str(error)
            except DamagedSnapshotError as error:
                damage[pointer.checkpoint_id] = str(error)
            else:
                read[pointer.checkpoint_id] = CompletedCheckpoint(metadata, pointer.is_owned)
                present.add(parent_of(pointer.location))
        for checkpoint_id, why in damage.items():
            logger.error("checkpoint %s of job %s is skipped: %s", checkpoint_id, self._job_id, why)
        return [read[pointer.checkpoint_id] for pointer in pointers if pointer.checkpoint_id in read], damage

    def _is_present(self, location: str) -> bool:
        return self._home.files.file_system.exists(location)

    def _load_initial(self, restore: RestoreSettings | None) -> CompletedCheckpoint | None:
        """Load the snapshot that the user named; if an earlier JobMaster may have seen it, its storage is only away."""
        if restore is None:
            return None
        files, path = self._home.files, restore.path
        try:
            return _restored(files.load(path), restore)
        except NotASnapshotError as error:
            directory = files.directory_of(path)
            if self._is_taken_over and not files.file_system.exists(directory):
                raise StorageAwayError(directory) from error
            raise

    def _load_unreplaced(self, restore: RestoreSettings | None, num_own: int) -> CompletedCheckpoint | None:
        """Load the snapshot that the job claimed, unless its own checkpoints have replaced it: they may refer to its
        files.

        Raises:
            ForeignSnapshotError: it is not taken, and not replaced yet: the job must not go on without it.
        """
        if restore is None or restore.claim_mode is ClaimMode.NO_CLAIM:
            return None
        try:
            return _restored(self._home.files.load(restore.path), restore)
        except ForeignSnapshotError:
            if num_own < self._settings.num_retained:
                raise
            return None
        except (CheckpointStorageError, DamagedSnapshotError):
            return None


def _restored(metadata: CheckpointMetadata, restore: RestoreSettings) -> CompletedCheckpoint:
    is_claimed = restore.claim_mode is ClaimMode.CLAIM
    return CompletedCheckpoint(metadata, is_owned=is_claimed, is_claimed=is_claimed)
