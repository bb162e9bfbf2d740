"""Threads of simulated processes as fibers: one runs at a time, until it waits; a seed decides which one goes on.

While a run lasts, product code finds stand-ins under the names `threading` and `queue`. Whatever waits there (for a
lock, an event, a queue, the end of a thread) waits in simulated time. A process is frozen and killed as a whole.
"""

from __future__ import annotations

import heapq
import queue
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

from greenlet import getcurrent, greenlet

from runtime.testing.clock import ManualClock


class ProcessEndedError(BaseException):
    """Unwinds the stack of a process that has been killed. No Exception: nothing in it may catch it."""


class Process:
    """Fibers that freeze and end together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.is_frozen = False
        #: what arrived while it was frozen
        self.held: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return self.name


class Fiber:
    """A thread of a process."""

    def __init__(self, scheduler: Scheduler, process: Process, name: str, target: Callable[[], object]) -> None:
        self.process = process
        self.name = name
        self.is_over = False
        #: what it waits for, invalid once it has been woken
        self.ticket = 0
        self.was_woken = False
        self.joining: deque[Waiter] = deque()
        self._scheduler = scheduler
        self._target = target
        self.greenlet = greenlet(self._run, parent=scheduler.hub)

    def _run(self) -> None:
        try:
            self._target()
        except ProcessEndedError:
            pass
        except Exception as error:
            self._scheduler.on_broken(self, error)
        finally:
            self.is_over = True
            self._scheduler.wake_all(self.joining)


Waiter = tuple[Fiber, int]


class Scheduler:
    """Runs fibers and timers in simulated time.

    Args:
        clock: moves with the timers.
        draw: decides which of several fibers goes on.
        on_broken: called with a fiber and the error that it ends with.
    """

    def __init__(self, clock: ManualClock, draw: random.Random, on_broken: Callable[[Fiber, Exception], None]) -> None:
        self.clock = clock
        self.draw = draw
        self.on_broken = on_broken
        self.hub = getcurrent()
        self.num_turns = 0
        self._fibers: list[Fiber] = []
        self._ready: list[Fiber] = []
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._num_timers = 0
        self._current: Fiber | None = None
        #: whether a process has been killed whose fibers are still to be unwound
        self._has_doomed = False

    # --- for everybody ------------------------------------------------------------------------------------------------

    @property
    def process(self) -> Process | None:
        """The process that runs; None: the simulation itself."""
        return None if self._current is None else self._current.process

    @property
    def thread(self) -> str:
        """The name of the thread that runs; "": the simulation itself."""
        return "" if self._current is None else self._current.name

    def at(self, time_ms: float, action: Callable[[], None]) -> None:
        """Have something happen at a time; it must not wait."""
        self._num_timers += 1
        heapq.heappush(self._timers, (time_ms, self._num_timers, action))

    def later(self, ms: float, action: Callable[[], None], process: Process | None = None) -> None:
        """Have something happen after some time, in a process if it still is there then; it must not wait."""

        def arrive() -> None:
            if process is None:
                action()
            elif process.is_frozen:
                process.held.append(action)
            elif not process.is_dead:
                action()

        self.at(self.clock.monotonic_ms() + ms, arrive)

    def spawn(self, process: Process, name: str, target: Callable[[], object]) -> Fiber:
        """Start a thread of a process."""
        fiber = Fiber(self, process, name, target)
        self._fibers.append(fiber)
        self._ready.append(fiber)
        return fiber

    def kill(self, process: Process) -> None:
        """End a process. If it is the one that runs, the caller raises ProcessEndedError."""
        process.is_dead, process.is_frozen = True, False
        process.held.clear()
        self._has_doomed = True

    def thaw(self, process: Process) -> None:
        """Have a frozen process go on."""
        process.is_frozen = False
        held, process.held = process.held, []
        for action in held:
            self.later(0.0, action, process)

    def wake_all(self, waiters: deque[Waiter]) -> None:
        """Have all that wait go on."""
        while waiters:
            self.wake_one(waiters)

    def wake_one(self, waiters: deque[Waiter]) -> None:
        """Have the first that still waits go on."""
        while waiters:
            fiber, ticket = waiters.popleft()
            if fiber.ticket == ticket and not fiber.is_over:
                self._wake(fiber, was_woken=True)
                return

    def sleep(self, ms: float) -> None:
        """Let time pass for the fiber that runs."""
        self.wait(deque(), ms)

    def wait(self, waiters: deque[Waiter], timeout_ms: float | None) -> bool:
        """Have the fiber that runs wait until it is woken; return False if its time was up first.

        Raises:
            ProcessEndedError: its process has been killed.
        """
        fiber = self._current
        assert fiber is not None, "only fibers can wait"
        if fiber.process.is_dead:
            raise ProcessEndedError
        fiber.ticket += 1
        ticket, fiber.was_woken = fiber.ticket, False
        waiters.append((fiber, ticket))
        if timeout_ms is not None:
            self.at(self.clock.monotonic_ms() + max(0.0, timeout_ms), lambda: self._time_out(fiber, ticket))
        self.hub.switch()
        if fiber.process.is_dead:
            raise ProcessEndedError
        return fiber.was_woken

    # --- the simulation -----------------------------------------------------------------------------------------------

    def run_until(self, end_ms: float) -> None:
        """Let things happen until a time."""
        while True:
            chosen = self._next()
            if chosen is not None:
                self._switch_to(chosen)
                continue
            if not self._timers or self._timers[0][0] > end_ms:
                self.clock.advance(max(0.0, end_ms - self.clock.monotonic_ms()))
                return
            time_ms, _, action = heapq.heappop(self._timers)
            self.clock.advance(max(0.0, time_ms - self.clock.monotonic_ms()))
            action()

    def close(self) -> None:
        """Unwind all fibers; whatever they do on the way is refused."""
        for fiber in self._fibers:
            fiber.process.is_dead = True
        self._has_doomed = True
        while (chosen := self._next()) is not None:
            self._switch_to(chosen)

    def _next(self) -> Fiber | None:
        if self._has_doomed:
            # those that are dead go first: nothing of them may happen later than their end
            for fiber in self._fibers:
                if fiber.process.is_dead:
                    return fiber
            self._has_doomed = False
        can = [fiber for fiber in self._ready if not fiber.process.is_frozen]
        if not can:
            return None
        chosen = can[0] if len(can) == 1 else self.draw.choice(can)
        self._ready.remove(chosen)
        return chosen

    def _switch_to(self, fiber: Fiber) -> None:
        self.num_turns += 1
        self._current = fiber
        if fiber.process.is_dead and not fiber.greenlet:
            # it has never run
            fiber.is_over = True
            self.wake_all(fiber.joining)
        elif fiber.process.is_dead:
            fiber.greenlet.throw(ProcessEndedError)
        else:
            fiber.greenlet.switch()
        self._current = None
        if fiber.is_over or fiber.greenlet.dead:
            self._fibers.remove(fiber)
            if fiber in self._ready:
                self._ready.remove(fiber)

    def _time_out(self, fiber: Fiber, ticket: int) -> None:
        if fiber.ticket == ticket and not fiber.is_over:
            self._wake(fiber, was_woken=False)

    def _wake(self, fiber: Fiber, was_woken: bool) -> None:
        fiber.ticket += 1
        fiber.was_woken = was_woken
        self._ready.append(fiber)


# --- what product code finds under the names of the standard library --------------------------------------------------


class _Lock:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._holder: Fiber | None = None
        self._waiters: deque[Waiter] = deque()

    def acquire(self) -> bool:
        # a process that has been killed holds nothing up
        while self._holder is not None and not self._holder.is_over:
            self._scheduler.wait(self._waiters, None)
        self._holder = self._scheduler._current
        return True

    def release(self) -> None:
        self._holder = None
        self._scheduler.wake_one(self._waiters)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class _Event:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_set = False
        self._waiters: deque[Waiter] = deque()

    def set(self) -> None:
        self._is_set = True
        self._scheduler.wake_all(self._waiters)

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            self._scheduler.wait(self._waiters, None if timeout is None else timeout * 1000.0)
        return self._is_set


class _Condition:
    def __init__(self, scheduler: Scheduler, lock: _Lock | None = None) -> None:
        self._scheduler = scheduler
        self._lock = lock or _Lock(scheduler)
        self._waiters: deque[Waiter] = deque()

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        self._lock.release()
        try:
            return self._scheduler.wait(self._waiters, None if timeout is None else timeout * 1000.0)
        finally:
            self._lock.acquire()

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        clock = self._scheduler.clock
        end_ms = None if timeout is None else clock.monotonic_ms() + timeout * 1000.0
        while not predicate():
            left_ms = None if end_ms is None else end_ms - clock.monotonic_ms()
            if left_ms is not None and left_ms <= 0.0:
                return False
            self.wait(None if left_ms is None else left_ms / 1000.0)
        return True

    def notify(self, n: int = 1) -> None:
        for _ in range(n):
            self._scheduler.wake_one(self._waiters)

    def notify_all(self) -> None:
        self._scheduler.wake_all(self._waiters)


class _Thread:
    def __init__(
        self,
        scheduler: Scheduler,
        target: Callable[..., object],
        args: tuple[Any, ...] = (),
        name: str = "",
        daemon: bool = False,
    ) -> None:
        self._scheduler = scheduler
        self._target = lambda: target(*args)
        self._name = name
        self._fiber: Fiber | None = None

    def start(self) -> None:
        process = self._scheduler.process
        assert process is not None
        self._fiber = self._scheduler.spawn(process, self._name, self._target)

    @property
    def ident(self) -> int | None:
        return None if self._fiber is None else id(self._fiber)

    def is_alive(self) -> bool:
        return self._fiber is not None and not self._fiber.is_over

    def join(self, timeout: float | None = None) -> None:
        if self._fiber is not None and not self._fiber.is_over:
            self._scheduler.wait(self._fiber.joining, None if timeout is None else timeout * 1000.0)


class _SimpleQueue:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._items: deque[Any] = deque()
        self._waiters: deque[Waiter] = deque()

    def put(self, item: Any) -> None:
        self._items.append(item)
        self._scheduler.wake_one(self._waiters)

    def get(self, timeout: float | None = None) -> Any:
        if not self._items:
            self._scheduler.wait(self._waiters, None if timeout is None else timeout * 1000.0)
        return self.get_nowait()

    def get_nowait(self) -> Any:
        if not self._items:
            raise queue.Empty
        return self._items.popleft()

    def empty(self) -> bool:
        return not self._items


def new_event(scheduler: Scheduler) -> _Event:
    """Return an event of a simulated process."""
    return _Event(scheduler)


@contextmanager
def installed(scheduler: Scheduler, modules: list[ModuleType]) -> Iterator[None]:
    """Have modules find fibers where they look for threads, while the block lasts."""

    def simulated(kind: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments, **named: kind(scheduler, *arguments, **named)

    threading_ = SimpleNamespace(
        Thread=simulated(_Thread), Lock=simulated(_Lock), Event=simulated(_Event), Condition=simulated(_Condition)
    )
    queue_ = SimpleNamespace(SimpleQueue=simulated(_SimpleQueue), Empty=queue.Empty)
    replacements = {"threading": threading_, "queue": queue_}
    before: list[tuple[ModuleType, str, Any]] = []
    for module in modules:
        for name, replacement in replacements.items():
            if name in vars(module):
                before.append((module, name, vars(module)[name]))
                setattr(module, name, replacement)
    try:
        yield
    finally:
        for module, name, original in before:
            setattr(module, name, original)
