"""Finds calls of user code that do not return: which task made one, and its position. Any thread may look.

The slot's loop runs user code itself, so while a call lasts the loop does nothing else; the thread that answers
heartbeats takes the loop's stack instead. Source: Flink, StackTraceSampleService.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from traceback import StackSummary
from types import FrameType

_RUNTIME_DIR = f"{Path(__file__).absolute().parent.parent}{os.sep}"
_SLOT_FILE = f"{Path(__file__).absolute().parent / 'slot.py'}"

#: below that a call is slow, but no news: slices of records are meant to take 20 ms
SHOWN_AFTER_MS = 5_000
MAX_FRAMES = 40
"""Innermost ones that are shown; recursion is as deep as it likes."""
MAX_LINE_CHARS = 200
"""Of a file's name or a line of source, which may be a program's whole table; every heartbeat carries the stack."""


def user_stack(thread_id: int) -> str:
    """Return the position of a slot's loop, from the first line of user code in it to the innermost line.

    Lines of source, as in a traceback; never values.

    Args:
        thread_id: of the thread that runs the loop.

    Returns:
        As in a traceback, outermost first; what the runtime itself does if it has called no user code; "" if the thread
        has ended.
    """
    frames: list[FrameType] = []
    frame = sys._current_frames().get(thread_id)
    while frame is not None and frame.f_code.co_filename != _SLOT_FILE:
        frames.append(frame)
        frame = frame.f_back
    frames.reverse()
    users = next((i for i, f in enumerate(frames) if not f.f_code.co_filename.startswith(_RUNTIME_DIR)), 0)
    shown = StackSummary.extract((f, f.f_lineno) for f in frames[users:][-MAX_FRAMES:])
    lines = "".join(shown.format()).splitlines()
    return "\n".join(line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]}…" for line in lines)
