"""JoinBuffer: the rows of one side of a join, found by key and time until event time has passed them.

Frames sorted by the hash of their keys, merged as in `keyed_rows`; expired rows are dropped when their frame is merged
or has expired as a whole. The hash is Polars' own and never leaves the process; a restored frame has the canonical one,
in whose order it was written, until it is merged. Used by the task's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from runtime.operators.columnar.keyed_rows import Hashes, Restored, places_of

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
    is_restored: bool = False
    """Whether the hashes are canonical ones."""


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
        self._restored_hashes: Callable[[pl.DataFrame], Hashes] = self.hashes

    @property
    def num_rows(self) -> int:
        """Return how many rows are held, expired ones that have not been dropped among them."""
        return sum(segment.rows.height for segment in self._segments)

    def restore(self, restored: Restored) -> None:
        """Take rows as they are, without reading their keys; there are no others yet."""
        rows = restored.rows.select(self.empty.columns)
        if rows.height:
            self._segments = [_Segment(restored.hashes, rows, *_bounds(rows), is_restored=True)]
            self._restored_hashes = restored.hashes_of

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

    def find(self, keys: pl.DataFrame, first_time: int, last_time: int) -> pl.DataFrame:
        """Return rows that may have one of these keys and times, in the order of arrival within a key.

        Args:
            keys: in the columns of the key, whatever they are called; not necessarily different.
            first_time: of the rows, ms.
            last_time: of the rows, ms.
        """
        found = [self.empty]
        hashes = self.hashes(keys)
        for segment in self._segments:
            if segment.last_time >= first_time and segment.first_time <= last_time:
                wanted = self._hashes_of_restored(keys) if segment.is_restored else hashes
                rows = segment.rows[places_of(segment.hashes, wanted)]
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

    def _hashes_of_restored(self, keys: pl.DataFrame) -> Hashes:
        return self._restored_hashes(keys.rename(dict(zip(keys.columns, self._keys, strict=True))))

    def _alive(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows if self._watermark is None else rows.filter(pl.col(EXPIRES) > self._watermark)

    def _segment(self, rows: pl.DataFrame) -> _Segment:
        hashes = self.hashes(rows.select(self._keys))
        order = np.argsort(hashes, kind="stable")
        return _Segment(hashes[order], rows[order], *_bounds(rows))


def _bounds(rows: pl.DataFrame) -> tuple[int, int, int]:
    """Return the first and the last time of some rows, at least one, and that at which all have expired."""
    times = rows.get_column(TIME).to_numpy()
    return int(times.min()), int(times.max()), int(rows.get_column(EXPIRES).to_numpy().max())
