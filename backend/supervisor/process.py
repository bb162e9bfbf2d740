"""ManagedProcess: a child process that is started, watched, restarted with back-off, and stopped.

Its output goes to a file. It runs in a session of its own, so that Ctrl-C reaches only the supervisor; on Linux it
gets SIGTERM when the supervisor dies. Single-threaded.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

PR_SET_PDEATHSIG = 1
#: first wait before a restart; it doubles with each restart, up to the maximum
MIN_BACKOFF_S = 0.5
MAX_BACKOFF_S = 15.0
#: a process that has run this long counts as healthy: its back-off starts over
SOUND_AFTER_S = 60.0
MAX_LOG_BYTES = 16 << 20
#: looked up here because nothing may be imported or loaded between fork and exec
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class ManagedProcess:
    """A child process of the supervisor.

    Args:
        name: shown to users.
        command: the command line.
        environment: its complete environment.
        log: the file that its output is appended to.
        stop_signal: ends it, whatever it does at that moment.
        max_log_bytes: size at which its log begins anew.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        stop_signal: signal.Signals = signal.SIGTERM,
        max_log_bytes: int = MAX_LOG_BYTES,
    ) -> None:
        self._max_log_bytes = max_log_bytes
        self.name = name
        self.log = log
        self._command = tuple(command)
        self._environment = dict(environment)
        self._stop_signal = stop_signal
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._backoff_s = MIN_BACKOFF_S
        self._restart_at: float | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the running child; None if it is not running."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process."""
        self._rotate()
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=partial(_die_with_supervisor, self._stop_signal),
            )
        self._started = time.monotonic()
        self._restart_at = None

    def poll(self) -> str | None:
        """Check on the process and restart it if due; return a message if there is news."""
        now = time.monotonic()
        if self._process is None:
            if self._restart_at is None or now < self._restart_at:
                return None
            self.start()
            return f"{self.name} started again (pid {self.pid})"
        code = self._process.poll()
        if code is None:
            self._rotate()
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
        """Send the signal to stop; the process is not started again."""
        self._restart_at = None
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(self._stop_signal)

    def wait(self, deadline: float) -> str | None:
        """Wait for the process to end; kill it at the deadline (monotonic seconds). Return a message on the outcome."""
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

    def _rotate(self) -> None:
        """Begin the log anew once it is large; what was in it is kept until the next time.

        The process goes on to write to the same file, at its end: what it writes between copy and cut is lost.
        """
        try:
            if self.log.stat().st_size <= self._max_log_bytes:
                return
            shutil.copyfile(self.log, self.log.with_name(f"{self.log.name}.1"))
            os.truncate(self.log, 0)
        except FileNotFoundError:
            return
        except OSError as error:
            # a full disk: what is old is worth less than what comes
            with suppress(OSError):
                os.truncate(self.log, 0)
            print(f"run: {self.log} could not be kept: {error}", flush=True)

    def _sweep(self) -> None:
        """Kill whatever the child left behind in its session."""
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


def _die_with_supervisor(stop_signal: signal.Signals) -> None:
    if _LIBC is not None:
        _LIBC.prctl(PR_SET_PDEATHSIG, stop_signal)
