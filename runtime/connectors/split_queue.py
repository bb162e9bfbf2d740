"""SplitQueue: the enumerator of sources whose splits are all known at the start; deals them out in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from runtime.operators.source import NoSplit, SourceSplit, SplitEnumerator


class SplitQueue(SplitEnumerator):
    """Gives the next split to the first subtask that asks.

    Order matters for event time: a subtask reads its splits in ascending order, so its watermark can follow them.

    Args:
        splits: in the order in which they are to be dealt out.
        split_to_json: as `Source.split_to_json`; for the snapshot.
    """

    def __init__(self, splits: Sequence[SourceSplit], split_to_json: Callable[[SourceSplit], Any]) -> None:
        self._splits = deque(splits)
        self._split_to_json = split_to_json

    def next_split(self, subtask_index: int) -> SourceSplit | NoSplit:
        return self._splits.popleft() if self._splits else NoSplit.NEVER

    def add_splits_back(self, splits: Sequence[SourceSplit]) -> None:
        self._splits.extendleft(reversed(splits))

    def snapshot(self) -> Any:
        return [self._split_to_json(split) for split in self._splits]
