"""A job's log files: the standard output ("out") and the log ("log") of each slot of each attempt.

Files are selected from a listing made here, never by a path from a client; only regular files in the job's directory
are listed. Offsets are bytes; a text never ends within a character.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from backend.cluster.job_logs import job_log_directory
from backend.live.log_lines import line_at

DEFAULT_LIMIT_BYTES = 64 << 10
MAX_LIMIT_BYTES = 1 << 20
_FILE = re.compile(r"attempt-(\d{1,9})/slot-(\d{1,9})\.(out|log)(\.\d{1,3})?")


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file of one slot."""

    name: str
    """"attempt-<n>/slot-<k>.<kind>", with ".1" appended for a rotated file."""
    attempt: int
    slot: int
    kind: str
    size: int
    mtime: int
    """Epoch ms."""
    path: Path


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a file."""

    offset: int
    next_offset: int
    size: int
    text: str
    first_line: int
    """Number of the line in which the text begins; the file's first is 1."""
    lines: int
    """Number of lines of the whole file; an unterminated last line counts."""


def list_logs(job_id: str) -> list[LogFile]:
    """List a job's log files, newest attempt first; empty before its first attempt."""
    root = job_log_directory(job_id).resolve()
    files = []
    for path in root.glob("attempt-*/slot-*"):
        match = _FILE.fullmatch(path.relative_to(root).as_posix())
        # a symbolic link, of the file or of a directory on the way, could lead outside of the job's directory
        if match is None or path.resolve() != path or not path.is_file():
            continue
        try:
            stat = path.stat()
        except FileNotFoundError:
            # rotated just now
            continue
        files.append(
            LogFile(match[0], int(match[1]), int(match[2]), match[3], stat.st_size, stat.st_mtime_ns // 1_000_000, path)
        )
    return sorted(files, key=lambda file: (-file.attempt, file.slot, file.kind, file.name))


def find_log(job_id: str, name: str) -> LogFile | None:
    """Return the listed file of this name; None if there is none."""
    return next((file for file in list_logs(job_id) if file.name == name), None)


def read_page(file: LogFile, offset: int, limit: int) -> Page:
    """Read a part of a log file.

    Args:
        file: a listed file.
        offset: first byte; negative: that many bytes before the end, moved on to the start of a line. Behind the end:
            the file was rotated in the meantime and is read from its start.
        limit: maximum number of bytes, 4..`MAX_LIMIT_BYTES`.
    """
    with file.path.open("rb") as stream:
        size = stream.seek(0, 2)
        from_end = offset < 0
        start = max(0, size + offset) if from_end else (0 if offset > size else offset)
        stream.seek(start)
        data = stream.read(limit)
        if from_end and start > 0:
            cut = data.find(b"\n") + 1 or _first_character(data)
            start, data = start + cut, data[cut:]
        data = data[: _end_of_characters(data)]
        first_line = line_at(stream, start)
        lines = line_at(stream, size) - (size == 0 or _byte_before(stream, size) == b"\n")
    return Page(start, start + len(data), size, data.decode(errors="replace"), first_line, lines)


def _byte_before(stream: BinaryIO, offset: int) -> bytes:
    stream.seek(offset - 1)
    return stream.read(1)


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
