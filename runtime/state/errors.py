"""Errors of state, one class for each reaction that a caller has.

Keys that have no canonical encoding raise `runtime.core.keys.KeyEncodingError` instead.
"""

from __future__ import annotations


class StateError(Exception):
    """Base of every error of `runtime.state`."""


class KeyGroupRangeError(StateError):
    """A parallelism, key group or key is out of range; the message names the bounds."""


class NoCurrentKeyError(StateError):
    """Keyed state or a timer was used while no record and no timer was being processed."""

    def __init__(self) -> None:
        super().__init__("keyed state and timers exist per key: use them only while a record or a timer is processed")


class StateTypeError(StateError):
    """A state name is already taken by a state of another kind, scope or serializer.

    Attributes:
        name: the state's name.
        existing: the state that already has the name.
        requested: the requested state.
    """

    def __init__(self, name: str, existing: str, requested: str) -> None:
        super().__init__(f"state {name!r} is {existing}; it cannot also be {requested}: give one of them another name")
        self.name = name
        self.existing = existing
        self.requested = requested


class StateMigrationError(StateError):
    """State in a snapshot differs in kind or type from its present descriptor.

    Attributes:
        name: the state's name.
        written: kind and type in the snapshot.
        expected: kind and type of the descriptor.
    """

    def __init__(self, name: str, written: str, expected: str) -> None:
        super().__init__(
            f"state {name!r} was saved as {written} and cannot be read as {expected}: "
            "use the type that it was saved with, or another state name"
        )
        self.name = name
        self.written = written
        self.expected = expected


class RedistributionError(StateError):
    """Snapshots of an operator's subtasks contradict each other, or do not fit the new parallelism."""


class LookupTooLargeError(StateError):
    """A look at a few keys would have to read or decode more than it may."""
