"""The task whose code a thread runs: known to what is called from that code, such as a handler of logs. Any thread.

Threads that user code starts run no task's code: what they do belongs to no task.
"""

from __future__ import annotations

import threading

from runtime.core.ids import TaskId


class _Running(threading.local):
    task: TaskId | None = None


_running = _Running()


def running_task() -> TaskId | None:
    """Return the task whose code this thread runs; None: no task's."""
    return _running.task


class AsTask:
    """Context in which this thread runs a task's code. A class, since every step of a task enters it."""

    __slots__ = ("_before", "_task")

    def __init__(self, task: TaskId) -> None:
        self._task = task
        self._before: TaskId | None = None

    def __enter__(self) -> None:
        self._before, _running.task = _running.task, self._task

    def __exit__(self, *_: object) -> None:
        _running.task = self._before
