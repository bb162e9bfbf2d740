"""Samples the stack of a slot's loop, for flame graphs, and takes the stacks of all threads of the process.

The loop's thread runs user code, so a thread of its own takes the samples: they come also while a call does not return.
A sample counts as on the CPU if the loop's thread has had it for half of the time since the sample before, as Linux
counts; elsewhere all do. Source: Flink, ThreadInfoSampleService and VertexThreadInfoStats.
"""

from __future__ import annotations

import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Protocol

from runtime.core.ids import TaskId
from runtime.task.messages import SampledStacks, SampleStacks, StackCount
from runtime.task.stalls import Position, formatted_stack

MAX_DURATION_MS = 60_000
MIN_INTERVAL_MS = 2
MAX_FRAMES = 100
"""Innermost ones of a stack that count; recursion is as deep as it likes."""
MAX_STACKS = 2_000
"""Different stacks of a slot; what comes after that is counted at its task alone."""
MAX_NAME_CHARS = 200
MAX_THREADS = 200
#: the first one that a path is below makes it short
_ROOTS = tuple(
    f"{path}/"
    for path in (Path(__file__).absolute().parents[2], sysconfig.get_path("purelib"), sysconfig.get_path("stdlib"))
)


class Watched(Protocol):
    """Tells what a slot's loop does; any thread."""

    @property
    def task(self) -> TaskId | None:
        """Return the task that is being stepped; None: the loop does something else."""

    @property
    def native_id(self) -> int:
        """Return the system's id of the loop's thread."""

    def frames(self) -> list[FrameType]:
        """Return the loop's frames from the first one behind the loop itself, outermost first."""


class StackSampler:
    """Takes samples of one slot's loop, one request after the other. Any thread may ask.

    Args:
        watched: the loop.
        redact: takes out of the names of threads what nobody may see.
    """

    def __init__(self, watched: Watched, redact: Callable[[str], str]) -> None:
        self._watched = watched
        self._redact = redact
        self._is_busy = threading.Lock()

    def sample(self, request: SampleStacks, answer: Callable[[SampledStacks], None]) -> bool:
        """Take samples on a thread of its own.

        Args:
            request: for how long, and how often.
            answer: called with the samples, on that thread.

        Returns:
            False if it is at work for another request already: this one is dropped.
        """
        if not self._is_busy.acquire(blocking=False):
            return False
        try:
            threading.Thread(target=self._run, args=(request, answer), name="stack-sampler", daemon=True).start()
        except RuntimeError:
            # the process cannot have another thread
            self._is_busy.release()
            return False
        return True

    def _run(self, request: SampleStacks, answer: Callable[[SampledStacks], None]) -> None:
        try:
            answer(self._sampled(request))
        finally:
            self._is_busy.release()

    def _sampled(self, request: SampleStacks) -> SampledStacks:
        samples = _Samples()
        watched, cpu = self._watched, _CpuClock()
        interval_s = max(request.interval_ms, MIN_INTERVAL_MS) / 1000.0
        started = due = time.monotonic()
        until = started + min(request.duration_ms, MAX_DURATION_MS) / 1000.0
        cpu.has_run(watched.native_id, started)
        while due < until:
            due = max(due + interval_s, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
            task, frames = watched.task, watched.frames()
            samples.add(task, frames, cpu.has_run(watched.native_id, time.monotonic()))
        return samples.result(request.request_id, self._threads())

    def _threads(self) -> dict[str, str]:
        return {self._redact(name): stack for name, stack in thread_stacks().items()}


class _Samples:
    def __init__(self) -> None:
        self._count = 0
        #: by identity: code objects of equal functions in two files are equal
        self._numbers: dict[int, int] = {}
        self._codes: list[CodeType] = []
        self._stacks: dict[tuple[TaskId, tuple[int, ...]], list[int]] = {}

    def add(self, task: TaskId | None, frames: list[FrameType], is_on_cpu: bool) -> None:
        self._count += 1
        if task is None or not frames:
            return
        key = task, tuple(self._number(frame.f_code) for frame in frames[-MAX_FRAMES:])
        if key not in self._stacks and len(self._stacks) >= MAX_STACKS:
            key = task, ()
        counts = self._stacks.setdefault(key, [0, 0])
        counts[0 if is_on_cpu else 1] += 1

    def _number(self, code: CodeType) -> int:
        number = self._numbers.setdefault(id(code), len(self._codes))
        if number == len(self._codes):
            self._codes.append(code)
        return number

    def result(self, request_id: int, threads: dict[str, str]) -> SampledStacks:
        stacks: dict[TaskId, list[StackCount]] = {}
        for (task, frames), (on_cpu, off_cpu) in self._stacks.items():
            stacks.setdefault(task, []).append(StackCount(frames, on_cpu, off_cpu))
        return SampledStacks(request_id, self._count, [frame_name(code) for code in self._codes], stacks, threads)


class _CpuClock:
    """Tells from sample to sample whether a thread has had the CPU.

    It reads the thread's own clock, which keeps the interpreter's lock: a call that lets go of it would wait until user
    code gives it back.
    """

    def __init__(self) -> None:
        self._before: tuple[int, int, float] | None = None

    def has_run(self, native_id: int, now_s: float) -> bool:
        """Return whether it has had it for half of the time since the last call."""
        try:
            spent_ns = time.clock_gettime_ns(_clock_of(native_id))
        except OSError:
            return True
        before, self._before = self._before, (native_id, spent_ns, now_s)
        if before is None or before[0] != native_id:
            return True
        return spent_ns - before[1] >= 0.5e9 * (now_s - before[2])


def _clock_of(native_id: int) -> int:
    """Return the id of a thread's clock of CPU time. Source: Linux, MAKE_THREAD_CPUCLOCK of posix-timers.h."""
    return (~native_id << 3) | 4 | 2


def frame_name(code: CodeType) -> str:
    """Return a function's name and where it begins, as "Mapper.map (jobs/prices.py:12)"."""
    return f"{code.co_qualname} ({_short(code.co_filename)}:{code.co_firstlineno})"[:MAX_NAME_CHARS]


def thread_stacks() -> dict[str, str]:
    """Return what each thread of this process does: name → its stack as in a traceback, innermost last."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    found: dict[str, str] = {}
    for ident, innermost in list(sys._current_frames().items())[:MAX_THREADS]:
        positions: list[Position] = []
        frame: FrameType | None = innermost
        while frame is not None and len(positions) < MAX_FRAMES:
            code = frame.f_code
            positions.append((code.co_filename, frame.f_lineno or 0, code.co_name))
            frame = frame.f_back
        found[f"{names.get(ident, 'thread')} ({ident})"] = formatted_stack(positions[::-1], has_source=True)
    return found


def _short(path: str) -> str:
    return next((path.removeprefix(root) for root in _ROOTS if path.startswith(root)), path)
