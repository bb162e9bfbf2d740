"""Count windows: the elements of a key by number. The count of each key is keyed state.

Default triggers fire a window when it is full; windows that are not full at the end of the input emit nothing.
Source: PyFlink, CountTumblingWindowAssigner and CountSlidingWindowAssigner.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from runtime.common.typeinfo import Types
from runtime.operators.windowing.assigners import WindowAssigner, WindowAssignerContext
from runtime.operators.windowing.triggers import CountTrigger, Trigger
from runtime.operators.windowing.windows import CountWindow, CountWindowSerializer, WindowSerializer
from runtime.state.descriptors import ValueStateDescriptor


class CountWindowAssigner(WindowAssigner[Any, CountWindow]):
    """The common part of tumbling and sliding count windows."""

    def __init__(self, window_size: int, state_name: str) -> None:
        if window_size < 1:
            raise ValueError(f"{type(self).__name__}: the size must be at least 1, not {window_size}")
        self._window_size = window_size
        self._count_descriptor = ValueStateDescriptor(state_name, Types.LONG())
        #: the state, and the context it belongs to
        self._state: tuple[Any, Any] = (None, None)

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, CountWindow]:
        return CountTrigger(self._window_size)

    def get_window_serializer(self) -> WindowSerializer[CountWindow]:
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def _next_number(self, context: WindowAssignerContext) -> int:
        """Return how many elements of the key have come before this one."""
        owner, state = self._state
        if owner is not context:
            state = context.get_runtime_context().get_state(self._count_descriptor)
            self._state = context, state
        number: int = state.value() or 0
        state.update(number + 1)
        return number

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_state": (None, None)}


class CountTumblingWindowAssigner(CountWindowAssigner):
    """Windows of `window_size` elements, one after the other."""

    def __init__(self, window_size: int) -> None:
        super().__init__(window_size, "tumble-count-assigner")

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        return CountTumblingWindowAssigner(window_size)

    def assign_windows(self, element: Any, timestamp: int, context: WindowAssignerContext) -> Collection[CountWindow]:
        return (CountWindow(self._next_number(context) // self._window_size),)

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self._window_size})"


class CountSlidingWindowAssigner(CountWindowAssigner):
    """Windows of `window_size` elements that start every `window_slide` elements.

    With a slide above the size, elements between two windows are skipped.
    """

    def __init__(self, window_size: int, window_slide: int) -> None:
        super().__init__(window_size, "slide-count-assigner")
        if window_slide < 1:
            raise ValueError(f"CountSlidingWindowAssigner: the slide must be at least 1, not {window_slide}")
        self._window_slide = window_slide

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        return CountSlidingWindowAssigner(window_size, window_slide)

    def assign_windows(self, element: Any, timestamp: int, context: WindowAssignerContext) -> Collection[CountWindow]:
        number = self._next_number(context)
        last = number // self._window_slide
        # the first window that has not ended before this element
        first = max(0, -((self._window_size - 1 - number) // self._window_slide))
        return [CountWindow(window) for window in range(last, first - 1, -1)]

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self._window_size}, {self._window_slide})"
