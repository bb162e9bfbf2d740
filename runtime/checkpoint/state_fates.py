"""What becomes of each state of a snapshot in a job: compared by name, kind and type. Pure.

`assign_state` and the report before a redeploy both go by it, so that the report says what the restore does. What an
operator asks for only when it is opened cannot be compared before: its backend refuses it then.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from runtime.checkpoint.handles import OperatorState
from runtime.graph.job_graph import ChainedOperator
from runtime.operators.interruption import FIRING_STATE
from runtime.operators.sink_operator import HISTORY_STATE, ORIGIN_STATE
from runtime.operators.source_coordinator import RECEIVED_STATE
from runtime.state.state_meta import DeclaredStates, StateMeta

_BOOKKEEPING = frozenset({FIRING_STATE, HISTORY_STATE, ORIGIN_STATE, RECEIVED_STATE})
"""Operator states that say how far something had come, and are nothing without the states beside them."""

_TIMERS = StateMeta("timers", "timer", "", namespaced=False)
"""Stands for the timers of an operator that is lost: they belong to no state."""


class Fate(enum.Enum):
    """Outcome of a restore for one state."""

    KEPT = "kept"
    EMPTY = "empty"
    """It is not in the snapshot, and starts empty."""
    UNREAD = "unread"
    """The operator does not ask for it; it stays in the operator's snapshots."""
    LOST = "lost"
    """The operator asks for other states only."""
    REFUSED = "refused"
    """The operator cannot read it."""
    UNKNOWN = "unknown"
    """It shows when the operator is opened whether it asks for it, and can read it."""


@dataclass(frozen=True, slots=True)
class StateFate:
    """A state of an operator."""

    fate: Fate
    written: StateMeta | None
    """As it is in the snapshot; None: it is not in it."""
    expected: StateMeta | None
    """As the operator declares it; None: it does not."""

    @property
    def name(self) -> str:
        known = self.written or self.expected
        assert known is not None
        return known.name


@dataclass(frozen=True, slots=True)
class OperatorFate:
    """The states of an operator that is in the snapshot and in the job."""

    states: Sequence[StateFate]
    is_known: bool
    """Whether the snapshot names all of its states, and none of them is unknown."""

    @property
    def refused(self) -> StateFate | None:
        """Return a state that the operator cannot read."""
        return next((state for state in self.states if state.fate is Fate.REFUSED), None)

    @property
    def is_lost(self) -> bool:
        """Return whether the operator has only its uid in common with the one that was saved."""
        return any(state.fate is Fate.LOST for state in self.states)


def written_states(saved: OperatorState) -> list[StateMeta]:
    """Return the states of an operator in a snapshot, as far as it names them."""
    of_operator = [state for name, state in saved.operator_states.items() if name not in _BOOKKEEPING]
    return [*(saved.keyed_states or {}).values(), *of_operator]


def fate_of(saved: OperatorState, operator: ChainedOperator) -> OperatorFate:
    """Return what becomes of an operator's states.

    Args:
        saved: the operator in the snapshot.
        operator: the operator of the same id in the job.
    """
    keyed, declared = saved.keyed_states, operator.declared_states
    written = written_states(saved)
    if declared is None:
        unknown = tuple(StateFate(Fate.UNKNOWN, state, None) for state in written)
        return OperatorFate(unknown, is_known=keyed is not None and not unknown)
    met = {(state.name, state.is_keyed) for state in written if declared.of(state.name, is_keyed=state.is_keyed)}
    is_lost = declared.is_complete and (bool(written) or saved.has_timers) and not met and keyed is not None
    fates = [_fate(state, declared, is_lost) for state in written]
    if is_lost and saved.has_timers:
        fates.append(StateFate(Fate.LOST, _TIMERS, None))
    named = {(state.name, state.is_keyed) for state in written}
    missing = [s for s in declared.states if s.is_keyed and (s.name, True) not in named and keyed is not None]
    fates += [StateFate(Fate.EMPTY, None, state) for state in missing]
    is_known = keyed is not None and all(state.fate is not Fate.UNKNOWN for state in fates)
    return OperatorFate(tuple(fates), is_known)


def _fate(written: StateMeta, declared: DeclaredStates, is_lost: bool) -> StateFate:
    expected = declared.of(written.name, is_keyed=written.is_keyed)
    if expected is not None:
        return StateFate(Fate.KEPT if written.is_readable_as(expected) else Fate.REFUSED, written, expected)
    if is_lost:
        return StateFate(Fate.LOST, written, None)
    if not declared.is_complete:
        return StateFate(Fate.UNKNOWN, written, None)
    return StateFate(Fate.REFUSED if written.is_keyed and declared.is_columnar else Fate.UNREAD, written, None)
