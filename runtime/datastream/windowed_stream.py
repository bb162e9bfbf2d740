"""WindowedStream and AllWindowedStream: a keyed stream cut into windows, waiting to be aggregated.

Source: PyFlink, data_stream.py (WindowedStream).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.common.typeinfo import TypeInformation
from runtime.operators.functions import (
    AggregateFunction,
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from runtime.operators.output_tag import OutputTag
from runtime.operators.windowing.assigners import WindowAssigner
from runtime.operators.windowing.contents import AggregateContents, ListContents, ReduceContents, WindowContents
from runtime.operators.windowing.factory import WindowOperatorFactory
from runtime.operators.windowing.triggers import Trigger

if TYPE_CHECKING:
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

    def __init__(self, keyed_stream: KeyedStream, window_assigner: WindowAssigner[Any]) -> None:
        if not isinstance(window_assigner, WindowAssigner):
            raise TypeError(f"window() needs a WindowAssigner, not {window_assigner!r}")
        self._stream = keyed_stream
        self._assigner = window_assigner
        self._trigger: Trigger[Any] | None = None
        self._allowed_lateness_ms = 0
        self._late_data_tag: OutputTag | None = None

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        return self._stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation | None:
        return self._stream.get_type()

    def trigger(self, trigger: Trigger[Any]) -> WindowedStream:
        """When windows fire, instead of the assigner's default.

        Raises:
            TypeError: it is no Trigger.
        """
        if not isinstance(trigger, Trigger):
            raise TypeError(f"trigger() needs a Trigger, not {trigger!r}")
        self._trigger = trigger
        return self

    def allowed_lateness(self, time_ms: int) -> WindowedStream:
        """Milliseconds for which a window that has fired still takes records, and fires again for each.

        Raises:
            ValueError: it is negative.
        """
        if time_ms < 0:
            raise ValueError(f"the allowed lateness must not be negative, it is {time_ms} ms")
        self._allowed_lateness_ms = int(time_ms)
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> WindowedStream:
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
        return self._add(
            "Reduce", ReduceContents(reduce_function, self._stream.get_type()), window_function, output_type
        )

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: Any = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Aggregate the records of each window as they come; the window function, if any, is given the one result."""
        if not isinstance(aggregate_function, AggregateFunction):
            raise TypeError(f"aggregate() needs an AggregateFunction, not {aggregate_function!r}")
        return self._add(
            "Aggregate", AggregateContents(aggregate_function, accumulator_type), window_function, output_type
        )

    def apply(self, window_function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Give all records of each window to a function once the window fires."""
        if not isinstance(window_function, self._plain_function):
            raise TypeError(f"apply() needs a {self._plain_function.__name__}, not {window_function!r}")
        return self._add("Apply", ListContents(self._stream.get_type()), window_function, output_type)

    def process(self, process_window_function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Give all records of each window to a function that also sees the window, its state and event time."""
        if not isinstance(process_window_function, self._process_function):
            raise TypeError(f"process() needs a {self._process_function.__name__}, not {process_window_function!r}")
        return self._add("Process", ListContents(self._stream.get_type()), process_window_function, output_type)

    def _add(
        self, kind: str, contents: WindowContents, window_function: Any, output_type: TypeInformation | None
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
        )
        name = f"{type(self._assigner).__name__}, {kind}"
        return self._stream.transform_window(name, factory, output_type, parallelism=self._parallelism)


class AllWindowedStream(WindowedStream):
    """Windows over a whole stream, in one subtask."""

    _plain_function = AllWindowFunction
    _process_function = ProcessAllWindowFunction
    _parallelism = 1
