"""Evictors: remove elements from a window when it fires, before or after its function sees them.

Windows with an evictor keep all their elements, with their event times. An evictor removes elements from the list that
it receives: `del elements[:n]`, or `elements[:] = [...]`. Source: Flink (Java only), Evictor and its implementations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, NamedTuple, TypeVar

from runtime.common.time import Duration, Time
from runtime.core.batch import NO_TIMESTAMP
from runtime.metrics import MetricGroup
from runtime.operators.windowing.java_triggers import delta_callable
from runtime.operators.windowing.milliseconds import to_milliseconds
from runtime.operators.windowing.windows import Window

T = TypeVar("T")
W = TypeVar("W", bound=Window)


class TimestampedValue(NamedTuple):
    """An element of a window, as evictors see it."""

    value: Any
    timestamp: int
    """Event time, ms; NO_TIMESTAMP if it has none."""

    def get_value(self) -> Any:
        return self.value

    def get_timestamp(self) -> int:
        return self.timestamp

    def has_timestamp(self) -> bool:
        return self.timestamp != NO_TIMESTAMP


class Evictor(ABC, Generic[T, W]):
    """Removes elements from a window that fires."""

    class EvictorContext(ABC):
        """Information for an evictor."""

        @abstractmethod
        def get_current_processing_time(self) -> int: ...

        @abstractmethod
        def get_metric_group(self) -> MetricGroup: ...

        @abstractmethod
        def get_current_watermark(self) -> int: ...

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: W, evictor_context: EvictorContext
    ) -> None:
        """Remove elements before the window's function is called.

        Args:
            elements: in order of arrival; change it in place.
            size: its length before.
            window: the window that fires.
            evictor_context: time and metrics.
        """

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: W, evictor_context: EvictorContext
    ) -> None:
        """Remove elements after the function has been called, like `evict_before`."""


EvictorContext = Evictor.EvictorContext


class _Evictor(Evictor[Any, Window]):
    """Evicts by one rule, either before or after."""

    def __init__(self, do_evict_after: bool) -> None:
        self._do_evict_after = do_evict_after

    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Window, evictor_context: EvictorContext
    ) -> None:
        if not self._do_evict_after:
            self._evict(elements)

    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Window, evictor_context: EvictorContext
    ) -> None:
        if self._do_evict_after:
            self._evict(elements)

    @abstractmethod
    def _evict(self, elements: list[TimestampedValue]) -> None: ...


class CountEvictor(_Evictor):
    """Keeps the last `max_count` elements.

    Raises:
        ValueError: `max_count` is negative.
    """

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        if max_count < 0:
            raise ValueError(f"CountEvictor: the count must not be negative, it is {max_count}")
        super().__init__(do_evict_after)
        self._max_count = max_count

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        return CountEvictor(max_count, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        del elements[: max(0, len(elements) - self._max_count)]


class DeltaEvictor(_Evictor):
    """Keeps the elements that are less than a threshold away from the last one.

    Args:
        threshold: the distance.
        delta_function: a DeltaFunction, or a callable of (element, last element).
        do_evict_after: evict after the function.

    Raises:
        TypeError: the delta function is neither.
    """

    def __init__(self, threshold: float, delta_function: Any, do_evict_after: bool = False) -> None:
        delta_callable(delta_function)
        super().__init__(do_evict_after)
        self._threshold = threshold
        self._delta_function = delta_function

    @staticmethod
    def of(threshold: float, delta_function: Any, do_evict_after: bool = False) -> DeltaEvictor:
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        if elements:
            delta, last = delta_callable(self._delta_function), elements[-1].value
            elements[:] = [element for element in elements if delta(element.value, last) < self._threshold]


class TimeEvictor(_Evictor):
    """Keeps the elements of the last `window_size` ms before the latest event time; all, if there are no event times.

    An element exactly that old is evicted.
    """

    def __init__(self, window_size: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._window_size_ms = window_size

    @staticmethod
    def of(window_size: Time | Duration, do_evict_after: bool = False) -> TimeEvictor:
        return TimeEvictor(to_milliseconds(window_size), do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        if elements and elements[0].has_timestamp():
            cutoff = max(element.timestamp for element in elements) - self._window_size_ms
            elements[:] = [element for element in elements if element.timestamp > cutoff]
