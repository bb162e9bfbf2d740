"""Generators of columns for the data generator: sequences, times, and random numbers, texts, choices and nulls.

A value depends on the field's seed and the record's index only: a counter goes through a mixing function, there is no
random state to be saved. Whole columns are computed at once. Source of the mixing function: SplitMix64, Steele et al.
"""

from __future__ import annotations

import datetime
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from string import Formatter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.common.typeinfo import TypeInformation, Types

Indexes = npt.NDArray[np.int64]

_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_GOLDEN = 0x9E3779B97F4A7C15
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
MAX_ZIPF = 10_000_000
"""Numbers that are drawn from by frequency: their probabilities are 8 bytes each, in every slot."""


class FieldGenerator(ABC):
    """Makes one field of the generated rows."""

    type_info: TypeInformation

    @property
    def max_count(self) -> int | None:
        """Return how many records it can make; None = any number."""
        return None

    @abstractmethod
    def column(self, indexes: Indexes, seed: int) -> pa.Array:
        """Return the values of the records with these indexes. Shape of `indexes`: (n,)."""


class _Sequence(FieldGenerator):
    type_info = Types.LONG()

    def __init__(self, start: int, end: int | None) -> None:
        if end is not None and end < start:
            raise ValueError(f"sequence: the start {start} must not be above the end {end}")
        self._start = start
        self._end = end

    @property
    def max_count(self) -> int | None:
        return None if self._end is None else self._end - self._start + 1

    def column(self, indexes: Indexes, seed: int) -> pa.Array:
        return pa.array(indexes + self._start)


class _RandomInt(FieldGenerator):
    type_info = Types.LONG()

    def __init__(self, low: int, high: int) -> None:
        if not -(2**63) <= low <= high < 2**63 or high - low >= 2**63:
            raise ValueError(f"random_int: [{low}, {high}] must be a range of fewer than 2^63 numbers")
        self._low = low
        self._span = high - low + 1

    def column(self, indexes: Indexes, seed: int) -> pa.Array:
        drawn = (random_bits(indexes, seed) % np.uint64(self._span)).astype(np.int64)
        return pa.array(drawn + self._low)


class _RandomFloat(FieldGenerator):
    type_info = Types.DOUBLE()

    def __init__(self, low: float, high: float) -> None:
        if not low <= high:
            raise ValueError(f"random_float: {low} is above {high}")
        self._low = low
        self._span = high - low

    def column(self, indexes: Indexes, seed: int) -> pa.Array:
        return pa.array(self._low + _unit(indexes, seed) * self._span)


