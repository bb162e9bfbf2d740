"""What a log has, for tests."""

from __future__ import annotations

from pathlib import Path

from backend.cluster.log_segments import files_of, segments
from backend.live.log_text import LogText


def read_log(path: Path) -> str:
    """The text of a log, as the page shows it; "" before there is one."""
    found = segments(path, files_of(path))
    if not found:
        return ""
    with LogText(found) as log:
        return log.read(log.begin, log.end - log.begin).decode()
