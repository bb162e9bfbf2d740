"""AppendedRows: rows of many keys, found by key without reading the others.

Frames sorted by the hash of their keys, merged as in `keyed_rows`, but no row replaces another. The hash is Polars' own
and never leaves the process; a restored frame has the canonical one, in whose order it was written, until it is merged.
Used by the task's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from runtime.operators.columnar.keyed_rows import Hashes, Restored, places_of


class Bounds(NamedTuple):
    """Event times of some rows, for subclasses that look at them."""

    first_time: int = 0
    last_time: int = 0
    expires: int = 0
    """Time at which all of them have expired."""


class Segment(NamedTuple):
    """A sorted frame."""

    hashes: Hashes
    """Ascending; rows of the same key are in the order of arrival."""
    rows: pl.DataFrame
    bounds: Bounds
    is_restored: bool = False
    """Whether the hashes are canonical ones."""


class AppendedRows:
    """Rows by key.

    Args:
        empty: a frame without rows, for its schema.
        keys: columns of the key.
    """

    def __init__(self, empty: pl.DataFrame, keys: Sequence[str]) -> None:
        self.empty = empty
        self._keys = list(keys)
        #: oldest and longest first
        self._segments: list[Segment] = []
        self._restored_hashes: Callable[[pl.DataFrame], Hashes] = self.hashes

    @property
    def num_rows(self) -> int:
        """Return how many rows are held, also those that count no more but have not been dropped."""
        return sum(segment.rows.height for segment in self._segments)

    def restore(self, restored: Restored) -> None:
        """Take rows as they are, without reading their keys; there are no others yet."""
        rows = restored.rows.select(self.empty.columns)
        if rows.height:
            self._segments = [Segment(restored.hashes, rows, self._bounds(rows), is_restored=True)]
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

    def find(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Return rows that may have one of these keys, in the order of arrival within a key.

        Args:
            keys: in the columns of the key, whatever they are called; not necessarily different.
        """
        return pl.concat([self.empty, *self._found(keys, self._segments)], rechunk=True)

    def all_rows(self) -> pl.DataFrame:
        """Return everything that counts."""
        return self._alive(pl.concat([self.empty, *(segment.rows for segment in self._segments)]))

    def hashes(self, keys: pl.DataFrame) -> Hashes:
        """Return the hashes of keys, whatever their columns are called."""
        hashes: Hashes = keys.hash_rows().to_numpy()
        return hashes

    def _found(self, keys: pl.DataFrame, segments: Iterable[Segment]) -> Iterator[pl.DataFrame]:
        hashes = self.hashes(keys)
        for segment in segments:
            wanted = self._hashes_of_restored(keys) if segment.is_restored else hashes
            yield segment.rows[places_of(segment.hashes, wanted)]

    def _hashes_of_restored(self, keys: pl.DataFrame) -> Hashes:
        return self._restored_hashes(keys.rename(dict(zip(keys.columns, self._keys, strict=True))))

    def _alive(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that count."""
        return rows

    def _bounds(self, rows: pl.DataFrame) -> Bounds:
        """Return the event times of some rows, at least one."""
        return Bounds()

    def _segment(self, rows: pl.DataFrame) -> Segment:
        hashes = self.hashes(rows.select(self._keys))
        order = np.argsort(hashes, kind="stable")
        return Segment(hashes[order], rows[order], self._bounds(rows))
