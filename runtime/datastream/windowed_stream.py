"""WindowedStream and AllWindowedStream: a keyed stream cut into windows, waiting to be aggregated.

Evictors and the aggregates of one field are Java's. Source: PyFlink, data_stream.py (WindowedStream); Flink,
WindowedStream and AllWindowedStream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from runtime.common.typeinfo import TypeInformation, Types
from runtime.datastream.columnar import aggregated_windows, as_one_key, best_rows_of_windows, without_key
from runtime.operators.functions import (
    AggregateFunction,
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from runtime.operators.output_tag import OutputTag
from runtime.operators.reduce import AccumulateFunction, AccumulateType
from runtime.operators.windowing.assigners import MergingWindowAssigner, WindowAssigner
from runtime.operators.windowing.contents import AggregateContents, ListContents, ReduceContents, WindowContents
from runtime.operators.windowing.evictors import Evictor
from runtime.operators.windowing.factory import WindowOperatorFactory
from runtime.operators.windowing.triggers import Trigger

__all__ = ["AllWindowedStream", "WindowedStream"]

if TYPE_CHECKING:
    from typing import Self

    from runtime.datastream.data_stream import DataStream, KeyedStream
    from runtime.datastream.stream_execution_environment import StreamExecutionEnvironment


class WindowedStream:
    """Windows per key.

    Args:
        keyed_stream: what is cut into windows.
        window_assigner: how.
    """

    _plain_function: type = WindowFunction
    _process_function: type = ProcessWindowFunction
    _parallelism: int | None = None
    _kind = "Window"

    def __init__(self, keyed_stream: KeyedStream, window_assigner: WindowAssigner[Any, Any]) -> None:
        if not isinstance(window_assigner, WindowAssigner):
            raise TypeError(f"window() needs a WindowAssigner, not {window_assigner!r}")
        self._stream = keyed_stream
        self._assigner = window_assigner
        self._trigger: Trigger[Any, Any] | None = None
        self._evictor: Evictor[Any, Any] | None = None
        self._allowed_lateness_ms = 0
        self._late_data_tag: OutputTag | None = None

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        return self._stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation | None:
        return self._stream.get_type()

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Set when windows fire, instead of the assigner's default.

        Raises:
            TypeError: it is no Trigger, or it cannot merge and the windows do.
        """
        if not isinstance(trigger, Trigger):
            raise TypeError(f"trigger() needs a Trigger, not {trigger!r}")
        if isinstance(self._assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise TypeError("A merging window assigner cannot be used with a trigger that does not support merging.")
        self._trigger = trigger
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> Self:
        """Set what takes elements out of windows that fire; windows then keep all elements until they are removed.

        Raises:
            TypeError: it is no Evictor.
        """
        if not isinstance(evictor, Evictor):
            raise TypeError(f"evictor() needs an Evictor, not {evictor!r}")
        self._evictor = evictor
        return self

    def allowed_lateness(self, time_ms: int) -> Self:
        """Set the milliseconds for which a window that has fired still takes records, and fires again for each.

        Raises:
            ValueError: it is negative.
        """
        if time_ms < 0:
            raise ValueError(f"the allowed lateness must not be negative, it is {time_ms} ms")
        self._allowed_lateness_ms = int(time_ms)
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Emit records that are late for all their windows to a side output, instead of dropping them.

        Raises:
            TypeError: it is no OutputTag.
        """
        if not isinstance(output_tag, OutputTag):
            raise TypeError(f"side_output_late_data() needs an OutputTag, not {output_tag!r}")
        self._late_data_tag = output_tag
        return self

    def reduce(
        self, reduce_function: Any, window_function: Any = None, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Reduce the records of each window as they come; the window function, if any, is given the one result."""
        if window_function is None and output_type is None:
            output_type = self._stream.get_type()
        if not isinstance(reduce_function, ReduceFunction) and not callable(reduce_function):
            raise TypeError(f"reduce() needs a ReduceFunction or a callable, not {reduce_function!r}")
        contents = ReduceContents(reduce_function, self._stream.get_type())
        return self._add(contents, reduce_function, window_function, output_type)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: Any = None,
        accumulator_type: TypeInformation | list[TypeInformation] | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Aggregate the records of each window as they come; the window function, if any, is given the one result."""
        if not isinstance(aggregate_function, AggregateFunction):
            raise TypeError(f"aggregate() needs an AggregateFunction, not {aggregate_function!r}")
        if isinstance(accumulator_type, list):
            accumulator_type = Types.ROW(accumulator_type)
        contents = AggregateContents(aggregate_function, accumulator_type)
        return self._add(contents, aggregate_function, window_function, output_type)

    def aggregate_columns(self, *expressions: str, **named: str) -> DataStream:
        """Compute SQL aggregates of each key and window, a batch at a time (not in PyFlink).

        `aggregate_columns("count(*) AS bids", "window_end", top="max(price)")` gives the columns of the key and these.
        Aggregates: count (also DISTINCT), sum, min, max, avg, first, last, collect, and approx_quantile(value, 0.99),
        which is off by at most 1 % of the value, or by a third argument, 1e-4 to 0.5; each may have a FILTER (WHERE …).
        Around them any SQL expression, which may also use the columns of the key, window_start and window_end (ms).

        With a ContinuousEventTimeTrigger, or a ContinuousProcessingTimeTrigger for windows of processing time, each
        window has a result at every multiple of the interval, too, before its last one.

        Raises:
            ColumnExpressionError: an expression cannot be used: a ValueError that says which and why.
            TypeError: the stream is not keyed by columns; or windows, trigger or evictor need a function.
        """
        self._check_no_evictor("aggregate_columns")
        return aggregated_windows(
            self._stream,
            self._assigner,
            expressions,
            named,
            self._allowed_lateness_ms,
            self._late_data_tag,
            self._trigger,
        )

    def top_n(
        self,
        n: int,
        by: str | Sequence[str],
        descending: bool | Sequence[bool] = False,
        rank: str | None = None,
        with_window: bool = False,
    ) -> DataStream:
        """Keep the best n records of each key and window, the best first, once the window fires (not in PyFlink).

        Args:
            n, by, descending, rank: see `KeyedStream.top_n`.
            with_window: add the columns window_start and window_end, ms.

        Raises:
            ColumnExpressionError, ValueError: see there.
            TypeError: the stream is not keyed by columns; or windows, trigger or evictor need a function.
        """
        self._check_plain("top_n")
        lateness_ms, tag = self._allowed_lateness_ms, self._late_data_tag
        return best_rows_of_windows(
            self._stream, self._assigner, n, by, descending, rank, with_window, lateness_ms, tag
        )

    def _check_plain(self, what: str) -> None:
        if self._trigger is not None:
            raise TypeError(f"{what}() is for windows with the default trigger")
        self._check_no_evictor(what)

    def _check_no_evictor(self, what: str) -> None:
        if self._evictor is not None:
            raise TypeError(f"{what}() is for windows without an evictor")

    def apply(self, window_function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Give all records of each window to a function once the window fires."""
        if not isinstance(window_function, self._plain_function):
            raise TypeError(f"apply() needs a {self._plain_function.__name__}, not {window_function!r}")
        return self._add(ListContents(self._stream.get_type()), None, window_function, output_type)

    def process(self, process_window_function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Give all records of each window to a function that also sees the window, its state and event time."""
        if not isinstance(process_window_function, self._process_function):
            raise TypeError(f"process() needs a {self._process_function.__name__}, not {process_window_function!r}")
        return self._add(ListContents(self._stream.get_type()), None, process_window_function, output_type)

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """Emit the first record of each window, with the sum of a field."""
        return self._accumulated(AccumulateType.SUM, position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """Emit the first record of each window, with the least value of a field."""
        return self._accumulated(AccumulateType.MIN, position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """Emit the first record of each window, with the greatest value of a field."""
        return self._accumulated(AccumulateType.MAX, position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """Emit the record of each window that has the least value of a field; the first of equals."""
        return self._accumulated(AccumulateType.MIN_BY, position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """Emit the record of each window that has the greatest value of a field; the first of equals."""
        return self._accumulated(AccumulateType.MAX_BY, position_to_max_by)

    def _accumulated(self, kind: AccumulateType, position: int | str) -> DataStream:
        return self.reduce(AccumulateFunction(kind, position))

    def _add(
        self, contents: WindowContents, function: Any, window_function: Any, output_type: TypeInformation | None
    ) -> DataStream:
        if window_function is not None and not isinstance(
            window_function, (self._plain_function, self._process_function)
        ):
            raise TypeError(
                f"the window function must be a {self._plain_function.__name__} or a "
                f"{self._process_function.__name__}, not {window_function!r}"
            )
        factory = WindowOperatorFactory(
            self._assigner,
            self._stream.key_selector,
            contents,
            window_function,
            self._trigger,
            self._allowed_lateness_ms,
            self._late_data_tag,
            output_type,
            self._evictor,
        )
        stream = self._stream.transform_window(
            type(self._assigner).__name__, factory, output_type, parallelism=self._parallelism
        )
        return stream.described_as(self._description(function, window_function))

    def _description(self, function: Any, window_function: Any) -> str:
        """Return the operator's description in plans, as PyFlink has it."""
        trigger = self._assigner.get_default_trigger(None) if self._trigger is None else self._trigger
        functions = ", ".join(type(given).__name__ for given in (function, window_function) if given is not None)
        return f"{self._kind}({self._assigner}, {type(trigger).__name__}, {functions})"


class AllWindowedStream(WindowedStream):
    """Windows over a whole stream, in one subtask."""

    _plain_function = AllWindowFunction
    _process_function = ProcessAllWindowFunction
    _parallelism = 1
    _kind = "AllWindow"

    def aggregate_columns(self, *expressions: str, **named: str) -> DataStream:
        """Compute SQL aggregates of each window over all records, like `WindowedStream.aggregate_columns`.

        Raises:
            ColumnExpressionError: an expression cannot be used.
            TypeError: the records have no columns; or windows, trigger or evictor need a function.
        """
        self._check_no_evictor("aggregate_columns")
        keyed = self._as_one_key("aggregate_columns")
        lateness_ms, tag = self._allowed_lateness_ms, self._late_data_tag
        windows = aggregated_windows(keyed, self._assigner, expressions, named, lateness_ms, tag, self._trigger)
        return without_key(windows, keyed)

    def top_n(
        self,
        n: int,
        by: str | Sequence[str],
        descending: bool | Sequence[bool] = False,
        rank: str | None = None,
        with_window: bool = False,
    ) -> DataStream:
        """Keep the best n records of each window over all records, like `WindowedStream.top_n`.

        Raises:
            ColumnExpressionError, ValueError: see there.
            TypeError: the records have no columns; or windows, trigger or evictor need a function.
        """
        self._check_plain("top_n")
        keyed = self._as_one_key("top_n")
        lateness_ms, tag = self._allowed_lateness_ms, self._late_data_tag
        windows = best_rows_of_windows(keyed, self._assigner, n, by, descending, rank, with_window, lateness_ms, tag)
        return without_key(windows, keyed)

    def _as_one_key(self, what: str) -> KeyedStream:
        if self._late_data_tag is not None:
            raise TypeError(f"{what}() of windows without keys has no side output of late data: use a key column")
        return as_one_key(self._stream.origin)
