"""ManagedProcess: a child that should always run: started, watched, started again with back-off, stopped.

Its output goes to a file. It leads a session of its own, so that a Ctrl-C reaches only the supervisor, and is told to
end when the supervisor dies (Linux). One thread.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG = 1
#: first wait before a restart; each further one is twice as long, up to the last
MIN_BACKOFF_S = 0.5
MAX_BACKOFF_S = 15.0
#: a process that has run so long is sound: its next death is a new story
SOUND_AFTER_S = 60.0
MAX_LOG_BYTES = 16 << 20
#: looked up here: between fork and exec nothing may be imported or loaded
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class ManagedProcess:
    """One child.

    Args:
        name: shown to people; also that of its log.
        command: what to run.
        environment: all of it.
        log: file that its output is appended to.
    """

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        self._command = tuple(command)
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._backoff_s = MIN_BACKOFF_S
        self._restart_at: float | None = None

    @property
    def pid(self) -> int | None:
        """Of the running child."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start it now."""
        if self.log.exists() and self.log.stat().st_size > MAX_LOG_BYTES:
            self.log.replace(self.log.with_name(f"{self.log.name}.1"))
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_supervisor,
            )
        self._started = time.monotonic()
        self._restart_at = None

    def poll(self) -> str | None:
        """Look after it; returns what there is to say, if anything."""
        now = time.monotonic()
        if self._process is None:
            if self._restart_at is None or now < self._restart_at:
                return None
            self.start()
            return f"{self.name} started again (pid {self.pid})"
        code = self._process.poll()
        if code is None:
            return None
        self._sweep()
        self._process = None
        if now - self._started > SOUND_AFTER_S:
            self._backoff_s = MIN_BACKOFF_S
        wait_s, self._backoff_s = self._backoff_s, min(2 * self._backoff_s, MAX_BACKOFF_S)
        self._restart_at = now + wait_s
        last = self._last_line()
        return (
            f"{self.name} {_ended(code)}{f' ({last})' if last else ''}; starts again in {wait_s:g} s, log: {self.log}"
        )

    def terminate(self) -> None:
        """Ask it to end; it is not started again."""
        self._restart_at = None
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def wait(self, deadline: float) -> str | None:
        """Wait for its end until a monotonic time, then kill it; returns what there is to say."""
        if self._process is None:
            return None
        told = "ended"
        try:
            self._process.wait(max(0.05, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._sweep()
            self._process.kill()
            self._process.wait()
            told = "had to be killed"
        self._sweep()
        self._process = None
        return f"{self.name} {told}"

    def _sweep(self) -> None:
        """End what the child left in its session."""
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _last_line(self) -> str:
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - 4096))
                lines = file.read().decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1][:200] if lines else ""


def _ended(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"


def _die_with_supervisor() -> None:
    if _LIBC is not None:
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
