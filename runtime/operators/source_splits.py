"""SplitState: a split that a source goes on with, as snapshots have it, and the clock of who reads it in micro-batches.

Pure apart from the injected clock. Shared by the operator that reads splits and by `source_lookout`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from runtime.core.clock import Clock
from runtime.core.elements import MIN_WATERMARK
from runtime.operators.source import Source, SourceSplit

SPLITS_STATE = "source-splits"
"""Name of the operator state that holds the splits being read: one item per split, redistributed on rescaling."""


@dataclass(frozen=True, slots=True)
class SplitState:
    """A split to be read, and how far it has been."""

    split: SourceSplit
    position: Any = None
    watermark: int = MIN_WATERMARK
    active_ms: int | None = None
    """Wall-clock time until which it was active; None: not known."""
    read_ms: int | None = None
    """Wall-clock time of the micro-batch that has read it last; None: not known."""
    is_idle: bool = False
    """Whether it was idle in that micro-batch."""

    def saved(self, source: Source) -> bytes:
        """Return the item of a snapshot."""
        split = source.split_to_json(self.split)
        item = {"split": split, "position": self.position, "watermark": self.watermark}
        if self.active_ms is not None:
            item |= {"active_ms": self.active_ms, "read_ms": self.read_ms}
        if self.is_idle:
            item["is_idle"] = True
        return json.dumps(item).encode()


def saved_splits(source: Source, items: Iterable[bytes]) -> Iterator[SplitState]:
    """Yield the splits of a snapshot."""
    for item in items:
        saved = json.loads(item)
        yield SplitState(
            source.split_from_json(saved["split"]),
            saved["position"],
            saved["watermark"],
            saved.get("active_ms"),
            saved.get("read_ms"),
            saved.get("is_idle", False),
        )


class ReaderClock:
    """The clock of a reader in a micro-batch: while the reader is made it is the time at which its predecessor was
    closed, so that a rate holds from batch to batch.
    """

    def __init__(self, clock: Clock, begins_ms: int | None) -> None:
        self._clock = clock
        self._behind_ms = 0 if begins_ms is None else max(0, clock.now_ms() - begins_ms)

    def arrive(self) -> None:
        """Go on to the present."""
        self._behind_ms = 0

    def now_ms(self) -> int:
        return self._clock.now_ms() - self._behind_ms

    def monotonic_ms(self) -> float:
        return self._clock.monotonic_ms() - self._behind_ms
