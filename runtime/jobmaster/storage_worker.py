"""StorageWorker: the storage of a job's checkpoints, for its driver.

It performs the storage actions one after the other, on a thread of its own, or in the driver's loop where everything
is to be deterministic. A slow storage holds up checkpoints and nothing else. A RestoreReader reads what there is at the
start.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runtime.checkpoint.cleanup import find_orphans
from runtime.checkpoint.completed_store import CompletedCheckpoint, CompletedCheckpointStore
from runtime.checkpoint.errors import (
    CheckpointLogGoneError,
    CheckpointStorageError,
    FencedError,
    JobOverError,
    NotASnapshotError,
    StorageAwayError,
    described,
)
from runtime.checkpoint.messages import (
    DeleteFiles,
    ForgetCheckpoints,
    ForgetDamaged,
    Forgotten,
    NotStored,
    RecordEnd,
    StoreCheckpoint,
    Stored,
    SweepOrphans,
)
from runtime.checkpoint.outcome import JobOutcome
from runtime.checkpoint.settings import CheckpointSettings
from runtime.core.clock import Clock
from runtime.core.ids import CheckpointId, JobId
from runtime.jobmaster.actions import StorageAction
from runtime.jobmaster.checkpoint_home import CheckpointHome
from runtime.jobmaster.events import RecoveryDelayed, StorageAnswered, Submitted, Tick
from runtime.jobmaster.job_directory import remove_job_directory
from runtime.jobmaster.restore_reader import RestoreReader
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
CLOSE_TIMEOUT_S = 2.0
RECOVERY_PROMPT_S = 1.0
"""Wait of the driver for what the job restores. Longer: a job whose storage hangs is cancelled that much later;
shorter: a storage that is only busy looks as if it did not answer.
"""


@dataclass(frozen=True, slots=True)
class _Recover:
    """Reads again what the job restores, after the storage did not answer."""


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
        self._job_id = job_id
        self._clock = clock
        self._post = post
        self._is_inline = is_inline
        self._reader = RestoreReader(
            home, settings, job_id, clock, self._opened, lambda: self._is_closed, is_taken_over=is_taken_over
        )
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
        # below: used by the thread that does the work
        self._store: CompletedCheckpointStore | None = None
        self._metadata_bytes: int | None = None
        self._retry_at_ms = 0.0
        self._retry_ms = RETRY_MS
        #: since when the job's log was not there when it was needed; None: it was
        self._gone_since_ms: float | None = None
        self._is_fenced = False
        #: whether any checkpoint may be recorded that was not forgotten: so as long as nothing is known
        self._keeps = True
        #: those that are to be forgotten and are not yet: their files stay until they are
        self._unforgotten: set[CheckpointId] = set()
        #: whether the job's directory was there at its end, and is removed
        self.has_removed_directory = False
        #: URIs of the directories of checkpoints that were recorded here and not deleted
        self._directories: set[str] = set()

    # --- the driver's thread ------------------------------------------------------------------------------------------

    def recover(self) -> Submitted | RecoveryDelayed:
        """Return what the job restores. Must be called before anything else.

        A storage that is away is asked again and again, and one that does not answer is waited for by the thread; what
        is said then is posted. Inline, this waits for the storage.
        """
        if not (self._is_inline or self._reader.asks_nobody()):
            return self._recover_by_thread()
        event = self._try_to_recover()
        if isinstance(event, RecoveryDelayed):
            self.put(_Recover())
        return event

    def _recover_by_thread(self) -> Submitted | RecoveryDelayed:
        """Return what the thread reads, or that it still does: whoever waited for it could not even be cancelled."""
        with self._condition:
            self._is_awaited = True
        self.put(_Recover())
        with self._condition:
            self._condition.wait_for(lambda: not self._is_awaited, RECOVERY_PROMPT_S)
            self._is_awaited = False
            event = self._read_first
        return event or RecoveryDelayed(f"the storage of {self._reader.reads} has not told yet what to restore")

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
            self._quietly(self._remove_directory, "remove the directory")

    def _remove_directory(self) -> None:
        self.has_removed_directory = remove_job_directory(self._home, self._job_id)

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
            case ForgetDamaged(checkpoint_id):
                forgotten = None if is_frozen else self._forget_damaged(checkpoint_id)
                if forgotten is not None:
                    self._post(StorageAnswered(forgotten))
                elif not is_frozen:
                    return
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
            self.trouble = f"checkpoint {checkpoint_id} to be recorded: {described(error)}"
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
        """Raise an error once the job's log has been gone, or damaged, for `GONE_MS`; a share may be away for less.

        Raises:
            CheckpointLogGoneError: it is gone.
            DamagedSnapshotError: it is damaged.
        """
        if not isinstance(error, StorageAwayError | DamagedSnapshotError):
            self._gone_since_ms = None
            return
        now_ms = self._clock.monotonic_ms()
        self._gone_since_ms = now_ms if self._gone_since_ms is None else self._gone_since_ms
        if now_ms - self._gone_since_ms < GONE_MS:
            return
        if isinstance(error, DamagedSnapshotError):
            raise error
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

    def _forget_damaged(self, checkpoint_id: CheckpointId) -> Forgotten | None:
        """Forget a damaged checkpoint; None: it is not known yet whether that is recorded, and tried again later."""
        self._unforgotten.add(checkpoint_id)
        try:
            self._forget()
        except FencedError:
            return Forgotten(checkpoint_id, is_fenced=True)
        except Exception as error:
            self._give_up_if_gone(error)
            logger.warning("checkpoint %s of job %s is not forgotten yet", checkpoint_id, self._job_id, exc_info=True)
            self.trouble = f"checkpoint {checkpoint_id} to be recorded as damaged: {described(error)}"
            self._wait()
            return None
        self._retry_ms, self._retry_at_ms, self._gone_since_ms = RETRY_MS, 0.0, None
        return Forgotten(checkpoint_id)

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
            submitted = self._read_restore_point()
        except OSError as error:
            text = described(error)
            if isinstance(error, StorageAwayError) and not self._home.waits_for_storage:
                return Submitted(refusal=f"the snapshot to restore cannot be read: {text}")
            logger.warning("cannot read yet what job %s restores from: %s", self._job_id, text)
            self._wait()
            return RecoveryDelayed(f"cannot read yet what to restore: {text}")
        except JobOverError as error:
            submitted = Submitted(outcome=error.outcome)
        except (CheckpointStorageError, DamagedSnapshotError) as error:
            submitted = Submitted(refusal=f"the snapshot to restore cannot be read: {described(error)}")
        self._retry_ms, self._retry_at_ms = RETRY_MS, 0.0
        return submitted

    def _read_restore_point(self) -> Submitted:
        submitted = self._reader.read()
        if submitted.refusal is None:
            retained = submitted.retained
            self._keeps = bool(retained)
            self._directories.update(checkpoint.location for checkpoint in retained if checkpoint.is_owned)
        return submitted
