"""Plan of top_n: the rows that are kept of each key, and their order.

Rows are ordered by SQL expressions, each ascending or descending; null is less than everything, NaN greater, and of
equal rows the first one is better. Pure. Source: Flink SQL, Top-N (ROW_NUMBER() … WHERE rownum <= n).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from runtime.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo
from runtime.operators.columnar.aggregates import WINDOW_COLUMNS
from runtime.operators.columnar.expressions import (
    RESERVED,
    ColumnExpressionError,
    Named,
    check_row_wise,
    column_of,
    evaluated,
    parse,
)
from runtime.operators.columnar.frames import FrameReader, fields_of, type_of
from runtime.operators.columnar.partials import SEQUENCE
from runtime.state.state_meta import StatePart

_LONG = BasicTypeInfo(BasicType.LONG)
_BY = "__by"
_PLACE = "__place"


@dataclass(frozen=True)
class TopNSpec:
    """Describes a `top_n` call; travels to the slots.

    Args:
        input_type: of the records.
        keys: columns that the stream is keyed by.
        n: number of rows kept per key.
        by: SQL expressions of one row.
        descending: for each of them, whether the greatest come first.
        rank: name of a column with each row's place, 1 for the best; "" for none.
        with_window: whether the result has window_start and window_end.
    """

    input_type: RowTypeInfo
    keys: tuple[str, ...]
    n: int
    by: tuple[str, ...]
    descending: tuple[bool, ...]
    rank: str = ""
    with_window: bool = False

    def plan(self) -> TopNPlan:
        """Return the plan; the same object for equal specs."""
        return _plan_of(self)


def top_n_spec(
    input_type: object,
    keys: Sequence[str],
    n: int,
    by: str | Sequence[str],
    descending: bool | Sequence[bool],
    rank: str | None,
    with_window: bool = False,
) -> TopNSpec:
    """Return the checked form of `top_n(n, by, descending, rank)`.

    Raises:
        ColumnExpressionError: an expression cannot be used, or a name is taken.
        TypeError: the records have no named columns.
        ValueError: n is not positive, or `by` and `descending` differ in length.
    """
    if not isinstance(input_type, RowTypeInfo):
        raise TypeError(f"top_n() needs records of type Types.ROW_NAMED, not {input_type}")
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"top_n() keeps a positive number of rows, not {n!r}")
    texts = (by,) if isinstance(by, str) else tuple(by)
    orders = (descending,) * len(texts) if isinstance(descending, bool) else tuple(descending)
    if not texts or len(texts) != len(orders):
        raise ValueError(f"top_n() needs an order for each expression: {list(texts)} are {list(orders)}")
    spec = TopNSpec(input_type, tuple(keys), n, texts, orders, rank or "", with_window)
    spec.plan()
    return spec


class TopNPlan:
    """The Polars expressions of a TopNSpec; a WindowPlan.

    Attributes:
        keys, input_columns, needs_order, merges_anywhere, empty_partials, partial_type, output_type: see WindowPlan.
        n: number of rows kept per key.

    Raises:
        ColumnExpressionError: see `top_n_spec`.
    """

    needs_order = True
    #: of equal rows the first one wins, and partials of several subtasks have no common order of arrival
    merges_anywhere = False
    arrays = None

    def __init__(self, spec: TopNSpec) -> None:
        self.n = spec.n
        self.keys = list(spec.keys)
        self._rank = spec.rank
        fields = fields_of(spec.input_type)
        self.input_columns = list(fields)
        empty = FrameReader(spec.input_type).empty
        for text in spec.by:
            check_row_wise(text)
        named = [Named(f"{_BY}{number}", text) for number, text in enumerate(spec.by)]
        ordered = evaluated(empty, named)
        for (_, text), dtype in zip(named, ordered.dtypes, strict=True):
            if dtype.is_nested() or dtype == pl.Object:
                raise ColumnExpressionError(text, f"rows cannot be ordered by {dtype}")
        self._computed = [parse(text).alias(name) for name, text in named]
        # a column may be quoted or not
        self._texts = [column_of(text) or text.strip() for text in spec.by]
        self._by = [*(name for name, _ in named), SEQUENCE]
        self._descending = [*spec.descending, False]
        added = [spec.rank] if spec.rank else []
        self._context = list(WINDOW_COLUMNS) if spec.with_window else []
        for name in (*self.input_columns, *added, *self._context):
            if name.startswith(RESERVED):
                raise ColumnExpressionError(name, "the name of this column is reserved")
        for name in (*added, *self._context):
            if name in fields or [*added, *self._context].count(name) > 1:
                raise ColumnExpressionError(name, "there is a column of this name already")
        self._kept = [*self.keys, *(name for name in self.input_columns if name not in self.keys), *self._by]
        self.empty_partials = self.rows(empty, 0)
        self.partial_type: RowTypeInfo = type_of(self.empty_partials, fields)
        self._output = [*self.input_columns, *added, *self._context]
        types = [*fields.values(), *[_LONG] * (len(self._output) - len(fields))]
        self.output_type = RowTypeInfo(types, self._output)

    @property
    def state_content(self) -> str:
        """Return the order of the kept rows."""
        return ", ".join(map(_direction, self._descending[:-1]))

    @property
    def state_parts(self) -> tuple[StatePart, ...]:
        """Return the expressions that the kept rows are ordered by: rows of another order are not the best ones."""
        orders = zip(self._texts, self._descending, strict=False)
        return tuple(StatePart(f"{text} {_direction(is_descending)}") for text, is_descending in orders)

    def rows(self, frame: pl.DataFrame, sequence: int) -> pl.DataFrame:
        """Return the rows with their order columns."""
        order = pl.int_range(sequence, sequence + pl.len(), dtype=pl.Int64).alias(SEQUENCE)
        return frame.with_columns(*self._computed, order).select(self._kept)

    def aggregated(self, rows: pl.DataFrame, within: Sequence[str] = ()) -> pl.DataFrame:
        """Return the best rows of each key; see WindowPlan."""
        best = self._sorted(rows).group_by([*within, *self.keys], maintain_order=True).head(self.n)
        return best.select(*within, *self._kept)

    def merged(self, partials: pl.DataFrame, within: Sequence[str] = ()) -> pl.DataFrame:
        """Return the best rows of each key; see WindowPlan."""
        return self.aggregated(partials, within)

    def results(self, merged: pl.DataFrame, **context: int) -> pl.DataFrame:
        """Return the rows key by key, the best first."""
        best = self._sorted(merged).with_columns(pl.lit(context[name], pl.Int64).alias(name) for name in self._context)
        if self._rank:
            best = best.with_columns((pl.int_range(pl.len(), dtype=pl.Int64).over(self.keys) + 1).alias(self._rank))
        return best.select(self._output)

    @property
    def order_columns(self) -> list[str]:
        """Return the keys and the order columns."""
        return [*self.keys, *self._by]

    def in_order(self, rows: pl.DataFrame) -> npt.NDArray[np.int64]:
        """Return the indexes of the rows in order, the best first; shape (rows.height,)."""
        in_order = self._sorted(rows.select(self._by).with_row_index("__row")).get_column("__row")
        places: npt.NDArray[np.int64] = in_order.to_numpy().astype(np.int64)
        return places

    def worst_of_full(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return `order_columns` of the worst row of each key that has all of its n rows."""
        keyed = self._sorted(rows.select(self.order_columns)).group_by(self.keys)
        return keyed.agg(pl.col(self._by).last(), pl.len().alias("__n")).filter(pl.col("__n") == self.n).drop("__n")

    def divided(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the best n rows of each key, and those that a larger n had kept beside them."""
        ranked = self._sorted(rows).with_columns(pl.int_range(pl.len(), dtype=pl.Int64).over(self.keys).alias(_PLACE))
        is_best = pl.col(_PLACE) < self.n
        return ranked.filter(is_best).drop(_PLACE), ranked.filter(~is_best).drop(_PLACE)

    def beyond(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, list[int]]:
        """Return the rows that `divided` gives as the second ones, the last place first, with their ranks."""
        place = pl.int_range(pl.len(), dtype=pl.Int64).over(self.keys).alias(_PLACE)
        ranked = self._sorted(rows).with_columns(place + self.n + 1).reverse()
        return ranked.drop(_PLACE), ranked.get_column(_PLACE).to_list()

    def changes(self, rows: pl.DataFrame, ranks: Sequence[int]) -> pl.DataFrame:
        """Return rows as they are emitted, with their ranks if requested."""
        if self._rank:
            rows = rows.with_columns(pl.Series(self._rank, ranks, pl.Int64))
        return rows.select(self._output)

    def _sorted(self, frame: pl.DataFrame) -> pl.DataFrame:
        # null is the smallest: last in descending order
        return frame.sort(self._by, descending=self._descending, nulls_last=self._descending)


def _direction(is_descending: bool) -> str:
    return "descending" if is_descending else "ascending"


@functools.lru_cache(maxsize=64)
def _plan_of(spec: TopNSpec) -> TopNPlan:
    return TopNPlan(spec)
