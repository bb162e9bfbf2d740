"""Storage of a job's checkpoints, for its driver: reads what there is at the start, performs the storage actions.

`CheckpointHome` says where checkpoints are; `StorageWorker` performs actions one after the other, on a thread of its
own, or in the driver's loop where everything is to be deterministic. A slow storage holds up checkpoints and nothing
else.
"""

from __future__ import annotations

import logging
import secrets
import shutil
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runtime.checkpoint.cleanup import find_orphans
from runtime.checkpoint.completed_store import (
    CheckpointPointer,
    CompletedCheckpoint,
    CompletedCheckpointStore,
    MemoryCompletedStore,
)
from runtime.checkpoint.errors import (
    CheckpointLogGoneError,
    CheckpointStorageError,
    FencedError,
    JobOverError,
    LocationNotAllowedError,
    NewerSnapshotError,
    NotASnapshotError,
    StorageAwayError,
    UnknownFileSystemError,
)
from runtime.checkpoint.file_completed_store import FileCompletedStore
from runtime.checkpoint.handles import CheckpointMetadata
from runtime.checkpoint.layout import (
    COMPLETED,
    SHARED,
    job_directory,
    shared_directory,
    writer_of_directory,
    writer_of_file,
)
from runtime.checkpoint.locations import EVERYWHERE, AllowedRoots, join, parent_of, to_uri
from runtime.checkpoint.messages import (
    DeleteFiles,
    ForgetCheckpoints,
    NotStored,
    RecordEnd,
    StoreCheckpoint,
    Stored,
    SweepOrphans,
)
from runtime.checkpoint.outcome import JobOutcome
from runtime.checkpoint.settings import CheckpointSettings, ClaimMode, RestoreSettings
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.checkpoint.state_files import default_file_system
from runtime.common import options
from runtime.common.config_options import ConfigurationError
from runtime.core.checkpoint_options import AfterSnapshot
from runtime.core.clock import Clock
from runtime.core.ids import CheckpointId, JobId
from runtime.jobmaster.actions import StorageAction
from runtime.jobmaster.events import RecoveryDelayed, StorageAnswered, Submitted, Tick
from runtime.state.handles import DamagedSnapshotError

logger = logging.getLogger(__name__)

RETRY_MS = 500.0
"""Wait before asking a store again that could not say whether a checkpoint is complete, or what the job restores;
doubled up to the next one. Until then no other checkpoint, or no attempt, begins.
"""
MAX_RETRY_MS = 10_000.0
GONE_MS = 30_000.0
"""Time after which a log of checkpoints that is not there counts as deleted. Shorter: the jobs of a share that is
mounted again have ended; longer: a job continues without checkpoints.
"""
LEFT_STOP_MS = 20_000.0
"""Time for the storage to say whether the savepoint to stop with is complete, which may be elsewhere than checkpoints.
Longer: slots that nobody adopts end themselves, and a job hangs on a storage that it does not need. Shorter: a stop
fails because its storage is away for a moment.
"""
CLOSE_TIMEOUT_S = 2.0
RECOVERY_PROMPT_S = 1.0
"""Wait of the driver for what the job restores. Longer: a job whose storage hangs is cancelled that much later;
shorter: a storage that is only busy looks as if it did not answer.
"""


@dataclass(frozen=True, slots=True)
class _Recover:
    """Reads again what the job restores, after the storage did not answer."""


def _open_nothing() -> CompletedCheckpointStore:
    return MemoryCompletedStore()


