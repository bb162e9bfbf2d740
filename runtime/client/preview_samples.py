"""Given rows: what a preview reads in place of what a node makes, and how rows of a document become values.

Rows are JSON as previews show them, so that what was shown can be pinned and read again: rows are objects by column,
bytes hexadecimal, dates, times and instants ISO texts, numbers that JSON cannot hold texts. One thread.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runtime.common.time import Instant
from runtime.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from runtime.common.types import Row
from runtime.common.watermark_strategy import WatermarkStrategy
from runtime.connectors.split_queue import SplitQueue
from runtime.core.batch import NO_TIMESTAMP, Mark, RecordBatch
from runtime.graph.stream_graph import StreamGraph, StreamNode
from runtime.operators.output_tag import OutputTag
from runtime.operators.source import ReaderContext, ReadStatus, Source, SourceSplit, SplitEnumerator, SplitReader
from runtime.operators.source_operator import SourceOperatorFactory
from runtime.operators.watermarks import TimestampsAndWatermarksOperatorFactory

WATERMARK = "watermark"
"""Stands in the place of a row where a watermark is given; no row can be this text."""
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_LISTS = (ListTypeInfo, PrimitiveArrayTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo)
_NUMBERS = (BasicType.FLOAT, BasicType.DOUBLE)
_TEXTS = (BasicType.STRING, BasicType.CHAR)


class GivenRowError(ValueError):
    """A row cannot be read as what the source produces; the message names it."""

    def __init__(self, node: str, index: int, reason: str) -> None:
        super().__init__(f"row {index + 1} of the given rows: {reason}")
        self.node = node


@dataclasses.dataclass(frozen=True, slots=True)
class _Step:
    """A record, or a watermark."""

    value: Any = None
    time_ms: int = NO_TIMESTAMP
    watermark: int | None = None


class GivenSource(Source):
    """Emits given rows and watermarks in their order.

    Args:
        items: [row, event time in ms or null], or ["watermark", ms].
        type_info: of the records.
        dead_letter_tag: of the source that they stand for, if they stand for one.
        node: whose rows they are, for errors.

    Raises:
        GivenRowError: a row does not fit the type.
    """

    def __init__(
        self,
        items: Sequence[Sequence[Any]],
        type_info: TypeInformation | None,
        dead_letter_tag: OutputTag | None,
        node: str,
    ) -> None:
        self._type = type_info
        self.dead_letter_tag = dead_letter_tag
        coerce = None if type_info is None else type_info.coercer()
        self._steps = []
        for index, (row, time_ms) in enumerate(items):
            if row == WATERMARK:
                self._steps.append(_Step(watermark=int(time_ms)))
                continue
            try:
                value = value_of(type_info, row)
                value = value if coerce is None else coerce(value)
            except (ValueError, TypeError, OverflowError, ArithmeticError) as error:
                raise GivenRowError(node, index, str(error)) from error
            self._steps.append(_Step(value, NO_TIMESTAMP if time_ms is None else int(time_ms)))

    @property
    def has_watermarks(self) -> bool:
        """Return whether watermarks are among what is given."""
        return any(step.watermark is not None for step in self._steps)

    def produced_type(self) -> TypeInformation | None:
        return self._type

    def create_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        return SplitQueue([SourceSplit("given")], self.split_to_json)

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        return _GivenReader(self._steps, self._type)

    def split_to_json(self, split: SourceSplit) -> Any:
        return split.split_id

    def split_from_json(self, value: Any) -> SourceSplit:
        return SourceSplit(value)


class _GivenReader(SplitReader):
    def __init__(self, steps: Sequence[_Step], type_info: TypeInformation | None) -> None:
        self._steps = steps
        self._type = type_info
        self._next = 0

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        values: list[Any] = []
        times: list[int] = []
        marks: list[Mark] = []
        highest: int | None = None
        while self._next < len(self._steps) and len(values) < max_rows:
            step = self._steps[self._next]
            self._next += 1
            if step.watermark is None:
                values.append(step.value)
                times.append(step.time_ms)
            elif highest is None or step.watermark > highest:
                highest = step.watermark
                if marks and marks[-1].offset == len(values):
                    marks.pop()
                marks.append(Mark(len(values), highest))
        if not values and not marks:
            return ReadStatus.END_OF_SPLIT
        has_times = any(time_ms != NO_TIMESTAMP for time_ms in times)
        return RecordBatch.of_values(values, times if has_times else None, marks, self._type)

    @property
    def position(self) -> Any:
        return self._next


def give(graph: StreamGraph, output: StreamNode, items: Sequence[Sequence[Any]], time_column: str | None) -> None:
    """Turn an operator into a source of given rows; what only it was fed by goes.

    Its event times are found as the operator finds them, if it is a source or assigns them, else in the column. If
    watermarks are among the items, they are the only ones.

    Args:
        graph: it is changed.
        output: the operator in it.
        items: see `GivenSource`.
        time_column: column of its rows that holds their event times, if one is known.

    Raises:
        GivenRowError: a row does not fit the type.
    """
    former = output.factory
    tag = former.source.dead_letter_tag if isinstance(former, SourceOperatorFactory) else None
    source = GivenSource(items, output.output_type, tag, output.name)
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    if isinstance(former, SourceOperatorFactory):
        strategy = former.watermark_strategy
    elif isinstance(former, TimestampsAndWatermarksOperatorFactory):
        strategy = former.strategy
    elif time_column is not None:
        strategy = strategy.with_timestamp_column(time_column)
    if source.has_watermarks:
        strategy = dataclasses.replace(
            WatermarkStrategy.no_watermarks(),
            timestamp_assigner=strategy.timestamp_assigner,
            timestamp_column=strategy.timestamp_column,
        )
    output.factory = SourceOperatorFactory(source, strategy, output.name)
    output.is_source = True
    output.is_stateful = False
    graph.edges = [edge for edge in graph.edges if edge.target != output.node_id]
    _prune(graph)


def _prune(graph: StreamGraph) -> None:
    """Remove operators that lead to no sink."""
    while True:
        leading = {edge.source for edge in graph.edges}
        dead = [node_id for node_id, node in graph.nodes.items() if not node.is_sink and node_id not in leading]
        if not dead:
            return
        for node_id in dead:
            del graph.nodes[node_id]
        graph.edges = [edge for edge in graph.edges if edge.target not in dead]


def value_of(type_info: TypeInformation | None, value: Any) -> Any:
    """Return a value of JSON as a value of a type; of no type, as it is.

    Raises:
        ValueError: it is not a value of that type.
        TypeError: the same.
    """
    if type_info is None or value is None:
        return value
    if isinstance(type_info, RowTypeInfo):
        return _row(type_info, value)
    if isinstance(type_info, TupleTypeInfo):
        return tuple(value_of(kind, item) for kind, item in zip(type_info.field_types, value, strict=True))
    if isinstance(type_info, PrimitiveArrayTypeInfo) and type_info.is_bytes:
        return bytes.fromhex(value)
    if isinstance(type_info, _LISTS):
        return [value_of(type_info.element_type, item) for item in value]
    if isinstance(type_info, MapTypeInfo):
        return {value_of(type_info.key_type, k): value_of(type_info.value_type, v) for k, v in value.items()}
    parse = next((parse for kind, parse in _ISO.items() if isinstance(type_info, kind)), None)
    if parse is not None:
        return parse(value)
    return _basic(type_info.basic_type, value) if isinstance(type_info, BasicTypeInfo) else value


_ISO: Mapping[type[TypeInformation], Callable[[str], Any]] = {
    TimestampTypeInfo: datetime.datetime.fromisoformat,
    DateTypeInfo: datetime.date.fromisoformat,
    TimeTypeInfo: datetime.time.fromisoformat,
}


def _row(type_info: RowTypeInfo, value: Any) -> Row:
    names = type_info.field_names
    if isinstance(value, Mapping):
        unknown = next((name for name in value if name not in names), None)
        if unknown is not None:
            raise ValueError(f"there is no column {unknown!r}")
        value = [value.get(name) for name in names]
    if not isinstance(value, list) or len(value) != len(names):
        raise ValueError(f"{len(names)} columns are needed, not {str(value)[:40]}")
    made = [value_of(kind, item) for kind, item in zip(type_info.field_types, value, strict=True)]
    return Row(**dict(zip(names, made, strict=True))) if type_info.is_named else Row(*made)


def _basic(kind: BasicType, value: Any) -> Any:
    if kind is BasicType.INSTANT:
        return Instant.of_epoch_milli(value) if isinstance(value, int) else instant_of(value)
    if kind is BasicType.BIG_DEC:
        return decimal.Decimal(str(value))
    if kind in _TEXTS or kind is BasicType.BOOLEAN:
        return value
    if isinstance(value, str):
        # what JSON cannot hold is shown as text
        return float(value) if kind in _NUMBERS else int(value)
    return float(value) if kind in _NUMBERS and isinstance(value, int) and not isinstance(value, bool) else value


def instant_text(instant: Instant) -> str:
    """Return an instant as ISO text in UTC, with as many digits as it needs."""
    moment = _EPOCH + datetime.timedelta(seconds=instant.seconds)
    digits = f"{instant.nanos:09d}".rstrip("0").ljust(3, "0")
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{digits}Z"


def instant_of(text: str) -> Instant:
    """Return the instant of an ISO text.

    Raises:
        ValueError: it is not an instant.
    """
    whole, dot, rest = text.removesuffix("Z").partition(".")
    moment = datetime.datetime.fromisoformat(whole).replace(tzinfo=datetime.UTC)
    if dot and not (rest.isdecimal() and len(rest) <= 9):
        raise ValueError(f"not an instant: {text!r}")
    return Instant(int((moment - _EPOCH).total_seconds()), int(rest.ljust(9, "0")) if dot else 0)