class _RandomString(FieldGenerator):
    type_info = Types.STRING()

    def __init__(self, length: int) -> None:
        if length < 1:
            raise ValueError(f"random_string: the length must be at least 1, not {length}")
        self._length = length

    def column(self, indexes: Indexes, seed: int) -> pa.Array:
        words = -(-self._length // 16)
        bits = np.stack([random_bits(indexes, seed + word * 7919) for word in range(words)], axis=1)
        digits = (bits[:, :, None] >> np.arange(0, 64, 4, dtype=np.uint64)) & np.uint64(15)
        text = _HEX[digits.astype(np.intp)].reshape(len(indexes), words * 16)[:, : self._length]
        offsets = np.arange(0, (len(indexes) + 1) * self._length, self._length, dtype=np.int32)
        return pa.StringArray.from_buffers(len(indexes), pa.py_buffer(offsets), pa.py_buffer(text.tobytes()))


class _Choice(FieldGenerator):
    def __init__(self, values: Sequence[Any], weights: Sequence[float] | None) -> None:
        if not values:
            raise ValueError("random_choice: there is nothing to choose from")
        weights = [1.0] * len(values) if weights is None else [float(weight) for weight in weights]
        if len(weights) != len(values):
            raise ValueError(f"random_choice: {len(weights)} weights for {len(values)} values")
        if any(not 0.0 <= weight < math.inf for weight in weights) or not 0.0 < sum(weights) < math.inf:
            raise ValueError(f"random_choice: weights must not be negative, and one must be above 0: {weights}")
        kinds = {type(value) for value in values}
        if kinds == {int, float}:
            values, kinds = [float(value) for value in values], {float}
        known = {str: Types.STRING(), int: Types.LONG(), float: Types.DOUBLE(), bool: Types.BOOLEAN()}
        kind = kinds.pop()
        if kinds or kind not in known:
            raise ValueError(f"random_choice: values must all be texts, numbers or booleans: {list(values)}")
        self.type_info = known[kind]
        try:
            self._values = pa.array(values)
        except OverflowError as error:
            raise ValueError(f"random_choice: a number is beyond 64 bits: {list(values)}") from error
        self._bounds = np.cumsum(weights) / sum(weights)
        # what rounding has left of the last one belongs to it
        self._bounds[np.flatnonzero(weights)[-1] :] = 1.0

    def column(self, indexes: Indexes, seed: int) -> pa.Array:
        return self._values.take(pa.array(np.searchsorted(self._bounds, _unit(indexes, seed), side="right")))


class _Zipf(FieldGenerator):
    type_info = Types.LONG()

    def __init__(self, count: int, exponent: float) -> None:
        if not 1 <= count <= MAX_ZIPF:
            raise ValueError(f"random_zipf: the count must be 1 to {MAX_ZIPF}, not {count}")
        if not 0.0 <= exponent <= 100.0:
            raise ValueError(f"random_zipf: the exponent must be 0 to 100, not {exponent}")
        self._count = count
        self._exponent = exponent

    @cached_property
    def _bounds(self) -> npt.NDArray[np.float64]:
        """Return the share of the numbers up to each; made in the slots."""
        sums: npt.NDArray[np.float64] = np.cumsum(np.arange(1, self._count + 1, dtype=np.float64) ** -self._exponent)
        sums /= sums[-1]
        return sums

    def column(self, indexes: Indexes, seed: int) -> pa.Array:
        return pa.array(np.searchsorted(self._bounds, _unit(indexes, seed), side="right").astype(np.int64) + 1)


class _Times(FieldGenerator):
    type_info = Types.SQL_TIMESTAMP()

    def __init__(
        self, start: datetime.datetime, step_ms: float, jitter_ms: float, late_share: float, late_by_ms: float
    ) -> None:
        if start.tzinfo is not None:
            start = start.astimezone(datetime.UTC).replace(tzinfo=None)
        if not 0.0 <= late_share <= 1.0:
            raise ValueError(f"times: the share of late ones must be 0 to 1, not {late_share}")
        self._start = (start - _EPOCH) // _MICROSECOND
        self._step = _micros("step_ms", step_ms)
        self._jitter = _micros("jitter_ms", jitter_ms)
        self._late_by = _micros("late_by_ms", late_by_ms)
        self._late_share = late_share

    def column(self, indexes: Indexes, seed: int) -> pa.Array:
        micros = indexes * self._step + self._start
        if self._jitter:
            micros += np.rint((_unit(indexes, _derived(seed, 0)) * 2.0 - 1.0) * self._jitter).astype(np.int64)
        if self._late_share:
            late = _unit(indexes, _derived(seed, 1)) < self._late_share
            micros -= late * np.ceil((1.0 - _unit(indexes, _derived(seed, 2))) * self._late_by).astype(np.int64)
        return pa.array(micros, pa.timestamp("us"))


class _Template(FieldGenerator):
    type_info = Types.STRING()

    def __init__(self, text: str, fields: dict[str, FieldGenerator]) -> None:
        self._fields = fields
        #: text, and the field and its format behind it
        self._parts: list[tuple[str, str | None, str]] = []
        try:
            parsed = list(Formatter().parse(text))
        except ValueError as error:
            raise ValueError(f"template: {text!r}: {error}") from error
        for before, name, spec, conversion in parsed:
            if name is not None and (name not in {"index", *fields} or conversion):
                raise ValueError(f"template: {text!r} has {{{name}}}; there are {['index', *fields]}")
            if spec and "{" in spec:
                raise ValueError(f"template: {text!r} has a format within a format")
            self._parts.append((before, name, spec or ""))
        unused = [name for name in fields if name not in {part[1] for part in self._parts}]
        if unused:
            raise ValueError(f"template: {text!r} does not use {{{unused[0]}}}, or escapes its braces")
        if "index" in fields:
            raise ValueError("template: no field may be named 'index': {index} is the number of the row")
        # a format that does not fit its values is refused here
        self.column(np.arange(1, dtype=np.int64), 0)

    @property
    def max_count(self) -> int | None:
        return min((f.max_count for f in self._fields.values() if f.max_count is not None), default=None)

    def column(self, indexes: Indexes, seed: int) -> pa.Array:
        columns = {name: f.column(indexes, _derived(seed, i)) for i, (name, f) in enumerate(self._fields.items())}
        columns["index"] = pa.array(indexes)
        pieces: list[Any] = [pa.array([""] * len(indexes), pa.string())]
        for before, name, spec in self._parts:
            pieces.append(pa.scalar(before))
            if name is not None:
                pieces.append(_formatted(columns[name], spec))
        return pc.binary_join_element_wise(*pieces, pa.scalar(""), null_handling="emit_null")


class _Nullable(FieldGenerator):
    def __init__(self, generator: FieldGenerator, share: float) -> None:
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"nullable: the share of nulls must be 0 to 1, not {share}")
        self.type_info = generator.type_info
        self._generator = generator
        self._share = share

    @property
    def max_count(self) -> int | None:
        return self._generator.max_count

    def column(self, indexes: Indexes, seed: int) -> pa.Array:
        values = self._generator.column(indexes, seed)
        is_null = _unit(indexes, _derived(seed, 1009)) < self._share
        return pc.if_else(pa.array(is_null), pa.scalar(None, values.type), values)


def _micros(name: str, milliseconds: float) -> int:
    if not 0.0 <= milliseconds <= 1e14:
        raise ValueError(f"times: {name} must be 0 to 1e14, not {milliseconds}")
    return round(milliseconds * 1000)


