"""Names the storage that a location is on, without asking it: it may be one that does not answer. Any thread."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from runtime.checkpoint.errors import CheckpointStorageError
from runtime.checkpoint.locations import is_local, local_path, to_uri

#: where Linux tells what is mounted; reading it touches none of that
MOUNTS: Final = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")


def storage_of(location: str, mounts: Path = MOUNTS) -> str:
    """Return the host of a URI, or the mount point of a path; links are not followed.

    Args:
        location: a URI or a path. What cannot be one, or is on a system that does not tell its mounts, is returned.
        mounts: in the format of proc(5), `mountinfo`.
    """
    try:
        uri = to_uri(location)
        if not is_local(uri):
            parts = urlsplit(uri)
            return f"{parts.scheme}://{parts.netloc}"
        path = posixpath.normpath(local_path(uri))
        points = [_unescaped(line.split(" ")[4]) for line in mounts.read_text().splitlines()]
    except (CheckpointStorageError, OSError, ValueError, IndexError):
        return location
    return max((point for point in points if _is_below(path, point)), key=len, default=location)


def _is_below(path: str, point: str) -> bool:
    return path == point or path.startswith(f"{point.rstrip('/')}/")


def _unescaped(name: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), name)
