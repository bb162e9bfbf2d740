"""KeyedRows: rows of many keys, found by key without reading the others, and replaced key by key.

A log-structured merge tree of frames in memory: each write adds a segment, sorted by the hash of its keys; a key's
newest segment has all its rows. Segments are merged when a newer one is half as long as its predecessor, so there are
few of them and a row is copied a logarithmic number of times. The hash is Polars' own and never leaves the process; a
restored segment has the canonical one, in whose order it was written, until it is merged. Used by the task's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

Hashes = npt.NDArray[np.uint64]


class _Segment(NamedTuple):
    hashes: Hashes
    """Ascending."""
    rows: pl.DataFrame
    is_restored: bool = False
    """Whether the hashes are those of `Restored`."""


class Restored(NamedTuple):
    """Rows in the order of canonical hashes."""

    hashes: Hashes
    """Ascending."""
    rows: pl.DataFrame
    hashes_of: Callable[[pl.DataFrame], Hashes]
    """Returns such hashes of keys, which are in the columns of the key."""


class KeyedRows:
    """Rows by key.

    Args:
        empty: a frame without rows, for its schema.
        keys: columns of the key.
    """

    def __init__(self, empty: pl.DataFrame, keys: Sequence[str]) -> None:
        self._empty = empty
        self._keys = list(keys)
        #: oldest and longest first; only the first may be a restored one
        self._segments: list[_Segment] = []
        self._restored_hashes: Callable[[pl.DataFrame], Hashes] = self._hashes

    @property
    def num_rows(self) -> int:
        """Return how many rows are held, those that have been replaced but not merged away among them."""
        return sum(segment.rows.height for segment in self._segments)

    def restore(self, restored: Restored) -> None:
        """Take rows as they are, without reading them; there are no others yet."""
        self._segments = [_Segment(restored.hashes, restored.rows.select(self._empty.columns), is_restored=True)]
        self._restored_hashes = restored.hashes_of

    def find(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of some keys, those of a key in the order in which they were written.

        Args:
            keys: different keys, in the columns of the key.
        """
        found = [self._empty]
        for segment in reversed(self._segments):
            hashes = self._restored_hashes(keys) if segment.is_restored else self._hashes(keys)
            rows = segment.rows[places_of(segment.hashes, hashes)]
            # different keys may have the same hash
            rows = rows.join(keys, on=self._keys, how="semi", nulls_equal=True, maintain_order="left")
            if rows.height:
                found.append(rows)
                keys = keys.join(rows, on=self._keys, how="anti", nulls_equal=True)
                if not keys.height:
                    break
        return pl.concat(found)

    def replace(self, rows: pl.DataFrame) -> None:
        """Replace all rows of these rows' keys with these."""
        if not rows.height:
            return
        self._segments.append(self._segment(rows.select(self._empty.columns)))
        while len(self._segments) > 1 and 2 * self._segments[-1].rows.height >= self._segments[-2].rows.height:
            newer, older = self._segments.pop(), self._segments.pop()
            self._segments.append(self._merged(older, newer))

    def all_rows(self) -> pl.DataFrame:
        """Return everything; merges all segments."""
        while len(self._segments) > 1:
            newer, older = self._segments.pop(), self._segments.pop()
            self._segments.append(self._merged(older, newer))
        return self._segments[0].rows if self._segments else self._empty

    def _merged(self, older: _Segment, newer: _Segment) -> _Segment:
        still = older.rows.join(newer.rows, on=self._keys, how="anti", nulls_equal=True, maintain_order="left")
        return self._segment(pl.concat([still, newer.rows]))

    def _segment(self, rows: pl.DataFrame) -> _Segment:
        hashes = self._hashes(rows)
        order = np.argsort(hashes, kind="stable")
        return _Segment(hashes[order], rows[order])

    def _hashes(self, frame: pl.DataFrame) -> Hashes:
        hashes: Hashes = frame.select(self._keys).hash_rows().to_numpy()
        return hashes


def places_of(ascending: Hashes, wanted: Hashes) -> npt.NDArray[np.int64]:
    """Return the indexes of an ascending array that hold one of the wanted values, each once."""
    wanted = np.unique(wanted)
    return in_ranges(np.searchsorted(ascending, wanted), np.searchsorted(ascending, wanted, side="right"))


def in_ranges(starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return all numbers of some ranges, one range after the other."""
    counts = stops - starts
    ends = np.cumsum(counts)
    if not len(ends) or not ends[-1]:
        return np.empty(0, dtype=np.int64)
    places: npt.NDArray[np.int64] = np.arange(ends[-1], dtype=np.int64) + np.repeat(starts - (ends - counts), counts)
    return places
