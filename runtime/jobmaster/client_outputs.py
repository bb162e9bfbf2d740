"""Output that slots send back to the program that started the job: printed text and collected batches.

`Outputs` is what a JobMaster needs; `ClientOutputs` is the one of application mode (a session cluster writes files).

Text is written to `sys.stdout` by a thread of its own, so that a blocked terminal stops the tasks that print (their
window is not acknowledged) but not the JobMaster. Collected batches wait until they are taken.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable
from typing import Protocol

from runtime.core.ids import Attempt, SlotId

Acknowledge = Callable[[], None]
STDOUT = "stdout"
COLLECT_PREFIX = "collect:"


class Outputs(Protocol):
    """Takes what slots send for the client; called by the driver's thread."""

    def deliver(
        self, slot: SlotId, attempt: Attempt, channel: str, position: int, payload: bytes, acknowledge: Acknowledge
    ) -> None:
        """Take what a slot sent.

        Args:
            slot: who sent it.
            attempt: the slot's.
            channel: "stdout", "log" or "collect:<id>".
            position: number of bytes that the slot sent on the channel before. After a change of JobMaster, what was
                not acknowledged to the earlier one is delivered again.
            payload: what it sent.
            acknowledge: called once, by any thread, when the payload and all before it on the channel is taken.
        """

    def close(self) -> None:
        """Note that the job has ended: nothing follows."""


class CollectedBatches:
    """Batches of one `execute_and_collect`, in order of arrival; taken by the client's thread."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[bytes, Acknowledge] | None] = queue.SimpleQueue()
        self._ended = False

    def put(self, payload: bytes, acknowledge: Acknowledge) -> None:
        self._queue.put((payload, acknowledge))

    def end(self) -> None:
        """Note that the job has ended: nothing follows."""
        self._queue.put(None)

    def take(self) -> bytes | None:
        """Return the next batch, waiting for it; None once the job has ended and everything was taken."""
        if self._ended:
            return None
        item = self._queue.get()
        if item is None:
            self._ended = True
            return None
        payload, acknowledge = item
        acknowledge()
        return payload


class ClientOutputs:
    """Delivers what slots send for the client."""

    def __init__(self) -> None:
        self._collectors: dict[str, CollectedBatches] = {}
        self._text: queue.SimpleQueue[tuple[bytes, Acknowledge] | None] = queue.SimpleQueue()
        self._printer = threading.Thread(target=self._print, name="client-stdout", daemon=True)
        self._printer_started = False

    def collector(self, collect_id: str) -> CollectedBatches:
        """Return the queue of that id, made when first asked for; ask for it before the job starts."""
        return self._collectors.setdefault(COLLECT_PREFIX + collect_id, CollectedBatches())

    def deliver(
        self, slot: SlotId, attempt: Attempt, channel: str, position: int, payload: bytes, acknowledge: Acknowledge
    ) -> None:
        """Queue what a slot sent. Nothing comes twice: the slots of an application end with its JobMaster."""
        if channel == STDOUT:
            if not self._printer_started:
                self._printer_started = True
                self._printer.start()
            self._text.put((payload, acknowledge))
            return
        collector = self._collectors.get(channel)
        if collector is None:
            # nobody waits for it: do not hold the job up
            acknowledge()
            return
        collector.put(payload, acknowledge)

    def close(self) -> None:
        """The job has ended: print what is left, end the collectors."""
        for collector in self._collectors.values():
            collector.end()
        if self._printer_started:
            self._text.put(None)
            self._printer.join()

    def _print(self) -> None:
        while (item := self._text.get()) is not None:
            payload, acknowledge = item
            try:
                sys.stdout.write(payload.decode(errors="replace"))
                sys.stdout.flush()
            except (OSError, ValueError):
                # the reader of our output is gone (a closed pipe): the job itself goes on
                pass
            acknowledge()
