"""Window join and co-group: both streams tagged, united, keyed, cut into windows, and told apart again.

A tagged record is (side, left record or None, right record or None). Used by the task's thread.
Source: Flink, CoGroupedStreams and JoinedStreams.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from runtime.common.typeinfo import TypeInformation, Types
from runtime.operators.functions import (
    Function,
    KeySelector,
    MapFunction,
    RuntimeContext,
    WindowFunction,
    callable_of,
    key_function,
)
from runtime.operators.two_input_functions import CoGroupFunction, FlatJoinFunction, JoinFunction
from runtime.operators.windowing.windows import Window

Tagged = tuple[int, Any, Any]


class Tagger(MapFunction):
    """Tags the records of one side, 0 or 1."""

    def __init__(self, side: int) -> None:
        self._side = side

    def map(self, value: Any) -> Tagged:
        return (1, None, value) if self._side else (0, value, None)


def tagged_type(left: TypeInformation | None, right: TypeInformation | None) -> TypeInformation | None:
    """Return the type of tagged records; None unless both sides have one."""
    return None if left is None or right is None else Types.TUPLE([Types.BYTE(), left, right])


class TaggedKeySelector(KeySelector):
    """Selects the key of a tagged record, by its own side's selector."""

    def __init__(self, left: Any, right: Any) -> None:
        self._selectors = (left, right)
        self._prepare()

    def _prepare(self) -> None:
        self._left, self._right = map(key_function, self._selectors)

    @property
    def key_type(self) -> TypeInformation | None:
        """Return the key type of both sides; None if they do not declare the same."""
        left, right = (getattr(selector, "key_type", None) for selector in self._selectors)
        return left if isinstance(left, TypeInformation) and left == right else None

    def get_key(self, value: Tagged) -> Any:
        side, left, right = value
        return self._right(right) if side else self._left(left)

    def open(self, runtime_context: RuntimeContext) -> None:
        for selector in self._selectors:
            if isinstance(selector, Function):
                selector.open(runtime_context)

    def close(self) -> None:
        for selector in self._selectors:
            if isinstance(selector, Function):
                selector.close()

    def __getstate__(self) -> tuple[Any, Any]:
        return self._selectors

    def __setstate__(self, state: tuple[Any, Any]) -> None:
        self._selectors = state
        self._prepare()


class _TwoSidedWindowFunction(WindowFunction[Tagged, Any, Any, Window]):
    """Hands a window's records on, side by side."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        if isinstance(self._function, Function):
            self._function.open(runtime_context)

    def close(self) -> None:
        if isinstance(self._function, Function):
            self._function.close()

    def apply(self, key: Any, window: Window, inputs: Iterable[Tagged]) -> Iterable[Any] | None:
        left: list[Any] = []
        right: list[Any] = []
        for side, left_record, right_record in inputs:
            if side:
                right.append(right_record)
            else:
                left.append(left_record)
        return self._apply(left, right)

    @abstractmethod
    def _apply(self, left: list[Any], right: list[Any]) -> Iterable[Any] | None: ...


class CoGroupWindowFunction(_TwoSidedWindowFunction):
    """Gives both sides of a window to a CoGroupFunction or a callable of two lists.

    Raises:
        TypeError: it is neither.
    """

    def __init__(self, function: Any) -> None:
        callable_of(function, CoGroupFunction, "co_group")
        super().__init__(function)

    def _apply(self, left: list[Any], right: list[Any]) -> Iterable[Any] | None:
        results: Iterable[Any] | None = callable_of(self._function, CoGroupFunction, "co_group")(left, right)
        return results


class JoinWindowFunction(_TwoSidedWindowFunction):
    """Gives each pair of a window to a JoinFunction, a FlatJoinFunction, or a callable that makes one result of it.

    Raises:
        TypeError: it is none of these.
    """

    def __init__(self, function: Any) -> None:
        if not isinstance(function, FlatJoinFunction):
            callable_of(function, JoinFunction, "join")
        super().__init__(function)

    def _apply(self, left: list[Any], right: list[Any]) -> Iterator[Any]:
        if isinstance(self._function, FlatJoinFunction):
            for first in left:
                for second in right:
                    yield from self._function.join(first, second) or ()
            return
        join = callable_of(self._function, JoinFunction, "join")
        for first in left:
            for second in right:
                yield join(first, second)
