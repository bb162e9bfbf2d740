"""Children: runs code that nobody here trusts in a process of its own, and reads what it answers.

The child has a process group of its own, an empty directory to work in, and an environment without secrets; it sets
limits for itself before it runs anything (`runtime.client.child_process`). Its answer comes over a pipe beside its
output. Whatever it has started ends with it: between it and this process is a launcher that confines it, watches it and
outlives it (`runtime.client.launcher`). Blocking; any thread may call.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import runtime
from runtime.client.child_process import BEGUN
from runtime.client.confinement import USUAL, Confinement, dot_files

OUTPUT_TAIL_BYTES = 64 << 10
"""Last part of the child's output that is kept; the rest is dropped while it runs."""
DEFAULT_MEMORY_BYTES = 4 << 30
MAX_ANSWER_BYTES = 64 << 20
"""Largest answer that is taken."""
EXIT_GRACE_S = 1.0
"""Time that a child may take to end after it has closed its answer's pipe; its last words come within it."""
OVERTIME_S = 0.2
"""Time for which output that does not stop is read after the timeout."""
CLEARING_S = 8.0
"""Time for which the launcher may end what the child has started; then it is ended itself."""
CHECK_S = 0.25
"""Interval of asking whether the answer is still wanted."""
MAX_SWEEPS = 20
"""Rounds of ending what a child has started outside of its process group, which may start more meanwhile."""
#: the only variables of this process that a child sees
INHERITED_VARIABLES = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "JAVA_HOME", "LD_LIBRARY_PATH", "SYSTEMROOT")


LAUNCHER = "runtime.client.launcher"


class ChildAbandonedError(Exception):
    """The answer is no longer wanted; the child was ended."""


class AnswerTooLargeError(Exception):
    """The child answers with more than `MAX_ANSWER_BYTES`; it was ended."""


