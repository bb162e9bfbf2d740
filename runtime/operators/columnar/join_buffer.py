"""JoinBuffer: the rows of one side of a join, found by key and time until event time has passed them.

Expired rows are dropped when their frame is merged or has expired as a whole. Used by the task's thread.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from runtime.operators.columnar.appended_rows import AppendedRows, Bounds

TIME = "__time"
"""Event time of a row, ms."""
EXPIRES = "__expires"
"""Watermark from which on no row can join with this one."""


class JoinBuffer(AppendedRows):
    """The buffered rows of one side.

    Args:
        empty: a frame without rows; has TIME and EXPIRES.
        keys: columns of the key.
    """

    def __init__(self, empty: pl.DataFrame, keys: Sequence[str]) -> None:
        super().__init__(empty, keys)
        self._watermark: int | None = None

    def find_between(self, keys: pl.DataFrame, first_time: int, last_time: int) -> pl.DataFrame:
        """Return rows that may have one of these keys and have such a time, in the order of arrival within a key.

        Args:
            keys: in the columns of the key, whatever they are called; not necessarily different.
            first_time: of the rows, ms.
            last_time: of the rows, ms.
        """
        of_that_time = (
            segment
            for segment in self._segments
            if segment.bounds.last_time >= first_time and segment.bounds.first_time <= last_time
        )
        is_between = pl.col(TIME).is_between(first_time, last_time)
        found = (rows.filter(is_between) for rows in self._found(keys, of_that_time))
        return pl.concat([self.empty, *found], rechunk=True)

    def expire(self, watermark: int) -> None:
        """Drop rows that have expired at event time `watermark`."""
        self._watermark = watermark
        self._segments = [segment for segment in self._segments if segment.bounds.expires > watermark]

    def _alive(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows if self._watermark is None else rows.filter(pl.col(EXPIRES) > self._watermark)

    def _bounds(self, rows: pl.DataFrame) -> Bounds:
        times = rows.get_column(TIME).to_numpy()
        return Bounds(int(times.min()), int(times.max()), int(rows.get_column(EXPIRES).to_numpy().max()))
