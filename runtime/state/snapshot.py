"""The canonical, backend-independent form of state, and its redistribution when the parallelism changes.

Everything here is bytes, text and ints: values were encoded by the serializer that their descriptor names, keys by the
canonical key encoding, so nothing has to be unpickled in order to be read, moved or counted.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.ids import CheckpointId, KeyGroup
from runtime.state.handles import PendingKeyedState
from runtime.state.state_meta import StateMeta as StateMeta


@dataclass(frozen=True, slots=True)
class StateEntry:
    """A value of a keyed state."""

    key: bytes
    namespace: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class TimerEntry:
    """A registered timer."""

    timestamp: int
    key: bytes
    namespace: bytes


@dataclass(frozen=True, slots=True)
class KeyGroupSnapshot:
    """State of one key group."""

    states: Mapping[str, Sequence[StateEntry]] = field(default_factory=dict)
    event_timers: Mapping[str, Sequence[TimerEntry]] = field(default_factory=dict)
    processing_timers: Mapping[str, Sequence[TimerEntry]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KeyedSnapshot:
    """Keyed state of one or more subtasks of an operator."""

    max_parallelism: int
    metas: Mapping[str, StateMeta] = field(default_factory=dict)
    groups: Mapping[KeyGroup, KeyGroupSnapshot] = field(default_factory=dict)


class Redistribution(enum.Enum):
    """Modes of redistributing the items of an operator state to the subtasks of a new parallelism."""

    SPLIT = "split"
    """Each item goes to one subtask, round-robin."""
    UNION = "union"
    """Each subtask gets all items of all subtasks."""
    BROADCAST = "broadcast"
    """All subtasks held the same items; each new one gets one copy."""


@dataclass(frozen=True, slots=True)
class OperatorStateSnapshot:
    """An operator state (not keyed) of one subtask."""

    mode: Redistribution
    items: Sequence[bytes]
    serializer: str = ""
    """Name of the serializer that encoded the items, for the compatibility check; "" = unknown."""


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """Describes the snapshot that an operator and its backend take."""

    kind: SnapshotKind
    checkpoint_id: CheckpointId
    is_last: bool = False
    """Whether the job stops after it: nothing more will be processed."""
    is_savepoint: bool = False
    """Whether the user owns it, and may restore it whatever the job does later."""


CANONICAL_SNAPSHOT = SnapshotRequest(SnapshotKind.CANONICAL, CheckpointId(0))
"""A snapshot that belongs to no checkpoint: for harnesses and tests."""


@dataclass(frozen=True, slots=True)
class OperatorSnapshot:
    """All state of one subtask of one operator."""

    keyed: KeyedSnapshot | None = None
    operator_states: Mapping[str, OperatorStateSnapshot] = field(default_factory=dict)
    watermark: int = -(2**63)
    """Event-time clock of the operator, ms; the minimum is taken when subtasks are merged."""
    pending: PendingKeyedState | None = None
    """Set instead of `keyed` if a kind other than CANONICAL was requested; never set in restored snapshots."""

    @classmethod
    def of(
        cls,
        keyed: KeyedSnapshot | PendingKeyedState | None,
        operator_states: Mapping[str, OperatorStateSnapshot] | None = None,
        watermark: int = -(2**63),
    ) -> OperatorSnapshot:
        """Make a snapshot from the result of `KeyedStateBackend.snapshot`."""
        if isinstance(keyed, PendingKeyedState):
            return cls(None, operator_states or {}, watermark, keyed)
        return cls(keyed, operator_states or {}, watermark)
