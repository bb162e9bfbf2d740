"""The user's functions: classes to subclass, or to replace by plain callables, that say what operators do.

PyFlink's names and signatures, from its `functions`, `timerservice` and `time_domain` modules. Side outputs are written
as `yield tag, value`. A function object serves one subtask and is called by its task's thread only.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from runtime.common.accumulators import Accumulator, DoubleCounter, IntCounter, LongCounter
from runtime.common.typeinfo import Types
from runtime.metrics import MetricGroup
from runtime.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from runtime.state.state import AggregatingState, ListState, MapState, ReducingState, ValueState

if TYPE_CHECKING:
    from runtime.operators.windowing.windows import Window

A = TypeVar("A", bound=Accumulator)
IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
W = TypeVar("W", bound="Window")
W2 = TypeVar("W2", bound="Window")


class TimeDomain(enum.Enum):
    """Says whether a timer fires by event time or by processing time."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


class TimerService(ABC):
    """Time, and timers scoped to the current key. Timers of the same key and time are one timer."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the wall-clock time, ms since the epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the event time that the operator has reached, ms."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Have on_timer called once the wall clock reaches `timestamp` (ms)."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Have on_timer called once the watermark reaches `timestamp` (ms)."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Forget that timer, if there is one."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Forget that timer, if there is one."""


class KeyedStateStore(ABC):
    """Gives access to state scoped to the current key. Asking twice for a name gives the same state."""

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]: ...

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]: ...

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]: ...

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]: ...

    @abstractmethod
    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]: ...


class RuntimeContext(KeyedStateStore):
    """Tells a function about the subtask that it runs in; its state getters need a keyed stream."""

    @abstractmethod
    def get_task_name(self) -> str: ...

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int: ...

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int: ...

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Return the 0-based index."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """Return the 0-based number."""

    @abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """Return for example "MyTask (3/6)#0": the subtask, counted from 1, of all, and the attempt, counted from 0."""

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str: ...

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup: ...

    @abstractmethod
    def add_accumulator(self, name: str, accumulator: Accumulator) -> None:
        """Report an accumulator to the program that started the job, under a name.

        Raises:
            ValueError: the operator has one of that name already.
            TypeError: it is no Accumulator.
        """

    @abstractmethod
    def get_accumulator(self, name: str) -> Accumulator | None:
        """Return the operator's accumulator of that name."""

    def get_int_counter(self, name: str) -> IntCounter:
        """Return the counter of that name, added if it is not there.

        Raises:
            TypeError: the accumulator of that name is of another kind.
        """
        return self._counter(name, IntCounter)

    def get_long_counter(self, name: str) -> LongCounter:
        """Return a counter, like `get_int_counter`."""
        return self._counter(name, LongCounter)

    def get_double_counter(self, name: str) -> DoubleCounter:
        """Return a counter, like `get_int_counter`."""
        return self._counter(name, DoubleCounter)

    def _counter(self, name: str, kind: type[A]) -> A:
        found = self.get_accumulator(name)
        if found is None:
            found = kind()
            self.add_accumulator(name, found)
        if not isinstance(found, kind):
            raise TypeError(f"accumulator {name!r} is a {type(found).__name__}, not a {kind.__name__}")
        return found


class Function(ABC):  # noqa: B024 (only its subclasses have something to implement)
    """Base of all user functions."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Prepare before the first record: the place to ask for state, metrics and resources."""

    def close(self) -> None:
        """Clean up after the last record, and after a failure."""


class MapFunction(Function):
    """Emits one record for each record."""

    @abstractmethod
    def map(self, value: Any) -> Any: ...


class FlatMapFunction(Function):
    """Any number of records out for each record in."""

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None: ...


class FilterFunction(Function):
    """Keeps the records for which it is true."""

    @abstractmethod
    def filter(self, value: Any) -> bool: ...


