"""Map, flat_map and filter: one user function, no state of their own, whole batches at a time.

Each has a frozen factory that travels to the slots. On a keyed stream (a `key_selector` is given) the function may use
keyed state. Used by the task's thread. Source: Flink, StreamMap, StreamFlatMap, StreamFilter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, compress, repeat
from typing import Any, ClassVar

from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import Mark, RecordBatch
from runtime.core.elements import Watermark
from runtime.graph.changelog import ChangelogInput
from runtime.operators.collector import coerce_all
from runtime.operators.declared_states import states_with_functions
from runtime.operators.errors import failing_index, user_function_error
from runtime.operators.functions import (
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    callable_of,
    key_function,
)
from runtime.operators.operator import OperatorContext
from runtime.operators.output import Output
from runtime.operators.user_operator import UserFunctionOperator
from runtime.state.backend import KeyedStateBackend
from runtime.state.snapshot import CANONICAL_SNAPSHOT, OperatorSnapshot, SnapshotRequest
from runtime.state.state_meta import DeclaredStates


class _PerRecordOperator(UserFunctionOperator):
    """Applies a function to each record of a batch; names the record that it failed on."""

    def __init__(
        self, function: Any, call: Callable[..., Any], key_selector: Any, output_type: TypeInformation | None
    ) -> None:
        super().__init__([function, key_selector], output_type)
        self._function = function
        self._call = call
        self._key_of = None if key_selector is None else key_function(key_selector)
        self._backend: KeyedStateBackend | None = None
        self._coercer = None if output_type is None else output_type.coercer()

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        if self._key_of is not None:
            self._backend = self.context.create_keyed_backend()
            if snapshot is not None and snapshot.keyed is not None:
                self._backend.restore(snapshot.keyed)
        super().initialize_state(snapshot)

    def snapshot_state(self, request: SnapshotRequest = CANONICAL_SNAPSHOT) -> OperatorSnapshot:
        operator_states = self.snapshot_operator_state()
        return OperatorSnapshot.of(None if self._backend is None else self._backend.snapshot(request), operator_states)

    def close(self) -> None:
        try:
            super().close()
        finally:
            if self._backend is not None:
                self._backend.dispose()

    def _backend_or_none(self) -> KeyedStateBackend | None:
        return self._backend

    def _apply(self, batch: RecordBatch) -> list[Any]:
        """Return the function's results, one for each record."""
        values = batch.values()
        rows = iter(values)
        try:
            results = list(self._results(rows, batch))
        except Exception as error:
            record = values[failing_index(rows, len(values))]
            raise user_function_error(self.context, error, record, self._function) from error
        if len(results) != len(values):
            # list() takes a StopIteration out of the function for the end of the rows
            stop = StopIteration("the function raised StopIteration")
            raise user_function_error(self.context, stop, values[len(results)], self._function)
        return results

    def _results(self, rows: Iterator[Any], batch: RecordBatch) -> Iterable[Any]:
        if self._backend is None or self._key_of is None:
            return map(self._call, rows)
        call, key_of, set_key = self._call, self._key_of, self._backend.set_current_key
        if batch.keys is not None:
            keys = iter(batch.keys)
            # set_current_key returns None
            return (set_key(next(keys)) or call(value) for value in rows)
        return (set_key(key_of(value)) or call(value) for value in rows)


class MapOperator(_PerRecordOperator):
    """Emits one record for each record; marks and event times keep their places."""

    def process_batch(self, batch: RecordBatch) -> None:
        results = self._apply(batch)
        if self._coercer is not None:
            results = coerce_all(self.context, self._coercer, results)
        self.output.collect(batch.with_values(results, self.output_type))


