"""The log of a job: all logs of its slots, and what JobManagers and TaskManagers have logged about it, merged by time,
from its newest entries or from its oldest.

A search looks at a bounded number of bytes, for a bounded time, and says where the next one goes on: positions are
offsets in each log (`LogCursor`), so that no entry comes twice or never, also where clocks differ. Blocking; any
thread.
"""

from __future__ import annotations

import base64
import binascii
import heapq
import json
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from backend.cluster.log_segments import read_only
from backend.live.log_scan import BlockBuffer, Entry, LogScan, Wanted
from backend.live.logs import LogFile
from backend.live.process_logs import ProcessLog, is_of_process
from backend.live.process_scan import ProcessScan

DEFAULT_ENTRIES: Final = 200
MAX_ENTRIES: Final = 1_000
MAX_SEARCHED_BYTES: Final = 2 << 30
SEARCH_S: Final = 2.0
"""A search stops after this time or so many bytes, and says how far it came. A gigabyte that the system has in memory
takes half a second to one second of a CPU."""
MAX_FOUND_BYTES: Final = 1 << 20
"""Of entries at a time; a single one may be larger, and is shown in part."""
MAX_LOGS: Final = 400
"""Of the newest attempts. More: a cursor becomes too long for an address."""
MAX_CURSOR_CHARS: Final = 7_000
REST_MS: Final = 5_000
"""So long after it was written, a last line without an end counts as a whole one."""
_LAST_LINE_BYTES: Final = 64 << 10
"""A longer line is not waited for."""
_MAX_CURSOR_BYTES: Final = 1 << 20


class CursorError(ValueError):
    """A text is no cursor."""


@dataclass(frozen=True, slots=True)
class LogCursor:
    """Position at which a search goes on."""

    is_backward: bool
    first_attempt: int
    """Logs of earlier attempts are not searched."""
    positions: Mapping[str, int]
    """Name of a log → offset; a log that is missing has come later: it is searched forward only."""

    def __str__(self) -> str:
        told = ["b" if self.is_backward else "f", self.first_attempt, self.positions]
        return base64.urlsafe_b64encode(zlib.compress(json.dumps(told).encode(), 9)).decode().rstrip("=")

    @classmethod
    def of(cls, text: str) -> LogCursor:
        """Return the cursor of a text.

        Raises:
            CursorError: it is none.
        """
        try:
            if len(text) > MAX_CURSOR_CHARS:
                raise ValueError("it is too long")
            packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            direction, first_attempt, positions = json.loads(zlib.decompressobj().decompress(packed, _MAX_CURSOR_BYTES))
            if direction not in ("b", "f") or not _is_number(first_attempt) or not isinstance(positions, dict):
                raise ValueError("it has other fields")
            if not all(map(_is_number, positions.values())):
                raise ValueError("an offset is no number")
        except (ValueError, TypeError, RecursionError, binascii.Error, zlib.error) as error:
            raise CursorError(str(error)) from error
        return cls(direction == "b", first_attempt, positions)


@dataclass(frozen=True, slots=True)
class FoundEntries:
    """Result of a search."""

    entries: list[Entry]
    """In the order in which they were asked for."""
    cursor: LogCursor | None
    """None: backward, and everything was searched."""
    follow: LogCursor
    """Finds what has been written since, forward."""
    is_complete: bool
    """Everything that is there was searched."""
    searched_to: int | None
    """Epoch ms: what is not searched is not newer; or, forward, not older. None: nobody knows, or it is complete."""
    left_bytes: int
    """Number of bytes of the logs that are not searched."""
    size: int
    """Of all the logs, bytes."""
    num_logs: int
    num_left_out: int
    """Number of logs that are not searched at all: of earlier attempts, or of the last slots of a large job."""


