"""Finds calls of user code that do not return: which task made one, and its position. Any thread may look.

The slot's loop runs user code itself, so while a call lasts the loop does nothing else; the thread that answers
heartbeats takes the loop's stack instead. That thread waits for nothing, so lines of source, which are read from files
that may be far away or gone, are read on another thread. Source: Flink, StackTraceSampleService.
"""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from traceback import FrameSummary, StackSummary
from types import FrameType

from runtime.core.ids import TaskId
from runtime.task.messages import StalledCall

_RUNTIME_DIR = f"{Path(__file__).absolute().parent.parent}{os.sep}"
_STANDARD_LIBRARY_DIR = f"{sysconfig.get_path('stdlib')}{os.sep}"
_PACKAGES_DIR = f"{sysconfig.get_path('purelib')}{os.sep}"
#: in which the runtime itself may wait; user code that calls them stands further out in the stack
_LIBRARY_DIRS = tuple(
    f"{_PACKAGES_DIR}{name}{os.sep}" for name in ("fastavro", "numpy", "polars", "psycopg", "pyarrow", "redis")
)
#: of the loop itself
_LOOP_FILES = tuple(f"{Path(__file__).absolute().parent / name}" for name in ("slot.py", "slot_tasks.py"))

#: below that a call is slow, but no news: slices of records are meant to take 20 ms
SHOWN_AFTER_MS = 5_000
MAX_FRAMES = 40
"""Innermost ones that are shown; recursion is as deep as it likes."""
MAX_LINE_CHARS = 200
"""Of a file's name or a line of source, which may be a program's whole table; every heartbeat carries the stack."""


Position = tuple[str, int, str]
"""File, line and function of a frame."""


@dataclass(frozen=True, slots=True)
class LoopStack:
    """Shows what a slot's loop does."""

    text: str
    """As in a traceback, outermost first, and never with values; "" if the thread has ended."""
    in_user_code: bool
    """Whether it begins with the first line of user code; otherwise it is what the runtime itself does."""


class LoopStacks:
    """Takes the stacks of a slot's loop. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: the positions that were read last, and their text with source
        self._read: tuple[tuple[Position, ...], str] = ((), "")
        self._is_reading = False

    def sample(self, thread_id: int) -> LoopStack:
        """Return the position of a slot's loop, from the first line of user code in it to the innermost line.

        Waits for no file: a position that is new comes without its lines of source first.

        Args:
            thread_id: of the thread that runs the loop.
        """
        positions, in_user_code = _positions(thread_id)
        return LoopStack(self._text(positions), in_user_code)

    def _text(self, positions: tuple[Position, ...]) -> str:
        with self._lock:
            if positions == self._read[0]:
                return self._read[1]
            if not self._is_reading:
                self._is_reading = True
                threading.Thread(target=self._read_source, args=(positions,), name="stack-source", daemon=True).start()
        return formatted_stack(positions, has_source=False)

    def _read_source(self, positions: tuple[Position, ...]) -> None:
        try:
            for file in {file for file, _, _ in positions}:
                linecache.checkcache(file)
            text = formatted_stack(positions, has_source=True)
        finally:
            with self._lock:
                self._is_reading = False
        with self._lock:
            self._read = positions, text


class LoopWatch:
    """Says what a slot's loop does right now: the loop's thread tells, any thread asks; and has waits in it end."""

    def __init__(self) -> None:
        self._stacks = LoopStacks()
        #: both written by the loop's thread
        self._thread_id = threading.get_ident()
        self.native_id = threading.get_native_id()
        #: the task that is being stepped; None: the loop does something else
        self.task: TaskId | None = None
        #: whether the loop does something that may take as long as it likes
        self.is_excused = False
        #: has what tasks wait for end, since they are cancelled; called by any thread
        self.interrupt: Callable[[], None] = lambda: None

    def turn(self) -> None:
        """Note that a turn of the loop begins, on this thread."""
        thread_id = threading.get_ident()
        if thread_id != self._thread_id:
            self._thread_id, self.native_id = thread_id, threading.get_native_id()

    def frames(self) -> list[FrameType]:
        """Return the loop's frames from the first one behind the loop itself, outermost first; [] while it waits."""
        return _frames(self._thread_id)

    def call(self) -> StalledCall | None:
        """Return the call that the loop is in; None while it is excused."""
        if self.is_excused:
            return None
        stack = self._stacks.sample(self._thread_id)
        return StalledCall(self.task, stack.text, stack.in_user_code)


def _frames(thread_id: int) -> list[FrameType]:
    frames: list[FrameType] = []
    frame = sys._current_frames().get(thread_id)
    while frame is not None and frame.f_code.co_filename not in _LOOP_FILES:
        frames.append(frame)
        frame = frame.f_back
    frames.reverse()
    return frames


def _positions(thread_id: int) -> tuple[tuple[Position, ...], bool]:
    """Return the thread's positions from the first one of user code on, and whether there is one."""
    frames = _frames(thread_id)
    first = next((i for i, f in enumerate(frames) if _is_users(f.f_code.co_filename)), None)
    shown = frames[first or 0 :][-MAX_FRAMES:]
    for frame in shown:
        # only notes the module's loader, by which the source of an archive's module is found
        linecache.lazycache(frame.f_code.co_filename, frame.f_globals)
    return tuple((f.f_code.co_filename, f.f_lineno or 0, f.f_code.co_name) for f in shown), first is not None


def _is_users(file: str) -> bool:
    if file.startswith((_RUNTIME_DIR, *_LIBRARY_DIRS)):
        return False
    # packages of the program may be installed inside the standard library's directory
    return file.startswith(_PACKAGES_DIR) or not file.startswith((_STANDARD_LIBRARY_DIR, "<frozen "))


def formatted_stack(positions: Sequence[Position], has_source: bool) -> str:
    """Return positions as in a traceback; with their lines of source, which are read from files."""
    line = None if has_source else ""
    summary = StackSummary.from_list([FrameSummary(*position, lookup_line=False, line=line) for position in positions])
    lines = "".join(summary.format()).splitlines()
    return "\n".join(line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]}…" for line in lines)
