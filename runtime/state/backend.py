"""What a keyed state backend offers to operators, whichever one is configured.

One backend instance belongs to one operator of one subtask and is used by its task's thread only. State is scoped to
the current key and, where the state is namespaced, to the namespace given (a window's, for example).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Protocol

from runtime.core.ids import CheckpointId, KeyGroup
from runtime.state.descriptors import StateDescriptor
from runtime.state.handles import PendingKeyedState
from runtime.state.key_groups import KeyGroupRange
from runtime.state.snapshot import CANONICAL_SNAPSHOT, KeyedSnapshot, SnapshotRequest


class Timer(Protocol):
    """A due timer as its operator sees it."""

    @property
    def timestamp(self) -> int: ...

    @property
    def key(self) -> Any: ...

    @property
    def namespace(self) -> Any: ...


class NamespacedState(Protocol):
    """What state from `get_namespaced_state` can do beside what its kind can."""

    def set_current_namespace(self, namespace: Hashable) -> None:
        """The namespace that the state is scoped to from now on, whatever the key."""


class MergingNamespacedState(NamespacedState, Protocol):
    """What namespaced list, reducing and aggregating state can do beside."""

    def merge_namespaces(self, target: Hashable, sources: Iterable[Hashable]) -> None:
        """Move what `sources` hold for the current key into `target`; leaves the current namespace as it is."""


class TimerService(Protocol):
    """Event-time and processing-time timers of one operator, scoped to the current key; a part of keyed state.

    Registering the same (key, namespace, timestamp) again changes nothing. Timers fire in timestamp order.
    Source: Flink, InternalTimerService.
    """

    current_watermark: int
    num_fired: int
    """Timers that have fired so far, of both kinds."""

    def register_event_time_timer(self, timestamp: int, namespace: Hashable = None) -> None: ...

    def delete_event_time_timer(self, timestamp: int, namespace: Hashable = None) -> None: ...

    def register_processing_time_timer(self, timestamp: int, namespace: Hashable = None) -> None: ...

    def delete_processing_time_timer(self, timestamp: int, namespace: Hashable = None) -> None: ...

    def advance_watermark(self, watermark: int) -> None:
        """Set `current_watermark`, then fire every event-time timer with timestamp <= `watermark`.

        The backend's current key is the timer's while its callback runs. Timers that a callback registers and that are
        due too fire in the same call.
        """

    def advance_processing_time(self, now_ms: int) -> None:
        """Fire every processing-time timer with timestamp <= `now_ms`."""

    def next_processing_time(self) -> int | None:
        """Timestamp of the earliest processing-time timer, ms."""

    def event_time_namespaces(self) -> set[Any]:
        """The namespaces that have event-time timers, of any key; looks at every timer."""


class KeyedStateBackend(ABC):
    """Keyed state and timers of one operator subtask."""

    key_group_range: KeyGroupRange
    max_parallelism: int

    @property
    @abstractmethod
    def current_key(self) -> Any:
        """The key that state and timers are scoped to.

        Raises:
            NoCurrentKeyError: no key has been set.
        """

    @abstractmethod
    def set_current_key(self, key: Any) -> None:
        """Make `key` the one that state and timers are scoped to.

        Raises:
            KeyEncodingError: the key is of a kind that has no canonical encoding, or empty where that is not allowed.
            KeyGroupRangeError: the key's key group does not belong to this subtask.
        """

    @abstractmethod
    def clear_current_key(self) -> None:
        """Let there be no current key: state and timers then raise NoCurrentKeyError until the next is set."""

    @abstractmethod
    def get_state(self, descriptor: StateDescriptor, *, fitted: bool = False) -> Any:
        """The state object of a descriptor (ValueState, ListState, …), scoped to the current key.

        The object is made once per name, by the first call, and may be kept: it follows the current key.

        Args:
            descriptor: its name, kind and types.
            fitted: whether all that it will be given is in the form of the types already. Otherwise its values are
                converted as they come, and those that do not fit raise TypeError or OverflowError.

        Raises:
            StateTypeError: the name is taken by a state of another kind.
        """

    @abstractmethod
    def get_namespaced_state(self, descriptor: StateDescriptor, *, fitted: bool = False) -> Any:
        """As `get_state`, with a method `set_current_namespace(namespace: Hashable)` on the object."""

    @abstractmethod
    def get_timer_service(
        self,
        name: str,
        on_event_time: Callable[[Timer], None],
        on_processing_time: Callable[[Timer], None],
    ) -> TimerService:
        """The timer service of this name; restored timers are in it. Call once per name, while opening."""

    @abstractmethod
    def keys(self, state_name: str) -> Iterator[Any]:
        """All keys that have a value in this state, in no order."""

    @abstractmethod
    def snapshot(self, request: SnapshotRequest = CANONICAL_SNAPSHOT) -> KeyedSnapshot | PendingKeyedState:
        """State and timers as they are now: the synchronous part of a checkpoint.

        Returns:
            A KeyedSnapshot, complete and in the canonical form, for CANONICAL_SNAPSHOT, which is of no checkpoint. For
            every other request what the backend does best: a PendingKeyedState, if it can write itself out while
            processing goes on; its handle is of the canonical format if that was asked for.
        """

    def notify_checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        """A checkpoint that this backend took part in is complete: later ones may build on its files."""

    def notify_checkpoint_aborted(self, checkpoint_id: CheckpointId) -> None:
        """A checkpoint was given up: nothing may build on it, and its files may be deleted at any time."""

    @abstractmethod
    def restore(self, snapshot: KeyedSnapshot) -> None:
        """Load what `snapshot` holds of this backend's key groups. Call before any state is asked for."""

    @abstractmethod
    def dispose(self) -> None:
        """Release everything; idempotent."""

    def key_groups(self) -> range:
        """The key groups that this backend owns."""
        return range(self.key_group_range.start, self.key_group_range.end + 1)


__all__ = ["KeyGroup", "KeyedStateBackend", "MergingNamespacedState", "NamespacedState", "Timer", "TimerService"]
