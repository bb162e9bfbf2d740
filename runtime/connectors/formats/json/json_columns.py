"""parse_json and to_json: columns of JSON texts, to columns and back. No state; used by the task's thread.

A text is read as a line of an NdjsonFormat of the declared type, and written as by an NdjsonWriterFormat, so a column
means the same as a file or a stream of such lines. Marks, event times and row kinds stay with their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
import polars as pl

from runtime.common.typeinfo import RowTypeInfo, TypeInformation, Types
from runtime.connectors.formats.bad_records import (
    DEAD_LETTER_TYPE,
    ERRORS_METRIC,
    BadRecordHandler,
    BadRecords,
    salvage,
)
from runtime.connectors.formats.json.ndjson import NdjsonFormat, NdjsonWriterFormat
from runtime.connectors.formats.messages import MessageEncoder
from runtime.core.batch import RecordBatch
from runtime.core.elements import Watermark
from runtime.graph.changelog import ChangelogInput
from runtime.network.columnar import marks_between
from runtime.operators.columnar.expressions import ColumnExpressionError
from runtime.operators.columnar.frames import FrameReader, batch_of, fields_of, row_kinds, with_kinds
from runtime.operators.errors import user_function_error
from runtime.operators.operator import OneInputOperator, OperatorContext
from runtime.operators.output import Output
from runtime.operators.output_tag import OutputTag
from runtime.state.state_meta import NO_STATES, DeclaredStates

BadJson = Literal["fail", "null", "skip", "dead_letters"]
"""What becomes of a record whose text cannot be read: the job fails, its columns are null, it is skipped, or it is
skipped and goes to a side output as a row of DEAD_LETTER_TYPE. The last three count it in `numRecordsInErrors`.
"""

_BLANK = b" \t\r\n"
_TEXTS = (Types.STRING(), Types.PRIMITIVE_ARRAY(Types.BYTE()))
#: written alike by Polars and by NdjsonWriterFormat
_PLAIN = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Boolean, pl.String)


class ParseJsonOperator(OneInputOperator):
    """Puts the columns of a text in its place."""

    def __init__(self, factory: ParseJsonOperatorFactory) -> None:
        self._factory = factory
        self._reader = FrameReader(factory.input_type)
        self._format = NdjsonFormat(factory.row_type)
        self._parsed = FrameReader(factory.row_type)
        self._output_type = factory.output_type
        self._names = list(self._output_type.get_field_names())

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        tag = self._factory.tag if self._factory.bad == "dead_letters" else None
        self._bad = BadRecordHandler(BadRecords(True, tag), context.metrics.counter(ERRORS_METRIC))

    def process_batch(self, batch: RecordBatch) -> None:
        if batch.num_rows == 0:
            if batch.marks:
                self.output.emit_watermark(Watermark(batch.marks[-1].watermark))
            return
        factory = self._factory
        frame = self._reader.read(batch)
        texts: list[bytes | None] = frame.get_column(factory.column).cast(pl.Binary).to_list()
        parsed, rows, bad = self._parse(texts)
        if bad and factory.bad == "fail":
            row, error = bad[0]
            failure = ValueError(f"{error}: {(texts[row] or b'')[:200]!r}")
            raise user_function_error(self.context, failure, during=f"parse_json({factory.column!r})")
        for row, error in bad:
            self._bad.add(self.context.operator_name, factory.column, error, texts[row] or b"")
        letters = self._bad.take()
        if letters is not None:
            self.output.collect(letters, factory.tag)
        indices = np.full(batch.num_rows, -1, dtype=np.int64)
        indices[rows] = np.arange(len(rows))
        made = parsed.select(pl.all().gather(pl.Series(indices).replace(-1, None)))
        frame = frame.drop(factory.column).hstack(made).select(self._names)
        if not bad or factory.bad == "null":
            self._emit(batch_of(frame, self._output_type, batch.timestamps_array(), batch.marks), row_kinds(batch))
            return
        keep = np.ones(batch.num_rows, dtype=np.bool_)
        keep[[row for row, _ in bad]] = False
        self._emit_some(batch, frame, np.flatnonzero(keep))

    def _emit(self, batch: RecordBatch, kinds: Sequence[object] | None) -> None:
        self.output.collect(batch if kinds is None else with_kinds(batch, kinds))  # type: ignore[arg-type]

    def _emit_some(self, batch: RecordBatch, frame: pl.DataFrame, rows: np.ndarray) -> None:
        marks = marks_between(batch.marks, rows)
        if not len(rows):
            if marks:
                self.output.emit_watermark(Watermark(marks[-1].watermark))
            return
        times = batch.timestamps_array()
        made = batch_of(frame[rows], self._output_type, None if times is None else times[rows], marks)
        kinds = row_kinds(batch)
        self._emit(made, None if kinds is None else [kinds[row] for row in rows.tolist()])

    def _parse(self, texts: Sequence[bytes | None]) -> tuple[pl.DataFrame, list[int], list[tuple[int, str]]]:
        """Return the columns of the texts that can be read, the rows that these are in, and rows with bad ones."""
        rows: list[int] = []
        present: list[bytes] = []
        bad: list[tuple[int, str]] = []
        for row, text in enumerate(texts):
            if text is None:
                continue
            if not text.strip(_BLANK):
                bad.append((row, "there is no JSON value"))
                continue
            rows.append(row)
            present.append(text)
        decoded, unread = salvage(self._decode, present, self._factory.row_type)
        if unread:
            bad = sorted([*bad, *((rows[record.index], record.error) for record in unread)])
            out = {record.index for record in unread}
            rows = [row for index, row in enumerate(rows) if index not in out]
        frame = self._parsed.read(decoded)
        alias = self._factory.alias
        return (frame if alias is None else frame.to_struct(alias).to_frame()), rows, bad

    def _decode(self, texts: Sequence[bytes]) -> RecordBatch:
        batch = self._format.decode_messages(texts)
        if batch.num_rows != len(texts):
            raise ValueError("there must be exactly one JSON value")
        return batch


@dataclass(frozen=True)
class ParseJsonOperatorFactory:
    """Parse a column.

    Args:
        input_type: of the records.
        column: of texts or bytes.
        row_type: of the JSON objects in it.
        alias: name of one column of rows; None: the objects' fields become columns themselves.
        bad: see BadJson.
        tag: side output of DEAD_LETTER_TYPE; its rows have the operator's name as origin and the column's as position.

    Raises:
        ColumnExpressionError: there is no such column, it holds no texts, or a name is taken.
        TypeError: the records have no columns, or JSON cannot be read as a type.
        ValueError: there is no such way with bad ones, or the tag has another type.
    """

    changelog_input: ClassVar[ChangelogInput] = ChangelogInput.KEEPS
    declared_states: ClassVar[DeclaredStates] = NO_STATES
    input_type: TypeInformation
    column: str
    row_type: RowTypeInfo
    alias: str | None
    bad: BadJson
    tag: OutputTag

    def __post_init__(self) -> None:
        fields = fields_of(FrameReader(self.input_type).type_info)
        if fields.get(self.column) not in _TEXTS:
            raise ColumnExpressionError(self.column, f"parse_json() needs a column of texts; the columns are {fields}")
        if not isinstance(self.row_type, RowTypeInfo):
            raise TypeError(f"parse_json() needs the type of the JSON objects, Types.ROW_NAMED, not {self.row_type}")
        if self.bad not in get_args(BadJson):
            raise ValueError(f"bad must be one of {', '.join(get_args(BadJson))}, not {self.bad!r}")
        if self.tag.type_info != DEAD_LETTER_TYPE:
            raise ValueError(
                f"the side output of bad records has the type {DEAD_LETTER_TYPE}, not {self.tag.type_info}"
            )
        NdjsonFormat(self.row_type)
        for name in self._made():
            if name != self.column and name in fields:
                raise ColumnExpressionError(name, "there is a column of this name already")

    def _made(self) -> dict[str, TypeInformation]:
        return fields_of(self.row_type) if self.alias is None else {self.alias: self.row_type}

    @property
    def output_type(self) -> RowTypeInfo:
        """Return the records' type, with the new columns in the place of the text."""
        fields: dict[str, TypeInformation] = {}
        for name, type_info in fields_of(self.input_type).items():
            fields |= self._made() if name == self.column else {name: type_info}
        return RowTypeInfo(list(fields.values()), list(fields))

    def create(self) -> ParseJsonOperator:
        return ParseJsonOperator(self)


