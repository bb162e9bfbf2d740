"""Spare children: processes that have the engine imported and wait for their one request.

A spare is an ordinary child (`runtime.client.children`) that was started before anybody has asked for it: it has its
own directory, has run nothing, and serves one request. So nothing is shared between requests, and what a warm start
saves is the interpreter's start and the imports. Any thread may call; nothing here waits for a child.
"""

from __future__ import annotations

import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runtime.client.children import Child
from runtime.client.confinement import USUAL, Confinement

IDLE_S: Final = 900.0
"""A spare that nobody has needed for this long is ended: it holds some 160 MiB."""


@dataclass(frozen=True)
class Prepared:
    """A child with its directory, which goes with it."""

    child: Child
    directory: tempfile.TemporaryDirectory[str]
    started_at: float
    """Monotonic seconds."""

    @classmethod
    def start(cls, module: str, prefix: str, confinement: Confinement = USUAL) -> Prepared:
        """Start one."""
        directory = tempfile.TemporaryDirectory(prefix=prefix)
        try:
            return cls(Child(module, Path(directory.name), confinement=confinement), directory, time.monotonic())
        except BaseException:
            directory.cleanup()
            raise

    def end(self) -> None:
        """End one that was not used."""
        self.child.end()
        self.clean_up()

    def clean_up(self) -> None:
        """Remove the directory."""
        # something that the program has started may still write there
        with suppress(OSError):
            self.directory.cleanup()


class SpareChildren:
    """Keeps at most one spare of a module.

    Args:
        module: what a child runs.
        prefix: of the names of the directories.
        idle_s: see `IDLE_S`.
        confinement: what a child may see beside its directory.
    """

    def __init__(self, module: str, prefix: str, idle_s: float = IDLE_S, confinement: Confinement = USUAL) -> None:
        self._confinement = confinement
        self._module = module
        self._prefix = prefix
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._spare: Prepared | None = None
        self._timer: threading.Timer | None = None

    def prepare(self) -> None:
        """See to it that there is a spare. Cheap if there is one."""
        with self._lock:
            if self._spare is not None and not self._spare.child.is_alive:
                self._spare.end()
                self._spare = None
            if self._spare is None:
                self._spare = Prepared.start(self._module, self._prefix, self._confinement)
            self._restart_timer()

    def take(self) -> Prepared:
        """Return the spare if there is one, else a new child; it is the caller's from now on."""
        with self._lock:
            found, self._spare = self._spare, None
            self._stop_timer()
        if found is not None and found.child.is_alive:
            return found
        if found is not None:
            found.end()
        return Prepared.start(self._module, self._prefix, self._confinement)

    def close(self) -> None:
        """End the spare."""
        with self._lock:
            found, self._spare = self._spare, None
            self._stop_timer()
        if found is not None:
            found.end()

    def _restart_timer(self) -> None:
        self._stop_timer()
        self._timer = threading.Timer(self._idle_s, self.close)
        self._timer.daemon = True
        self._timer.start()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
