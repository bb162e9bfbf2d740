"""Handles of state that tasks acknowledge, metadata lists, and slots restore. Frozen values; pure.

Source: Flink, OperatorSubtaskState, TaskStateSnapshot, InputChannelStateHandle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.ids import CheckpointId, JobId, OperatorId
from runtime.operators.source_coordinator import COORDINATOR_STATE
from runtime.state.handles import FileHandle, KeyedStateHandle
from runtime.state.snapshot import OperatorStateSnapshot, Redistribution
from runtime.state.state_meta import BROADCAST, LIST_OF_OPERATOR, UNION_OF_OPERATOR, StateMeta, StatePart

_KINDS: Final = {
    Redistribution.SPLIT: LIST_OF_OPERATOR,
    Redistribution.UNION: UNION_OF_OPERATOR,
    Redistribution.BROADCAST: BROADCAST,
}


@dataclass(frozen=True, slots=True)
class OperatorSubtaskState:
    """State of one subtask of one operator in a checkpoint."""

    keyed: KeyedStateHandle | None = None
    operator_states: Mapping[str, OperatorStateSnapshot] = field(default_factory=dict)
    """Inline: the JobMaster distributes it item by item; docs/checkpoints.md describes the cost."""
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
        """Return every file referred to."""
        found = [c.file for c in self.channels if c.file is not None]
        for state in self.operators.values():
            if state.keyed is not None:
                found.extend(state.keyed.files.values())
        return found


@dataclass(frozen=True, slots=True)
class OperatorRestore:
    """State that one subtask of one operator restores, assigned for its parallelism."""

    keyed: Sequence[KeyedStateHandle] = ()
    """Handles whose key groups overlap the subtask's; several after the parallelism has changed."""
    operator_states: Mapping[str, OperatorStateSnapshot] = field(default_factory=dict)
    watermark: int = -(2**63)


@dataclass(frozen=True, slots=True)
class TaskRestore:
    """State that one task restores."""

    operators: Mapping[OperatorId, OperatorRestore] = field(default_factory=dict)
    channels: Sequence[ChannelState] = ()
    """In-flight elements that this task processes before anything new, in this order."""
    is_finished: bool = False
    """Whether every subtask of the vertex had ended its output: `finish` was called, and only END follows."""
    mixed_edges: frozenset[int] = frozenset()
    """Edges whose channels come from another parallelism: rows of other subtasks' key groups and all watermarks in them
    are ignored."""
    checkpoint_id: int | None = None
    """None: restored from a savepoint, or first start."""
    location: str | None = None
    """URI of the directory of the checkpoint or savepoint; None: it is not known."""


@dataclass(frozen=True, slots=True)
class CheckpointMetrics:
    """Measurements of one subtask's part of a checkpoint. Times in ms, sizes in bytes."""

    sync_ms: float = 0.0
    async_ms: float = 0.0
    alignment_ms: float = 0.0
    start_delay_ms: float = 0.0
    """From the barrier's creation to its arrival at the task."""
    processed_bytes: int = 0
    """Processed during the alignment."""
    persisted_bytes: int = 0
    """In-flight data in the snapshot."""
    checkpointed_bytes: int = 0
    """Newly written."""
    state_bytes: int = 0
    """Total size of the files to which the subtask's part refers."""
    is_unaligned: bool = False


@dataclass(frozen=True, slots=True)
class EdgeIdentity:
    """Identifies an edge in other graphs of the job; edge ids depend on all edges of a graph."""

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
    """By index, one per subtask; empty for subtasks without state."""
    coordinator: OperatorStateSnapshot | None = None
    """State of a source's coordinator."""
    finished: frozenset[int] = frozenset()
    """Subtasks whose task had ended its output."""
    key_type: str = ""
    """Type of its keyed state's keys, as `runtime.graph.key_types` names it; "" = not keyed, or unknown."""
    window_type: str = ""
    """Type of the windows of its keyed state; "" = none, or unknown."""
    state_content: str = ""
    """What the values in its state are of, as `ChainedOperator.state_content`; "" = unknown."""
    state_parts: Sequence[StatePart] = ()
    """The same more exactly, as `ChainedOperator.state_parts`; () = unknown."""

    @property
    def keyed_states(self) -> Mapping[str, StateMeta] | None:
        """Return its states per key by name; None: they are not recorded."""
        handles = [subtask.keyed for subtask in self.subtasks if subtask.keyed is not None]
        found: dict[str, StateMeta] = {}
        for handle in handles:
            if handle.states is None:
                return None
            found |= {state.name: state for state in handle.states}
        return found

    @property
    def has_timers(self) -> bool:
        """Return whether timers of it are known to be there."""
        return any(subtask.keyed is not None and subtask.keyed.has_timers for subtask in self.subtasks)

    @property
    def operator_states(self) -> Mapping[str, StateMeta]:
        """Return its operator states that have items, by name; the coordinator's among them."""
        saved = [pair for subtask in self.subtasks for pair in subtask.operator_states.items()]
        if self.coordinator is not None:
            saved.append((COORDINATOR_STATE, self.coordinator))
        return {
            name: StateMeta(name, _KINDS[state.mode], state.serializer, namespaced=False)
            for name, state in saved
            if state.items
        }

    @property
    def is_empty(self) -> bool:
        """Return whether it has no state."""
        return self.coordinator is None and not any(s.keyed is not None or s.operator_states for s in self.subtasks)


@dataclass(frozen=True, slots=True)
class CheckpointMetadata:
    """A whole checkpoint or savepoint: the content of `_metadata`."""

    job_id: JobId
    checkpoint_id: CheckpointId
    timestamp_ms: int
    """Wall-clock time of the trigger."""
    options: CheckpointOptions
    operators: Sequence[OperatorState]
    channels: Sequence[ChannelState] = ()
    """In-flight elements, of every consumer."""
    edges: Mapping[int, EdgeIdentity] = field(default_factory=dict)
    """By edge id; `channels` refer to these."""
    job_name: str = ""

    def files(self) -> list[FileHandle]:
        """Return every file referred to."""
        found = [c.file for c in self.channels if c.file is not None]
        for operator in self.operators:
            for state in operator.subtasks:
                if state.keyed is not None:
                    found.extend(state.keyed.files.values())
        return found
