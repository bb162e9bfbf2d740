"""Measures what it costs that timers fire in slices: many of one watermark, in slices as in a task and all in one."""

from __future__ import annotations

import time
from functools import partial

from benchmarks import state
from benchmarks.digest import Digest
from benchmarks.engine import results_directory
from benchmarks.measure import CPU, Options, Outcome, Target, Work
from runtime.core.clock import SYSTEM_CLOCK
from runtime.state.backend import Timer
from runtime.state.timer_slice import ENDLESS, TimerSlice
from runtime.task.slicing import MAX_SLICE_ROWS, SLICE_MS

TIMERS = 1_000_000
QUICK_TIMERS = 20_000
AT_ONCE, IN_SLICES = "at once", "in slices"
LONGEST = "longest_slice_ms"
SHARE = 0.95
#: of CPU time: a slice is over with the first timer behind 20 ms; garbage collection may come on top
MAX_SLICE_MS = 60.0
DUE_MS = 1_000


def timer_works(options: Options) -> list[Work]:
    """Timers of one watermark."""
    run = partial(_fire, options.rows(TIMERS, QUICK_TIMERS))
    return [
        Work(
            "timers",
            "1,000,000 timers in hashmap that one watermark makes due, no job around them; seconds of CPU",
            {AT_ONCE: partial(run, False), IN_SLICES: partial(run, True)},
            (
                Target(IN_SLICES, AT_ONCE, at_least=SHARE),
                Target(IN_SLICES, "", at_most=MAX_SLICE_MS, figure=LONGEST),
            ),
        )
    ]


def _fire(count: int, in_slices: bool) -> Outcome:
    """Fire a timer of each of so many keys."""
    total = 0

    def on_timer(timer: Timer) -> None:
        nonlocal total
        total += timer.key

    with results_directory() as directory:
        backend = state.make("hashmap", directory)
        try:
            service = backend.get_timer_service("timers", on_timer, on_timer)
            for key in range(count):
                backend.set_current_key(key)
                service.register_event_time_timer(DUE_MS)
            timer_slice = TimerSlice(SYSTEM_CLOCK, SLICE_MS, MAX_SLICE_ROWS) if in_slices else ENDLESS
            seconds = longest = 0.0
            is_over = False
            while not is_over:
                started = time.thread_time()
                timer_slice.begin()
                is_over = service.advance_watermark(DUE_MS, timer_slice)
                took = time.thread_time() - started
                seconds, longest = seconds + took, max(longest, took)
        finally:
            backend.dispose()
    return Outcome(seconds, count, Digest(count, total), details={CPU: seconds, LONGEST: longest * 1000.0})
