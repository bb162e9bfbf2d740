"""RetainedCheckpoints: the checkpoints that a job's recovery may start from, and which files they need. Pure.

A checkpoint is dropped when enough newer ones have taken its place, when it is damaged, or at the end of the job. The
files of a dropped one are deleted once nothing refers to them: neither a retained checkpoint nor one in progress whose
tasks may still build on them. The CheckpointCoordinator says when each of that happens. Source: Flink,
DefaultCompletedCheckpointStore, CheckpointSubsumeHelper.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence

from runtime.checkpoint.completed_store import CompletedCheckpoint
from runtime.checkpoint.handles import CheckpointMetadata
from runtime.checkpoint.layout import writer_of_file
from runtime.checkpoint.locations import name_of
from runtime.checkpoint.messages import CoordinatorAction, DeleteFiles, ForgetCheckpoints, ForgetDamaged
from runtime.checkpoint.pending_checkpoint import PendingCheckpoint
from runtime.checkpoint.shared_registry import SharedFileRegistry
from runtime.checkpoint.statistics import CheckpointStatistics
from runtime.core.checkpoint_options import AfterSnapshot
from runtime.core.ids import CheckpointId
from runtime.state.handles import FileHandle

REMEMBERED_DISCARDS = 32
"""Number of dropped checkpoints whose deleted files are remembered. A task may build on one of them if it has not been
notified of any checkpoint since; a message that is late by that many checkpoints belongs to a slot that has been given
up by then.
"""


class RetainedCheckpoints:
    """The completed checkpoints of one job, in one JobMaster.

    Args:
        num_retained: how many are kept, >= 1.
        statistics: told of checkpoints whose files are deleted.
        act: takes the actions ForgetCheckpoints, ForgetDamaged and DeleteFiles, in order.
    """

    def __init__(
        self, num_retained: int, statistics: CheckpointStatistics, act: Callable[[CoordinatorAction], None]
    ) -> None:
        self._num_retained = num_retained
        self._statistics = statistics
        self._act = act
        self._registry = SharedFileRegistry()
        #: oldest first
        self._completed: list[CompletedCheckpoint] = []
        #: their number at the start
        self._recovered = 0
        #: the savepoint that the job stops with, the newest of them; None: it does not, as far as is recorded
        self._stopped_by: CheckpointId | None = None
        #: dropped ones on whose files a checkpoint in progress may still build: its id is in the set
        self._deferred: list[tuple[CompletedCheckpoint, set[CheckpointId]]] = []
        #: shared files that were deleted with the last dropped checkpoints
        self._gone: deque[frozenset[str]] = deque(maxlen=REMEMBERED_DISCARDS)
        #: damaged ones that a JobMaster which takes over now might still restore
        self._unforgotten: set[CheckpointId] = set()
        #: the damaged one that was the only one: recorded until another one is, or the job has ended
        self._last_damaged: tuple[CheckpointId, ...] = ()
        self._needs_full = False
        self._is_fenced = False

    # --- what there is ------------------------------------------------------------------------------------------------

    @property
    def newest(self) -> CompletedCheckpoint | None:
        """Return the newest one; None: there is none."""
        return self._completed[-1] if self._completed else None

    @property
    def stopped_by(self) -> CompletedCheckpoint | None:
        """Return the recorded savepoint that the job stops with; None: there is none. No checkpoint follows it."""
        return None if self._stopped_by is None else self._completed[-1]

    @property
    def needs_full(self) -> bool:
        """Return whether the next checkpoint must share no file with the restored snapshot, which is the user's."""
        return self._needs_full

    @property
    def is_fenced(self) -> bool:
        """Return whether another JobMaster has taken over."""
        return self._is_fenced

    def metadata(self) -> tuple[CheckpointMetadata, ...]:
        """Return the metadata of all checkpoints whose files are needed, those of dropped ones included."""
        return tuple(c.metadata for c in (*self._completed, *(dropped for dropped, _ in self._deferred)))

    def gone_among(self, files: Iterable[FileHandle]) -> set[str]:
        """Return the files that were deleted with a dropped checkpoint."""
        return {file.uri for file in files if any(file.uri in uris for uris in self._gone)}

    def unknown_among(self, files: Iterable[FileHandle], leader_epoch: int) -> list[str]:
        """Return the shared files of earlier JobMasters' checkpoints to which no retained checkpoint refers.

        Args:
            files: those to look at.
            leader_epoch: of this JobMaster; files that it wrote are known.
        """
        unknown = []
        for file in files:
            writer = writer_of_file(name_of(file.uri)) if file.is_shared else None
            if writer is not None and writer.leader_epoch != leader_epoch and file.uri not in self._registry:
                unknown.append(file.uri)
        return unknown

    def check_invariants(self, *, is_bounded: bool) -> None:
        """Raise AssertionError if something contradicts itself.

        Args:
            is_bounded: whether no more than the number to retain may be here: the job has not ended.
        """
        ids = [c.checkpoint_id for c in self._completed]
        assert ids == sorted(set(ids)), "completed checkpoints are out of order"
        is_within = len(ids) <= max(self._num_retained, self._recovered)
        assert is_within or not is_bounded, "too many checkpoints are retained"
        assert self._stopped_by is None or ids[-1] == self._stopped_by, "a checkpoint follows that of a stop"
        for metadata in self.metadata():
            for file in metadata.files():
                assert not file.is_shared or file.uri in self._registry, "a file that is needed is not registered"

    # --- what happens -------------------------------------------------------------------------------------------------

    def recover(self, retained: Sequence[CompletedCheckpoint], initial: CompletedCheckpoint | None) -> None:
        """Take over existing checkpoints before the job begins; see `CheckpointCoordinator.recover`."""
        known = [*retained] if initial is None else [initial, *retained]
        for checkpoint in known:
            self._register(checkpoint)
        self._recovered = len(known)
        if retained and retained[-1].metadata.options.after is not AfterSnapshot.GO_ON:
            self._stopped_by = retained[-1].checkpoint_id
        self._needs_full = bool(known) and not known[-1].is_owned

    def add(self, checkpoint: CompletedCheckpoint) -> None:
        """Add a checkpoint of the job that is now recorded as complete."""
        self._needs_full = False
        self._register(checkpoint)
        if checkpoint.metadata.options.after is not AfterSnapshot.GO_ON:
            self._stopped_by = checkpoint.checkpoint_id
        self.forget_damaged()

    def drop_subsumed(self, pending: Collection[CheckpointId]) -> None:
        """Drop checkpoints beyond the number to retain.

        Args:
            pending: checkpoints in progress. Tasks that began one before they were notified of the newest completed
            one may build on files of a dropped one.
        """
        dropped = self._completed[: -self._num_retained]
        self._completed = self._completed[-self._num_retained :]
        self._forget([c.checkpoint_id for c in dropped])
        for checkpoint in dropped:
            self._deferred.append((checkpoint, set(pending)))

    def release(self, ended: CheckpointId, pending: Collection[PendingCheckpoint]) -> None:
        """Delete the files of dropped checkpoints on which nothing in progress can build any more.

        Args:
            ended: a checkpoint that is no longer in progress.
            pending: those that are.
        """
        still = []
        for checkpoint, blockers in self._deferred:
            blockers.discard(ended)
            only_there = set(self._registry.only_of(checkpoint.checkpoint_id))
            blockers.update(p.checkpoint_id for p in pending if any(file.uri in only_there for file in p.files()))
            if blockers:
                still.append((checkpoint, blockers))
            else:
                self._discard(checkpoint)
        self._deferred = still

    def drop_damaged(self, checkpoint_id: CheckpointId) -> None:
        """Never restore a checkpoint again, because it cannot be read; its files are kept for examination."""
        self._completed = [c for c in self._completed if c.checkpoint_id != checkpoint_id]
        if checkpoint_id == self._stopped_by:
            self._stopped_by = None
        self._registry.unregister(checkpoint_id)
        self._needs_full = bool(self._completed) and not self._completed[-1].is_owned
        if self._completed:
            self._unforgotten.add(checkpoint_id)
            self._act(ForgetDamaged(checkpoint_id))
        else:
            # a JobMaster that takes over now must find something, so that it does not begin the job anew
            self._last_damaged = (checkpoint_id,)

    def forgotten(self, checkpoint_id: CheckpointId) -> None:
        """Note that a damaged checkpoint is hidden from recovery."""
        self._unforgotten.discard(checkpoint_id)

    @property
    def is_forgetting(self) -> bool:
        """Return whether damaged checkpoints are still to be hidden from recovery."""
        return bool(self._unforgotten)

    @property
    def is_damage_recorded(self) -> bool:
        """Return whether no damaged checkpoint can be found by a JobMaster that takes over."""
        return not self._unforgotten and not self._last_damaged

    def forget_damaged(self) -> None:
        """Hide from recovery the damaged checkpoint that was the only one: another one is recorded, or the end is."""
        self._forget(self._last_damaged)
        self._last_damaged = ()

    def drop_own(self) -> None:
        """Drop the job's own checkpoints with their files, because it has ended; a claimed snapshot stays."""
        own = [checkpoint for checkpoint in self._completed if not checkpoint.is_claimed]
        self._completed = [checkpoint for checkpoint in self._completed if checkpoint.is_claimed]
        self._stopped_by = None
        if not self._is_fenced:
            self._forget([c.checkpoint_id for c in own])
        for checkpoint in own:
            self._discard(checkpoint)

    def fence(self) -> None:
        """Delete nothing from now on: another JobMaster has taken over and decides what is needed."""
        self._is_fenced = True

    def delete_unneeded(
        self, files: Iterable[FileHandle], pending: Iterable[PendingCheckpoint], directory: str | None = None
    ) -> None:
        """Delete files of an aborted checkpoint to which nothing else refers.

        Args:
            files: which ones.
            pending: checkpoints in progress, whose files are needed.
            directory: URI of its directory, which is deleted with all that is in it; None: it stays.
        """
        needed = {file.uri for p in pending for file in p.files()}
        uris = {f.uri for f in files if f.uri not in self._registry and f.uri not in needed}
        if directory is not None:
            uris = {uri for uri in uris if not _is_in(uri, directory)}
        self.delete(sorted(uris), [] if directory is None else [directory])

    def delete(self, files: Sequence[str], directories: Sequence[str]) -> None:
        """Have files and directories deleted, by URI, unless another JobMaster has taken over."""
        if (files or directories) and not self._is_fenced:
            self._act(DeleteFiles(tuple(files), tuple(directories)))

    def _register(self, checkpoint: CompletedCheckpoint) -> None:
        self._completed.append(checkpoint)
        shared = (file.uri for file in checkpoint.metadata.files() if file.is_shared)
        self._registry.register(checkpoint.checkpoint_id, shared)

    def _forget(self, checkpoint_ids: Sequence[CheckpointId]) -> None:
        if checkpoint_ids:
            self._act(ForgetCheckpoints(tuple(checkpoint_ids)))

    def _discard(self, checkpoint: CompletedCheckpoint) -> None:
        """Delete files that belong to a dropped checkpoint alone."""
        free = self._registry.unregister(checkpoint.checkpoint_id)
        if not checkpoint.is_owned:
            return
        self._gone.append(frozenset(free))
        self._statistics.discarded(checkpoint.checkpoint_id)
        self.delete(free, [checkpoint.location])


def _is_in(uri: str, directory: str) -> bool:
    return uri.startswith(directory.rstrip("/") + "/")
