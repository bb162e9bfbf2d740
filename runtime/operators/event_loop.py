"""EventLoopThread: an asyncio loop on a thread of its own, for the coroutines of one operator.

`start`, `submit`, `cancel` and `stop` are called by the task's thread; what a coroutine ends with is handed to a
callback on the loop's thread, which must only pass it on.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

#: Seconds that coroutines have to end in once they are cancelled. More would hold up the cancellation of the job.
STOP_SECONDS = 1.0

Outcome = Callable[[Any, int, Any, BaseException | None], None]
"""(call, number of the attempt, result, error)."""


class EventLoopThread:
    """Runs coroutines.

    Args:
        name: of the thread.
        invoke: makes the coroutine of a call from its value.
        on_outcome: called once for each attempt, on the loop's thread.
    """

    def __init__(self, name: str, invoke: Callable[[Any], Coroutine[Any, Any, Any]], on_outcome: Outcome) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._invoke = invoke
        self._on_outcome = on_outcome

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, calls: Sequence[Any]) -> None:
        """Start a coroutine for each call, with its `value` and `attempt`; sets its `future`."""
        self._loop.call_soon_threadsafe(self._start_all, [(call, call.attempt) for call in calls])

    def cancel(self, call: Any) -> None:
        """Cancel a call's coroutine, if it still runs."""
        self._loop.call_soon_threadsafe(_cancel, call)

    def stop(self) -> None:
        """Cancel everything and end the thread; waits for at most STOP_SECONDS."""
        if self._thread.ident is None:
            self._loop.close()
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        # a coroutine that blocks or refuses to be cancelled keeps its daemon thread, not the task
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.wait(left))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()

    def _start_all(self, calls: Sequence[tuple[Any, int]]) -> None:
        for call, attempt in calls:
            call.future = self._loop.create_task(self._attempt(call, attempt))

    async def _attempt(self, call: Any, attempt: int) -> None:
        try:
            result = await self._invoke(call.value)
        except BaseException as error:
            # also of the kinds that would end the loop: what the user's code raises is the task's failure
            self._on_outcome(call, attempt, None, error)
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            self._on_outcome(call, attempt, result, None)


def _cancel(call: Any) -> None:
    if call.future is not None:
        call.future.cancel()
