"""Joins of frames on the columns of a key, of which null equals null and NaN equals NaN. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from runtime.operators.columnar.keyed_rows import in_ranges

MAX_PAIRS: Final = 1 << 16
"""Number of pairs built at once. With fewer, the fixed cost of a frame shows; more only take memory."""
_ALONE = "__alone"
_KEY = "__key"

Numbers = npt.NDArray[np.int64]


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


def numbered(
    keys: pl.DataFrame, names: Sequence[str], others: pl.DataFrame, other_names: Sequence[str]
) -> tuple[Numbers, Numbers]:
    """Return a number for the key of each row of two frames, -1 where `keys` lacks the key of one of `others`.

    Args:
        keys: columns of a key.
        names: of these columns.
        others: rows with the same columns.
        other_names: of these columns, in the same order.
    """
    different = keys.unique().with_row_index(_KEY)
    number = pl.col(_KEY).cast(pl.Int64).fill_null(-1)

    def numbers(frame: pl.DataFrame, own: Sequence[str]) -> Numbers:
        found = joined(frame.select(own), different, own, "left", right_keys=names, in_order=True)
        made: Numbers = found.select(number).to_series().to_numpy()
        return made

    return numbers(keys, names), numbers(others, other_names)


def pairs_in_parts(starts: Numbers, stops: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield about MAX_PAIRS pairs at a time of rows and the ranges of their partners: (row, partner), by row.

    Args:
        starts: by row, the index of its first partner.
        stops: by row, the index behind its last one; not above `starts`: it has none.
    """
    counts = np.maximum(stops - starts, 0)
    for first, last in _parts(counts):
        rows = np.repeat(np.arange(first, last), counts[first:last])
        yield rows, in_ranges(starts[first:last], starts[first:last] + counts[first:last])


def _parts(counts: Numbers) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows with about MAX_PAIRS pairs each, without the rows that have none at the end."""
    ends = np.cumsum(counts)
    start = 0
    while start < len(counts) and (before := int(ends[start - 1]) if start else 0) < ends[-1]:
        stop = max(int(np.searchsorted(ends, before + MAX_PAIRS, side="right")), start + 1)
        yield start, stop
        start = stop