def _formatted(column: pa.Array, spec: str) -> pa.Array:
    if not spec and (pa.types.is_integer(column.type) or pa.types.is_string(column.type)):
        return column.cast(pa.string())
    return pa.array([None if v is None else format(v, spec) for v in column.to_pylist()], pa.string())


def _unit(indexes: Indexes, seed: int) -> npt.NDArray[np.float64]:
    """Return a number in [0, 1) per index, shape (n,)."""
    return (random_bits(indexes, seed) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _derived(seed: int, part: int) -> int:
    """Return the seed of a part of a field, unlike those of other fields."""
    return int(random_bits(np.array([part], dtype=np.int64), seed ^ 0x5EED)[0])


def random_bits(indexes: Indexes, seed: int) -> npt.NDArray[np.uint64]:
    """Return 64 random bits per index, shape (n,); the same for the same index and seed on every machine."""
    mixed_seed = np.uint64((seed * 0xD1342543DE82EF95 + 1) % 2**64)
    z = (indexes.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN) ^ mixed_seed
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def sequence(start: int = 0, end: int | None = None) -> FieldGenerator:
    """Generate LONGs: start, start + 1, …; the source ends with `end` (included) if it is given.

    Raises:
        ValueError: `start` is above `end`.
    """
    return _Sequence(start, end)


def random_int(low: int = 0, high: int = 2**31 - 1) -> FieldGenerator:
    """Generate LONGs, evenly spread over low..high, both included.

    Raises:
        ValueError: no such range, or one of 2^63 numbers and more.
    """
    return _RandomInt(low, high)


def random_float(low: float = 0.0, high: float = 1.0) -> FieldGenerator:
    """Generate DOUBLEs, evenly spread over [low, high).

    Raises:
        ValueError: `low` is above `high`.
    """
    return _RandomFloat(low, high)


def random_string(length: int = 100) -> FieldGenerator:
    """Generate STRINGs of hexadecimal digits, as Flink's datagen makes them.

    Raises:
        ValueError: the length is below 1.
    """
    return _RandomString(length)


def random_choice(values: Sequence[Any], weights: Sequence[float] | None = None) -> FieldGenerator:
    """Generate some of the given values: STRINGs, LONGs, DOUBLEs or BOOLEANs, as they are.

    Args:
        values: at least one, all of one type.
        weights: how often each comes, in proportion; None = all equally often.

    Raises:
        ValueError: values of several types, or weights that are none.
    """
    return _Choice(values, weights)


def random_bool(true_share: float = 0.5) -> FieldGenerator:
    """Generate BOOLEANs.

    Args:
        true_share: of those that are true, 0 to 1.

    Raises:
        ValueError: the share is out of range.
    """
    if not 0.0 <= true_share <= 1.0:
        raise ValueError(f"random_bool: the share must be 0 to 1, not {true_share}")
    return _Choice([True, False], [true_share, 1.0 - true_share])


def random_zipf(count: int, exponent: float = 1.0) -> FieldGenerator:
    """Generate LONGs 1..count, of which number k comes in proportion to 1 / k^exponent: keys with hot spots.

    Args:
        count: 1 to 10,000,000.
        exponent: 0 (all equally often) to 100.

    Raises:
        ValueError: a number is out of range.
    """
    return _Zipf(count, exponent)


def times(
    start: datetime.datetime = datetime.datetime(2024, 1, 1),
    step_ms: float = 1000.0,
    jitter_ms: float = 0.0,
    late_share: float = 0.0,
    late_by_ms: float = 60_000.0,
) -> FieldGenerator:
    """Generate SQL_TIMESTAMPs that move on with the records; for `with_timestamp_column`.

    Args:
        start: time of record 0; one with a zone is converted to UTC.
        step_ms: from one record to the next, to the microsecond.
        jitter_ms: by which each is earlier or later, at most.
        late_share: of records whose time is too early by up to late_by_ms besides, 0 to 1.
        late_by_ms: at most.

    Raises:
        ValueError: a number is out of range.
    """
    return _Times(start, step_ms, jitter_ms, late_share, late_by_ms)


def template(text: str, **fields: FieldGenerator) -> FieldGenerator:
    """Generate STRINGs: `template("user-{id:04d}@{host}", id=random_zipf(100), host=random_choice(["a", "b"]))`.

    Args:
        text: with the fields' names in braces, perhaps with a format behind a colon; {index} is the record's index.
        fields: generators of what stands there; where one gives null, the text is null.

    Raises:
        ValueError: the text has other names, lacks one, or a format does not fit.
    """
    return _Template(text, fields)


def nullable(generator: FieldGenerator, null_share: float) -> FieldGenerator:
    """Generate what another generator does, and nulls.

    Args:
        generator: of the other values.
        null_share: of nulls, 0 to 1.

    Raises:
        ValueError: the share is out of range.
    """
    return _Nullable(generator, null_share)