def search_job_log(
    files: Sequence[LogFile],
    wanted: Wanted,
    *,
    is_backward: bool,
    cursor: LogCursor | None = None,
    limit: int = DEFAULT_ENTRIES,
    now_ms: int,
    job_id: str = "",
    processes: Sequence[ProcessLog] = (),
    monotonic: Callable[[], float] = time.monotonic,
) -> FoundEntries:
    """Search the logs of a job.

    Args:
        files: its logs that are wanted, newest attempt first.
        wanted: what of them.
        is_backward: whether the newest entries come first.
        cursor: where an earlier search in this direction stopped; None: it begins.
        limit: maximum number of entries.
        now_ms: wall-clock time.
        job_id: the job, if there are logs of processes.
        processes: their logs that are wanted.
        monotonic: clock in seconds.

    Raises:
        OSError: a log cannot be read; that it is gone is no error.
    """
    if cursor is None:
        logs = _chosen(files)
    elif is_backward:
        logs = [file for file in files if file.name in cursor.positions]
    else:
        logs = _chosen([file for file in files if file.attempt >= cursor.first_attempt])
    ends = {file.name: _whole_end(file, now_ms) for file in logs}
    positions = {} if cursor is None else cursor.positions
    if is_backward and cursor is not None:
        processes = [log for log in processes if log.name in positions]
    buffer = None if wanted.is_everything else BlockBuffer()
    scans: list[LogScan | ProcessScan] = [
        LogScan(
            file,
            ends[file.name],
            wanted,
            is_backward=is_backward,
            start=positions.get(file.name),
            logs=len(logs),
            buffer=buffer,
        )
        for file in logs
    ]
    scans += [
        ProcessScan(log, job_id, wanted, is_backward=is_backward, start=positions.get(log.name)) for log in processes
    ]
    # of a process whose log cannot be read now, what was shown must not come again
    silent = {name: position for name, position in positions.items() if is_of_process(name)}
    ends = silent | ends | {log.name: log.text.end for log in processes}
    entries, is_complete = _merged(scans, -1 if is_backward else 1, limit, monotonic)
    first_attempt = min((file.attempt for file in logs), default=0)
    left = [scan for scan in scans if scan.left_bytes]
    edges = [scan.key for scan in left]
    edge = None if not edges else max(edges) if is_backward else min(edges)
    next_one: LogCursor | None = None
    if not (is_backward and is_complete):
        reached = silent | {scan.file.name: scan.position for scan in scans}
        next_one = LogCursor(is_backward, first_attempt, reached)
    return FoundEntries(
        entries,
        next_one,
        LogCursor(False, first_attempt, ends),
        is_complete,
        None if edge is None or edge == float("-inf") else int(edge),
        sum(scan.left_bytes for scan in left),
        sum(scan.file.size for scan in scans),
        len(scans),
        len(files) - len(logs),
    )


def _chosen(files: Sequence[LogFile]) -> list[LogFile]:
    if len(files) <= MAX_LOGS:
        return list(files)
    # attempts as a whole, but at least the newest logs
    oldest = files[MAX_LOGS].attempt
    return [file for file in files if file.attempt > oldest] or list(files[:MAX_LOGS])


def _merged(
    scans: Sequence[LogScan | ProcessScan], sign: int, limit: int, monotonic: Callable[[], float]
) -> tuple[list[Entry], bool]:
    """Return entries of the logs by time, and whether all of them were searched.

    Args:
        scans: of the logs.
        sign: 1: the oldest comes first; -1: the newest.
        limit: maximum number of entries.
        monotonic: clock in seconds.
    """
    deadline = monotonic() + SEARCH_S
    heap = [(sign * scan.key, number) for number, scan in enumerate(scans)]
    heapq.heapify(heap)
    entries: list[Entry] = []
    searched_bytes = found_bytes = 0
    # a search that stops where it began would be repeated for ever
    has_advanced = False
    while heap:
        scan = scans[heap[0][1]]
        if scan.has_ready:
            if len(entries) == limit or found_bytes > MAX_FOUND_BYTES:
                return entries, False
            entries.append(scan.take())
            found_bytes += len(entries[-1].data)
        elif scan.is_exhausted:
            heapq.heappop(heap)
            continue
        elif (has_advanced or entries) and (searched_bytes >= MAX_SEARCHED_BYTES or monotonic() > deadline):
            return entries, False
        else:
            searched_bytes += scan.scan()
            has_advanced = has_advanced or scan.has_advanced
        heapq.heapreplace(heap, (sign * scan.key, heap[0][1]))
    return entries, True


def _whole_end(file: LogFile, now_ms: int) -> int:
    """Return where a log ends, without a last line that is still being written."""
    newest = file.segments[-1]
    if file.mtime < now_ms - REST_MS:
        return newest.end
    low = max(newest.start, newest.end - _LAST_LINE_BYTES)
    try:
        with read_only(newest.path) as stream:
            stream.seek(low - newest.start)
            tail = stream.read(newest.end - low)
    except FileNotFoundError:
        return newest.end
    cut = tail.rfind(b"\n") + 1
    return low + cut if cut else low if low == newest.start else newest.end


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 53


def lowered_texts(query: str) -> list[bytes]:
    """Return what to look for so that case does not count: in lower case as ASCII has it, and in all cases else."""
    texts: Iterable[str] = (query, query.lower(), query.upper())
    return list(dict.fromkeys(text.encode().lower() for text in texts))
