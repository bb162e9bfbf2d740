"""deduplicate: the first or the last row of each key, by order of arrival.

The first row is found for a whole batch at once, and the state is read once for each different key. "last" emits a
changelog: every row retracts the previous one of its key. Used by the task's thread.
Source: Flink SQL, deduplication by processing time (ProcTimeDeduplicateKeepFirstRowFunction and its sibling).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from runtime.common.typeinfo import RowTypeInfo, TypeInformation, Types
from runtime.common.types import Row, RowKind, row_of
from runtime.core.arrow_views import without_views
from runtime.core.batch import RecordBatch
from runtime.core.column_keys import ColumnKeys
from runtime.core.elements import Watermark
from runtime.graph.changelog import ChangelogInput
from runtime.graph.column_use import Columns
from runtime.network.columnar import marks_between
from runtime.operators.columnar.frames import FrameReader, keys_of
from runtime.operators.columnar.input_checks import check_inserts
from runtime.operators.columnar.time_to_live import with_ttl
from runtime.operators.operator import OneInputOperator
from runtime.operators.user_operator import KeyedOperator, KeyedStateOperator
from runtime.state.descriptors import ValueStateDescriptor
from runtime.state.state_meta import DeclaredStates, keyed_state

Keep = Literal["first", "last"]


def _seen(ttl_ms: int | None) -> ValueStateDescriptor:
    return with_ttl(ValueStateDescriptor("seen", Types.BOOLEAN()), ttl_ms)


def _last(type_info: TypeInformation | None, ttl_ms: int | None) -> ValueStateDescriptor:
    return with_ttl(ValueStateDescriptor("last", type_info), ttl_ms)


class KeepFirstOperator(KeyedStateOperator, OneInputOperator):
    """Lets the first row of each key through."""

    calls_by_record = False

    def __init__(self, keys: ColumnKeys, type_info: RowTypeInfo, ttl_ms: int | None) -> None:
        super().__init__([], [], type_info)
        self._ttl_ms = ttl_ms
        self._reader = FrameReader(type_info)
        self._type_info = type_info
        self._columns = list(keys.names)
        self._types = keys.types

    def open(self) -> None:
        super().open()
        self._seen = self.backend.get_state(_seen(self._ttl_ms), fitted=True)

    def process_batch(self, batch: RecordBatch) -> None:
        check_inserts(self.context, batch)
        frame = self._reader.read(batch, self._columns).with_row_index("__row")
        first = frame.unique(self._columns, keep="first", maintain_order=True)
        rows = first.drop_in_place("__row").to_numpy().astype(np.int64)
        rows = rows[np.array([self._is_new(key) for key in keys_of(first, self._types)], dtype=np.bool_)]
        marks = marks_between(batch.marks, rows)
        if len(rows):
            columns = RecordBatch.of_arrow(without_views(batch.arrow()), self._type_info, batch.timestamps_array())
            self.output.collect(columns.take(rows).with_marks(marks))
        elif marks:
            self.output.emit_watermark(Watermark(marks[-1].watermark))

    def process_watermark(self, watermark: Watermark) -> None:
        self.output.emit_watermark(watermark)

    def _is_new(self, key: Any) -> bool:
        self.backend.set_current_key(key)
        if self._seen.value() is not None:
            return False
        self._seen.update(True)
        return True


class KeepLastOperator(KeyedOperator):
    """Emits every row, after retracting the previous last row of its key."""

    def __init__(self, keys: ColumnKeys, type_info: RowTypeInfo, ttl_ms: int | None) -> None:
        super().__init__([], keys, type_info)
        self._ttl_ms = ttl_ms

    def process_batch(self, batch: RecordBatch) -> None:
        check_inserts(self.context, batch)
        super().process_batch(batch)

    def open(self) -> None:
        super().open()
        self._last = self.backend.get_state(_last(self.output_type, self._ttl_ms), fitted=True)

    def process_rows(self, values: list[Any], timestamps: list[int], keys: list[Any]) -> None:
        set_key, read, write, add = (
            self.backend.set_current_key,
            self._last.value,
            self._last.update,
            self.collector.add,
        )
        for row, timestamp, key in zip(values, timestamps, keys, strict=True):
            set_key(key)
            before = read()
            write(row)
            if before is None:
                add(row, timestamp)
            else:
                add(of_kind(before, RowKind.UPDATE_BEFORE), timestamp)
                add(of_kind(row, RowKind.UPDATE_AFTER), timestamp)


@dataclass(frozen=True)
class DeduplicateOperatorFactory:
    """Deduplicate.

    Args:
        keys: columns that the stream is keyed by.
        type_info: of the records, in and out.
        keep: "first" or "last".
        ttl_ms: a key is forgotten so long after its last write, in processing time; None = never.

    Raises:
        ValueError: it is neither.
    """

    changelog_input: ClassVar[ChangelogInput] = ChangelogInput.REFUSES
    keys: ColumnKeys
    type_info: RowTypeInfo
    keep: Keep = "first"
    ttl_ms: int | None = None

    def __post_init__(self) -> None:
        if self.keep not in ("first", "last"):
            raise ValueError(f'deduplicate() keeps the "first" or the "last" row of a key, not {self.keep!r}')

    def columns_read(self, needed: Columns, input_index: int) -> Columns:
        """Return the columns that are read: all, if last rows are kept."""
        return None if needed is None or self.keep == "last" else needed | frozenset(self.keys.names)

    def columns_passed_on(self) -> None:
        """Return None: all columns are passed on."""

    @property
    def makes_changelog(self) -> bool:
        return self.keep == "last"

    @property
    def output_type(self) -> RowTypeInfo:
        return self.type_info

    @property
    def declared_states(self) -> DeclaredStates:
        kept = _seen(self.ttl_ms) if self.keep == "first" else _last(self.type_info, self.ttl_ms)
        return DeclaredStates((keyed_state(kept),))

    def create(self) -> KeepFirstOperator | KeepLastOperator:
        operator = KeepFirstOperator if self.keep == "first" else KeepLastOperator
        return operator(self.keys, self.type_info, self.ttl_ms)


def of_kind(row: Row, kind: RowKind) -> Row:
    """Return the same row with another kind; `row` is not changed, because it may be in the state."""
    made = row_of(row._values, row._fields)
    made._row_kind = kind
    return made
