"""Records of a slot's log as lines: a head with time, level and task, the logger's name, the message. Any thread.

A head reads "2026-07-01 12:00:00,123+02:00 INFO  [<vertex>#<subtask>/<operator>] logger - message", with "[-]" for what
no task has logged, and without the operator for what no operator has. Vertex and operator are the first `VERTEX_CHARS`
digits of their ids. Further lines of a message that look like a head begin with a space, as do lines on stderr, so that
nothing passes for a record of another task. `HEAD` also knows the heads of earlier releases, which have neither time
zone nor task.
"""

from __future__ import annotations

import logging
import re
import sys
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from runtime.core.ids import OperatorId, TaskId
from runtime.operators.operator import StreamOperator
from runtime.task.client_output import SlotClientChannel
from runtime.task.running_task import running_task

LEVELS: Final = ("DEBUG", "INFO", "WARN", "ERROR", "FATAL")
"""Ascending."""
VERTEX_CHARS: Final = 12
"""Of an id of 32 digits. Fewer: two vertices of a job may share them; more: lines are harder to read."""
HEAD: Final = re.compile(
    rb"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})(?:([+-]\d\d:\d\d))? (DEBUG|INFO|WARNING|ERROR|CRITICAL) +"
    rb"(?:\[(?:-|([0-9a-f]{12})#(\d{1,9})(?:/([0-9a-f]{12}))?)\] )?"
)
MAX_FRAMES: Final = 200
"""Innermost ones of a stack in which the operator is looked for: a recursion logs as fast as other code."""
_LOOKS_LIKE_HEAD = re.compile(r"^(?=\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})", re.MULTILINE)
#: as Python writes them; a program may have renamed its own
_WRITTEN_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_LEVEL_NAMES = {"WARNING": "WARN", "CRITICAL": "FATAL"}


@dataclass(frozen=True, slots=True)
class Head:
    """What the head of a record says."""

    time_ms: int
    """Epoch ms."""
    level: str
    """One of `LEVELS`."""
    vertex: str
    """First digits of the vertex's id; empty: no task."""
    subtask: int | None
    size: int
    """Of the head, bytes."""
    operator: str = ""
    """First digits of the operator's id; empty: no operator, or it is not known."""


def head_of(line: bytes | bytearray, at: int = 0) -> Head | None:
    """Return the head that begins at a place of a text, which is the beginning of a line; None: there is none."""
    match = HEAD.match(line, at)
    if match is None:
        return None
    time_ms = time_of(match)
    if time_ms is None:
        return None
    level = match[3].decode()
    vertex, subtask = (match[4] or b"").decode(), None if match[5] is None else int(match[5])
    operator = (match[6] or b"").decode()
    return Head(time_ms, _LEVEL_NAMES.get(level, level), vertex, subtask, match.end() - at, operator)


def time_of(match: re.Match[bytes]) -> int | None:
    """Return the time of a match of `HEAD`, epoch ms; None: there is no such date. Without a zone it is local time."""
    text = match[1].decode().replace(",", ".") + (match[2] or b"").decode()
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


def written_levels(lowest: str) -> list[str]:
    """Return the levels from one of `LEVELS` on as heads have them."""
    return list(_WRITTEN_LEVELS[LEVELS.index(lowest) :])


def running_operator() -> OperatorId | None:
    """Return the operator whose code calls this: the innermost one on this thread's stack; None: no operator's.

    It is looked for where it is asked for, so that operators pay nothing for being known.
    """
    frame = sys._getframe(1)
    for _ in range(MAX_FRAMES):
        owner = frame.f_locals.get("self")
        # not isinstance: an object of the user's may answer for its class
        if issubclass(type(owner), StreamOperator):
            context = getattr(owner, "context", None)
            return None if context is None else context.operator_id
        if frame.f_back is None:
            break
        frame = frame.f_back
    return None


def head_text(time_s: float, level: int, task: TaskId | None, operator: OperatorId | None = None) -> str:
    """Return a head, with a space at its end.

    Args:
        time_s: epoch seconds.
        level: as `logging` counts.
        task: whose code has logged it; None: no task's.
        operator: of the task, whose code has logged it; None: none of them.
    """
    at = datetime.fromtimestamp(time_s).astimezone()
    zone = at.strftime("%z")
    where = "-" if task is None else f"{task.vertex_id[:VERTEX_CHARS]}#{task.subtask_index}"
    if task is not None and operator is not None:
        where += f"/{operator[:VERTEX_CHARS]}"
    name = _WRITTEN_LEVELS[min(max(level // 10, 1), 5) - 1]
    return f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03}{zone[:3]}:{zone[3:5]} {name:5} [{where}] "


def record_text(
    time_s: float, level: int, task: TaskId | None, message: str, operator: OperatorId | None = None
) -> str:
    """Return a record with its head, without a line end; see `head_text`."""
    return head_text(time_s, level, task, operator) + without_heads(message)


def without_heads(text: str) -> str:
    """Return lines of which none looks like the head of a record."""
    return _LOOKS_LIKE_HEAD.sub(" ", text)


class RecordHandler(logging.Handler):
    """Sends what is logged in a slot to its client, a record at a time.

    Args:
        channel: the slot's.
        name: of the channel.
    """

    def __init__(self, channel: SlotClientChannel, name: str) -> None:
        super().__init__()
        self._channel = channel
        self._name = name
        self.setFormatter(logging.Formatter("%(name)s - %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            task = running_task()
            operator = None if task is None else running_operator()
            text = record_text(record.created, record.levelno, task, self.format(record).rstrip("\n"), operator)
            self._channel.send(self._name, f"{self._channel.redact(text)}\n".encode(errors="replace"))
        except RecursionError:
            raise
        except Exception:
            self.handleError(record)
