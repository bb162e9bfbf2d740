"""Joins of frames on the columns of a key, of which null equals null and NaN equals NaN. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import polars as pl

_ALONE = "__alone"


def joined(
    left: pl.DataFrame,
    right: pl.DataFrame,
    keys: Sequence[str],
    how: Literal["inner", "left", "right", "full"] = "inner",
    *,
    right_keys: Sequence[str] | None = None,
    in_order: bool = False,
) -> pl.DataFrame:
    """Return two frames joined on a key, whose columns are there once.

    Polars merges columns that it knows to be sorted, as that of a single row is, and does not find NaN then: a second
    column of the key keeps it from that.

    Args:
        keys: columns of the key.
        how: as Polars has it.
        right_keys: the same columns in `right`; None = they have the same names.
        in_order: whether rows are in the order of `left`, those of one in the order of `right`.
    """
    ours, theirs = list(keys), list(right_keys or keys)
    is_merged = len(ours) == 1 and left.schema[ours[0]].is_float()
    if is_merged:
        alone = pl.lit(0, pl.Int8).alias(_ALONE)
        left, right = left.with_columns(alone), right.with_columns(alone)
        ours, theirs = [*ours, _ALONE], [*theirs, _ALONE]
    made = left.join(
        right,
        left_on=ours,
        right_on=theirs,
        how=how,
        nulls_equal=True,
        coalesce=True,
        maintain_order="left_right" if in_order else "none",
    )
    return made.drop(_ALONE) if is_merged else made
