"""WindowOperatorFactory: describes a window operator, and picks the best implementation.

The choice has no visible effect, not even on snapshots.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from runtime.common.typeinfo import TypeInformation
from runtime.operators.declared_states import states_with_functions
from runtime.operators.output_tag import OutputTag
from runtime.operators.reduce import content_of
from runtime.operators.windowing.aligned_windows import AlignedWindowOperator, is_aligned
from runtime.operators.windowing.assigners import (
    GlobalWindows,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from runtime.operators.windowing.contents import EvictableContents, ListContents, ReduceContents, WindowContents
from runtime.operators.windowing.count_windows import CountWindowAssigner
from runtime.operators.windowing.cumulative_windows import CumulativeEventTimeWindows, CumulativeProcessingTimeWindows
from runtime.operators.windowing.evictors import Evictor
from runtime.operators.windowing.merging_windows import MergingWindowOperator, open_windows
from runtime.operators.windowing.session_operator import SessionWindowOperator, is_plain_session
from runtime.operators.windowing.session_windows import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
)
from runtime.operators.windowing.triggers import PurgingTrigger, Trigger
from runtime.operators.windowing.window_functions import check_window_function
from runtime.operators.windowing.window_operator import WindowOperator, WindowSpec
from runtime.operators.windowing.windows import TimeWindowSerializer
from runtime.state.state_meta import DeclaredStates, keyed_state, timed_windows

_STATELESS_ASSIGNERS: Final = frozenset(
    {
        TumblingEventTimeWindows,
        TumblingProcessingTimeWindows,
        SlidingEventTimeWindows,
        SlidingProcessingTimeWindows,
        CumulativeEventTimeWindows,
        CumulativeProcessingTimeWindows,
        EventTimeSessionWindows,
        ProcessingTimeSessionWindows,
        DynamicEventTimeSessionWindows,
        DynamicProcessingTimeSessionWindows,
        GlobalWindows,
    }
)
"""Assigners that keep no state, nor do their default triggers."""


@dataclass(frozen=True)
class WindowOperatorFactory:
    """Window.

    Args:
        assigner: which windows an element belongs to.
        key_selector: a KeySelector or a callable; NullByteKeySelector() for windows over a whole stream.
        contents: what windows keep of their elements.
        window_function: computes the results from the contents (a WindowFunction, AllWindowFunction,
            ProcessWindowFunction or ProcessAllWindowFunction); None: the contents are the result.
        trigger: when windows fire; None = the assigner's default.
        allowed_lateness_ms: how far the watermark may have passed a window that still accepts elements.
        late_data_tag: side output of elements that are late for all their windows; None = they are dropped.
        output_type: type of the results; None = Python objects.
        evictor: takes elements out of windows that fire; all elements are kept for it.

    Raises:
        TypeError: the window function is of an unknown kind, or missing although all elements are kept; or windows
            merge and the trigger cannot.
        ValueError: the lateness is negative.
    """

    assigner: WindowAssigner[Any, Any]
    key_selector: Any
    contents: WindowContents
    window_function: Any = None
    trigger: Trigger[Any, Any] | None = None
    allowed_lateness_ms: int = 0
    late_data_tag: OutputTag | None = None
    output_type: TypeInformation | None = None
    evictor: Evictor[Any, Any] | None = None

    def __post_init__(self) -> None:
        check_window_function(self.window_function)
        if self.window_function is None and isinstance(self.contents, ListContents):
            raise TypeError("windows that keep all their elements need a window function")
        if self.allowed_lateness_ms < 0:
            raise ValueError(f"the allowed lateness must not be negative, it is {self.allowed_lateness_ms} ms")

        if isinstance(self.assigner, MergingWindowAssigner) and not self._trigger().can_merge():
            raise TypeError(f"windows of {self.assigner!r} merge, and {type(self._trigger()).__name__} cannot")

    @property
    def window_type(self) -> str:
        """Return the window type of its state: state of other windows cannot be taken over."""
        serializer = self.assigner.get_window_serializer()
        name = type(serializer).__name__.removesuffix("Serializer")
        if isinstance(serializer, TimeWindowSerializer):
            name = timed_windows(name, is_event_time=self.assigner.is_event_time())
        # the state of merged windows is kept under one of them
        return f"merging {name}" if isinstance(self.assigner, MergingWindowAssigner) else name

    @property
    def state_content(self) -> str:
        """Return what the value of a window is, if that is known; for an evictor they keep the elements themselves."""
        contents = self.contents
        if not isinstance(contents, ReduceContents) or self.evictor is not None:
            return ""
        return content_of(contents.function, contents.element_type)

    @property
    def declared_states(self) -> DeclaredStates:
        contents = self.contents if self.evictor is None else EvictableContents(self.contents)
        own = [keyed_state(contents.descriptor(), namespaced=True)]
        if isinstance(self.assigner, MergingWindowAssigner):
            own.append(keyed_state(open_windows(self.assigner)))
        known = states_with_functions([contents.function, self.window_function, self.key_selector], own)
        # triggers may keep state of their own, and so do windows by count; an assigner of the user's may as well, and
        # its default trigger
        is_plain = self.trigger is None and type(self.assigner) in _STATELESS_ASSIGNERS
        return replace(known, is_complete=known.is_complete and is_plain)

    def create(self) -> WindowOperator:
        trigger = self._trigger()
        if self.trigger is None and isinstance(self.assigner, CountWindowAssigner):
            # a fired count window gets no more elements and has no end: nothing else would ever clear it
            trigger = PurgingTrigger.of(trigger)
        spec = WindowSpec(
            self.assigner,
            self.contents,
            self.window_function,
            trigger,
            self.allowed_lateness_ms,
            self.late_data_tag,
            self.evictor,
        )
        operator: type[WindowOperator] = WindowOperator
        if isinstance(self.assigner, MergingWindowAssigner):
            operator = SessionWindowOperator if is_plain_session(spec) else MergingWindowOperator
        elif self.trigger is None and is_aligned(spec):
            operator = AlignedWindowOperator
        return operator(spec, self.key_selector, self.output_type)

    def _trigger(self) -> Trigger[Any, Any]:
        return self.assigner.get_default_trigger(None) if self.trigger is None else self.trigger
