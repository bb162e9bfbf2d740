"""Calls the user's window function, of any of the five kinds, with its context.

Used by the task's thread. Source: Flink, InternalWindowFunction and its implementations.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from runtime.operators.errors import StateAccessError
from runtime.operators.functions import (
    AllWindowFunction,
    KeyedStateStore,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from runtime.operators.operator import ProcessingTimeService
from runtime.operators.runtime_context import BackendStateStore, NamespacedStateStore
from runtime.operators.windowing.windows import Namespace, Window
from runtime.state.backend import KeyedStateBackend, TimerService
from runtime.state.descriptors import StateDescriptor


class WindowContext(ProcessWindowFunction.Context[Window], ProcessAllWindowFunction.Context[Window]):
    """Context of the window that fires or is removed."""

    def __init__(
        self, backend: KeyedStateBackend, timers: TimerService, processing_time: ProcessingTimeService, is_merging: bool
    ) -> None:
        self._timers = timers
        self._processing_time = processing_time
        self._window_state = _MergingStateStore(backend) if is_merging else NamespacedStateStore(backend)
        self._global_state = BackendStateStore(backend.get_state)
        self._window: Window

    def set_window(self, window: Window, namespace: Namespace) -> None:
        """Choose the window."""
        self._window = window
        self._window_state.set_namespace(namespace)

    def window(self) -> Window:
        return self._window

    def current_processing_time(self) -> int:
        return self._processing_time.now_ms()

    def current_watermark(self) -> int:
        return self._timers.current_watermark

    def window_state(self) -> KeyedStateStore:
        return self._window_state

    def global_state(self) -> KeyedStateStore:
        return self._global_state


class _MergingStateStore(NamespacedStateStore):
    """Stands in for the state per window if windows merge: there is no rule for merging it."""

    def _get(self, descriptor: StateDescriptor) -> Any:
        raise StateAccessError(
            f"state {descriptor.get_name()!r}: there is no per-window state in windows that merge; use global_state()"
        )


WINDOW_FUNCTIONS = (WindowFunction, AllWindowFunction, ProcessWindowFunction, ProcessAllWindowFunction)


class WindowFunctionCaller:
    """Calls one window function.

    Args:
        function: one of the four kinds, or None: the window's contents are its results.

    Raises:
        TypeError: it is something else.
    """

    def __init__(self, function: Any) -> None:
        check_window_function(function)
        self.function = function
        self.needs_context = isinstance(function, (ProcessWindowFunction, ProcessAllWindowFunction))

    def call(self, key: Any, context: WindowContext, window: Window, contents: list[Any]) -> Iterable[Any] | None:
        """Return the results of a window with these contents; `context` is set to it."""
        function = self.function
        if function is None:
            return contents
        if isinstance(function, ProcessWindowFunction):
            return function.process(key, context, contents)
        if isinstance(function, WindowFunction):
            return function.apply(key, window, contents)
        if isinstance(function, ProcessAllWindowFunction):
            return function.process(context, contents)
        assert isinstance(function, AllWindowFunction)
        return function.apply(window, contents)

    def clear(self, context: WindowContext) -> None:
        """Clear a window that is removed."""
        if self.needs_context:
            self.function.clear(context)


def check_window_function(function: Any) -> None:
    """Raise a TypeError if `function` is neither None nor a window function."""
    if function is not None and not isinstance(function, WINDOW_FUNCTIONS):
        kinds = ", ".join(kind.__name__ for kind in WINDOW_FUNCTIONS)
        raise TypeError(f"a window needs a function of one of the kinds {kinds}, not {function!r}")
