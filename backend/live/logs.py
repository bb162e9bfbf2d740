"""A job's log files: the standard output ("out") and the log ("log") of each slot of each attempt.

A log is one or several files (`log_segments`). Logs are selected from a listing made here, never by a path from a
client; only regular files in the job's directory are listed. Offsets are bytes; a text never ends within a character.
Offsets stay when the oldest files of a log are deleted: it then begins after 0.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from backend.cluster.job_logs import job_log_directory
from backend.cluster.log_segments import Segment, log_of, segments
from backend.live.log_text import LogText

DEFAULT_LIMIT_BYTES = 64 << 10
MAX_LIMIT_BYTES = 1 << 20
_FILE = re.compile(r"attempt-(\d{1,9})/slot-(\d{1,9})\.(out|log)(\.\d{1,3})?")


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log of one slot."""

    name: str
    """"attempt-<n>/slot-<k>.<kind>", with ".1" appended for a file that an earlier release has rotated."""
    attempt: int
    slot: int
    kind: str
    size: int
    """Of what is kept, bytes."""
    mtime: int
    """Epoch ms."""
    segments: Sequence[Segment]
    """Its files, oldest first."""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a log."""

    offset: int
    next_offset: int
    begin: int
    """Offset of the first byte that is kept."""
    size: int
    """Offset after the last byte."""
    text: str
    first_line: int
    """Number of the line in which the text begins; the first that is kept is 1."""
    lines: int
    """Number of lines that are kept; an unterminated last line counts."""


def list_logs(job_id: str) -> list[LogFile]:
    """List a job's logs, newest attempt first; empty before its first attempt."""
    root = job_log_directory(job_id).resolve()
    sizes: dict[Path, list[tuple[Path, int]]] = {}
    changed: dict[Path, int] = {}
    for path in _paths(root):
        log = log_of(path)
        # a symbolic link, of the file or of a directory on the way, could lead outside of the job's directory
        if _FILE.fullmatch(_name(log, root)) is None or path.resolve() != path or not path.is_file():
            continue
        try:
            stat = path.stat()
        except FileNotFoundError:
            # deleted just now
            continue
        sizes.setdefault(log, []).append((path, stat.st_size))
        changed[log] = max(changed.get(log, 0), stat.st_mtime_ns // 1_000_000)
    files = []
    for log, of_log in sizes.items():
        name = _name(log, root)
        match = _FILE.fullmatch(name)
        assert match is not None
        parts = segments(log, of_log)
        size = parts[-1].end - parts[0].start
        files.append(LogFile(name, int(match[1]), int(match[2]), match[3], size, changed[log], parts))
    return sorted(files, key=lambda file: (-file.attempt, file.slot, file.kind, file.name))


def _paths(root: Path) -> Iterator[Path]:
    for attempt in root.glob("attempt-*"):
        # it may be deleted meanwhile: logs of old attempts are
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            yield from attempt.glob("slot-*")


def find_log(job_id: str, name: str) -> LogFile | None:
    """Return the listed log of this name; None if there is none."""
    return next((file for file in list_logs(job_id) if file.name == name), None)


def read_page(file: LogFile, offset: int, limit: int) -> Page:
    """Read a part of a log.

    Args:
        file: a listed log.
        offset: first byte; negative: that many bytes before the end, moved on to the start of a line. Before the first
            byte that is kept: the log is read from there. Beyond the end of a file of an earlier release: it was
            rotated, and is read from its start; beyond the end of another log: nothing is read, because what a leader
            had not finished when it was lost is written there again.
        limit: maximum number of bytes, 4..`MAX_LIMIT_BYTES`.

    Raises:
        FileNotFoundError: a file has been deleted since the log was listed.
    """
    with LogText(file.segments) as log:
        from_end = offset < 0
        if offset > log.end and file.segments[-1].epoch == 0:
            offset = 0
        start = max(log.begin, log.end + offset if from_end else offset)
        data = log.read(start, limit)
        if from_end and start > log.begin:
            cut = data.find(b"\n") + 1 or _first_character(data)
            start, data = start + cut, data[cut:]
        data = data[: _end_of_characters(data)]
        is_ended = log.end == log.begin or log.read(log.end - 1, 1) == b"\n"
        lines = log.line_at(log.end) - is_ended
        text = data.decode(errors="replace")
        return Page(start, start + len(data), log.begin, log.end, text, log.line_at(min(start, log.end)), lines)


def _name(log: Path, root: Path) -> str:
    return log.relative_to(root).as_posix()


def _first_character(data: bytes) -> int:
    """Return the offset of the first complete UTF-8 character."""
    return next((i for i in range(min(4, len(data))) if data[i] & 0xC0 != 0x80), 0)


def _end_of_characters(data: bytes) -> int:
    """Return the length without an incomplete UTF-8 character at the end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        width = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return len(data) - back if width > back else len(data)
    return len(data)