class ReduceFunction(Function):
    """Makes one value of two of the same type; must be associative."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any: ...


class AggregateFunction(Function):
    """Adds values to an accumulator, from which the result is made."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """Return an accumulator to which nothing has been added; never None."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """Return the accumulator with `value` added; may be the same object, changed."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any: ...

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Return one accumulator made of two; needed only where windows merge."""


class KeySelector(Function):
    """Extracts the key of a record. It must give the same key whenever it is asked."""

    @abstractmethod
    def get_key(self, value: Any) -> Any: ...


class NullByteKeySelector(KeySelector):
    """The same key for every record: the key of a non-parallel window of a whole stream."""

    key_type = Types.BYTE()

    def get_key(self, value: Any) -> int:
        return 0


class Partitioner(Function):
    """Chooses the consumer's subtask for a key."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """Return a number in [0, num_partitions)."""


class ProcessFunction(Function):
    """Any number of records out for each record in, with access to event time and side outputs."""

    class Context(ABC):
        """Context of the current record; valid during the call only."""

        @abstractmethod
        def timer_service(self) -> TimerService: ...

        @abstractmethod
        def timestamp(self) -> int:
            """Return the event time of the record, ms; -2**63 if it has none."""

    @abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any] | None: ...


class KeyedProcessFunction(Function):
    """A ProcessFunction on a keyed stream: with keyed state and timers."""

    class Context(ABC):
        """Context of the current record; valid during the call only."""

        @abstractmethod
        def get_current_key(self) -> Any: ...

        @abstractmethod
        def timer_service(self) -> TimerService: ...

        @abstractmethod
        def timestamp(self) -> int:
            """Return the event time of the record or of the timer, ms; -2**63 if it has none."""

    class OnTimerContext(Context):
        """Context of the timer that fires."""

        @abstractmethod
        def time_domain(self) -> TimeDomain: ...

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None: ...

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        """Handle a timer of the current key; records emitted here carry its time."""
        return None


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Makes the results of a keyed window of its elements."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None: ...


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Makes the results of a window over a whole stream of its elements."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None: ...


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """A WindowFunction with the window's context: time, state per window and per key, side outputs."""

    class Context(ABC, Generic[W2]):
        """Context of the window that fires; valid during the call only."""

        @abstractmethod
        def window(self) -> W2: ...

        @abstractmethod
        def current_processing_time(self) -> int: ...

        @abstractmethod
        def current_watermark(self) -> int: ...

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Return the state of this key and window; `ProcessWindowFunction.clear` must clear it."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Return the state of this key, for all its windows."""

    @abstractmethod
    def process(
        self, key: KEY, context: ProcessWindowFunction.Context[W], elements: Iterable[IN]
    ) -> Iterable[OUT] | None: ...

    def clear(self, context: ProcessWindowFunction.Context[W]) -> None:
        """Clear the per-window state of a window that is removed."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """A ProcessWindowFunction for windows over a whole stream."""

    class Context(ABC, Generic[W2]):
        """Context of the window that fires; valid during the call only."""

        @abstractmethod
        def window(self) -> W2: ...

        @abstractmethod
        def window_state(self) -> KeyedStateStore: ...

        @abstractmethod
        def global_state(self) -> KeyedStateStore: ...

    @abstractmethod
    def process(self, context: ProcessAllWindowFunction.Context[W], elements: Iterable[IN]) -> Iterable[OUT] | None: ...

    def clear(self, context: ProcessAllWindowFunction.Context[W]) -> None:
        """Clear the per-window state of a window that is removed."""


def callable_of(function: Any, kind: type[Function], method: str) -> Callable[..., Any]:
    """Return the callable behind a function object of `kind`, or a plain callable as it is.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(function, kind):
        return getattr(function, method)  # type: ignore[no-any-return]
    if callable(function) and not isinstance(function, (Function, type)):
        return function  # type: ignore[no-any-return]
    # a builtin type such as `int` or `str` is a fine map function; a Function's class given for its object is not
    if isinstance(function, type) and not issubclass(function, Function):
        return function
    raise TypeError(f"expected a {kind.__name__} or a callable, not {function!r}")


def key_function(selector: Any) -> Callable[[Any], Any]:
    """Return the callable behind a KeySelector or a plain callable."""
    return callable_of(selector, KeySelector, "get_key")


def function_name(function: Any) -> str:
    """Return the name of a function in messages and in default operator names."""
    return getattr(function, "__name__", None) or type(function).__name__
