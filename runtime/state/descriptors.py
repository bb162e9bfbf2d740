"""State descriptors: the name, kind and type with which an operator or a user function requests state.

Plain values with PyFlink's names and arguments; they travel to the slots inside user functions.
Source: Flink, StateDescriptor and its subclasses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runtime.common.typeinfo import TypeInformation, Types
from runtime.state.ttl import StateTtlConfig as StateTtlConfig


class StateDescriptor:
    """Name and type of a state. A type of None means that values are pickled."""

    def __init__(self, name: str, type_info: TypeInformation | None) -> None:
        """Describe a state.

        Args:
            name: unique in the operator; identifies the state in a snapshot.
            type_info: type of the value as a whole (a list state's is a list type).

        Raises:
            TypeError: the name is not text, or empty.
        """
        if not isinstance(name, str) or not name:
            raise TypeError(f"a state's name must be text and not empty, not {name!r}")
        self.name = name
        self.type_info = type_info
        self._ttl_config: StateTtlConfig | None = None

    def get_name(self) -> str:
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let the state expire according to `ttl_config`."""
        self._ttl_config = ttl_config

    @property
    def ttl_config(self) -> StateTtlConfig | None:
        """Return the time to live, or None if nothing expires."""
        return self._ttl_config if self._ttl_config is not None and self._ttl_config.is_enabled() else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_info!r})"


class ValueStateDescriptor(StateDescriptor):
    """Describes a ValueState."""

    def __init__(self, name: str, value_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor):
    """Describes a ListState."""

    def __init__(self, name: str, elem_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, None if elem_type_info is None else Types.LIST(elem_type_info))
        self.elem_type_info = elem_type_info


class MapStateDescriptor(StateDescriptor):
    """Describes a MapState."""

    def __init__(
        self,
        name: str,
        key_type_info: TypeInformation | None = None,
        value_type_info: TypeInformation | None = None,
    ) -> None:
        if key_type_info is None or value_type_info is None:
            super().__init__(name, None)
        else:
            super().__init__(name, Types.MAP(key_type_info, value_type_info))
        self.key_type_info = key_type_info
        self.value_type_info = value_type_info


class _CallableReduceFunction:
    """A plain callable in the form of a ReduceFunction."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.reduce = function

    def __repr__(self) -> str:
        return f"reduce by {self.reduce!r}"


class ReducingStateDescriptor(StateDescriptor):
    """Describes a ReducingState."""

    def __init__(self, name: str, reduce_function: Any, type_info: TypeInformation | None = None) -> None:
        """Describe a reducing state.

        Args:
            name: see StateDescriptor.
            reduce_function: a ReduceFunction, or a callable of two values.
            type_info: type of the values.

        Raises:
            TypeError: reduce_function is neither.
        """
        super().__init__(name, type_info)
        if not callable(getattr(reduce_function, "reduce", None)):
            if not callable(reduce_function):
                raise TypeError(f"state {name!r} needs a ReduceFunction or a callable, not {reduce_function!r}")
            reduce_function = _CallableReduceFunction(reduce_function)
        self._reduce_function = reduce_function

    def get_reduce_function(self) -> Any:
        """Return an object with `reduce(value1, value2)`."""
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """Describes an AggregatingState; its type is the accumulator's."""

    def __init__(self, name: str, agg_function: Any, state_type_info: TypeInformation | None = None) -> None:
        """Describe an aggregating state.

        Args:
            name: see StateDescriptor.
            agg_function: an AggregateFunction (`create_accumulator`, `add`, `get_result`, `merge`).
            state_type_info: type of the accumulator.

        Raises:
            TypeError: agg_function lacks one of these methods.
        """
        super().__init__(name, state_type_info)
        for method in ("create_accumulator", "add", "get_result", "merge"):
            if not callable(getattr(agg_function, method, None)):
                raise TypeError(f"state {name!r} needs an AggregateFunction; {agg_function!r} has no {method}()")
        self._agg_function = agg_function

    def get_agg_function(self) -> Any:
        return self._agg_function
