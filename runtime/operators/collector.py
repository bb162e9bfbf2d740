"""BatchCollector: gathers what an operator makes of one batch, and hands it on as one batch per output.

Records, event times and marks are kept for the main output and for each side output; `flush` at the end of
`process_batch` emits them, side outputs first (see `runtime.operators.outputs`). A mark that takes effect at the same
row as the one before it replaces it: nothing lies between them. Used by the task's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from runtime.common.coercion import all_fit
from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import NO_TIMESTAMP, Mark, RecordBatch
from runtime.core.elements import Watermark
from runtime.operators.errors import failing_index, user_function_error
from runtime.operators.operator import OperatorContext
from runtime.operators.output import Output
from runtime.operators.output_tag import OutputTag

Coercer = Callable[[Any], Any]


class _Buffer:
    """Rows and marks for one output."""

    __slots__ = ("coercer", "marks", "timestamps", "type_info", "values")

    def __init__(self, type_info: TypeInformation | None) -> None:
        self.type_info = type_info
        self.coercer: Coercer | None = None if type_info is None else type_info.coercer()
        self.values: list[Any] = []
        self.timestamps: list[int] = []
        self.marks: list[Mark] = []

    def mark(self, watermark: int) -> None:
        offset = len(self.values)
        if self.marks and self.marks[-1].offset == offset:
            self.marks.pop()
        self.marks.append(Mark(offset, watermark))


class BatchCollector:
    """Gathers output; one per operator instance.

    `values` and `timestamps` are the main output's lists of the current batch: a hot loop may append to both
    directly. They are other lists after each `flush`.
    """

    def __init__(self, context: OperatorContext, output: Output, type_info: TypeInformation | None) -> None:
        self._context = context
        self._output = output
        self._main = _Buffer(type_info)
        self._sides: dict[OutputTag, _Buffer] = {}
        self._last_mark: int | None = None
        self.values = self._main.values
        self.timestamps = self._main.timestamps

    def add(self, value: Any, timestamp: int) -> None:
        """Emit a record to the main output; `timestamp` may be NO_TIMESTAMP."""
        self.values.append(value)
        self.timestamps.append(timestamp)

    def add_side(self, tag: OutputTag, value: Any, timestamp: int) -> None:
        """Emit a record to a side output."""
        buffer = self._sides.get(tag)
        if buffer is None:
            buffer = self._sides[tag] = _Buffer(tag.type_info)
            if self._last_mark is not None:
                buffer.mark(self._last_mark)
        buffer.values.append(value)
        buffer.timestamps.append(timestamp)

    def add_results(self, results: Iterable[Any] | None, timestamp: int) -> None:
        """Emit what a process function returned: None, or an iterable of records and `(OutputTag, record)` pairs."""
        if results is None:
            return
        values, timestamps = self.values, self.timestamps
        for result in results:
            if type(result) is tuple and result and isinstance(result[0], OutputTag):
                tag, value = _side_result(result)
                self.add_side(tag, value, timestamp)
            else:
                values.append(result)
                timestamps.append(timestamp)

    def mark(self, watermark: int) -> None:
        """Raise the watermark here, behind everything emitted so far."""
        self._last_mark = watermark
        self._main.mark(watermark)
        for buffer in self._sides.values():
            buffer.mark(watermark)

    def flush(self) -> None:
        """Hand on everything gathered; marks without rows become a plain watermark."""
        for tag, buffer in self._sides.items():
            if buffer.values:
                self._output.collect(self._take(buffer), tag)
            else:
                buffer.marks = []  # the main output's marks or watermark reach this side output too
        main, last_mark = self._main, self._last_mark
        self._last_mark = None
        if main.values:
            batch = self._take(main)
            self.values, self.timestamps = main.values, main.timestamps
            self._output.collect(batch)
        elif last_mark is not None:
            main.marks = []
            self._output.emit_watermark(Watermark(last_mark))

    def _take(self, buffer: _Buffer) -> RecordBatch:
        values = buffer.values
        if buffer.coercer is not None:
            values = coerce_all(self._context, buffer.coercer, values)
        timestamps: list[int] | None = buffer.timestamps
        assert timestamps is not None
        if NO_TIMESTAMP in timestamps and timestamps.count(NO_TIMESTAMP) == len(timestamps):
            timestamps = None
        batch = RecordBatch.of_values(values, timestamps, buffer.marks, buffer.type_info)
        buffer.values, buffer.timestamps, buffer.marks = [], [], []
        return batch


def coerce_all(context: OperatorContext, coercer: Coercer, values: list[Any]) -> list[Any]:
    """Convert results to the declared type; returns the list itself if they are that already.

    Raises:
        UserFunctionError: a result does not fit; it names the result and the field.
    """
    if all_fit(coercer, values):
        return values
    rows = iter(values)
    try:
        return list(map(coercer, rows))
    except Exception as error:
        result = values[failing_index(rows, len(values))]
        raise user_function_error(context, error, result, during="making the result fit the output type") from error


def _side_result(result: tuple[Any, ...]) -> tuple[OutputTag, Any]:
    if len(result) != 2:
        raise TypeError(f"a side output is written as `yield tag, value`, not as a tuple of {len(result)}: {result!r}")
    return result[0], result[1]
