"""Quantile sketches as columns: counts of values in buckets that grow by a constant factor.

With factor (1 + a) / (1 - a) any value is within the relative error a of its bucket's representative, and so is every
quantile, however many values there are and however sketches are merged: merging adds up counts and loses nothing. Zero
and the infinities have buckets of their own; negative values mirror positive ones; nulls and NaN are ignored. A sketch
is a list of (bucket, count), ascending. Pure. Source: Masson et al., DDSketch (VLDB 2019).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import polars as pl

DEFAULT_ACCURACY = 0.01
"""Relative error of a quantile. With a smaller one, sketches have more buckets: 0.01 means 115 of them per power of
ten."""
MIN_ACCURACY = 1e-4
"""Smallest accuracy: the buckets of all doubles must have numbers below `_INFINITE`."""
MAX_ACCURACY = 0.5
BUCKET = "bucket"
COUNT = "count"
_BUCKET = "__bucket"
_COUNT = "__count"
_POSITIVE = 8_000_000
"""Number of the bucket that holds 1; greater values lie behind it, smaller ones before, down to 1 for 5e-324."""
_INFINITE = 16_000_000


def bucket_of(values: pl.Expr, accuracy: float) -> pl.Expr:
    """Return the number of each value's bucket; null for null and NaN. The order of buckets is that of values."""
    real = values.cast(pl.Float64)
    magnitude = real.abs()
    number = (magnitude.log() / _log_factor(accuracy)).ceil() + _POSITIVE
    bucket = pl.when(magnitude.is_infinite()).then(_INFINITE).when(magnitude == 0).then(0).otherwise(number)
    return pl.when(real.is_not_nan()).then(pl.when(real < 0).then(-bucket).otherwise(bucket)).cast(pl.Int32)


def value_of(bucket: pl.Expr, accuracy: float) -> pl.Expr:
    """Return the representative of a bucket."""
    magnitude = bucket.abs()
    factor = math.exp(_log_factor(accuracy))
    exponent = (magnitude - _POSITIVE).cast(pl.Float64) * _log_factor(accuracy) + math.log(2 / (factor + 1))
    # of the last bucket, only the lower end is sure to be a double
    finite = exponent.exp().clip(upper_bound=sys.float_info.max)
    value = pl.when(magnitude == _INFINITE).then(math.inf).when(magnitude == 0).then(0.0).otherwise(finite)
    return pl.when(bucket < 0).then(-value).otherwise(value)


def quantile_of(sketch: pl.Expr, quantile: float, accuracy: float) -> pl.Expr:
    """Return a quantile of each sketch, DOUBLE; null if the sketch is empty.

    It stands for the value at place floor(quantile * (n - 1)) of the n sorted values.
    """
    item = pl.element().struct
    reached = item.field(COUNT).cum_sum()
    is_behind = reached > (quantile * (item.field(COUNT).sum() - 1)).floor()
    bucket = sketch.list.eval(item.field(BUCKET).filter(is_behind).first()).list.first()
    return value_of(bucket, accuracy)


def sketch_of_rows(rows: pl.DataFrame, column: str, accuracy: float, name: str, by: Sequence[str]) -> pl.DataFrame:
    """Return the sketches of a column's values, grouped by other columns; groups without values are omitted."""
    buckets = rows.select(*by, bucket_of(pl.col(column), accuracy).alias(_BUCKET)).drop_nulls(_BUCKET)
    return _listed(buckets.group_by([*by, _BUCKET]).agg(pl.len().cast(pl.Int64).alias(_COUNT)), name, by)


def sketch_of_sketches(sketches: pl.DataFrame, name: str, by: Sequence[str]) -> pl.DataFrame:
    """Return sketches merged by other columns."""
    items = sketches.select(*by, pl.col(name)).explode(name).drop_nulls(name)
    item = pl.col(name).struct
    buckets = items.select(*by, item.field(BUCKET).alias(_BUCKET), item.field(COUNT).alias(_COUNT))
    return _listed(buckets.group_by([*by, _BUCKET]).agg(pl.col(_COUNT).sum()), name, by)


def _listed(buckets: pl.DataFrame, name: str, by: Sequence[str]) -> pl.DataFrame:
    item = pl.struct(pl.col(_BUCKET).alias(BUCKET), pl.col(_COUNT).alias(COUNT))
    # groups keep the order of their rows
    return buckets.sort(_BUCKET).group_by(by).agg(item.alias(name))


def _log_factor(accuracy: float) -> float:
    return math.log1p(accuracy) - math.log1p(-accuracy)
