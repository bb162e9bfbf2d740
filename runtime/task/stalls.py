"""Calls of user code that do not return: which task made one, and where it stands. Any thread may look.

The slot's loop runs user code itself, so while a call lasts the loop does nothing else; the thread that answers
heartbeats takes the loop's stack instead. Source: Flink, StackTraceSampleService.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

_RUNTIME_DIR = f"{Path(__file__).absolute().parent.parent}{os.sep}"
_SLOT_FILE = f"{Path(__file__).absolute().parent / 'slot.py'}"

#: below that a call is slow, but no news: slices of records are meant to take 20 ms
SHOWN_AFTER_MS = 5_000
MAX_FRAMES = 40
"""Innermost ones that are shown; recursion is as deep as it likes."""


def user_stack(thread_id: int) -> str:
    """Where a slot's loop stands, from the first line of user code in it to the innermost line.

    Args:
        thread_id: of the thread that runs the loop.

    Returns:
        As in a traceback, outermost first; what the runtime itself does if it has called no user code; "" if the thread
        has ended.
    """
    frame = sys._current_frames().get(thread_id)
    if frame is None:
        return ""
    frames = traceback.extract_stack(frame)
    first = 1 + max((i for i, f in enumerate(frames) if f.filename == _SLOT_FILE), default=-1)
    users = next((i for i in range(first, len(frames)) if not frames[i].filename.startswith(_RUNTIME_DIR)), first)
    return "".join(traceback.format_list(frames[users:][-MAX_FRAMES:])).rstrip()
