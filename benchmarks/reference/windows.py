"""Count and maximum per auction in windows, as one would write it by hand: panes, merged once a window is over.

Events come in order. A process has a range of time: windows that lie in it wholly are finished there, the panes of
those at its two ends are handed back and finished where the ranges meet.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import polars as pl

from benchmarks.digest import EMPTY, Digest, digest_of

Panes = dict[int, list[pl.DataFrame]]


class WindowShape(NamedTuple):
    """Windows of `size_ms` that begin every `slide_ms`; panes are as wide as the slide."""

    size_ms: int
    slide_ms: int


class PartResult(NamedTuple):
    """Result of a process for its range."""

    digest: Digest
    finished: range
    """Starts of the windows that `digest` is of."""
    border: Panes
    """Panes of the windows that are not."""


class Windows:
    """The windows of one range of time."""

    def __init__(self, shape: WindowShape) -> None:
        self._shape = shape
        self._panes: Panes = {}
        self._border: Panes = {}
        self._digest = EMPTY
        self._first: int | None = None
        self._next = 0

    def add(self, bids: pl.DataFrame) -> None:
        """Take bids (auction, price, ts), none earlier than those before, and finish the windows that are over."""
        for pane, found in partials(bids, self._shape.slide_ms):
            self._panes.setdefault(pane, []).append(found)
            if self._first is None:
                # the part before may have bids of the first pane too
                self._first, self._next = pane, pane + self._shape.slide_ms
        self._finish(int(bids["ts"][-1]))

    def result(self) -> PartResult:
        """Return the finished and the unfinished parts."""
        slide = self._shape.slide_ms
        begun = self._next if self._first is None else self._first + slide
        border = {**self._border, **self._panes}
        return PartResult(self._digest, range(begun, self._next, slide), border)

    def _finish(self, now: int) -> None:
        size, slide = self._shape
        assert self._first is not None
        while self._next + size <= now // slide * slide:
            self._digest += finished(self._panes, self._next, self._shape)
            # panes that a window at the range's begin needs too are kept for the merge
            before = self._next - slide
            if before < self._first + size and before in self._panes:
                self._border[before] = self._panes[before]
            self._panes.pop(before, None)
            self._next += slide


def partials(bids: pl.DataFrame, width_ms: int) -> Iterable[tuple[int, pl.DataFrame]]:
    """Count and maximum per auction of each pane, in order."""
    pane = (pl.col("ts") // width_ms * width_ms).alias("start")
    counted = (
        bids.lazy()
        .group_by(pane, "auction")
        .agg(pl.len().cast(pl.Int64).alias("bids"), pl.col("price").max().alias("top"))
        .collect()
    )
    found = counted.partition_by("start", as_dict=True, include_key=False)
    return [(int(start), found[start,]) for (start,) in sorted(found)]


def finished(panes: Panes, start: int, shape: WindowShape) -> Digest:
    """The digest of one window."""
    parts = [part for at in range(start, start + shape.size_ms, shape.slide_ms) for part in panes.get(at, ())]
    if not parts:
        return EMPTY
    merged = pl.concat(parts).group_by("auction").agg(pl.col("bids").sum(), pl.col("top").max())
    return digest_of(merged.with_columns(pl.lit(start, pl.Int64).alias("start")))


def merged(results: Iterable[PartResult], shape: WindowShape) -> Digest:
    """All windows of all ranges."""
    digest = EMPTY
    panes: Panes = {}
    done: set[int] = set()
    for result in results:
        digest += result.digest
        done.update(result.finished)
        for start, parts in result.border.items():
            panes.setdefault(start, []).extend(parts)
    starts = {start - back for start in panes for back in range(0, shape.size_ms, shape.slide_ms)}
    return sum((finished(panes, start, shape) for start in sorted(starts - done)), digest)
