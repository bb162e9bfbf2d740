"""OngoingSnapshots: snapshots of a task from the moment at which they were taken to their acknowledgement.

State is gathered for a few milliseconds between slices, then uploaded by another thread. Each snapshot is acknowledged
or declined once, unless it is dropped. Loop's thread only, but for what says otherwise.
Source: Flink, AsyncCheckpointRunnable.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from runtime.checkpoint.channel_state import ChannelPart
from runtime.checkpoint.handles import CheckpointMetrics, TaskStateHandle
from runtime.checkpoint.state_files import TaskStateWriter
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.clock import Clock
from runtime.core.elements import CheckpointBarrier
from runtime.core.ids import CheckpointId, OperatorId, TaskId
from runtime.graph.job_graph import JobVertex
from runtime.network.channel import OutputChannel
from runtime.state.handles import PendingKeyedState
from runtime.state.key_groups import key_group_range
from runtime.state.snapshot import OperatorSnapshot
from runtime.task.state_writing import TaskState, size_of, write_task_state
from runtime.task.uploads import Uploads

ADVANCE_MS = 6.0
"""Time for gathering state between two slices. More is felt as latency, less makes a checkpoint take longer, and each
key that is used meanwhile costs more: slices of records are about 20 ms.
"""


class SnapshotServices(Protocol):
    """Services of the slot that snapshots need."""

    clock: Clock
    uploads: Uploads

    @property
    def state_compression(self) -> str: ...

    def state_writer(self, options: CheckpointOptions, checkpoint_id: CheckpointId, task: str) -> TaskStateWriter: ...

    def acknowledge(
        self, task: TaskId, checkpoint_id: CheckpointId, state: TaskStateHandle, metrics: CheckpointMetrics
    ) -> None: ...

    def decline(
        self, task: TaskId, checkpoint_id: CheckpointId, error: Exception, counts_as_failure: bool = True
    ) -> None: ...

    def post(self, action: Callable[[], None]) -> None:
        """Have the loop's thread run an action; any thread."""


@dataclass(slots=True)
class OngoingSnapshot:
    """A snapshot that was taken and is not acknowledged."""

    barrier: CheckpointBarrier
    snapshots: dict[OperatorId, OperatorSnapshot]
    metrics: CheckpointMetrics
    ended_ms: float
    """When the synchronous part was over, monotonic."""
    is_finished: bool
    """Whether the task has ended its output."""
    gathering: list[PendingKeyedState]
    parts: list[ChannelPart] = field(default_factory=list)
    is_recording: bool = False
    holding: list[OutputChannel] = field(default_factory=list)
    """Outputs that the barrier has not left, and may still have to overtake."""
    upload: Callable[[], None] | None = None
    """Action that another thread runs or has run."""
    is_given_up: bool = False
    """Read by the upload thread too."""

    @property
    def checkpoint_id(self) -> CheckpointId:
        return self.barrier.checkpoint_id

    @property
    def is_ready(self) -> bool:
        is_open = self.gathering or self.is_recording or self.holding
        return not (is_open or self.upload is not None or self.is_given_up)


