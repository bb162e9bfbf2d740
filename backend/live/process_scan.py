"""ProcessScan: what the JobManagers and TaskManagers of a job have logged about it, beside the logs of its slots.

Their newest lines are in Redis (`backend.cluster.process_log`), so a scan has all of them at once. A record counts if
it names the job; of a TaskManager that runs the job, so does one that names no job at all. One thread.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from backend.live.log_scan import Entry, Wanted
from backend.live.process_logs import ProcessLog
from runtime.task.log_records import HEAD, head_of

#: as messages name it
_JOB: Final = re.compile(rb"\bjob ([0-9a-f]{32})\b")
_LINE_BEGINS: Final = re.compile(rb"^(?=\d)", re.MULTILINE)


class ProcessScan:
    """A search in the log of one process; has the members of a `LogScan`.

    Args:
        file: the log.
        job_id: the job whose records count.
        wanted: what is looked for among them.
        is_backward: whether it begins at the end.
        start: offset at which it goes on; None: it begins.
    """

    def __init__(
        self, file: ProcessLog, job_id: str, wanted: Wanted, *, is_backward: bool, start: int | None = None
    ) -> None:
        self.file = file
        text = file.text
        self._is_backward = is_backward
        self._begin, self._end = text.start, text.end
        edge = text.end if is_backward else text.start
        self._start = self._at = edge if start is None else min(max(start, text.start), text.end)
        entries = [
            entry
            for entry in _records(file, job_id, wanted)
            if (entry.end <= self._at if is_backward else entry.offset >= self._at)
        ]
        self._ready = deque(reversed(entries) if is_backward else entries)
        #: the rest is not wanted
        self._rest = self._begin if is_backward else self._end
        #: time of the last entry taken, which bounds those that are left
        self._edge = float("inf") if is_backward else float("-inf")

    @property
    def has_ready(self) -> bool:
        """Return whether `take` has an entry."""
        return bool(self._ready)

    @property
    def is_exhausted(self) -> bool:
        """Return True: nothing is left to scan but what is ready."""
        return True

    @property
    def has_advanced(self) -> bool:
        """Return whether another search would go on elsewhere than this one began."""
        return self.position != self._start

    @property
    def key(self) -> float:
        """Return the time of the next entry as far as it counts for the order of logs, epoch ms."""
        if not self._ready:
            return self._edge
        time_ms = self._ready[0].time_ms or 0
        return min(self._edge, time_ms) if self._is_backward else max(self._edge, time_ms)

    @property
    def position(self) -> int:
        """Return the offset at which another search goes on."""
        if not self._ready:
            return self._rest
        return self._ready[0].end if self._is_backward else self._ready[0].offset

    @property
    def left_bytes(self) -> int:
        """Return the number of bytes that are still to be searched."""
        if not self._ready:
            return 0
        return self.position - self._begin if self._is_backward else self._end - self.position

    def take(self) -> Entry:
        """Remove and return the next entry."""
        self._edge = self.key
        return self._ready.popleft()

    def scan(self) -> int:
        """Do nothing; everything is ready from the start."""
        return 0


def _records(file: ProcessLog, job_id: str, wanted: Wanted) -> Iterator[Entry]:
    """Yield the records of a process that are about a job and are wanted, oldest first."""
    data = file.text.data
    lowered = data.lower() if wanted.texts else b""
    begins = [match.start() for match in _LINE_BEGINS.finditer(data) if HEAD.match(data, match.start())]
    own = job_id.encode()
    for begin, end in pairwise([*begins, len(data)]):
        named = set(_JOB.findall(data, begin, end))
        if own not in named and (named or file.kind == "jobmanager"):
            continue
        if not wanted.has(HEAD.match(data, begin), lowered, begin, end):
            continue
        head = head_of(data, begin)
        time_ms = None if head is None else head.time_ms
        if wanted.since_ms is None or (time_ms or 0) >= wanted.since_ms:
            yield Entry(file, file.text.start + begin, data[begin:end], head, time_ms)
