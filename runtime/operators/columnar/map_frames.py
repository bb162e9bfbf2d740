"""map_frames: a Python function from frame to frame, called with whole batches. No state; used by the task's thread.

For what SQL expressions cannot say and Polars can. Where batches begin and end is not the program's to choose, so what
the function makes of a row must not depend on the other rows of its frame.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import polars as pl
from polars.exceptions import PolarsError

from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import RecordBatch
from runtime.core.elements import Watermark
from runtime.graph.changelog import ChangelogInput
from runtime.operators.columnar.frames import FrameReader, batch_of
from runtime.operators.errors import user_function_error
from runtime.operators.operator import OneInputOperator
from runtime.state.state_meta import NO_STATES, DeclaredStates

FrameFunction = Callable[[pl.DataFrame], pl.DataFrame]
Rows = Literal["same", "any"]
"""Whether the function returns a row for each row, in their order, or any number of rows."""

EVENT_TIME = "event_time"
"""With "any": a further column of the function's frames, event time in ms (Int64), null for a row that has none."""


class FrameError(TypeError):
    """What a function returned is not the frame that was declared; the message says how it differs."""


class MapFramesOperator(OneInputOperator):
    """Calls the function with the rows of a batch."""

    costs_by_slice = True

    def __init__(
        self, function: FrameFunction, rows: Rows, input_type: TypeInformation, output_type: TypeInformation
    ) -> None:
        self._function = function
        self._rows = rows
        self._reader = FrameReader(input_type)
        self._output_type = output_type
        self._schema = FrameReader(output_type).schema

    def process_batch(self, batch: RecordBatch) -> None:
        if self._rows == "same":
            self._keep_rows(batch)
            return
        start = 0
        for offset, watermark in batch.marks:
            self._make_rows(batch.slice(start, offset))
            self.output.emit_watermark(Watermark(watermark))
            start = offset
        self._make_rows(batch.slice(start, batch.num_rows))

    def _keep_rows(self, batch: RecordBatch) -> None:
        if batch.num_rows == 0:
            if batch.marks:
                self.output.emit_watermark(Watermark(batch.marks[-1].watermark))
            return
        made = self._made(self._reader.read(batch), self._schema)
        if made.height != batch.num_rows:
            error = FrameError(
                f"{made.height} rows were returned for {batch.num_rows}; declare rows='any' if that is meant"
            )
            raise user_function_error(self.context, error, function=self._function)
        self.output.collect(batch_of(made, self._output_type, batch.timestamps_array(), batch.marks))

    def _make_rows(self, batch: RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        times = batch.timestamps_array()
        column = pl.Series(EVENT_TIME, [None] * batch.num_rows if times is None else times, dtype=pl.Int64)
        made = self._made(self._reader.read(batch).with_columns(column), self._schema | {EVENT_TIME: pl.Int64()})
        if not made.height:
            return
        made_times = made.drop_in_place(EVENT_TIME)
        has_times = made_times.null_count() == 0
        if not has_times and made_times.null_count() < made.height:
            error = FrameError(f"some rows that were returned have an {EVENT_TIME}, others have none")
            raise user_function_error(self.context, error, function=self._function)
        self.output.collect(batch_of(made, self._output_type, made_times.to_numpy() if has_times else None))

    def _made(self, frame: pl.DataFrame, schema: dict[str, pl.DataType]) -> pl.DataFrame:
        try:
            return _conformed(self._function(frame), schema)
        except Exception as error:
            raise user_function_error(self.context, error, function=self._function) from error


def _conformed(made: object, schema: dict[str, pl.DataType]) -> pl.DataFrame:
    """Return a function's frame with the declared columns, in their order and of their dtypes.

    Raises:
        FrameError: a column is missing, is too many, or has values that the declared dtype does not hold.
    """
    if not isinstance(made, pl.DataFrame):
        hint = "; call collect()" if isinstance(made, pl.LazyFrame) else ""
        raise FrameError(f"a polars DataFrame must be returned, not {type(made).__name__}{hint}")
    if EVENT_TIME in schema and EVENT_TIME not in made.columns:
        # the function does not care: its rows have no times
        made = made.with_columns(pl.lit(None, pl.Int64).alias(EVENT_TIME))
    missing = [name for name in schema if name not in made.columns]
    extra = [name for name in made.columns if name not in schema]
    if missing or extra:
        raise FrameError(f"the columns {made.columns} were returned where {list(schema)} are declared")
    casts = []
    for name, declared in schema.items():
        found = made.schema[name]
        if found == declared:
            continue
        if not _holds(declared, found):
            raise FrameError(f"column {name!r} was returned as {found} where {declared} is declared")
        casts.append(pl.col(name).cast(declared))
    try:
        return made.select(list(schema)).with_columns(casts)
    except PolarsError as error:
        raise FrameError(f"a value does not fit its declared type: {error}") from error


def _holds(declared: pl.DataType, found: pl.DataType) -> bool:
    """Return whether a cast to the declared dtype loses nothing, or fails."""
    if found == pl.Null:
        return True
    if declared.is_integer():
        return found.is_integer()
    if declared.is_float():
        return found.is_float() and declared == pl.Float64
    if declared == pl.String:
        return found in (pl.Categorical, pl.Enum)
    return isinstance(declared, pl.Decimal) and isinstance(found, pl.Decimal | pl.Int64 | pl.Int32)


@dataclass(frozen=True)
class MapFramesOperatorFactory:
    """Map frames.

    Args:
        function: from a frame of the input's columns to one of the output's.
        rows: see Rows.
        input_type: of the records.
        output_type: of the result's.

    Raises:
        TypeError: `function` is not callable, or a type has no columns.
        ValueError: there are no such rows, or with "any" a column has the name of the event times.
    """

    changelog_input: ClassVar[ChangelogInput] = ChangelogInput.REFUSES
    declared_states: ClassVar[DeclaredStates] = NO_STATES
    function: FrameFunction
    rows: Rows
    input_type: TypeInformation
    output_type: TypeInformation

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"map_frames() needs a function, not {self.function!r}")
        if self.rows not in get_args(Rows):
            raise ValueError(f"rows must be one of {', '.join(get_args(Rows))}, not {self.rows!r}")
        for type_info in (self.input_type, self.output_type):
            if EVENT_TIME in FrameReader(type_info).schema and self.rows == "any":
                raise ValueError(f"the column name {EVENT_TIME!r} is reserved for event times: rename the column first")

    def create(self) -> MapFramesOperator:
        return MapFramesOperator(self.function, self.rows, self.input_type, self.output_type)
