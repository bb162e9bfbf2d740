"""Generators of columns for the data generator: sequences and random numbers and texts.

A value depends on the field's seed and the record's index only: a counter goes through a mixing function, there is no
random state to be saved. Whole columns are computed at once. Source of the mixing function: SplitMix64, Steele et al.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.common.typeinfo import TypeInformation, Types

Indexes = npt.NDArray[np.int64]

_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_GOLDEN = 0x9E3779B97F4A7C15


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
        unit = (random_bits(indexes, seed) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return pa.array(self._low + unit * self._span)


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
