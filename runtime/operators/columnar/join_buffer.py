"""JoinBuffer: the rows of one side of a join, found by key and time until event time has passed them.

Frames sorted by the hash of their keys, merged as in `keyed_rows`; expired rows are dropped when their frame is merged
or has expired as a whole. The hash is Polars' own and never leaves the process. Used by the task's thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from runtime.operators.columnar.keyed_rows import Hashes, places_of

TIME = "__time"
"""Event time of a row, ms."""
EXPIRES = "__expires"
"""Watermark from which on no row can join with this one."""


class _Segment(NamedTuple):
    hashes: Hashes
    """Ascending; rows of the same key are in the order of arrival."""
    rows: pl.DataFrame
    first_time: int
    last_time: int
    expires: int
    """Time at which all of it has expired."""


class JoinBuffer:
    """The buffered rows of one side.

    Args:
        empty: a frame without rows; has TIME and EXPIRES.
        keys: columns of the key.
    """

    def __init__(self, empty: pl.DataFrame, keys: Sequence[str]) -> None:
        self.empty = empty
        self._keys = list(keys)
        #: oldest and longest first
        self._segments: list[_Segment] = []
        self._watermark: int | None = None

    def add(self, rows: pl.DataFrame) -> None:
        """Keep rows."""
        if not rows.height:
            return
        self._segments.append(self._segment(rows.select(self.empty.columns)))
        while len(self._segments) > 1 and 2 * self._segments[-1].rows.height >= self._segments[-2].rows.height:
            newer, older = self._segments.pop(), self._segments.pop()
            rows = self._alive(pl.concat([older.rows, newer.rows]))
            if rows.height:
                self._segments.append(self._segment(rows))

    def find(self, hashes: Hashes, first_time: int, last_time: int) -> pl.DataFrame:
        """Return rows that may have one of these hashes and times, in the order of arrival within a key."""
        found = [self.empty]
        for segment in self._segments:
            if segment.last_time >= first_time and segment.first_time <= last_time:
                rows = segment.rows[places_of(segment.hashes, hashes)]
                found.append(rows.filter(pl.col(TIME).is_between(first_time, last_time)))
        return pl.concat(found, rechunk=True)

    def expire(self, watermark: int) -> None:
        """Drop rows that have expired at event time `watermark`."""
        self._watermark = watermark
        self._segments = [segment for segment in self._segments if segment.expires > watermark]

    def all_rows(self) -> pl.DataFrame:
        """Return everything that has not expired."""
        return self._alive(pl.concat([self.empty, *(segment.rows for segment in self._segments)]))

    def hashes(self, keys: pl.DataFrame) -> Hashes:
        """Return the hashes of keys, whatever their columns are called."""
        hashes: Hashes = keys.hash_rows().to_numpy()
        return hashes

    def _alive(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows if self._watermark is None else rows.filter(pl.col(EXPIRES) > self._watermark)

    def _segment(self, rows: pl.DataFrame) -> _Segment:
        hashes = self.hashes(rows.select(self._keys))
        order = np.argsort(hashes, kind="stable")
        times = rows.get_column(TIME).to_numpy()
        expires = rows.get_column(EXPIRES).to_numpy()
        return _Segment(hashes[order], rows[order], int(times.min()), int(times.max()), int(expires.max()))
