"""Marks a snapshot that was taken while timers were firing, so that its restore continues firing first.

The timers that are left are in the state, and the watermark that has made them due is the operator's. They cannot be
told by that alone: a function may register a timer in the past, which has to wait for the next watermark. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from runtime.state.snapshot import OperatorSnapshot, OperatorStateSnapshot, Redistribution

FIRING_STATE = "__firing"
"""Name of the operator state that such a snapshot has; no user gives such names."""


def firing_state(is_firing: bool) -> Mapping[str, OperatorStateSnapshot]:
    """Return the operator state that says whether timers are left to fire: none if there are none."""
    # all subtasks look: any of them may get the timers at another parallelism
    return {FIRING_STATE: OperatorStateSnapshot(Redistribution.UNION, [b""])} if is_firing else {}


def was_firing(snapshot: OperatorSnapshot) -> bool:
    """Return whether a snapshot was taken while timers were firing."""
    return FIRING_STATE in snapshot.operator_states


def other_states(snapshot: OperatorSnapshot) -> dict[str, OperatorStateSnapshot]:
    """Return the operator states of a snapshot without that one."""
    return {name: state for name, state in snapshot.operator_states.items() if name != FIRING_STATE}