class ToJsonOperator(OneInputOperator):
    """Adds a column of JSON texts."""

    def __init__(self, factory: ToJsonOperatorFactory) -> None:
        self._factory = factory
        self._reader = FrameReader(factory.input_type)
        self._encoder = MessageEncoder(NdjsonWriterFormat(), factory.object_type)
        self._output_type = factory.output_type
        self._is_plain = all(self._reader.schema[name] in _PLAIN for name in factory.columns)

    def process_batch(self, batch: RecordBatch) -> None:
        factory = self._factory
        frame = self._reader.read(batch)
        chosen = frame.select(factory.columns)
        if self._is_plain:
            texts = chosen.to_struct().struct.json_encode()
        else:
            objects = batch_of(chosen, factory.object_type)
            try:
                texts = pl.Series([text.decode() for text in self._encoder.encode(objects)], dtype=pl.String)
            except Exception as error:
                raise user_function_error(self.context, error, during=f"to_json({factory.columns})") from error
        frame = frame.with_columns(texts.alias(factory.alias))
        made = batch_of(frame, self._output_type, batch.timestamps_array(), batch.marks)
        kinds = row_kinds(batch)
        self.output.collect(made if kinds is None else with_kinds(made, kinds))


@dataclass(frozen=True)
class ToJsonOperatorFactory:
    """Write columns as JSON.

    Args:
        input_type: of the records.
        columns: those in the objects, in their order.
        alias: name of the column of texts; one that exists is replaced.

    Raises:
        ColumnExpressionError: there is no such column, or none is named.
        TypeError: the records have no columns.
    """

    changelog_input: ClassVar[ChangelogInput] = ChangelogInput.KEEPS
    declared_states: ClassVar[DeclaredStates] = NO_STATES
    input_type: TypeInformation
    columns: tuple[str, ...]
    alias: str

    def __post_init__(self) -> None:
        fields = fields_of(FrameReader(self.input_type).type_info)
        for name in self.columns:
            if name not in fields:
                raise ColumnExpressionError(name, f"there is no such column; the columns are {list(fields)}")
        if not self.columns:
            raise ColumnExpressionError("", "to_json() needs at least one column")

    @property
    def object_type(self) -> RowTypeInfo:
        """Return the type of the objects."""
        fields = fields_of(self.input_type)
        return RowTypeInfo([fields[name] for name in self.columns], list(self.columns))

    @property
    def output_type(self) -> RowTypeInfo:
        """Return the records' type, with the texts."""
        fields = fields_of(self.input_type) | {self.alias: Types.STRING()}
        return RowTypeInfo(list(fields.values()), list(fields))

    def create(self) -> ToJsonOperator:
        return ToJsonOperator(self)