class TooManyProcessesError(Exception):
    """The child starts ever more processes; all of them were ended."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"more than {limit} processes were started")
        self.limit = limit


@dataclass(frozen=True, slots=True)
class ChildResult:
    """Holds what a child has left."""

    answer: bytes
    """Empty if `on_answer` has taken it."""
    output: str
    """End of its output, at most 64 KiB."""
    timed_out: bool
    exit_code: int
    has_begun: bool
    """Whether it got as far as reading its request; on a busy machine, the imports before that may take long."""


class Child:
    """A process that was started and waits for its request; it imports its module meanwhile.

    Args:
        module: run with the file descriptors of its answer and of its lifeline as arguments.
        directory: it works in there; empty, and nobody else's.
        python_path: directories to import from, beside the engine's own.
        confinement: what it may see beside its directory; whatever it imports from is added.
        memory_bytes: that it and all that it starts may use together.
    """

    def __init__(
        self,
        module: str,
        directory: Path,
        python_path: Sequence[Path] = (),
        confinement: Confinement = USUAL,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
    ) -> None:
        self.directory = directory
        settings = {
            "directory": str(directory),
            "hidden": [*(str(path) for path in confinement.hidden), *dot_files()],
            "readable": [*confinement.readable, *map(str, python_path)],
            "has_network": confinement.has_network,
            "memory_bytes": memory_bytes,
        }
        self._answer_read, answer_write = os.pipe()
        # only this process holds the write end, so that the pipe ends with it, however it ends
        lifeline_read, self._lifeline_write = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", LAUNCHER, module, str(answer_write), str(lifeline_read), json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env=_environment(directory, python_path),
                pass_fds=(answer_write, lifeline_read),
                start_new_session=True,
            )
        except BaseException:
            os.close(self._answer_read)
            os.close(self._lifeline_write)
            raise
        finally:
            os.close(answer_write)
            os.close(lifeline_read)

    @property
    def is_alive(self) -> bool:
        """Return whether it has not ended."""
        return self._process.poll() is None

    def run(
        self,
        request: str,
        timeout_s: float,
        is_abandoned: Callable[[], bool] = lambda: False,
        on_answer: Callable[[bytes], None] | None = None,
        max_processes: int | None = None,
    ) -> ChildResult:
        """Give it its request, wait until it has answered, and end everything that it has started. Once only.

        Raises:
            ChildAbandonedError: the answer is no longer wanted.
            AnswerTooLargeError: there is too much of it.
            TooManyProcessesError: it has started more than `max_processes`.
        """
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        watch = None if max_processes is None else _ProcessWatch(process.pid, self.directory, max_processes)
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(request.encode())
                process.stdin.close()
            answer, output, timed_out, has_begun = _read_both(
                self._answer_read, process.stdout.fileno(), timeout_s, is_abandoned, on_answer, watch
            )
            if not timed_out:
                # it is about to end; its exit code may tell why there is no answer
                with suppress(subprocess.TimeoutExpired):
                    process.wait(EXIT_GRACE_S)
        finally:
            exit_code = self.end()
        return ChildResult(answer, output, timed_out, exit_code, has_begun)

    def end(self) -> int:
        """End it and whatever it has started; return its exit code. Once only."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        # the launcher's last work is to end all that the program has started
        os.close(self._lifeline_write)
        with suppress(subprocess.TimeoutExpired):
            process.wait(CLEARING_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        exit_code = process.wait()
        os.close(self._answer_read)
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.stdout.close()
        _end_strays(self.directory)
        return exit_code


def run_child(
    module: str,
    request: str,
    directory: Path,
    timeout_s: float,
    python_path: Sequence[Path] = (),
    is_abandoned: Callable[[], bool] = lambda: False,
    on_answer: Callable[[bytes], None] | None = None,
    confinement: Confinement = USUAL,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
) -> ChildResult:
    """Run a module as a child until it has answered, and end everything that it has started.

    Args:
        module: run with the file descriptors of its answer and of its lifeline as arguments.
        request: comes to it as stdin.
        directory: it works in there; empty, and nobody else's.
        timeout_s: after so long the child is killed.
        python_path: directories to import from, beside the engine's own.
        is_abandoned: asked while it runs; True kills it.
        on_answer: takes the answer piece by piece while it comes; None: it is returned.
        confinement: what it may see beside its directory; whatever it imports from is added.
        memory_bytes: that it and all that it starts may use together.

    Raises:
        ChildAbandonedError: the answer is no longer wanted.
        AnswerTooLargeError: there is too much of it.
    """
    child = Child(module, directory, python_path, confinement, memory_bytes)
    return child.run(request, timeout_s, is_abandoned, on_answer)


class _ProcessWatch:
    """Counts what a child has started: its session, and what has left it but has its directory in its environment."""

    def __init__(self, pid: int, directory: Path, limit: int) -> None:
        self._pid = pid
        self._mark = _mark(directory)
        self._limit = limit
        self._checked_at = time.monotonic()

    def check(self) -> None:
        """Look, if it is time to.

        Raises:
            TooManyProcessesError: there are too many.
        """
        now = time.monotonic()
        if now - self._checked_at < CHECK_S:
            return
        self._checked_at = now
        found = sum(self._is_its(pid) for pid in _processes())
        if found > self._limit:
            raise TooManyProcessesError(self._limit)

    def _is_its(self, pid: int) -> bool:
        try:
            if os.getsid(pid) == self._pid:
                return True
        except OSError:
            return False
        return self._mark in _environment_of(pid)


def _environment(directory: Path, python_path: Sequence[Path]) -> dict[str, str]:
    """Return the child's environment. It inherits nothing by default: tokens, passwords and URLs of this process are
    none of the program's business.
    """
    own = Path(runtime.__file__).resolve().parent.parent
    return {
        **{name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ},
        # defining a job is light work, and many threads would use up the address space on a large machine
        **dict.fromkeys(("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
        "HOME": str(directory),
        "TMPDIR": str(directory),
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(str(path) for path in (own, *python_path))),
        "PYTHONIOENCODING": "utf-8",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _read_both(
    answer_fd: int,
    output_fd: int,
    timeout_s: float,
    is_abandoned: Callable[[], bool],
    on_answer: Callable[[bytes], None] | None,
    watch: _ProcessWatch | None,
) -> tuple[bytes, str, bool, bool]:
    """Read until the child has answered or is gone, or its time is over.

    Returns:
        (answer, tail of the output, whether it has timed out, whether it has begun).
    """
    deadline = time.monotonic() + timeout_s
    answer, output = bytearray(), bytearray()
    answered = 0
    timed_out, has_begun = True, False
    with selectors.DefaultSelector() as selector:
        selector.register(answer_fd, selectors.EVENT_READ)
        selector.register(output_fd, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(min(CHECK_S, max(0.0, deadline - time.monotonic())))
            if is_abandoned():
                raise ChildAbandonedError
            if watch is not None:
                watch.check()
            if not ready and time.monotonic() >= deadline:
                return bytes(answer), _tail(output), timed_out, has_begun
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                if not chunk:
                    selector.unregister(key.fd)
                    if key.fd == answer_fd:
                        # the child has answered or is dying. A process that it left behind may hold the other pipe for
                        # ever: only what is in it now is of interest
                        timed_out = False
                        deadline = min(deadline, time.monotonic() + (0.0 if answered else EXIT_GRACE_S))
                elif key.fd == answer_fd:
                    if not has_begun:
                        has_begun, chunk = True, chunk.removeprefix(BEGUN)
                    answered += len(chunk)
                    if answered > MAX_ANSWER_BYTES:
                        raise AnswerTooLargeError
                    if on_answer is None:
                        answer += chunk
                    elif chunk:
                        on_answer(chunk)
                else:
                    output += chunk
                    if len(output) > 2 * OUTPUT_TAIL_BYTES:
                        del output[:-OUTPUT_TAIL_BYTES]
            if time.monotonic() > deadline + OVERTIME_S:
                # it writes without a pause, so that there is always something to read
                return bytes(answer), _tail(output), timed_out, has_begun
    return bytes(answer), _tail(output), False, has_begun


def _tail(output: bytearray) -> str:
    return output[-OUTPUT_TAIL_BYTES:].decode(errors="replace")


def _end_strays(directory: Path) -> None:
    """End processes that have left the child's process group: they still have its directory in their environment."""
    mark = _mark(directory)
    for _ in range(MAX_SWEEPS):
        found = [pid for pid in _processes() if mark in _environment_of(pid)]
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return


def _mark(directory: Path) -> bytes:
    return b"TMPDIR=" + os.fsencode(directory) + b"\0"


def _processes() -> list[int]:
    own = os.getpid()
    with suppress(OSError):
        return [
            int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal() and entry.name != str(own)
        ]
    return []


def _environment_of(pid: int) -> bytes:
    try:
        return (Path("/proc") / str(pid) / "environ").read_bytes()
    except OSError:
        return b""