@dataclass(frozen=True)
class CheckpointHome:
    """Location of one job's checkpoints."""

    root: str | None
    """URI of the directory of all jobs' checkpoints; None: there is none, only savepoints can be taken."""
    files: SnapshotFiles
    open_store: Callable[[], CompletedCheckpointStore] = _open_nothing
    """Takes over from an earlier JobMaster of the job; called once, on a thread that may wait."""
    leader_epoch: int = 0
    is_asked_always: bool = False
    """Whether the store is free to ask: it is then asked also for a job that takes no checkpoints by itself, and may
    have stopped with a savepoint.
    """
    waits_for_storage: bool = True
    """Whether a job of which nothing is found at the start waits until its storage is there; else it is refused, and
    whatever watches its program starts it again.
    """
    allowed: AllowedRoots = EVERYWHERE
    """Directories that may hold savepoints."""
    new_name: Callable[[], str] = field(default=lambda: secrets.token_hex(6))
    private_directory: Path | None = None
    """Deleted with the JobMaster."""
    left_stop: str | None = None
    """URI of the savepoint with which the job was to stop under an earlier JobMaster; None: it was not to stop."""
    may_write: Callable[[], bool] = lambda: True
    """Returns whether a checkpoint may be completed now; asked right before its metadata is written, and again later if
    not. Raises FencedError once another JobMaster has taken over: it may have deleted the checkpoint's directory.
    """

    @classmethod
    def of(
        cls,
        settings: CheckpointSettings,
        job_id: JobId,
        *,
        slots_are_local: bool,
        leader_epoch: int = 0,
        files: SnapshotFiles | None = None,
    ) -> CheckpointHome:
        """Return the home that the settings ask for: a log of files in their directory, or a private directory.

        Args:
            settings: the job's.
            job_id: the job.
            slots_are_local: whether all slots see this machine's files.
            leader_epoch: of the JobMaster.
            files: None = the real ones.

        Raises:
            ConfigurationError: the job takes checkpoints, its slots may be anywhere, and no directory is named.
            UnknownFileSystemError: the directory can never be one.
        """
        files = files if files is not None else SnapshotFiles(default_file_system())
        if settings.directory is not None:
            root = to_uri(settings.directory)

            def open_store() -> CompletedCheckpointStore:
                return FileCompletedStore.open(root, job_id, leader_epoch, files.file_system)

            return cls(root, files, open_store, leader_epoch)
        if slots_are_local:
            # made by the first write to it: most jobs without checkpoints never need it
            directory = Path(tempfile.gettempdir()) / f"tidemark-checkpoints-{job_id}"
            if settings.is_enabled:
                directory.mkdir(mode=0o700, exist_ok=True)
            return cls(directory.as_uri(), files, leader_epoch=leader_epoch, private_directory=directory)
        if settings.is_enabled:
            raise ConfigurationError(
                options.CHECKPOINT_DIRECTORY.key,
                "",
                "the URI of a directory that the slots of the cluster and this process share, for a job that takes "
                "checkpoints",
            )
        return cls(None, files, leader_epoch=leader_epoch)


