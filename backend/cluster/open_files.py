"""The files that a process may have open: connections are files, and whoever connects takes some."""

from __future__ import annotations

import resource
from contextlib import suppress


def raise_open_files() -> int:
    """Raise this process's limit of open files to the most that it may set by itself; return what it is then.

    Shells give 1024, of which a JobManager of many slots has no room left. Children get it, too.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # macOS refuses "without a limit"
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
