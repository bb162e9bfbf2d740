"""Contents of windows: all elements, or one value that each of them is folded into.

Each kind is a frozen, picklable description that also does the work, on a namespaced state whose namespace is the
window. Used by the task's thread. Source: Flink, WindowOperatorBuilder (the choice of the window state).
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.common.typeinfo import TypeInformation, Types
from runtime.operators.functions import AggregateFunction, ReduceFunction, callable_of
from runtime.operators.windowing.windows import Namespace
from runtime.state.descriptors import ListStateDescriptor, StateDescriptor, ValueStateDescriptor

STATE_NAME = "window-contents"


class WindowContents(ABC):
    """The contents of one window operator."""

    @property
    def function(self) -> Any:
        """Return the user's function, if there is one."""
        return None

    @abstractmethod
    def descriptor(self) -> StateDescriptor:
        """Return the descriptor of the state that `add_all` and `read` work on."""

    @abstractmethod
    def fold(self, kept: Any, elements: Iterator[Any]) -> Any:
        """Return a window's contents after at least one more element; may change `kept`; None = nothing.

        Elements are taken from the iterator one by one, so that its position shows on which of them a function failed.
        """

    @abstractmethod
    def result(self, kept: Any) -> list[Any]:
        """Return the argument of the window's function for `kept`."""

    def write(self, state: Any, kept: Any) -> None:
        """Put the result of `fold` into the state's current namespace, which is empty."""
        state.update(kept)

    @abstractmethod
    def add_all(self, state: Any, elements: Iterator[Any]) -> None:
        """Fold at least one element into the state's current namespace."""

    def add(self, state: Any, element: Any) -> None:
        """Fold one element into the state's current namespace."""
        self.add_all(state, iter((element,)))

    @abstractmethod
    def read(self, state: Any) -> list[Any] | None:
        """Return the argument of the window's function; None if the window is empty."""

    @abstractmethod
    def of_elements(self, elements: list[Any]) -> list[Any] | None:
        """Return the argument of the window's function for a window with these elements; None = it is not called."""

    @abstractmethod
    def merge(self, state: Any, target: Namespace, sources: Sequence[Namespace]) -> None:
        """Move the contents of the namespaces `sources` into `target`, in order; changes the current namespace."""


class _ValueContents(WindowContents):
    """Keeps one value."""

    def add_all(self, state: Any, elements: Iterator[Any]) -> None:
        state.update(self.fold(state.value(), elements))

    def read(self, state: Any) -> list[Any] | None:
        kept = state.value()
        return None if kept is None else self.result(kept)


@dataclass(frozen=True)
class ListContents(WindowContents):
    """Keeps every element.

    Args:
        element_type: type of the elements; None = Python objects.
    """

    element_type: TypeInformation | None = None

    def descriptor(self) -> StateDescriptor:
        return ListStateDescriptor(STATE_NAME, self.element_type)

    def fold(self, kept: Any, elements: Iterator[Any]) -> Any:
        if kept is None:
            return list(elements)
        kept.extend(elements)
        return kept

    def result(self, kept: Any) -> list[Any]:
        return kept  # type: ignore[no-any-return]

    def add_all(self, state: Any, elements: Iterator[Any]) -> None:
        state.add_all(list(elements))

    def add(self, state: Any, element: Any) -> None:
        state.add(element)

    def read(self, state: Any) -> list[Any] | None:
        return list(state.get()) or None

    def of_elements(self, elements: list[Any]) -> list[Any] | None:
        return elements

    def merge(self, state: Any, target: Namespace, sources: Sequence[Namespace]) -> None:
        state.merge_namespaces(target, sources)


@dataclass(frozen=True)
class ReduceContents(_ValueContents):
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
        # stored values must be of the type, too
        return lambda value1, value2: coercer(call(value1, value2))

    def __getstate__(self) -> dict[str, Any]:
        return {"reduce_function": self.reduce_function, "element_type": self.element_type}

    def descriptor(self) -> StateDescriptor:
        return ValueStateDescriptor(STATE_NAME, self.element_type)

    def fold(self, kept: Any, elements: Iterator[Any]) -> Any:
        return functools.reduce(self._call, elements, next(elements) if kept is None else kept)

    def result(self, kept: Any) -> list[Any]:
        return [kept]

    def of_elements(self, elements: list[Any]) -> list[Any] | None:
        return self.result(self.fold(None, iter(elements))) if elements else None

    def merge(self, state: Any, target: Namespace, sources: Sequence[Namespace]) -> None:
        _merge_values(state, target, sources, self._call)


@dataclass(frozen=True)
class AggregateContents(_ValueContents):
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

    def fold(self, kept: Any, elements: Iterator[Any]) -> Any:
        accumulator = self.aggregate_function.create_accumulator() if kept is None else kept
        add, coercer = self.aggregate_function.add, self._coercer
        if coercer is None:
            for element in elements:
                accumulator = add(element, accumulator)
        else:
            # each time, not at the end: the result must not depend on how the elements were batched
            for element in elements:
                accumulator = coercer(add(element, accumulator))
        if accumulator is None:
            raise TypeError("AggregateFunction.add() returned None; it must return the accumulator")
        return accumulator

    def result(self, kept: Any) -> list[Any]:
        return [self.aggregate_function.get_result(kept)]

    def of_elements(self, elements: list[Any]) -> list[Any] | None:
        return self.result(self.fold(None, iter(elements)))

    def merge(self, state: Any, target: Namespace, sources: Sequence[Namespace]) -> None:
        merge, coercer = self.aggregate_function.merge, self._coercer
        _merge_values(state, target, sources, merge if coercer is None else lambda one, two: coercer(merge(one, two)))


@dataclass(frozen=True)
class EvictableContents(WindowContents):
    """Keeps every element with its event time, for windows with an evictor.

    Args:
        contents: what the window would keep without one.
    """

    contents: WindowContents

    @property
    def function(self) -> Any:
        return self.contents.function

    def descriptor(self) -> StateDescriptor:
        element_type = self.contents.element_type if isinstance(self.contents, _TYPED_CONTENTS) else None
        return ListStateDescriptor(
            STATE_NAME, None if element_type is None else Types.TUPLE([element_type, Types.LONG()])
        )

    def fold(self, kept: Any, elements: Iterator[Any]) -> Any:
        return self.contents.fold(kept, elements)

    def result(self, kept: Any) -> list[Any]:
        return self.contents.result(kept)

    def add_all(self, state: Any, elements: Iterator[Any]) -> None:
        """Add `elements`, which are pairs (element, event time)."""
        state.add_all(list(elements))

    def add(self, state: Any, element: Any) -> None:
        state.add(element)

    def read(self, state: Any) -> list[Any] | None:
        """Return pairs (element, event time)."""
        return list(state.get()) or None

    def of_elements(self, elements: list[Any]) -> list[Any] | None:
        return self.contents.of_elements(elements)

    def merge(self, state: Any, target: Namespace, sources: Sequence[Namespace]) -> None:
        state.merge_namespaces(target, sources)


_TYPED_CONTENTS = (ListContents, ReduceContents)


def _merge_values(
    state: Any, target: Namespace, sources: Sequence[Namespace], merge: Callable[[Any, Any], Any]
) -> None:
    merged = None
    for namespace in (target, *sources):
        state.set_current_namespace(namespace)
        value = state.value()
        if value is not None:
            state.clear()
            merged = value if merged is None else merge(merged, value)
    if merged is not None:
        state.set_current_namespace(target)
        state.update(merged)
