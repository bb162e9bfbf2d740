"""Handles of state that tasks acknowledge, metadata lists, and slots are told to restore. Frozen values; pure.

Source: Flink, OperatorSubtaskState, TaskStateSnapshot, InputChannelStateHandle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.ids import CheckpointId, JobId, OperatorId
from runtime.state.handles import FileHandle, KeyedStateHandle
from runtime.state.snapshot import OperatorStateSnapshot


@dataclass(frozen=True, slots=True)
class OperatorSubtaskState:
    """State of one subtask of one operator in a checkpoint."""

    keyed: KeyedStateHandle | None = None
    operator_states: Mapping[str, OperatorStateSnapshot] = field(default_factory=dict)
    """Inline: it is dealt out item by item, by whoever has the metadata; see docs/checkpoints.md for what it costs."""
    watermark: int = -(2**63)


@dataclass(frozen=True, slots=True)
class ChannelState:
    """Elements that were in flight in one channel when an unaligned barrier overtook them, in order.

    Those that the consumer had received come first, then those that the producer still held.
    """

    edge_id: int
    producer: int
    consumer: int
    file: FileHandle | None
    offset: int
    """Bytes into the file."""
    length: int
    """Bytes."""
    is_output: bool
    """Whether it is the producer's part."""


@dataclass(frozen=True, slots=True)
class TaskStateHandle:
    """Everything that one task acknowledges."""

    operators: Mapping[OperatorId, OperatorSubtaskState] = field(default_factory=dict)
    channels: Sequence[ChannelState] = ()
    is_finished: bool = False
    """Whether the task had ended its output before the barrier."""

    def files(self) -> list[FileHandle]:
        """Return every file that it refers to."""
        found = [c.file for c in self.channels if c.file is not None]
        for state in self.operators.values():
            if state.keyed is not None:
                found.extend(state.keyed.files.values())
        return found


@dataclass(frozen=True, slots=True)
class OperatorRestore:
    """State that one subtask of one operator restores, dealt out for its parallelism."""

    keyed: Sequence[KeyedStateHandle] = ()
    """Those whose key groups meet the subtask's; several after the parallelism has changed."""
    operator_states: Mapping[str, OperatorStateSnapshot] = field(default_factory=dict)
    watermark: int = -(2**63)


@dataclass(frozen=True, slots=True)
class TaskRestore:
    """State that one task restores."""

    operators: Mapping[OperatorId, OperatorRestore] = field(default_factory=dict)
    channels: Sequence[ChannelState] = ()
    """In-flight elements that this task takes in before anything new, in this order."""
    is_finished: bool = False
    """Whether every subtask of the vertex had ended its output: `finish` was called, and END is all that follows."""
    mixed_edges: frozenset[int] = frozenset()
    """Edges whose channels come from another parallelism: rows of other subtasks' key groups and all watermarks in them
    are then left out."""
    checkpoint_id: int | None = None
    """None: from a savepoint, or of a first start."""
    location: str | None = None
    """URI of the directory of the checkpoint or savepoint; None: it is not known."""


@dataclass(frozen=True, slots=True)
class CheckpointMetrics:
    """Measurements of one subtask's part of a checkpoint. Times in ms, sizes in bytes."""

    sync_ms: float = 0.0
    async_ms: float = 0.0
    alignment_ms: float = 0.0
    start_delay_ms: float = 0.0
    """From the barrier's birth to its arrival at the task."""
    processed_bytes: int = 0
    """Taken in during the alignment."""
    persisted_bytes: int = 0
    """In-flight data in the snapshot."""
    checkpointed_bytes: int = 0
    """Newly written."""
    state_bytes: int = 0
    """All that the subtask's part refers to."""
    is_unaligned: bool = False


@dataclass(frozen=True, slots=True)
class EdgeIdentity:
    """Identifies an edge in other graphs of the job: edge ids count whatever edges there are."""

    source: OperatorId
    target: OperatorId
    input_index: int
    side_output_tag: str | None = None


@dataclass(frozen=True, slots=True)
class OperatorState:
    """An operator in a completed checkpoint."""

    operator_id: OperatorId
    uid: str
    name: str
    parallelism: int
    max_parallelism: int
    subtasks: Sequence[OperatorSubtaskState]
    """By index, one per subtask; one that had nothing to remember is empty."""
    coordinator: OperatorStateSnapshot | None = None
    """State of a source's coordinator."""
    finished: frozenset[int] = frozenset()
    """Subtasks whose task had ended its output."""
    key_type: str = ""
    """Type of its keyed state's keys, as `runtime.graph.key_types` names it; "" = not keyed, or not said."""
    window_type: str = ""
    """Type of the windows that its keyed state is kept by; "" = there are none, or that was not said."""

    @property
    def is_empty(self) -> bool:
        """Return whether nothing would be lost without it."""
        return self.coordinator is None and not any(s.keyed is not None or s.operator_states for s in self.subtasks)


@dataclass(frozen=True, slots=True)
class CheckpointMetadata:
    """A checkpoint or savepoint as a whole, as `_metadata` has it."""

    job_id: JobId
    checkpoint_id: CheckpointId
    timestamp_ms: int
    """Wall-clock time of the trigger."""
    options: CheckpointOptions
    operators: Sequence[OperatorState]
    channels: Sequence[ChannelState] = ()
    """In-flight elements, of every consumer."""
    edges: Mapping[int, EdgeIdentity] = field(default_factory=dict)
    """By edge id; what `channels` refer to."""
    job_name: str = ""

    def files(self) -> list[FileHandle]:
        """Return every file that it refers to."""
        found = [c.file for c in self.channels if c.file is not None]
        for operator in self.operators:
            for state in operator.subtasks:
                if state.keyed is not None:
                    found.extend(state.keyed.files.values())
        return found
