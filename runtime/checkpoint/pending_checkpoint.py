"""PendingCheckpoint: a checkpoint in progress, and the metadata that its parts make. Pure.

It goes SOURCES → TASKS → STORING. Its CheckpointCoordinator alone changes it. Source: Flink, PendingCheckpoint.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from runtime.checkpoint.handles import (
    ChannelState,
    CheckpointMetadata,
    EdgeIdentity,
    OperatorState,
    OperatorSubtaskState,
    TaskStateHandle,
)
from runtime.checkpoint.messages import TriggerRequested
from runtime.core.checkpoint_options import AfterSnapshot, CheckpointOptions
from runtime.core.ids import Attempt, CheckpointId, JobId, OperatorId, SlotId, TaskId
from runtime.graph.job_graph import JobGraph
from runtime.state.handles import FileHandle
from runtime.state.snapshot import OperatorStateSnapshot


class Stage(enum.Enum):
    """Phase of a checkpoint in progress."""

    SOURCES = "source coordinators take their snapshots"
    TASKS = "tasks take theirs"
    STORING = "it is being recorded"


@dataclass(slots=True)
class PendingCheckpoint:
    """A checkpoint or savepoint in progress."""

    checkpoint_id: CheckpointId
    attempt: Attempt
    attempts: frozenset[Attempt]
    """Of the regions that take part; empty: `attempt` alone."""
    graph: JobGraph
    options: CheckpointOptions
    timestamp_ms: int
    """Time of its trigger, epoch ms."""
    deadline_ms: float
    """When it expires, monotonic."""
    request: TriggerRequested | None
    """None: it is periodic."""
    stage: Stage
    waiting_slots: set[SlotId]
    """Slots whose source coordinators have not answered."""
    waiting_tasks: set[TaskId]
    """Tasks that have not acknowledged."""
    coordinators: dict[OperatorId, OperatorStateSnapshot] = field(default_factory=dict)
    states: dict[TaskId, TaskStateHandle] = field(default_factory=dict)
    metadata: CheckpointMetadata | None = None
    """Once it is STORING."""

    @property
    def is_last(self) -> bool:
        """Return whether no other snapshot is taken after it, unless it fails."""
        return self.request is not None and self.request.is_last

    @property
    def is_recorded(self) -> bool:
        """Return whether recovery may start from it."""
        # after a savepoint that stops the job sinks commit, so nothing older may be restored
        return not self.options.is_savepoint or self.options.after is not AfterSnapshot.GO_ON

    @property
    def has_drained(self) -> bool:
        """Return whether sources may have ended their input for it."""
        return self.options.after is AfterSnapshot.DRAIN and self.stage is not Stage.SOURCES

    def files(self) -> list[FileHandle]:
        """Return the files that tasks have acknowledged."""
        return [file for state in self.states.values() for file in state.files()]

    def metadata_of(self, job_id: JobId) -> CheckpointMetadata:
        """Return the metadata with all parts, by operator; every task has acknowledged."""
        operators: list[OperatorState] = []
        channels: list[ChannelState] = []
        for vertex in self.graph.vertices:
            parts = [self.states[TaskId(vertex.vertex_id, i)] for i in range(vertex.parallelism)]
            channels.extend(channel for part in parts for channel in part.channels)
            finished = frozenset(i for i, part in enumerate(parts) if part.is_finished)
            for operator in vertex.operators:
                subtasks = tuple(part.operators.get(operator.operator_id, OperatorSubtaskState()) for part in parts)
                operators.append(
                    OperatorState(
                        operator_id=operator.operator_id,
                        uid=operator.uid,
                        name=operator.name,
                        parallelism=vertex.parallelism,
                        max_parallelism=vertex.max_parallelism,
                        subtasks=subtasks,
                        coordinator=self.coordinators.get(operator.operator_id),
                        finished=finished,
                        key_type=operator.key_type,
                        window_type=operator.window_type,
                        state_content=operator.state_content,
                        state_parts=operator.state_parts,
                    )
                )
        return CheckpointMetadata(
            job_id=job_id,
            checkpoint_id=self.checkpoint_id,
            timestamp_ms=self.timestamp_ms,
            options=self.options,
            operators=tuple(operators),
            channels=tuple(channels),
            edges=self._edges(),
            job_name=self.graph.name,
        )

    def _edges(self) -> dict[int, EdgeIdentity]:
        by_id = {v.vertex_id: v for v in self.graph.vertices}
        return {
            e.edge_id: EdgeIdentity(
                by_id[e.source].operators[e.source_operator].operator_id,
                by_id[e.target].head.operator_id,
                e.input_index,
                e.side_output_tag,
            )
            for e in self.graph.edges
        }
