"""Grouping without hashes: if keys are integers that lie close together, a key is an index into an array.

Adding and comparing in arrays costs a fifth of Polars' `group_by`, which hashes every row. Polars handles sparse keys,
nulls, and aggregates of other types. Pure; results are those that `AggregatePlan` computes otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from runtime.operators.columnar.partials import Merge, Partial

MAX_CELLS_A_ROW = 4
"""Maximum spread of keys: an array has at most this many cells per row. With more, mostly empty arrays cost more than
hashing; with fewer, keys with few rows per batch are hashed.
"""
_MIN_CELLS = 1 << 12
"""Number of cells for which arrays are always worth it."""

_WHOLE = frozenset({pl.Int8, pl.Int16, pl.Int32, pl.Int64})
_NUMBERS = _WHOLE | {pl.Float32, pl.Float64}
_ADDED = frozenset({Merge.ROWS, Merge.COUNT, Merge.SUM})
_REDUCED = frozenset({Merge.MIN, Merge.MAX})
Cells = npt.NDArray[np.int64]


class DenseAggregates:
    """Computes partials in arrays.

    Args:
        keys: columns of the key.
        partials: what to compute; the first one counts the rows.
        kept: dtypes of the columns of partials.
    """

    def __init__(self, keys: Sequence[str], partials: Sequence[Partial], kept: pl.Schema) -> None:
        self._keys = list(keys)
        self._rows, *self._others = partials
        self._dtypes = dict(kept)

    def of_rows(self, rows: pl.DataFrame, within: Sequence[str] = ()) -> pl.DataFrame | None:
        """Return partials of rows, as `AggregatePlan.aggregated` gives them, in the order of `within` and the keys.

        Returns:
            None if they cannot be computed in arrays.
        """
        groups = _groups_of(rows, [*within, *self._keys])
        if groups is None:
            return None
        counts = groups.counts()
        found = np.flatnonzero(counts)
        counted = counts[found]
        made = [*groups.keys_at(found), pl.Series(self._rows.name, counted)]
        for partial in self._others:
            argument = rows.get_column(partial.argument)
            if partial.merge is not Merge.COUNT:
                made.append(self._made(partial, groups, argument, found))
            elif argument.null_count():
                there = groups.only(argument.is_not_null().to_numpy())
                made.append(pl.Series(partial.name, there.counts()[found]))
            else:
                made.append(pl.Series(partial.name, counted))
        return pl.DataFrame(made)

    def of_partials(self, partials: pl.DataFrame, within: Sequence[str] = ()) -> pl.DataFrame | None:
        """Return partials of partials, as `AggregatePlan.merged` gives them, likewise."""
        groups = _groups_of(partials, [*within, *self._keys])
        if groups is None:
            return None
        counts = groups.added(partials.get_column(self._rows.name).to_numpy())
        # a partial stands for at least one row
        found = np.flatnonzero(counts)
        made = [*groups.keys_at(found), pl.Series(self._rows.name, counts[found])]
        made += [self._made(partial, groups, partials.get_column(partial.name), found) for partial in self._others]
        return pl.DataFrame(made)

    def _made(self, partial: Partial, groups: _Groups, column: pl.Series, found: Cells) -> pl.Series:
        """Return the partial of a column in some cells."""
        has_nulls = column.null_count() > 0
        if has_nulls:
            groups = groups.only(column.is_not_null().to_numpy())
            column = column.drop_nulls()
        values = column.to_numpy()
        match partial.merge:
            case Merge.MIN:
                made = groups.lowest(values)
            case Merge.MAX:
                made = groups.highest(values)
            case _:
                made = groups.added(values)
        series = pl.Series(partial.name, made[found], self._dtypes[partial.name])
        if has_nulls and partial.merge in _REDUCED:
            # the minimum of nothing is null, whereas its sum is 0
            series = series.set(pl.Series(groups.counts()[found] == 0), None)
        return series


def dense_aggregates(
    keys: Sequence[str], partials: Sequence[Partial], rows: pl.Schema, kept: pl.Schema
) -> DenseAggregates | None:
    """Return a maker of partials in arrays; None if keys are not integers, or partials not numbers of few bytes.

    Args:
        rows: dtypes of the columns that partials are computed from.
        kept: dtypes of partials.
    """
    for partial in partials:
        if partial.merge not in _ADDED | _REDUCED or type(kept[partial.name]) not in _NUMBERS:
            return None
        if partial.merge not in (Merge.ROWS, Merge.COUNT) and type(rows[partial.argument]) not in _NUMBERS:
            return None
    return DenseAggregates(keys, partials, kept) if all(type(kept[key]) in _WHOLE for key in keys) else None


class _Groups(NamedTuple):
    """Rows by the cell of their key."""

    cells: Cells
    """Cell of each row, in [0, num_cells)."""
    num_cells: int
    axes: list[_Axis]
    """The columns of the key; neighbours in the last column are neighbours in the cells."""

    def keys_at(self, found: Cells) -> list[pl.Series]:
        """Return the keys of some cells, a column each."""
        columns: list[pl.Series] = []
        stride = self.num_cells
        for axis in self.axes:
            stride //= axis.length
            places = found // stride if stride > 1 else found
            found = found - places * stride
            columns.append(pl.Series(axis.name, places + axis.lowest, axis.dtype))
        return columns

    def only(self, rows: npt.NDArray[np.bool_]) -> _Groups:
        """Return some of the rows, in the same cells."""
        return self._replace(cells=self.cells[rows])

    def counts(self) -> Cells:
        """Return the number of each cell's rows."""
        return np.bincount(self.cells, minlength=self.num_cells)

    def added(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the sum of each cell's values."""
        if values.dtype.kind == "f":
            return np.bincount(self.cells, weights=values, minlength=self.num_cells)
        total = np.zeros(self.num_cells, dtype=np.int64)
        np.add.at(total, self.cells, values)
        return total

    def lowest(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the smallest of each cell's values."""
        if values.dtype.kind == "f":
            least = np.full(self.num_cells, np.nan, dtype=values.dtype)
            np.fmin.at(least, self.cells, values)
        else:
            least = np.full(self.num_cells, np.iinfo(values.dtype).max, dtype=values.dtype)
            np.minimum.at(least, self.cells, values)
        return least

    def highest(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the largest of each cell's values."""
        if values.dtype.kind == "f":
            # fmax ignores NaN, as Polars' max does
            greatest = np.full(self.num_cells, np.nan, dtype=values.dtype)
            np.fmax.at(greatest, self.cells, values)
        else:
            greatest = np.full(self.num_cells, np.iinfo(values.dtype).min, dtype=values.dtype)
            np.maximum.at(greatest, self.cells, values)
        return greatest


class _Axis(NamedTuple):
    """A column of the key."""

    name: str
    dtype: pl.DataType
    lowest: int
    length: int


def _groups_of(frame: pl.DataFrame, by: Sequence[str]) -> _Groups | None:
    """Return the rows by cell; None if keys are too sparse, or one is null."""
    if not frame.height or any(type(frame.schema[name]) not in _WHOLE for name in by):
        return None
    if any(frame.get_column(name).null_count() for name in by):
        return None
    max_cells = max(MAX_CELLS_A_ROW * frame.height, _MIN_CELLS)
    num_cells = 1
    axes: list[_Axis] = []
    cells: Cells | None = None
    for name in by:
        column = frame.get_column(name)
        values = column.to_numpy()
        lowest = int(values.min())
        length = int(values.max()) - lowest + 1
        num_cells *= length
        if num_cells > max_cells:
            return None
        axes.append(_Axis(name, column.dtype, lowest, length))
        places = np.subtract(values, lowest, dtype=np.int64)
        if cells is None:
            cells = places
        else:
            cells *= length
            cells += places
    return None if cells is None else _Groups(cells, num_cells, axes)