class StorageWorker:
    """Performs storage actions in order.

    Args:
        home: where.
        settings: the job's.
        job_id: the job.
        clock: for retries.
        post: takes answers, and a Tick when all is done, on the thread that does the work.
        is_inline: whether the driver's loop does the work by calling `step`; else a thread does.
        is_taken_over: whether the job was an earlier JobMaster's: what it was to start from was there once.
        on_broken: called by the thread, which then ends, with an error that nobody has foreseen.
    """

    def __init__(
        self,
        home: CheckpointHome,
        settings: CheckpointSettings,
        job_id: JobId,
        clock: Clock,
        post: Callable[[StorageAnswered | Submitted | RecoveryDelayed | Tick], None],
        is_inline: bool,
        is_taken_over: bool = False,
        on_broken: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        self._home = home
        self._settings = settings
        self._job_id = job_id
        self._clock = clock
        self._post = post
        self._is_inline = is_inline
        self._is_taken_over = is_taken_over
        self._on_broken = on_broken
        self._condition = threading.Condition()
        #: guarded by the condition; the first one is being performed
        self._actions: deque[StorageAction | _Recover] = deque()
        self._is_frozen = self._is_closed = False
        #: guarded by the condition: whether the driver waits for what was read first, and that
        self._is_awaited = False
        self._read_first: Submitted | RecoveryDelayed | None = None
        self._thread: threading.Thread | None = None
        #: what is being retried, and why; empty: nothing. Written by the thread that does the work, read by any
        self.trouble = ""
        #: what is being read at the start. Written by the thread that does the work, read by any
        self._reads = home.root or ""
        # below: used by the thread that does the work
        self._store: CompletedCheckpointStore | None = None
        self._metadata_bytes: int | None = None
        self._retry_at_ms = 0.0
        self._retry_ms = RETRY_MS
        #: until when it is asked for the savepoint to stop with; None: it was not yet
        self._left_stop_until_ms: float | None = None
        #: since when the job's log was not there when it was needed; None: it was
        self._gone_since_ms: float | None = None
        self._is_fenced = False
        #: whether any checkpoint may be recorded that was not forgotten: so as long as nothing is known
        self._keeps = True
        #: those that are to be forgotten and are not yet: their files stay until they are
        self._unforgotten: set[CheckpointId] = set()
        #: URIs of the directories of checkpoints that were recorded here and not deleted
        self._directories: set[str] = set()

    # --- the driver's thread ------------------------------------------------------------------------------------------

    def recover(self) -> Submitted | RecoveryDelayed:
        """Return what the job restores. Must be called before anything else.

        A storage that is away is asked again and again, and one that does not answer is waited for by the thread; what
        is said then is posted. Inline, this waits for the storage.
        """
        if not (self._is_inline or self._reads_nothing()):
            return self._recover_by_thread()
        event = self._try_to_recover()
        if isinstance(event, RecoveryDelayed):
            self.put(_Recover())
        return event

    def _reads_nothing(self) -> bool:
        """Return whether it is known without the storage what the job restores."""
        if self._home.left_stop is not None or self._settings.restore is not None:
            return False
        return not (self._opened().retained() if self._home.is_asked_always else self._settings.is_enabled)

    def _recover_by_thread(self) -> Submitted | RecoveryDelayed:
        """Return what the thread reads, or that it still does: whoever waited for it could not even be cancelled."""
        with self._condition:
            self._is_awaited = True
        self.put(_Recover())
        with self._condition:
            self._condition.wait_for(lambda: not self._is_awaited, RECOVERY_PROMPT_S)
            self._is_awaited = False
            event = self._read_first
        return event or RecoveryDelayed(f"the storage of {self._reads} has not told yet what to restore")

    def put(self, action: StorageAction | _Recover) -> None:
        """Queue an action."""
        with self._condition:
            if self._is_frozen and not isinstance(action, StoreCheckpoint):
                return
            self._actions.append(action)
            if self._thread is None and not self._is_inline:
                self._thread = threading.Thread(target=self._run, name=f"storage-{self._job_id[:8]}", daemon=True)
                self._thread.start()
            self._condition.notify()

    def freeze(self) -> None:
        """Delete and forget nothing from now on: another JobMaster takes over what there is."""
        with self._condition:
            self._is_frozen = True

    @property
    def is_idle(self) -> bool:
        """Return whether every action has been performed, ignoring what waits for a recovery."""
        with self._condition:
            return not self._actions or isinstance(self._actions[0], _Recover)

    def next_ms(self) -> float | None:
        """Return the monotonic ms at which `step` has something to do; inline only."""
        return self._retry_at_ms if self._is_inline and self._actions else None

    def step(self) -> bool:
        """Perform what is due; returns whether there was anything. Inline only."""
        worked = False
        while self._is_inline and self._actions and self._clock.monotonic_ms() >= self._retry_at_ms:
            self._perform_first()
            worked = True
        return worked

    def close(self) -> None:
        """End the thread, and delete what is left of the job, which has ended; the queue should be empty."""
        with self._condition:
            self._is_closed = True
            was_idle = not self._actions
            self._condition.notify()
        if self._thread is not None:
            # one that hangs in the storage is left behind: it can do no more than what it was asked for
            self._thread.join(CLOSE_TIMEOUT_S)
        if self._home.private_directory is not None:
            shutil.rmtree(self._home.private_directory, ignore_errors=True)
        elif was_idle and not (self._is_frozen or self._is_fenced or self._keeps or self._directories):
            self._remove_job_directory()

    # --- the thread of the storage ------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._is_closed and (wait_ms := self._wait_ms()) != 0.0:
                    self._condition.wait(None if wait_ms is None else wait_ms / 1000.0)
                if self._is_closed:
                    return
            try:
                self._perform_first()
            except Exception as error:
                self._on_broken(error)
                return

    def _wait_ms(self) -> float | None:
        """Return how long there is nothing to do; None = until something is put."""
        if not self._actions:
            return None
        return max(0.0, self._retry_at_ms - self._clock.monotonic_ms())

    def _perform_first(self) -> None:
        with self._condition:
            action = self._actions[0]
            is_frozen = self._is_frozen
        match action:
            case _Recover():
                self._answer_recovery(self._try_to_recover())
                return
            case RecordEnd() | ForgetCheckpoints() | DeleteFiles() | SweepOrphans() if is_frozen or self._is_fenced:
                pass
            case RecordEnd(outcome):
                if not self._record_end(outcome):
                    return
            case StoreCheckpoint():
                answer = self._complete(action)
                if answer is None:
                    return
                self._metadata_bytes, self._retry_ms, self._retry_at_ms = None, RETRY_MS, 0.0
                # before it counts as done: an idle worker has given all answers
                self._post(StorageAnswered(answer))
            case ForgetCheckpoints(checkpoint_ids):
                self._unforgotten.update(checkpoint_ids)
                self._quietly(self._forget, f"forget checkpoints {checkpoint_ids}")
            case DeleteFiles(files, directories):
                self._quietly(lambda: self._delete(files, directories), f"delete {directories or files}")
            case SweepOrphans():
                self._quietly(lambda: self._sweep(action), "sweep what older attempts have left")
        self._done()

    def _answer_recovery(self, event: Submitted | RecoveryDelayed) -> None:
        """Tell the driver what was read, and ask again unless that is what the job restores."""
        is_over = isinstance(event, Submitted)
        with self._condition:
            if is_over:
                # before it is told: an idle worker has nothing else to do
                self._actions.popleft()
            is_idle = not self._actions
            is_awaited, self._is_awaited = self._is_awaited, False
            if is_awaited:
                self._read_first = event
                self._condition.notify_all()
        if not is_awaited:
            self._post(event)
            if is_over and is_idle:
                self._post(Tick())

    def _done(self) -> None:
        self.trouble = ""
        with self._condition:
            self._actions.popleft()
            is_idle = not self._actions
        if is_idle:
            self._post(Tick())

    def _complete(self, action: StoreCheckpoint) -> Stored | NotStored | None:
        """Complete a checkpoint; None: the answer is not known yet, and asked for again later."""
        metadata = action.metadata
        checkpoint_id = metadata.checkpoint_id
        if self._metadata_bytes is None:
            try:
                if not self._home.may_write():
                    self.trouble = f"checkpoint {checkpoint_id} to be completed: another JobMaster may have taken over"
                    self._wait()
                    return None
            except FencedError:
                return self._fenced(checkpoint_id)
            try:
                self._metadata_bytes = self._home.files.write_metadata(metadata)
            except Exception as error:
                return NotStored(checkpoint_id, f"its metadata could not be written: {type(error).__name__}: {error}")
            if self._is_closed:
                # the job has not waited for a storage that hung: what it had is swept, or kept as it was at its end
                return None
        if not action.is_recorded:
            return Stored(checkpoint_id, self._metadata_bytes)
        try:
            is_complete = self._opened().complete(
                CompletedCheckpoint(metadata, action.is_owned, statistics=action.statistics)
            )
        except FencedError:
            is_complete = False
        except NotASnapshotError as error:
            return NotStored(checkpoint_id, str(error))
        except Exception as error:
            self._give_up_if_gone(error)
            # whether it is recorded decides what the job restores: there is no guessing
            logger.warning("checkpoint %s of job %s is not recorded yet", checkpoint_id, self._job_id, exc_info=True)
            self.trouble = f"checkpoint {checkpoint_id} to be recorded: {_described(error)}"
            self._wait()
            return None
        if not is_complete:
            return self._fenced(checkpoint_id)
        self._keeps, self._gone_since_ms = True, None
        if action.is_owned:
            self._directories.add(metadata.options.directory)
        return Stored(checkpoint_id, self._metadata_bytes)

    def _fenced(self, checkpoint_id: CheckpointId) -> NotStored:
        self._is_fenced = True
        return NotStored(checkpoint_id, "another JobMaster has taken over", is_fenced=True)

    def _give_up_if_gone(self, error: Exception) -> None:
        """Raise CheckpointLogGoneError once the job's log has been gone for `GONE_MS`; a share may be away for less."""
        if not isinstance(error, StorageAwayError):
            self._gone_since_ms = None
            return
        now_ms = self._clock.monotonic_ms()
        self._gone_since_ms = now_ms if self._gone_since_ms is None else self._gone_since_ms
        if now_ms - self._gone_since_ms >= GONE_MS:
            raise CheckpointLogGoneError(error.location) from error

    def _record_end(self, outcome: JobOutcome) -> bool:
        """Return whether the end is recorded or never will be; else it is retried later, and nothing is forgotten
        before.
        """
        try:
            if self._store is not None:
                self._store.end(outcome)
        except FencedError:
            self._is_fenced = True
        except Exception:
            logger.warning("cannot record yet that job %s has ended", self._job_id, exc_info=True)
            self._wait()
            return False
        self._retry_ms, self._retry_at_ms = RETRY_MS, 0.0
        return True

    def _wait(self) -> None:
        """Set the time to ask again."""
        self._retry_at_ms = self._clock.monotonic_ms() + self._retry_ms
        self._retry_ms = min(2 * self._retry_ms, MAX_RETRY_MS)

    def _quietly(self, work: Callable[[], None], what: str) -> None:
        """Do some work; if it fails it leaves something behind that the cleanup of orphans finds."""
        try:
            work()
        except Exception:
            logger.warning("could not %s of job %s", what, self._job_id, exc_info=True)

    def _forget(self) -> None:
        try:
            store = self._opened()
            store.remove(self._unforgotten)
        except FencedError:
            self._is_fenced = True
            raise
        self._unforgotten.clear()
        self._keeps = bool(store.retained())

    def _delete(self, files: Sequence[str], directories: Sequence[str]) -> None:
        if self._unforgotten:
            # some of it may be what recovery starts from, here or in the JobMaster that has taken over
            self._forget()
        self._home.files.delete(files, directories)
        self._directories.difference_update(directories)

    def _sweep(self, action: SweepOrphans) -> None:
        assert self._home.root is not None
        orphans = find_orphans(
            self._home.files.file_system,
            self._home.root,
            self._job_id,
            self._home.leader_epoch if action.leader_epoch is None else action.leader_epoch,
            action.attempt,
            action.retained,
        )
        if orphans.files or orphans.directories:
            if self._unforgotten:
                self._forget()
            self._home.files.delete(orphans.files, orphans.directories)
            # one that was found damaged is among them
            self._directories.difference_update(orphans.directories)

    def _opened(self) -> CompletedCheckpointStore:
        if self._store is None:
            self._store = self._home.open_store()
        return self._store

    def _try_to_recover(self) -> Submitted | RecoveryDelayed:
        try:
            submitted = self._recover()
        except OSError as error:
            text = _described(error)
            if isinstance(error, StorageAwayError) and not self._home.waits_for_storage:
                return Submitted(refusal=f"the snapshot to restore cannot be read: {text}")
            logger.warning("cannot read yet what job %s restores from: %s", self._job_id, text)
            self._wait()
            return RecoveryDelayed(f"cannot read yet what to restore: {text}")
        except JobOverError as error:
            submitted = Submitted(outcome=error.outcome)
        except (CheckpointStorageError, DamagedSnapshotError) as error:
            submitted = Submitted(refusal=f"the snapshot to restore cannot be read: {_described(error)}")
        self._retry_ms, self._retry_at_ms = RETRY_MS, 0.0
        return submitted

    def _recover(self) -> Submitted:
        # a job that takes no checkpoints has none, and need not leave a log of them
        is_asked = self._settings.is_enabled or self._home.is_asked_always
        pointers = self._opened().retained() if is_asked else []
        if self._home.left_stop is not None:
            self._reads = self._home.left_stop
            try:
                is_recorded = self._record_stop(self._home.left_stop, pointers)
            except (NewerSnapshotError, LocationNotAllowedError, UnknownFileSystemError) as error:
                # it may be complete: the job must not go on after it
                return Submitted(refusal=f"the savepoint to stop with cannot be read: {error}")
            if is_recorded:
                pointers = self._opened().retained()
        retained, damage = self._read(pointers)
        restore = self._settings.restore
        self._reads = self._reads if restore is None else restore.path
        initial = self._load_unreplaced(restore) if pointers else self._load_initial(restore)
        if pointers and not retained and initial is None:
            why = list(damage.values())[-1]
            return Submitted(refusal=f"none of the job's {len(pointers)} checkpoints can be read: {why}")
        # their files are swept when an attempt begins: no later JobMaster must look for them
        self._unforgotten.update(damage)
        self._keeps = bool(retained)
        self._directories.update(checkpoint.location for checkpoint in retained if checkpoint.is_owned)
        is_newest_damaged = bool(pointers) and pointers[-1].checkpoint_id in damage
        return Submitted(tuple(retained), initial, is_newest_damaged=is_newest_damaged)

    def _record_stop(self, directory: str, pointers: Sequence[CheckpointPointer]) -> bool:
        """Record the savepoint with which the job was to stop, if it is complete and its JobMaster ended before that.

        Raises:
            NewerSnapshotError: it was written by a newer program.
            LocationNotAllowedError: its directory is not allowed any more.
            UnknownFileSystemError: nothing can be stored there any more.
            OSError: the storage cannot be reached yet, or it is not known whether it is recorded.
        """
        try:
            metadata = self._load_left_stop(directory)
        except (NotASnapshotError, DamagedSnapshotError) as error:
            # it is not recorded, so nothing was committed after it
            logger.warning("job %s does not stop yet: %s", self._job_id, error)
            return False
        except OSError:
            now_ms = self._clock.monotonic_ms()
            if self._left_stop_until_ms is None:
                self._left_stop_until_ms = now_ms + LEFT_STOP_MS
            if now_ms < self._left_stop_until_ms:
                raise
            logger.warning("job %s does not stop: its savepoint %s cannot be read", self._job_id, directory)
            return False
        newest = pointers[-1].checkpoint_id if pointers else 0
        if metadata.checkpoint_id <= newest or metadata.options.after is AfterSnapshot.GO_ON or self._is_closed:
            # it is recorded, or was given up and the job has gone on; or the job has ended before the storage answered
            return False
        try:
            is_recorded = self._opened().complete(CompletedCheckpoint(metadata, is_owned=False))
        except Exception as error:
            raise OSError(f"the savepoint to stop with cannot be recorded: {_described(error)}") from error
        if not is_recorded:
            raise OSError("the savepoint to stop with cannot be recorded: another JobMaster has taken over")
        return True

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
            self._reads = pointer.location
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

    def _load_unreplaced(self, restore: RestoreSettings | None) -> CompletedCheckpoint | None:
        """Load the snapshot that the job claimed, unless its own checkpoints have replaced it: they may refer to its
        files.
        """
        if restore is None or restore.claim_mode is ClaimMode.NO_CLAIM:
            return None
        try:
            return _restored(self._home.files.load(restore.path), restore)
        except (CheckpointStorageError, DamagedSnapshotError):
            return None

    def _remove_job_directory(self) -> None:
        if self._home.root is None:
            return
        directory = job_directory(self._home.root, self._job_id)

        def remove() -> None:
            files = self._home.files.file_system
            names = [entry.name for entry in files.list(directory)]
            is_ours = all(name in (SHARED, COMPLETED) or writer_of_directory(name) for name in names)
            if not is_ours or not (names or files.exists(directory)) or self._has_successor(names):
                return
            if self._home.leader_epoch > 0 and COMPLETED in names:
                # the log says that the job is over, to those who come late
                for name in names:
                    if name != COMPLETED:
                        files.delete_directory(join(directory, name))
            else:
                files.delete_directory(directory)

        self._quietly(remove, "remove the directory")

    def _has_successor(self, names: Sequence[str]) -> bool:
        """Return whether a JobMaster of a newer epoch has left a trace in the job's directory, given its content."""
        assert self._home.root is not None
        files, epoch = self._home.files.file_system, self._home.leader_epoch
        shared = files.list(shared_directory(self._home.root, self._job_id)) if SHARED in names else ()
        writers = [*map(writer_of_directory, names), *(writer_of_file(entry.name) for entry in shared)]
        if any(writer is not None and writer.leader_epoch > epoch for writer in writers):
            return True
        if COMPLETED not in names:
            return False
        log = FileCompletedStore(self._home.root, self._job_id, epoch, files, "")
        return log.last_entry().leader_epoch > epoch


def _restored(metadata: CheckpointMetadata, restore: RestoreSettings) -> CompletedCheckpoint:
    is_claimed = restore.claim_mode is ClaimMode.CLAIM
    return CompletedCheckpoint(metadata, is_owned=is_claimed, is_claimed=is_claimed)


def _described(error: Exception) -> str:
    return str(error) if getattr(error, "is_self_explanatory", False) else f"{type(error).__name__}: {error}"
