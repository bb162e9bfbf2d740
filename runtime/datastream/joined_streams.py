"""Joins of two streams: in windows, as groups in windows, by intervals of event time, and with versions.

Java's shape in snake_case:

    orders.join(payments).where(order_id).equal_to(payment_order).window(window).apply(lambda order, payment: …)
    orders.key_by(order_id).interval_join(payments.key_by(payment_order)).between(Time.seconds(-5), Time.seconds(5))…

Source: Flink, JoinedStreams, CoGroupedStreams, KeyedStream.IntervalJoin; SQL's FOR SYSTEM_TIME AS OF (temporal join).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.common.time import Duration, Time
from runtime.common.typeinfo import TypeInformation
from runtime.datastream.columnar import interval_joined, row_pairs
from runtime.datastream.key_selectors import coerced_selector
from runtime.operators.columnar.window_join import How
from runtime.operators.functions import WindowFunction
from runtime.operators.interval_join import IntervalJoinOperatorFactory
from runtime.operators.output_tag import OutputTag
from runtime.operators.temporal_join import TemporalJoinOperatorFactory
from runtime.operators.two_input_functions import ProcessJoinFunction
from runtime.operators.window_joins import CoGroupWindowFunction, JoinWindowFunction, TaggedKeySelector, tagged_type
from runtime.operators.windowing.assigners import WindowAssigner
from runtime.operators.windowing.evictors import Evictor
from runtime.operators.windowing.triggers import Trigger

__all__ = [
    "CoGroupedStreams",
    "EqualTo",
    "IntervalJoin",
    "IntervalJoined",
    "JoinedStreams",
    "TemporalJoin",
    "Where",
    "WithWindow",
    "checked_tag",
    "millis_of",
]

if TYPE_CHECKING:
    from typing import Self

    from runtime.datastream.data_stream import DataStream, KeyedStream

# --- in windows -------------------------------------------------------------------------------------------------------


class JoinedStreams:
    """Joins two streams: pairs of records with equal keys in a window, as an inner join."""

    _name = "Window Join"
    _window_function: type = JoinWindowFunction

    def __init__(self, first: DataStream, second: DataStream) -> None:
        self._first = first
        self._second = second

    def where(self, key_selector: Any, key_type: TypeInformation | None = None) -> Where:
        """Set the key of the first stream's records; see `DataStream.key_by`."""
        return Where(self, coerced_selector(key_selector, key_type))

    def windowed(self, selectors: tuple[Any, Any], assigner: WindowAssigner[Any, Any]) -> WithWindow:
        """Return windows of both streams together; for `EqualTo`."""
        first, second = self._first, self._second
        both = tagged_type(first.get_type(), second.get_type())
        left, right = first.tagged(0, both), second.tagged(1, both)
        windows = left.union(right).key_by(TaggedKeySelector(*selectors)).window(assigner)
        return WithWindow(windows, (left, right), self._window_function, self._name)


class CoGroupedStreams(JoinedStreams):
    """Groups two streams: all records with one key in one window together, also if one side has none."""

    _name = "Window Co-Group"
    _window_function = CoGroupWindowFunction


class Where:
    """The first stream has its key."""

    def __init__(self, streams: JoinedStreams, selector: Any) -> None:
        self._streams = streams
        self._selector = selector

    def equal_to(self, key_selector: Any, key_type: TypeInformation | None = None) -> EqualTo:
        """Set the key of the second stream's records."""
        return EqualTo(self._streams, (self._selector, coerced_selector(key_selector, key_type)))


class EqualTo:
    """Both streams have their keys."""

    def __init__(self, streams: JoinedStreams, selectors: tuple[Any, Any]) -> None:
        self._streams = streams
        self._selectors = selectors

    def window(self, assigner: WindowAssigner[Any, Any]) -> WithWindow:
        """Set the windows in which records meet."""
        return self._streams.windowed(self._selectors, assigner)