class FlatMapOperator(_PerRecordOperator):
    """Any number of records out for each record in; they carry its event time."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        call = self._call

        def call_and_gather(value: Any) -> int:
            results = call(value)
            if results is not None:
                gathered.extend(results)
            return len(gathered)

        gathered = self._gathered = list[Any]()
        self._call = call_and_gather

    def process_batch(self, batch: RecordBatch) -> None:
        try:
            ends = self._apply(batch)
            values = self._gathered.copy()
        finally:
            self._gathered.clear()
        if self._coercer is not None:
            values = coerce_all(self.context, self._coercer, values)
        timestamps = batch.timestamps()
        if timestamps is not None:
            counts = map(int.__sub__, ends, chain((0,), ends))
            timestamps = list(chain.from_iterable(map(repeat, timestamps, counts)))
        marks = _moved_marks(batch, lambda offset: ends[offset - 1] if offset else 0)
        _emit(self.output, values, timestamps, marks, self.output_type)


class FilterOperator(_PerRecordOperator):
    """Keeps the records for which the function is true."""

    def process_batch(self, batch: RecordBatch) -> None:
        keep = self._apply(batch)
        values = list(compress(batch.values(), keep))
        if len(values) == batch.num_rows:
            # keys belong to the exchange for which they were computed: they must not be passed on
            self.output.collect(batch.with_values(values, batch.type_info) if batch.keys is not None else batch)
            return
        timestamps = batch.timestamps()
        if timestamps is not None:
            timestamps = list(compress(timestamps, keep))
        marks: list[Mark] = []
        if batch.marks:
            ends = [0]
            for kept in keep:
                ends.append(ends[-1] + 1 if kept else ends[-1])
            marks = _moved_marks(batch, ends.__getitem__)
        _emit(self.output, values, timestamps, marks, batch.type_info)


def _moved_marks(batch: RecordBatch, new_offset: Callable[[int], int]) -> list[Mark]:
    """Return the batch's marks at their new rows; of several at the same row the last one stays."""
    return [Mark(offset, watermark) for offset, watermark in {new_offset(o): w for o, w in batch.marks}.items()]


def _emit(
    output: Output,
    values: list[Any],
    timestamps: list[int] | None,
    marks: list[Mark],
    type_info: TypeInformation | None,
) -> None:
    if values:
        output.collect(RecordBatch.of_values(values, timestamps, marks, type_info))
    elif marks:
        output.emit_watermark(Watermark(marks[-1].watermark))


@dataclass(frozen=True)
class MapOperatorFactory:
    """Map.

    Args:
        function: a MapFunction or a callable.
        output_type: type of the results; None = Python objects.
        key_selector: given on a keyed stream: the function may then use keyed state.
    """

    function: Any
    output_type: TypeInformation | None = None
    key_selector: Any = None

    def __post_init__(self) -> None:
        callable_of(self.function, MapFunction, "map")

    @property
    def declared_states(self) -> DeclaredStates:
        return states_with_functions([self.function, self.key_selector])

    def create(self) -> MapOperator:
        call = callable_of(self.function, MapFunction, "map")
        return MapOperator(self.function, call, self.key_selector, self.output_type)


@dataclass(frozen=True)
class FlatMapOperatorFactory:
    """FlatMap; arguments as for MapOperatorFactory, with a FlatMapFunction or a callable."""

    function: Any
    output_type: TypeInformation | None = None
    key_selector: Any = None

    def __post_init__(self) -> None:
        callable_of(self.function, FlatMapFunction, "flat_map")

    @property
    def declared_states(self) -> DeclaredStates:
        return states_with_functions([self.function, self.key_selector])

    def create(self) -> FlatMapOperator:
        call = callable_of(self.function, FlatMapFunction, "flat_map")
        return FlatMapOperator(self.function, call, self.key_selector, self.output_type)


@dataclass(frozen=True)
class FilterOperatorFactory:
    """Filter; arguments as for MapOperatorFactory, with a FilterFunction or a callable. The type is the input's."""

    changelog_input: ClassVar[ChangelogInput] = ChangelogInput.KEEPS
    function: Any
    output_type: TypeInformation | None = None
    key_selector: Any = None

    def __post_init__(self) -> None:
        callable_of(self.function, FilterFunction, "filter")

    @property
    def declared_states(self) -> DeclaredStates:
        return states_with_functions([self.function, self.key_selector])

    def create(self) -> FilterOperator:
        call = callable_of(self.function, FilterFunction, "filter")
        return FilterOperator(self.function, call, self.key_selector, self.output_type)
