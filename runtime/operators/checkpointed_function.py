"""CheckpointedFunction: user functions with state of their own that belongs to no key.

A function of any kind may implement it beside: `class Buffering(MapFunction, CheckpointedFunction)`. Operators that run
user functions call it. List items are redistributed when the parallelism changes, union lists are given to every
subtask as a whole. Called by the task's thread. Source: Flink, CheckpointedFunction and its contexts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from runtime.operators.functions import KeyedStateStore
from runtime.state.state import OperatorStateStore


class FunctionInitializationContext:
    """Gives a function its state, and says whether there was any.

    Args:
        operator_state: of the operator.
        keyed_state: of the operator; refuses if its input is not keyed.
        restored: whether the operator was restored from a snapshot.
    """

    def __init__(self, operator_state: OperatorStateStore, keyed_state: KeyedStateStore, restored: bool) -> None:
        self._operator_state = operator_state
        self._keyed_state = keyed_state
        self._restored = restored

    def is_restored(self) -> bool:
        """Return whether the job resumes from a checkpoint or savepoint; the states then hold what was saved."""
        return self._restored

    def get_operator_state_store(self) -> OperatorStateStore:
        """Return the store of list, union list and broadcast state."""
        return self._operator_state

    def get_keyed_state_store(self) -> KeyedStateStore:
        """Return the store of state per key; may be asked for here, but there is no key yet."""
        return self._keyed_state


class FunctionSnapshotContext:
    """Context of the snapshot that is about to be taken."""


class CheckpointedFunction(ABC):
    """Keeps operator state: fills it when a snapshot is taken, reads it when a job is restored."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Ask for the states, and read what was saved; called once, before `open`."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Put into the states what must be saved; called between two records."""
