"""Work of connectors on other threads, so that the slot's loop never waits: one call, reading ahead, writing behind.

Each class has one owner, a thread that only asks and never waits, apart from `BackgroundWriter.drain` and `close`. An
error on the other thread is raised at the owner's next question. All threads are daemons and end on `close`: what
they run must come back within about a second of being told to stop.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

#: Seconds that `close` waits for a thread. A thread that is stuck in a library then keeps itself, not the task.
CLOSE_SECONDS = 2.0


class BackgroundCall(Generic[T]):
    """A call of a function on another thread.

    Args:
        name: of the thread.
        function: what to call.
    """

    def __init__(self, name: str, function: Callable[[], T]) -> None:
        self._function = function
        self._result: T | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> T:
        """Return what the function returned; call it once it is done.

        Raises:
            Exception: what the function raised.
        """
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]

    def close(self) -> None:
        """Wait a little for the end; idempotent."""
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        try:
            self._result = self._function()
        except BaseException as error:
            self._error = error


class ReadAhead(Generic[T]):
    """Runs a generator and keeps some of its items.

    Args:
        name: of the thread.
        produce: makes the generator; it is told to stop by the event, and must look at it at least every second.
        capacity: how many items wait at most; further ones are not asked for.
    """

    def __init__(self, name: str, produce: Callable[[threading.Event], Iterator[T]], capacity: int = 4) -> None:
        self._produce = produce
        self._items: queue.Queue[T] = queue.Queue(capacity)
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._has_ended = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def take(self) -> T | None:
        """Return the next item; None if there is none yet, or none any more (see `is_exhausted`).

        Raises:
            Exception: what the generator raised, behind the items that it gave before.
        """
        # in this order: whatever was put before the end is seen
        has_ended = self._has_ended
        try:
            return self._items.get_nowait()
        except queue.Empty:
            if has_ended and self._error is not None:
                raise self._error from None
            return None

    @property
    def is_exhausted(self) -> bool:
        """Return whether the generator has ended and everything was taken."""
        return self._has_ended and self._error is None and self._items.empty()

    def stop(self) -> None:
        """Have the generator stop; does not wait for it. Idempotent."""
        self._stop.set()

    def close(self) -> None:
        """Stop the generator and wait a little for it; idempotent."""
        self._stop.set()
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        items = self._produce(self._stop)
        try:
            for item in items:
                while not self._stop.is_set():
                    try:
                        self._items.put(item, timeout=0.1)
                        break
                    except queue.Full:
                        continue
                if self._stop.is_set():
                    break
        except BaseException as error:
            self._error = error
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()
            self._has_ended = True


class BackgroundWriter(Generic[T]):
    """Hands items to a function, in order, and reports its progress.

    Args:
        name: of the thread.
        write: takes all items that wait, at least one; called by the thread.
        capacity: `is_available` is False while so many items wait; more are taken all the same.
        close: called by the thread at its end.
    """

    def __init__(
        self, name: str, write: Callable[[list[T]], None], capacity: int = 4, close: Callable[[], None] | None = None
    ) -> None:
        self._write = write
        self._capacity = capacity
        self._close = close
        self._changed = threading.Condition()
        self._waiting: deque[T] = deque()
        self._is_writing = False
        self._stopping = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, item: T) -> None:
        """Queue an item; never waits.

        Raises:
            Exception: what `write` raised for an earlier one.
        """
        with self._changed:
            self._check()
            self._waiting.append(item)
            self._changed.notify_all()

    def is_available(self) -> bool:
        """Return whether there is room; True after an error, so that it is noticed."""
        return len(self._waiting) < self._capacity or self._error is not None

    def drain(self) -> None:
        """Wait until all that was submitted is written.

        Raises:
            Exception: what `write` raised.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or not (self._waiting or self._is_writing))
            self._check()

    def interrupt(self, error: BaseException) -> None:
        """Have `drain` and `submit` raise an error from now on, unless there is one already. Any thread."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def close(self) -> None:
        """Drop waiting items and end the thread; idempotent."""
        with self._changed:
            self._stopping = True
            self._waiting.clear()
            self._changed.notify_all()
        self._thread.join(CLOSE_SECONDS)

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._stopping or bool(self._waiting))
                    if self._stopping:
                        return
                    items = list(self._waiting)
                    self._waiting.clear()
                    self._is_writing = True
                self._write(items)
                with self._changed:
                    self._is_writing = False
                    self._changed.notify_all()
        except BaseException as error:
            with self._changed:
                self._error = error
                self._is_writing = False
                self._waiting.clear()
                self._changed.notify_all()
        finally:
            if self._close is not None:
                self._close()
