"""The user's functions for two streams at once: connected, with broadcast state, or joined.

PyFlink's names and signatures where it has them, Java's in snake_case for the joins. Side outputs are written as
`yield tag, value`. A function object serves one subtask and is called by its task's thread only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from runtime.operators.functions import Function, TimeDomain, TimerService
from runtime.state.descriptors import MapStateDescriptor, StateDescriptor
from runtime.state.state import BroadcastState, ReadOnlyBroadcastState

IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")

# --- connected streams ------------------------------------------------------------------------------------------------


class CoMapFunction(Function):
    """At most one record out for each record of two streams: None is left out."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """Map a record of the first stream."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """Map a record of the second stream."""


class CoFlatMapFunction(Function):
    """Any number of records out for each record of two streams."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """Map a record of the first stream."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """Map a record of the second stream."""


class CoProcessFunction(Function):
    """A CoFlatMapFunction with access to event time and side outputs."""

    class Context(ABC):
        """Context of the current record; valid during the call only."""

        @abstractmethod
        def timer_service(self) -> TimerService: ...

        @abstractmethod
        def timestamp(self) -> int:
            """Return the event time of the record, ms; -2**63 if it has none."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """Process a record of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """Process a record of the second stream."""


class KeyedCoProcessFunction(Function):
    """A CoProcessFunction on two streams keyed alike: with keyed state, which both share, and timers."""

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
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        """Process a record of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        """Process a record of the second stream."""

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        """Handle a timer of the current key; records emitted here carry its time."""
        return None


# --- broadcast state --------------------------------------------------------------------------------------------------


class BaseBroadcastProcessFunction(Function):
    """The common part of functions with broadcast state."""

    class BaseContext(ABC):
        """Time, as either side sees it."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the event time of the record or of the timer, ms; -2**63 if it has none."""

        @abstractmethod
        def current_processing_time(self) -> int: ...

        @abstractmethod
        def current_watermark(self) -> int: ...

    class Context(BaseContext):
        """Context of the broadcast side, which every subtask sees in full and which may write."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
            """Return a state that was named in `broadcast()`.

            Raises:
                StateAccessError: it was not.
            """

    class ReadOnlyContext(BaseContext):
        """Context of the side that is not broadcast."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
            """Return a state that was named in `broadcast()`, to read.

            Raises:
                StateAccessError: it was not.
            """


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """Applies broadcast state, filled from a broadcast stream, to the records of a stream that is not keyed."""

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """Context of a record of the broadcast stream."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """Context of a record of the other stream."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterable[OUT] | None: ...

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: BroadcastProcessFunction.Context) -> Iterable[OUT] | None:
        """Process a record of the broadcast stream; must change the state in the same way in every subtask."""


class KeyedStateFunction(Function):
    """Reads, or changes, the state of one key after the other."""

    @abstractmethod
    def process(self, key: Any, state: Any) -> None:
        """Process the state of `key`, which is valid during the call."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """A BroadcastProcessFunction on a keyed stream: with keyed state and timers on that stream's side."""

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """Context of a record of the broadcast stream. There is no key: no timers, keyed state only through here."""

        @abstractmethod
        def apply_to_keyed_state(
            self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], None] | KeyedStateFunction
        ) -> None:
            """Call `function(key, state)` for every key of this subtask that has a value in that state; in no order."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """Context of a record of the keyed stream."""

        @abstractmethod
        def timer_service(self) -> TimerService: ...

        @abstractmethod
        def get_current_key(self) -> Any: ...

    class OnTimerContext(ReadOnlyContext, ABC):
        """Context of the timer that fires."""

        @abstractmethod
        def time_domain(self) -> TimeDomain: ...

    @abstractmethod
    def process_element(
        self, value: IN1, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterable[OUT] | None: ...

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: KeyedBroadcastProcessFunction.Context) -> Iterable[OUT] | None:
        """Process a record of the broadcast stream; must change the state in the same way in every subtask."""

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterable[OUT] | None:
        """Handle a timer of the current key; records emitted here carry its time."""
        return None


# --- joins ------------------------------------------------------------------------------------------------------------


class JoinFunction(Function):
    """Emits one record for each pair of records with equal keys in a window."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any: ...


class FlatJoinFunction(Function):
    """Any number of records out for each pair of records with equal keys in a window."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Iterable[Any] | None: ...


class CoGroupFunction(Function):
    """Any number of records out for all records of both streams with one key in one window."""

    @abstractmethod
    def co_group(self, first: list[Any], second: list[Any]) -> Iterable[Any] | None:
        """Combine `first` and `second`, which are in order of arrival; one of them may be empty."""


class ProcessJoinFunction(Function):
    """Any number of records out for each pair of records that a join in event time finds."""

    class Context(ABC):
        """Context of the current pair; valid during the call only. Times in ms."""

        @abstractmethod
        def get_left_timestamp(self) -> int: ...

        @abstractmethod
        def get_right_timestamp(self) -> int: ...

        @abstractmethod
        def get_timestamp(self) -> int:
            """Return the event time of the results."""

    @abstractmethod
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any] | None: ...