class WithWindow:
    """Both streams are cut into common windows."""

    def __init__(self, windows: Any, sides: tuple[DataStream, DataStream], window_function: type, name: str) -> None:
        self._windows = windows
        self._sides = sides
        self._window_function = window_function
        self._name = name

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Set when windows fire, instead of the assigner's default."""
        self._windows.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> Self:
        """Set what takes records out of windows that fire; it sees (side, first record, second record)."""
        self._windows.evictor(evictor)
        return self

    def allowed_lateness(self, time: Time | Duration | int) -> Self:
        """Set for how long a window that has fired still takes records (a plain number: ms)."""
        self._windows.allowed_lateness(millis_of(time))
        return self

    def apply(self, function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Make results.

        Args:
            function: of a join, a JoinFunction, a FlatJoinFunction or a callable of a pair; of a co-group, a
                CoGroupFunction or a callable of two lists that returns any number of results.
            output_type: type of the results; None = Python objects.

        Raises:
            TypeError: the function is none of these.
        """
        window_function: WindowFunction[Any, Any, Any, Any] = self._window_function(function)
        stream: DataStream = self._windows.apply(window_function, output_type)
        return stream.name(self._name).made_of(left=self._sides[0], right=self._sides[1])


# --- by event time ----------------------------------------------------------------------------------------------------


class IntervalJoin:
    """Joins two keyed streams: pairs of records within an interval of event time."""

    def __init__(self, left: KeyedStream, right: KeyedStream) -> None:
        self._left = left
        self._right = right

    def in_event_time(self) -> IntervalJoin:
        """Join by event time, which is the default."""
        return self

    def between(self, lower_bound: Time | Duration | int, upper_bound: Time | Duration | int) -> IntervalJoined:
        """Set how far, in event time, the right record may be behind (> 0) or ahead (< 0) of the left one.

        Both bounds are inclusive; a plain number means ms.

        Raises:
            ValueError: the lower bound is greater than the upper one.
        """
        return IntervalJoined(self._left, self._right, millis_of(lower_bound), millis_of(upper_bound))


class IntervalJoined:
    """An interval join whose interval is known."""

    def __init__(self, left: KeyedStream, right: KeyedStream, lower_ms: int, upper_ms: int) -> None:
        if lower_ms > upper_ms:
            raise ValueError(f"the lower bound ({lower_ms} ms) must not be greater than the upper one ({upper_ms} ms)")
        self._left = left
        self._right = right
        self._lower_ms = lower_ms
        self._upper_ms = upper_ms
        self._is_lower_exclusive = False
        self._is_upper_exclusive = False
        self._late_tags: list[OutputTag | None] = [None, None]

    def lower_bound_exclusive(self) -> Self:
        """Exclude the lower bound itself."""
        self._is_lower_exclusive = True
        return self

    def upper_bound_exclusive(self) -> Self:
        """Exclude the upper bound itself."""
        self._is_upper_exclusive = True
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> Self:
        """Emit left records behind the watermark to a side output, instead of dropping them."""
        self._late_tags[0] = checked_tag(output_tag)
        return self

    def side_output_right_late_data(self, output_tag: OutputTag) -> Self:
        """Emit right records behind the watermark to a side output, instead of dropping them."""
        self._late_tags[1] = checked_tag(output_tag)
        return self

    def process(self, function: ProcessJoinFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Make any number of results of each pair; they carry the later one of the two event times.

        Raises:
            TypeError: it is no ProcessJoinFunction.
        """
        left, right = self._left, self._right
        factory = IntervalJoinOperatorFactory(
            function,
            (left.key_selector, right.key_selector),
            self._lower_ms + int(self._is_lower_exclusive),
            self._upper_ms - int(self._is_upper_exclusive),
            (left.get_type(), right.get_type()),
            (self._late_tags[0], self._late_tags[1]),
            output_type,
        )
        return left.transform_two(right, "Interval Join", factory, output_type, is_stateful=True)

    def columns(self, suffix: str = "_right", how: How = "inner") -> DataStream:
        """Make one row of each pair, by column (not in PyFlink); rows carry the later one of the two event times.

        They have the left record's columns, then the right one's; where both have one of a name, the right one's gets
        the suffix. Null keys are equal to each other.

        Args:
            suffix: of the right side's names.
            how: "inner", or "left", "right" or "full" for an outer join: a row of that side without a partner comes,
                with nulls and its own event time, once the watermark has passed the last time of one. Watermarks leave
                an outer join later, by the longest such wait.

        Raises:
            ColumnExpressionError: a column's name is taken.
            TypeError: a stream is not keyed by columns, or the keys differ in type.
            ValueError: there is no such join.
        """
        return interval_joined(
            self._left,
            self._right,
            self._lower_ms + int(self._is_lower_exclusive),
            self._upper_ms - int(self._is_upper_exclusive),
            suffix,
            (self._late_tags[0], self._late_tags[1]),
            how,
        )


class TemporalJoin:
    """A keyed stream, and another whose records are versions: each is valid from its event time until the next."""

    def __init__(self, left: KeyedStream, versions: KeyedStream) -> None:
        self._left = left
        self._versions = versions
        self._is_left_outer = False
        self._late_tag: OutputTag | None = None

    def left_outer(self) -> Self:
        """Join a record for which there is no version with None, instead of leaving it out."""
        self._is_left_outer = True
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> Self:
        """Emit left records behind the watermark to a side output, instead of dropping them."""
        self._late_tag = checked_tag(output_tag)
        return self

    def process(self, function: ProcessJoinFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Make any number of results of each left record and the version valid at its time.

        A record is joined once the watermark has passed it; results carry its event time.

        Raises:
            TypeError: it is no ProcessJoinFunction.
        """
        left, versions = self._left, self._versions
        factory = TemporalJoinOperatorFactory(
            function,
            (left.key_selector, versions.key_selector),
            self._is_left_outer,
            (left.get_type(), versions.get_type()),
            self._late_tag,
            output_type,
        )
        return left.transform_two(versions, "Temporal Join", factory, output_type, is_stateful=True)

    def columns(self, suffix: str = "_right") -> DataStream:
        """Make one row of each left record and its version, by column (not in PyFlink); it has the left's event time.

        Rows have the left record's columns, then the version's; where both have one of a name, the version's gets the
        suffix. With `left_outer` the version's are null where there is none. A version cannot be ended here: None is
        no row of columns.

        Raises:
            ColumnExpressionError: a column's name is taken.
            TypeError: a stream is not keyed by columns, or the keys differ in type.
        """
        pairs = row_pairs(self._left, self._versions, suffix)
        return self.process(pairs, pairs.output_type)


def millis_of(time: Time | Duration | int) -> int:
    """Return an amount of time in ms; plain numbers are ms already."""
    if isinstance(time, Time):
        return time.to_milliseconds()
    return time.to_millis() if isinstance(time, Duration) else int(time)


def checked_tag(tag: OutputTag) -> OutputTag:
    """Return the tag itself; raises a TypeError if it is not one."""
    if not isinstance(tag, OutputTag):
        raise TypeError(f"a side output for late data needs an OutputTag, not {tag!r}")
    return tag
