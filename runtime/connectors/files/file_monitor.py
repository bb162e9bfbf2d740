"""FileMonitor: the enumerator of a file source that watches its paths for new files.

Paths are listed on a thread of their own, one listing after the other with the interval between; the loop only picks
up what was found. A file is read once, by its path, as it was when it was found: writers must move finished files
into place. An empty file counts as not there yet. The ids of splits depend on path and offset only.
Source: Flink, ContinuousFileSplitEnumerator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from runtime.connectors.background import BackgroundCall
from runtime.connectors.files.paths import list_files
from runtime.connectors.formats.file_format import FileFormat, FileSplit
from runtime.operators.source import NoSplit, SourceSplit, SplitEnumerator

#: How often a listing that is under way is asked whether it is done.
SCAN_POLL_MS = 10


class Found(NamedTuple):
    """Result of one listing."""

    files: list[str]
    splits: list[FileSplit]


def find_new_files(paths: Sequence[str], seen: frozenset[str], file_format: FileFormat, max_split_bytes: int) -> Found:
    """Return the files that were not seen before, cut into splits, in the order of their names.

    Raises:
        SourceError: a file cannot be read in this format.
    """
    found = Found([], [])
    for path in list_files(paths, may_be_empty=True):
        if path in seen:
            continue
        try:
            size = Path(path).stat().st_size
        except FileNotFoundError:
            continue  # removed since
        if size == 0:
            continue
        found.files.append(path)
        parts = -(-size // max_split_bytes)
        for start, end in file_format.cut(path, parts):
            found.splits.append(FileSplit(f"{path}:{start}", path, start, end))
    return found


class FileMonitor(SplitEnumerator):
    """Deals out the splits of files as they appear.

    Args:
        find: lists new files, given those that were seen; called on another thread.
        interval_ms: time between two listings.
        split_to_json: as `Source.split_to_json`; for the snapshot.
        seen: files that were found before, from a snapshot.
        waiting: splits that were not dealt out, from a snapshot.
    """

    def __init__(
        self,
        find: Callable[[frozenset[str]], Found],
        interval_ms: int,
        split_to_json: Callable[[SourceSplit], Any],
        seen: Iterable[str] = (),
        waiting: Iterable[SourceSplit] = (),
    ) -> None:
        self._find = find
        self._interval_ms = interval_ms
        self._split_to_json = split_to_json
        self._seen = set(seen)
        self._splits = deque(waiting)
        self._scan: BackgroundCall[Found] | None = None
        self._start_scan()

    def next_split(self, subtask_index: int) -> SourceSplit | NoSplit:
        return self._splits.popleft() if self._splits else NoSplit.LATER

    def add_splits_back(self, splits: Sequence[SourceSplit]) -> None:
        self._splits.extendleft(reversed(splits))

    def snapshot(self) -> Any:
        return {"seen": sorted(self._seen), "splits": [self._split_to_json(split) for split in self._splits]}

    def discovery_delay_ms(self) -> int | None:
        return self._interval_ms if self._scan is None else SCAN_POLL_MS

    def discover(self) -> bool:
        scan = self._scan
        if scan is None:
            self._start_scan()
            return False
        if not scan.is_done:
            return False
        self._scan = None
        found = scan.result()
        self._seen.update(found.files)
        self._splits.extend(found.splits)
        return bool(found.splits)

    def is_discovering(self) -> bool:
        return self._scan is not None

    def close(self) -> None:
        scan, self._scan = self._scan, None
        if scan is not None:
            scan.close()

    def _start_scan(self) -> None:
        seen = frozenset(self._seen)
        self._scan = BackgroundCall("file-monitor", lambda: self._find(seen))
