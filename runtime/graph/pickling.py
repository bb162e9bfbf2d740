"""Turns user code into bytes, and finds the culprit when that fails.

Functions and classes of the program's own file (`__main__`) and lambdas travel by value. Those of other modules travel
by reference: the module must be importable where the slots run, or be registered by the program with
`cloudpickle.register_pickle_by_value(module)`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import cloudpickle

from runtime.graph.errors import GraphError

MAX_PATH = 8
"""Number of attributes deep that the search for a culprit goes; deeper paths mean nothing to the user."""
MAX_VISITED = 2000
"""Objects that the search looks at: it pickles each, so it must end soon on a large object graph."""


def pickle_user_code(value: Any, operator_name: str, what: str) -> bytes:
    """Return user code as cloudpickle bytes.

    Args:
        value: an operator factory, a key selector, a partition function.
        operator_name: for the error.
        what: what `value` is, in the user's words ("the operator", "the key selector").

    Raises:
        GraphError: it cannot be pickled; the message names the innermost object at fault and the way to it.
    """
    try:
        return bytes(cloudpickle.dumps(value, protocol=5))
    except Exception as error:
        culprit = find_unpicklable(value)
        where = ""
        if culprit is not None:
            path, found = culprit
            where = f": {path or what} is a {type(found).__module__}.{type(found).__qualname__}, which cannot be sent"
        raise GraphError(
            f"{operator_name}: {what} cannot be pickled and sent to the slots{where} "
            f"({type(error).__name__}: {error}). Create such objects in the function's open() method instead.",
            (operator_name,),
        ) from error


def find_unpicklable(value: Any) -> tuple[str, Any] | None:
    """Return the innermost object under `value` that cannot be pickled, with the path to it; None if all can be."""
    visited: set[int] = set()
    path: list[str] = []
    current = value
    if _can_pickle(value):
        return None
    while len(path) < MAX_PATH:
        for name, child in _children(current):
            if len(visited) >= MAX_VISITED:
                return "".join(path).lstrip("."), current
            if id(child) not in visited:
                visited.add(id(child))
                if not _can_pickle(child):
                    path.append(name)
                    current = child
                    break
        else:
            break
    return "".join(path).lstrip("."), current


def _can_pickle(value: Any) -> bool:
    try:
        cloudpickle.dumps(value, protocol=5)
    except Exception:
        return False
    return True


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what pickling `value` would pickle next, with the words for it."""
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, (list, tuple)):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    elif inspect.ismethod(value):
        yield ".__self__", value.__self__
    elif inspect.isfunction(value):
        variables = inspect.getclosurevars(value)
        yield from ((f".variable {name!r}", item) for name, item in variables.nonlocals.items())
        yield from ((f".global {name!r}", item) for name, item in variables.globals.items())
    elif not inspect.isclass(value) and not inspect.ismodule(value):
        yield from ((f".{name}", item) for name, item in getattr(value, "__dict__", {}).items())
        for owner in type(value).__mro__:
            slots = owner.__dict__.get("__slots__", ())
            names = (slots,) if isinstance(slots, str) else slots
            yield from ((f".{name}", getattr(value, name)) for name in names if hasattr(value, name))
