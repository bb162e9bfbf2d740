"""What a window keeps of its elements: all of them, or one value that each of them is worked into.

Each kind is a frozen, picklable description that also does the work, on a namespaced state whose namespace is the
window. Used by the task's thread. Source: Flink, WindowOperatorBuilder (the choice of the window state).
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from runtime.common.typeinfo import TypeInformation
from runtime.operators.functions import AggregateFunction, ReduceFunction, callable_of
from runtime.state.descriptors import ListStateDescriptor, StateDescriptor, ValueStateDescriptor

STATE_NAME = "window-contents"


class WindowContents(ABC):
    """Of one window operator."""

    @property
    def function(self) -> Any:
        """The user's function, if there is one."""
        return None

    @abstractmethod
    def descriptor(self) -> StateDescriptor:
        """Of the state that `add_all` and `read` work on."""

    @abstractmethod
    def add_all(self, state: Any, elements: Iterator[Any]) -> None:
        """Work at least one element into the state's current namespace.

        Elements are taken from the iterator one by one, so that its position tells on which of them a function failed.
        """

    @abstractmethod
    def read(self, state: Any) -> list[Any] | None:
        """What the window's function is given; None if the window is empty."""


@dataclass(frozen=True)
class ListContents(WindowContents):
    """Keeps every element.

    Args:
        element_type: type of the elements; None = Python objects.
    """

    element_type: TypeInformation | None = None

    def descriptor(self) -> StateDescriptor:
        return ListStateDescriptor(STATE_NAME, self.element_type)

    def add_all(self, state: Any, elements: Iterator[Any]) -> None:
        state.add_all(list(elements))

    def read(self, state: Any) -> list[Any] | None:
        return list(state.get()) or None


@dataclass(frozen=True)
class ReduceContents(WindowContents):
    """Keeps the reduced elements.

    Args:
        reduce_function: a ReduceFunction or a callable of two values.
        element_type: type of the elements and of the result.

    Raises:
        TypeError: the function is neither.
    """

    reduce_function: Any
    element_type: TypeInformation | None = None

    def __post_init__(self) -> None:
        callable_of(self.reduce_function, ReduceFunction, "reduce")

    @property
    def function(self) -> Any:
        return self.reduce_function

    @functools.cached_property
    def _call(self) -> Callable[[Any, Any], Any]:
        call = callable_of(self.reduce_function, ReduceFunction, "reduce")
        coercer = None if self.element_type is None else self.element_type.coercer()
        if coercer is None:
            return call
        # what is stored must be of the type: a sum that wraps, wraps in the state
        return lambda value1, value2: coercer(call(value1, value2))

    def __getstate__(self) -> dict[str, Any]:
        return {"reduce_function": self.reduce_function, "element_type": self.element_type}

    def descriptor(self) -> StateDescriptor:
        return ValueStateDescriptor(STATE_NAME, self.element_type)

    def add_all(self, state: Any, elements: Iterator[Any]) -> None:
        reduced = state.value()
        if reduced is None:
            reduced = next(elements)
        state.update(functools.reduce(self._call, elements, reduced))

    def read(self, state: Any) -> list[Any] | None:
        reduced = state.value()
        return None if reduced is None else [reduced]


@dataclass(frozen=True)
class AggregateContents(WindowContents):
    """Keeps an accumulator.

    Args:
        aggregate_function: an AggregateFunction.
        accumulator_type: type of its accumulators; None = Python objects.

    Raises:
        TypeError: the function is not an AggregateFunction.
    """

    aggregate_function: AggregateFunction
    accumulator_type: TypeInformation | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.aggregate_function, AggregateFunction):
            raise TypeError(f"aggregate() needs an AggregateFunction, not {self.aggregate_function!r}")

    @property
    def function(self) -> Any:
        return self.aggregate_function

    @functools.cached_property
    def _coercer(self) -> Callable[[Any], Any] | None:
        return None if self.accumulator_type is None else self.accumulator_type.coercer()

    def __getstate__(self) -> dict[str, Any]:
        return {"aggregate_function": self.aggregate_function, "accumulator_type": self.accumulator_type}

    def descriptor(self) -> StateDescriptor:
        return ValueStateDescriptor(STATE_NAME, self.accumulator_type)

    def add_all(self, state: Any, elements: Iterator[Any]) -> None:
        accumulator = state.value()
        if accumulator is None:
            accumulator = self.aggregate_function.create_accumulator()
        add, coercer = self.aggregate_function.add, self._coercer
        if coercer is None:
            for element in elements:
                accumulator = add(element, accumulator)
        else:
            # each time, not at the end: the result must not depend on how the elements came in batches
            for element in elements:
                accumulator = coercer(add(element, accumulator))
        if accumulator is None:
            raise TypeError("AggregateFunction.add() returned None; it must return the accumulator")
        state.update(accumulator)

    def read(self, state: Any) -> list[Any] | None:
        accumulator = state.value()
        return None if accumulator is None else [self.aggregate_function.get_result(accumulator)]
