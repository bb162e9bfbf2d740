from __future__ import annotations

from runtime.metrics import MetricRegistry
from runtime.operators.source_operator import EmitStatus, SourceOperator
from runtime.task.processing_time import TimerQueue
from runtime.task.task_source import TaskSource
from runtime.testing.clock import ManualClock


class Poor(SourceOperator):
    """Has nothing, until some time or for good."""

    def __init__(self, wakeup_ms: int | None) -> None:
        self.wakeup_ms = wakeup_ms

    def emit_next(self, max_rows: int) -> EmitStatus:
        return EmitStatus.NOTHING_AVAILABLE

    def next_wakeup_ms(self) -> int | None:
        return self.wakeup_ms


def source_of(wakeup_ms: int | None, timers: TimerQueue) -> TaskSource:
    return TaskSource(Poor(wakeup_ms), MetricRegistry().root().counter("numRecordsOut"), timers)


def test_a_source_that_has_nothing_is_asked_again_when_its_time_has_come() -> None:
    clock = ManualClock(1_000)
    timers = TimerQueue(clock)
    source = source_of(1_500, timers)
    assert not source.is_waiting
    assert source.emit(10) is EmitStatus.NOTHING_AVAILABLE
    assert (source.is_waiting, timers.wait_ms()) == (True, 500)
    clock.advance(500)
    due = timers.pop_due()
    assert due is not None
    due[1](due[0])
    assert not source.is_waiting


def test_or_when_it_is_woken_and_its_time_is_forgotten() -> None:
    timers = TimerQueue(ManualClock(1_000))
    source = source_of(1_500, timers)
    source.emit(10)
    source.wake()
    assert (source.is_waiting, timers.wait_ms()) == (False, None)


def test_a_source_that_is_closed_leaves_no_timer() -> None:
    timers = TimerQueue(ManualClock(1_000))
    source = source_of(1_500, timers)
    source.emit(10)
    source.close()
    assert timers.wait_ms() is None
