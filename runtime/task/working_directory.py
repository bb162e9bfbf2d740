"""WorkingDirectory: holds a slot's local files for as long as it lives, and sweeps those of dead slots.

Every slot has a directory of its own with a locked file in it; the lock falls with the process, however it ends. So a
directory whose lock can be had belongs to nobody, and the next slot on the machine deletes it. Loop's thread.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import uuid
from pathlib import Path

from runtime.common import options
from runtime.common.configuration import Configuration

_LOCK = ".lock"


class WorkingDirectory:
    """The local files of one slot; nothing is made before it is needed.

    Args:
        configuration: the job's; `io.tmp.dirs` says where.
        name: for people: job, attempt and slot.
        number: of the slot; spreads slots over several directories.
    """

    def __init__(self, configuration: Configuration, name: str, number: int) -> None:
        roots = _roots(configuration)
        self._root = roots[number % len(roots)] / f"tidemark-{os.getuid()}"
        self._name = name
        self._path: Path | None = None
        self._lock: int | None = None

    def path(self) -> Path:
        """Return the directory; the first call makes it and sweeps those of slots that are dead.

        Raises:
            OSError: it cannot be made.
        """
        if self._path is None:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            _sweep(self._root)
            path = self._root / f"{self._name}-{uuid.uuid4().hex[:12]}"
            # locked under another name: a sweep that comes in between finds nothing of its own
            made = path.with_name(f".{path.name}")
            made.mkdir(mode=0o700)
            self._lock = os.open(made / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            made.rename(path)
            self._path = path
        return self._path

    def close(self) -> None:
        """Delete the directory; idempotent."""
        path, self._path = self._path, None
        lock, self._lock = self._lock, None
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _roots(configuration: Configuration) -> list[Path]:
    configured = (configuration.get(options.TMP_DIRECTORIES) or "").replace(os.pathsep, ",").split(",")
    return [Path(root.strip()) for root in configured if root.strip()] or [Path(tempfile.gettempdir())]


def _sweep(root: Path) -> None:
    for entry in root.iterdir():
        if entry.name.startswith("."):
            continue
        try:
            lock = os.open(entry / _LOCK, os.O_RDWR)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(entry, ignore_errors=True)
        except OSError:
            # its slot lives
            continue
        finally:
            os.close(lock)
