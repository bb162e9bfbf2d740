"""Interface of keyed state backends, for operators.

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
from runtime.state.timer_slice import ENDLESS, TimerSlice


class Timer(Protocol):
    """A due timer, for its operator."""

    @property
    def timestamp(self) -> int: ...

    @property
    def key(self) -> Any: ...

    @property
    def namespace(self) -> Any: ...


class NamespacedState(Protocol):
    """Methods that state from `get_namespaced_state` has in addition to those of its kind."""

    def set_current_namespace(self, namespace: Hashable) -> None:
        """Set the namespace that the state is scoped to from now on, for all keys."""


class MergingNamespacedState(NamespacedState, Protocol):
    """Methods that namespaced list, reducing and aggregating state has in addition."""

    def merge_namespaces(self, target: Hashable, sources: Iterable[Hashable]) -> None:
        """Move the contents of `sources` for the current key into `target`; does not change the current namespace."""


class TimerService(Protocol):
    """Event-time and processing-time timers of one operator, scoped to the current key; a part of keyed state.

    Registering the same (key, namespace, timestamp) again changes nothing. Timers fire in timestamp order.
    Source: Flink, InternalTimerService.
    """

    current_watermark: int
    num_fired: int
    """Timers that have fired so far, of both kinds."""
    is_quiesced: bool
    """Whether new processing-time timers are ignored: a batch has ended, and time goes on for nobody."""

    def register_event_time_timer(self, timestamp: int, namespace: Hashable = None) -> None: ...

    def delete_event_time_timer(self, timestamp: int, namespace: Hashable = None) -> None: ...

    def register_processing_time_timer(self, timestamp: int, namespace: Hashable = None) -> None: ...

    def delete_processing_time_timer(self, timestamp: int, namespace: Hashable = None) -> None: ...

    def advance_watermark(self, watermark: int, timer_slice: TimerSlice = ENDLESS) -> bool:
        """Set `current_watermark`, then fire every event-time timer with timestamp <= `watermark`.

        While a callback runs, the backend's current key is the timer's. Timers that a callback registers fire in the
        same call if they are due.

        Returns:
            False if the slice was over before: the same call goes on from there.
        """

    def advance_processing_time(self, now_ms: int, timer_slice: TimerSlice = ENDLESS) -> bool:
        """Fire every processing-time timer with timestamp <= `now_ms`; returns as `advance_watermark`."""

    def next_processing_time(self) -> int | None:
        """Return the timestamp of the earliest processing-time timer, ms."""

    def event_time_namespaces(self) -> set[Any]:
        """Return the namespaces that have event-time timers, of any key; reads every timer."""


class KeyedStateBackend(ABC):
    """Keyed state and timers of one operator subtask."""

    key_group_range: KeyGroupRange
    max_parallelism: int

    @property
    @abstractmethod
    def current_key(self) -> Any:
        """Return the key that state and timers are scoped to.

        Raises:
            NoCurrentKeyError: no key has been set.
        """

    @abstractmethod
    def set_current_key(self, key: Any) -> None:
        """Make `key` the one that state and timers are scoped to.

        Raises:
            KeyEncodingError: the key has no canonical encoding, or is empty where that is not allowed.
            KeyGroupRangeError: the key's key group does not belong to this subtask.
        """

    @abstractmethod
    def clear_current_key(self) -> None:
        """Unset the current key: state and timers then raise NoCurrentKeyError until the next is set."""

    @abstractmethod
    def get_state(self, descriptor: StateDescriptor, *, fitted: bool = False) -> Any:
        """Return the state object of a descriptor (ValueState, ListState, …), scoped to the current key.

        The first call for a name creates the object. It may be kept: it follows the current key.

        Args:
            descriptor: its name, kind and types.
            fitted: whether all values given to it already have the form of the types. Otherwise they are converted when
                they are given, and those that do not fit raise TypeError or OverflowError.

        Raises:
            StateTypeError: the name is taken by a state of another kind.
        """

    @abstractmethod
    def get_namespaced_state(self, descriptor: StateDescriptor, *, fitted: bool = False) -> Any:
        """Return a state object like `get_state`, with a method `set_current_namespace(namespace: Hashable)`."""

    @abstractmethod
    def get_timer_service(
        self,
        name: str,
        on_event_time: Callable[[Timer], None],
        on_processing_time: Callable[[Timer], None],
    ) -> TimerService:
        """Return the timer service of this name; restored timers are in it. Call once per name, while opening."""

    @abstractmethod
    def keys(self, state_name: str) -> Iterator[Any]:
        """Return all keys that have a value in this state, in no order."""

    @abstractmethod
    def snapshot(self, request: SnapshotRequest = CANONICAL_SNAPSHOT) -> KeyedSnapshot | PendingKeyedState:
        """Take a snapshot of state and timers: the synchronous part of a checkpoint.

        Returns:
            A complete KeyedSnapshot in the canonical form for CANONICAL_SNAPSHOT, which belongs to no checkpoint. For
            every other request the backend's best form: a PendingKeyedState, if it can be written while processing
            continues; its handle is of the canonical format if that was requested.
        """

    def notify_checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        """Note that a checkpoint that this backend took part in is complete: later ones may build on its files."""

    def notify_checkpoint_aborted(self, checkpoint_id: CheckpointId) -> None:
        """Note that a checkpoint was aborted: nothing may build on it, and its files may be deleted at any time."""

    @abstractmethod
    def restore(self, snapshot: KeyedSnapshot) -> None:
        """Load this backend's key groups from `snapshot`. Call before any state is requested."""

    @abstractmethod
    def dispose(self) -> None:
        """Release everything; idempotent."""

    def key_groups(self) -> range:
        """Return the key groups that this backend owns."""
        return range(self.key_group_range.start, self.key_group_range.end + 1)


__all__ = ["KeyGroup", "KeyedStateBackend", "MergingNamespacedState", "NamespacedState", "Timer", "TimerService"]
