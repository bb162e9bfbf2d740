"""What operators with user functions say of their states before they run. Pure.

The functions themselves ask for states when they are opened: what they will ask for is not known before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from runtime.operators.checkpointed_function import CheckpointedFunction
from runtime.operators.functions import Function, KeySelector
from runtime.state.state_meta import DeclaredStates, StateMeta


def states_with_functions(functions: Iterable[Any], states: Sequence[StateMeta] = ()) -> DeclaredStates:
    """Return the states of an operator that runs user functions.

    Args:
        functions: those of the user; plain callables have no state.
        states: the operator's own.
    """
    return DeclaredStates(tuple(states), not any(_may_ask_for_more(function) for function in functions))


def _may_ask_for_more(function: Any) -> bool:
    # also one that asks for nothing: it may have done so before, and what it had is carried along until it does again
    if isinstance(function, KeySelector) and not isinstance(function, CheckpointedFunction):
        return type(function).open is not Function.open
    return isinstance(function, Function)
