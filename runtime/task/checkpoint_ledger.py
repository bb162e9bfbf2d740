"""CheckpointLedger: the checkpoints that a slot has taken part in, as far as a new JobMaster has to know. Pure.

A checkpoint is *pending* from the first word of it until the JobMaster says how it ended. Its acknowledgements are kept
as long: the JobMaster that they were sent to may be gone, and only whoever knows of the files can delete them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from runtime.core.checkpoint_options import AfterSnapshot, CheckpointOptions
from runtime.core.ids import CheckpointId, TaskId
from runtime.task.messages import AcknowledgeCheckpoint

REMEMBERED = 100
"""Number of pending checkpoints that are remembered; a JobMaster has a handful under way. The oldest is forgotten."""
NONE = CheckpointId(0)


class CheckpointLedger:
    """Checkpoints of one slot."""

    def __init__(self) -> None:
        self.last_seen = NONE
        #: the complete savepoint that the job stops with; None: it does not, as far as is known
        self.stopped_by: CheckpointId | None = None
        self._last_completed = NONE
        self._pending: dict[CheckpointId, CheckpointOptions] = {}
        self._acknowledged: dict[CheckpointId, list[AcknowledgeCheckpoint]] = {}

    @property
    def pending(self) -> Mapping[CheckpointId, CheckpointOptions]:
        """Return the checkpoints whose end is not known, with their options."""
        return dict(self._pending)

    def acknowledgements(self) -> list[AcknowledgeCheckpoint]:
        """Return what tasks have sent for pending checkpoints, in order."""
        return [message for messages in self._acknowledged.values() for message in messages]

    def heard_of(self, checkpoint_id: CheckpointId) -> None:
        """Note that a checkpoint has begun somewhere in the job."""
        self.last_seen = max(self.last_seen, checkpoint_id)

    def triggered(self, checkpoint_id: CheckpointId, options: CheckpointOptions) -> None:
        """Note that the tasks have been told of a checkpoint."""
        self.heard_of(checkpoint_id)
        self._pending[checkpoint_id] = options
        while len(self._pending) > REMEMBERED:
            self._forget(min(self._pending))

    def acknowledged(self, message: AcknowledgeCheckpoint, tasks: Collection[TaskId]) -> None:
        """Note a task's acknowledgement.

        Args:
            message: as it was sent.
            tasks: all tasks of the slot.
        """
        checkpoint_id = message.checkpoint_id
        self.heard_of(checkpoint_id)
        known = self._acknowledged.setdefault(checkpoint_id, [])
        known.append(message)
        options = self._pending.get(checkpoint_id)
        if options is not None and _leaves_no_trace(options) and {m.task for m in known} >= set(tasks):
            self._forget(checkpoint_id)
        while len(self._acknowledged) > REMEMBERED:
            self._forget(min(self._acknowledged))

    def completed(self, checkpoint_id: CheckpointId) -> bool:
        """Note that a checkpoint is complete, which decides all older ones; return False if that was known."""
        if checkpoint_id <= self._last_completed:
            return False
        self.heard_of(checkpoint_id)
        self._last_completed = checkpoint_id
        options = self._pending.get(checkpoint_id)
        if options is not None and options.after is not AfterSnapshot.GO_ON:
            self.stopped_by = checkpoint_id
        for older in [known for known in (*self._pending, *self._acknowledged) if known <= checkpoint_id]:
            self._forget(older)
        return True

    def deployed_to_stop(self, checkpoint_id: CheckpointId) -> None:
        """Note that the tasks restore the savepoint that the job stops with."""
        self.heard_of(checkpoint_id)
        self.stopped_by = self._last_completed = checkpoint_id

    def aborted(self, checkpoint_id: CheckpointId) -> None:
        """Note that a checkpoint was given up."""
        self.heard_of(checkpoint_id)
        self._forget(checkpoint_id)

    def _forget(self, checkpoint_id: CheckpointId) -> None:
        self._pending.pop(checkpoint_id, None)
        self._acknowledged.pop(checkpoint_id, None)


def _leaves_no_trace(options: CheckpointOptions) -> bool:
    """Return whether a slot that has acknowledged the snapshot is done with it: nobody tells it how that ends."""
    return options.is_savepoint and options.after is AfterSnapshot.GO_ON
