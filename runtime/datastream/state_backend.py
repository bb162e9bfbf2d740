"""StateBackend: where keyed state is kept, as values at PyFlink's module path.

In Flink 2 no method takes one: a program chooses by `state.backend.type`. Source: PyFlink, state_backend.py.
"""

from __future__ import annotations

from runtime.common.exclusions import refusing_module


class StateBackend:
    """Where operators keep keyed state."""


class HashMapStateBackend(StateBackend):
    """In the slots' memory: the default, and the only one."""

    def __str__(self) -> str:
        return "HashMapStateBackend"


__getattr__ = refusing_module(__name__)
