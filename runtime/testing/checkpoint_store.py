"""MemoryCheckpointStore: knows which checkpoints of a job are complete, kept in memory, with faults on demand.

Hand it to a JobMaster by `CheckpointHome(..., open_store=lambda: store)`: the next JobMaster that is given the same one
finds the job's checkpoints. Called by one thread at a time, as every CompletedCheckpointStore.
"""

from __future__ import annotations

from collections.abc import Iterable

from runtime.checkpoint.completed_store import CompletedCheckpoint, MemoryCompletedStore
from runtime.checkpoint.errors import FencedError
from runtime.core.ids import CheckpointId

__all__ = ["MemoryCheckpointStore"]


class MemoryCheckpointStore(MemoryCompletedStore):
    """A store that can be away, and can be taken over.

    Args:
        failures: how many calls of `complete` raise an OSError before one is answered.
        applies_failures: whether such a call has done its work all the same, as a database that answers too late has.
    """

    def __init__(self, failures: int = 0, *, applies_failures: bool = False) -> None:
        super().__init__()
        self.failures = failures
        self.applies_failures = applies_failures
        self.is_taken_over = False
        """Set it to True, and no checkpoint can be completed any more."""
        self.calls = 0
        """Of `complete`."""

    def complete(self, checkpoint: CompletedCheckpoint) -> bool:
        """Record a checkpoint, unless a fault is due.

        Raises:
            OSError: one of `failures`.
        """
        self.calls += 1
        if self.is_taken_over:
            return False
        is_away, self.failures = self.failures > 0, max(0, self.failures - 1)
        if not is_away or self.applies_failures:
            super().complete(checkpoint)
        if is_away:
            raise OSError("the store of checkpoints is away")
        return True

    def remove(self, checkpoint_ids: Iterable[CheckpointId]) -> None:
        """Forget checkpoints.

        Raises:
            FencedError: another JobMaster has taken over.
        """
        if self.is_taken_over:
            raise FencedError("memory:", 0, 1)
        super().remove(checkpoint_ids)
