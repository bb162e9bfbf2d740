"""TaskSource: the source at a task's head: asked for records until it has none, and again when it is woken.

Loop's thread only.
"""

from __future__ import annotations

from collections.abc import Callable

from runtime.metrics import Counter
from runtime.operators.source_operator import EmitStatus, SourceOperator
from runtime.task.processing_time import TimerQueue


class TaskSource:
    """The source of one task.

    Args:
        operator: the head.
        records_out: counts what it emits.
        timers: of the slot.
    """

    def __init__(self, operator: SourceOperator, records_out: Counter, timers: TimerQueue) -> None:
        self.operator = operator
        #: whether it has nothing until it is woken
        self.is_waiting = False
        self._records_out = records_out
        self._timers = timers
        self._cancel_wakeup: Callable[[], None] | None = None

    @property
    def num_records(self) -> int:
        """Return how many records have been emitted."""
        return self._records_out.get_count()

    def emit(self, max_rows: int) -> EmitStatus:
        """Let the source emit some records; if it has none, it is not to be asked before it is woken."""
        status = self.operator.emit_next(max_rows)
        if status is EmitStatus.NOTHING_AVAILABLE:
            self.is_waiting = True
            wakeup_ms = self.operator.next_wakeup_ms()
            if wakeup_ms is not None:
                self._cancel_wakeup = self._timers.register_timer(wakeup_ms, lambda _: self.wake())
        return status

    def wake(self) -> None:
        """Ask the source again: its time has come, or an event has arrived for it."""
        self.close()
        self.is_waiting = False

    def close(self) -> None:
        """Forget the time at which it would be woken."""
        if self._cancel_wakeup is not None:
            self._cancel_wakeup()
            self._cancel_wakeup = None