class OngoingSnapshots:
    """The ongoing snapshots of one task.

    Args:
        task, name: of the task.
        vertex: what it runs.
        services: its slot.
    """

    def __init__(self, task: TaskId, name: str, vertex: JobVertex, services: SnapshotServices) -> None:
        self._task = task
        self._name = name
        self._vertex = vertex
        self._services = services
        self._ongoing: list[OngoingSnapshot] = []

    def __bool__(self) -> bool:
        return bool(self._ongoing)

    @property
    def is_gathering(self) -> bool:
        """Return whether `advance` has something to do now."""
        return any(ongoing.gathering for ongoing in self._ongoing)

    @property
    def is_uploading(self) -> bool:
        """Return whether another thread is at work."""
        return any(ongoing.upload is not None for ongoing in self._ongoing)

    def add(self, ongoing: OngoingSnapshot) -> None:
        """Take a snapshot over."""
        self._ongoing.append(ongoing)

    def advance(self) -> bool:
        """Gather state for a few milliseconds; returns whether there was something to gather."""
        worked = False
        for ongoing in list(self._ongoing):
            if ongoing.gathering:
                worked = True
                self._gather(ongoing)
            if ongoing.holding:
                ongoing.holding = [c for c in ongoing.holding if c.holds_barrier(ongoing.checkpoint_id)]
            self.upload_if_ready(ongoing)
        return worked

    def add_recorded(self, checkpoint_id: CheckpointId, recorded: Sequence[ChannelPart]) -> None:
        """Add what was recorded of the inputs, which is over now."""
        for ongoing in self._of(checkpoint_id):
            # a consumer takes in first what it had received
            ongoing.parts = [*recorded, *ongoing.parts]
            ongoing.is_recording = False
            self.upload_if_ready(ongoing)

    def upload_if_ready(self, ongoing: OngoingSnapshot) -> None:
        """Begin the upload if all that belongs to the snapshot is there."""
        if not ongoing.is_ready:
            return
        services, vertex = self._services, self._vertex
        writer = services.state_writer(ongoing.barrier.options, ongoing.checkpoint_id, self._name)
        key_groups = key_group_range(vertex.max_parallelism, vertex.parallelism, self._task.subtask_index)
        state = TaskState(
            ongoing.snapshots,
            ongoing.parts,
            ongoing.is_finished,
            key_groups,
            vertex.max_parallelism,
            services.state_compression,
        )
        ongoing.upload = partial(self._upload, ongoing, state, writer)
        services.uploads.submit(ongoing.upload)

    def fail(self, checkpoint_id: CheckpointId, error: Exception) -> None:
        """Decline a checkpoint whose snapshot cannot be stored."""
        for ongoing in self._of(checkpoint_id):
            self._fail(ongoing, error)

    def drop(self, checkpoint_id: CheckpointId) -> list[Callable[[], None]]:
        """Give a checkpoint up, without an answer. Return its uploads that another thread may be in."""
        dropped = self._of(checkpoint_id)
        for ongoing in dropped:
            self._drop(ongoing)
        return [ongoing.upload for ongoing in dropped if ongoing.upload is not None]

    def drop_all(self) -> None:
        """Give up all, without an answer."""
        for ongoing in list(self._ongoing):
            self._drop(ongoing)

    def _of(self, checkpoint_id: CheckpointId) -> list[OngoingSnapshot]:
        return [ongoing for ongoing in self._ongoing if ongoing.checkpoint_id == checkpoint_id]

    def _gather(self, ongoing: OngoingSnapshot) -> None:
        try:
            if ongoing.gathering[0].advance(ADVANCE_MS):
                del ongoing.gathering[0]
        except Exception as error:
            self._fail(ongoing, error)

    def _upload(self, ongoing: OngoingSnapshot, state: TaskState, writer: TaskStateWriter) -> None:
        # in an upload thread
        if ongoing.is_given_up:
            return
        try:
            handle = write_task_state(state, writer)
        except Exception as error:
            writer.discard()
            failure = error
            self._services.post(lambda: self._fail(ongoing, failure))
            return
        if ongoing.is_given_up:
            writer.discard()
            return
        self._services.post(lambda: self._uploaded(ongoing, handle, writer))

    def _uploaded(self, ongoing: OngoingSnapshot, handle: TaskStateHandle, writer: TaskStateWriter) -> None:
        if ongoing.is_given_up:
            self._services.uploads.submit(writer.discard)
            return
        self._ongoing.remove(ongoing)
        metrics = dataclasses.replace(
            ongoing.metrics,
            async_ms=self._services.clock.monotonic_ms() - ongoing.ended_ms,
            persisted_bytes=sum(part.size for part in ongoing.parts),
            checkpointed_bytes=writer.written_bytes,
            state_bytes=size_of(handle),
        )
        self._services.acknowledge(self._task, ongoing.checkpoint_id, handle, metrics)

    def _fail(self, ongoing: OngoingSnapshot, error: Exception) -> None:
        if not ongoing.is_given_up:
            self._drop(ongoing)
            self._services.decline(self._task, ongoing.checkpoint_id, error)

    def _drop(self, ongoing: OngoingSnapshot) -> None:
        ongoing.is_given_up = True
        self._ongoing.remove(ongoing)
        for snapshot in ongoing.snapshots.values():
            if snapshot.pending is not None:
                snapshot.pending.discard()
