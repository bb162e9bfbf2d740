"""Running aggregates of a keyed stream: reduce, and sum, min, max, min_by and max_by that are made from it.

Every record gives one: the aggregate of all records of its key so far. In a batch every key gives one, the last, with
the event time of its last record. Used by the task's thread.
Source: Flink, StreamGroupedReduceOperator and BatchGroupedReduceOperator; PyFlink, KeyedStream.sum and its siblings.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.common.types import Row, row_of
from runtime.core.elements import MAX_WATERMARK
from runtime.core.keys import encode_key
from runtime.operators.collector import Coercer
from runtime.operators.declared_states import states_with_functions
from runtime.operators.errors import failing_index, user_function_error
from runtime.operators.functions import ReduceFunction, callable_of
from runtime.operators.user_operator import KeyedOperator
from runtime.state.descriptors import ValueStateDescriptor
from runtime.state.state_meta import DeclaredStates, keyed_state


def _reduced(type_info: TypeInformation | None) -> ValueStateDescriptor:
    return ValueStateDescriptor("reduced", type_info)


class ReduceOperator(KeyedOperator):
    """Keeps one value for each key."""

    def __init__(self, function: Any, key_selector: Any, output_type: TypeInformation | None) -> None:
        super().__init__([function], key_selector, output_type)
        self._function = function
        call = callable_of(function, ReduceFunction, "reduce")
        coercer = None if output_type is None else output_type.coercer()
        # what is stored must be of the type too
        self._call = call if coercer is None else coercing(call, coercer)

    def open(self) -> None:
        super().open()
        self._state = self.backend.get_state(_reduced(self.output_type), fitted=True)
        #: in a batch, of the key whose records come: what it gives so far, with the event time; () = no key has come
        self._final: tuple[()] | tuple[Any, int] = ()
        self._final_key: bytes | None = None

    def process_rows(self, values: list[Any], timestamps: list[int], keys: list[Any]) -> None:
        if self._is_batch:
            self._process_sorted(values, timestamps, keys)
            return
        reduce, set_key = self._call, self.backend.set_current_key
        read, update = self._state.value, self._state.update
        append = self.collector.values.append
        rows = iter(values)
        try:
            for value, key in zip(rows, keys, strict=True):
                set_key(key)
                reduced = read()
                reduced = value if reduced is None else reduce(reduced, value)
                update(reduced)
                append(reduced)
        except Exception as error:
            record = values[failing_index(rows, len(values))]
            raise user_function_error(self.context, error, record, self._function) from error
        self.collector.timestamps.extend(timestamps)

    def advance_watermark(self, watermark: int) -> None:
        if self._is_batch and watermark == MAX_WATERMARK:
            self._emit_final()
        super().advance_watermark(watermark)

    def _process_sorted(self, values: list[Any], timestamps: list[int], keys: list[Any]) -> None:
        """Process records that come key by key: nothing has to be kept of a key once the next one has begun."""
        reduce = self._call
        rows = iter(values)
        try:
            for value, key, timestamp in zip(rows, keys, timestamps, strict=True):
                encoded = encode_key(key)
                if encoded != self._final_key:
                    self._emit_final()
                    self._final_key, self._final = encoded, (value, timestamp)
                else:
                    self._final = (reduce(self._final[0], value), timestamp)  # type: ignore[misc]
        except Exception as error:
            record = values[failing_index(rows, len(values))]
            raise user_function_error(self.context, error, record, self._function) from error

    def _emit_final(self) -> None:
        if self._final:
            self.collector.add(*self._final)
        self._final, self._final_key = (), None


@dataclass(frozen=True)
class ReduceOperatorFactory:
    """Reduce.

    Args:
        function: a ReduceFunction or a callable of two values.
        key_selector: a KeySelector or a callable.
        output_type: type of the records, in and out.

    Raises:
        TypeError: the function is neither.
    """

    function: Any
    key_selector: Any
    output_type: TypeInformation | None = None

    def __post_init__(self) -> None:
        callable_of(self.function, ReduceFunction, "reduce")

    @property
    def declared_states(self) -> DeclaredStates:
        own = keyed_state(_reduced(self.output_type))
        return states_with_functions([self.function, self.key_selector], [own])

    @property
    def state_content(self) -> str:
        """Return what its value is, if that is known."""
        return content_of(self.function, self.output_type)

    def create(self) -> ReduceOperator:
        return ReduceOperator(self.function, self.key_selector, self.output_type)


class AccumulateType(enum.Enum):
    """Says which running aggregate of a field to compute."""

    MIN = "min"
    MAX = "max"
    MIN_BY = "min_by"
    MAX_BY = "max_by"
    SUM = "sum"


class AccumulateFunction(ReduceFunction):
    """Reduces records by one of their fields.

    `min`, `max` and `sum` give the first record with that field replaced; `min_by` and `max_by` give the record that
    has the extreme value, the first of equals. Records without fields are aggregated themselves.

    Args:
        kind: the aggregate.
        position: index or name of the field.

    Raises:
        TypeError: on reduce: a record has no such field, or Python's `+` does not add the fields; it joins texts.
    """

    def __init__(self, kind: AccumulateType, position: int | str = 0) -> None:
        if isinstance(position, bool) or not isinstance(position, (int, str)):
            raise TypeError(f"{kind.value}() needs the index or the name of a field, not {position!r}")
        self.kind = kind
        self.position = position
        self.__name__ = kind.value.title().replace("_", "")

    def reduce(self, value1: Any, value2: Any) -> Any:
        old, new = self._field(value1), self._field(value2)
        if self.kind is AccumulateType.SUM:
            try:
                summed = old + new
            except TypeError as error:
                raise TypeError(f"sum({self.position!r}) cannot add {old!r} and {new!r}: {error}") from error
            return self._with_field(value1, summed)
        if self.kind in (AccumulateType.MIN, AccumulateType.MIN_BY):
            better = new < old
        else:
            better = new > old
        if not better:
            return value1
        by = self.kind in (AccumulateType.MIN_BY, AccumulateType.MAX_BY)
        return value2 if by else self._with_field(value1, new)

    def _field(self, value: Any) -> Any:
        if isinstance(value, (Row, tuple, list, dict)):
            try:
                return value[self.position]  # type: ignore[index]
            except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
                raise TypeError(f"{self.kind.value}({self.position!r}): no such field in {value!r}") from error
        if self.position != 0:
            raise TypeError(f"{self.kind.value}({self.position!r}): {value!r} has no fields")
        return value

    def _with_field(self, value: Any, field: Any) -> Any:
        if isinstance(value, tuple):
            assert isinstance(self.position, int)
            fields = list(value)
            fields[self.position] = field
            return type(value)._make(fields) if hasattr(value, "_make") else tuple(fields)
        if isinstance(value, Row):
            changed = row_of(list(value), value._fields)
            changed.set_row_kind(value.get_row_kind())
            changed[self.position] = field
            return changed
        if isinstance(value, (list, dict)):
            copy: Any = value.copy()
            copy[self.position] = field
            return copy
        return field


def content_of(function: Any, type_info: TypeInformation | None) -> str:
    """Return what the values are that a function reduces records to: "sum of field 'price'".

    Args:
        function: any; "" unless it is an AccumulateFunction: of another nothing is known.
        type_info: of the records; a field by its index and by its name is the same.
    """
    if not isinstance(function, AccumulateFunction):
        return ""
    position = function.position
    if isinstance(type_info, RowTypeInfo) and isinstance(position, int):
        names = type_info.get_field_names()
        position = names[position] if -len(names) <= position < len(names) else position
    return f"{function.kind.value} of field {position!r}"


def coercing(call: Callable[..., Any], coercer: Coercer) -> Callable[..., Any]:
    """Return `call`, with its result made to fit a type."""

    def call_and_coerce(*args: Any) -> Any:
        return coercer(call(*args))

    return call_and_coerce
