"""Partials: the columns that aggregates keep of rows, computed from rows and from each other. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import polars as pl

SEQUENCE = "__sequence"
"""Column of the rows' order of arrival; only there if an aggregate depends on it."""


class Merge(enum.Enum):
    """Ways to compute a partial from rows and from other partials."""

    ROWS = "rows"
    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    FIRST = "first"
    LAST = "last"
    DISTINCT = "distinct"
    LIST = "list"
    SKETCH = "sketch"


BY_ORDER = frozenset({Merge.FIRST, Merge.LAST, Merge.LIST})


@dataclass(frozen=True)
class Partial:
    """A column that is kept for each key and pane.

    Args:
        name: of the column; first and last also have `<name>_at`, the row's place in the order of arrival.
        merge: how it is computed.
        argument: column of the rows that it is computed from; "" for the number of rows.
        accuracy: relative error of a sketch.
    """

    name: str
    merge: Merge
    argument: str
    accuracy: float = 0.0

    def of_rows(self, dtype: pl.DataType | None) -> list[pl.Expr]:
        """Return aggregates of rows whose argument has that dtype; none for a sketch, which takes several steps."""
        column = pl.col(self.argument) if self.argument else pl.len()
        match self.merge:
            case Merge.ROWS:
                made = [column.cast(pl.Int64)]
            case Merge.COUNT:
                made = [column.count().cast(pl.Int64)]
            case Merge.SUM:
                summed = _sum_dtype(dtype)
                made = [(column if summed == dtype else column.cast(summed)).sum()]
            case Merge.MIN:
                made = [column.min()]
            case Merge.MAX:
                made = [column.max()]
            case Merge.DISTINCT:
                made = [column.drop_nulls().unique()]
            case Merge.LIST:
                made = [pl.struct(pl.col(SEQUENCE).alias("at"), column.alias("value"))]
            case Merge.FIRST:
                return self._placed(column.drop_nulls().first(), pl.col(SEQUENCE).filter(column.is_not_null()).first())
            case Merge.LAST:
                return self._placed(column.drop_nulls().last(), pl.col(SEQUENCE).filter(column.is_not_null()).last())
            case Merge.SKETCH:
                made = []
        return [expression.alias(self.name) for expression in made]

    def of_partials(self) -> list[pl.Expr]:
        """Return aggregates of partials."""
        column = pl.col(self.name)
        match self.merge:
            case Merge.ROWS | Merge.COUNT | Merge.SUM:
                return [column.sum()]
            case Merge.MIN:
                return [column.min()]
            case Merge.MAX:
                return [column.max()]
            case Merge.DISTINCT:
                return [column.explode().drop_nulls().unique()]
            case Merge.LIST:
                return [column.explode()]
            case Merge.SKETCH:
                return []
        at = pl.col(f"{self.name}_at")
        place = at.min() if self.merge is Merge.FIRST else at.max()
        return self._placed(column.filter(at == place).first(), place)

    def _placed(self, value: pl.Expr, at: pl.Expr) -> list[pl.Expr]:
        return [value.alias(self.name), at.alias(f"{self.name}_at")]


def _sum_dtype(dtype: pl.DataType | None) -> pl.DataType:
    assert dtype is not None
    if dtype.is_decimal() or dtype == pl.Int64 or dtype == pl.Float64:
        return dtype
    if dtype.is_integer():
        return pl.Int64()
    if dtype.is_float():
        return pl.Float64()
    raise TypeError(f"only numbers can be summed, not {dtype}")
