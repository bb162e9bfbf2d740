"""ControlServer: the JobMaster's end of all control streams of a job, over Arrow Flight.

One Flight handler thread per slot writes, a second one reads; what arrives is handed to callbacks that only queue it.
A stream that ends before SlotLeaving is a lost slot.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow.flight as flight

from runtime.core.ids import Attempt, SlotId
from runtime.network.addresses import in_uri, listening_host
from runtime.network.control_stream import ControlStreamError, Hello, Outbox, decode_messages
from runtime.network.pieces import PieceAssembler, PieceError
from runtime.task.messages import EndOfStream, HeartbeatRequest, JobMasterMessage, SlotLeaving, SlotMessage

SHUTDOWN_TIMEOUT_S = 2.0


class ControlServer(flight.FlightServerBase):  # type: ignore[misc]
    """Serves the control streams of one job.

    Args:
        host: address that slots connect to.
        token_of: returns the secret of an attempt; who does not know it is refused.
        on_message: called with the slot and each of its messages, on that slot's thread.
        on_lost: called with (slot, attempt, cause) when a stream ends without SlotLeaving.
    """

    def __init__(
        self,
        host: str,
        token_of: Callable[[Attempt], str],
        on_message: Callable[[SlotId, SlotMessage], None],
        on_lost: Callable[[SlotId, Attempt, str], None],
    ) -> None:
        self._token_of = token_of
        self._on_message = on_message
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._outboxes: dict[tuple[SlotId, Attempt], Outbox] = {}
        super().__init__(f"grpc://{in_uri(listening_host(host))}:0")
        self.address = f"grpc://{in_uri(host)}:{self.port}"

    def send(self, slot: SlotId, attempt: Attempt, message: JobMasterMessage) -> None:
        """Queue a message for a slot; one that is not connected gets nothing."""
        with self._lock:
            outbox = self._outboxes.get((slot, attempt))
        if outbox is not None:
            outbox.put(message, may_overtake=isinstance(message, HeartbeatRequest))

    def is_connected(self, slot: SlotId, attempt: Attempt) -> bool:
        """Return whether a slot has a stream that has not ended."""
        with self._lock:
            return (slot, attempt) in self._outboxes

    def disconnect(self, attempt: Attempt, slot: SlotId | None = None) -> None:
        """End the streams of an attempt, or of one of its slots, once what is queued has been written."""
        with self._lock:
            outboxes = [o for (of_slot, of), o in self._outboxes.items() if of == attempt and slot in (None, of_slot)]
        for outbox in outboxes:
            # the stream itself ends only when the slot ends it
            outbox.put(EndOfStream())
            outbox.close()

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Serve one slot's stream for its whole life."""
        try:
            hello = Hello.decode(descriptor.command, self._token_of)
        except ControlStreamError as error:
            raise flight.FlightUnauthenticatedError(str(error)) from error
        identity = (hello.slot, hello.attempt)
        outbox = Outbox()
        with self._lock:
            if identity in self._outboxes:
                raise flight.FlightServerError(f"slot {hello.slot} of attempt {hello.attempt} is connected already")
            self._outboxes[identity] = outbox
        read_thread = threading.Thread(
            target=self._read, args=(reader, hello, outbox), name=f"control-{hello.slot}", daemon=True
        )
        read_thread.start()
        try:
            outbox.write_all(writer.write_metadata)
        except (flight.FlightError, OSError):
            # the reader sees the same break and reports it
            pass
        finally:
            read_thread.join()
            with self._lock:
                self._outboxes.pop(identity, None)

    def _read(self, reader: Any, hello: Hello, outbox: Outbox) -> None:
        cause = "the control stream ended"
        assembler = PieceAssembler()
        leaving = False
        try:
            while not leaving:
                received = assembler.add(reader.read_chunk().app_metadata)
                for message in decode_messages(received) if received is not None else ():
                    leaving = leaving or isinstance(message, SlotLeaving)
                    self._on_message(hello.slot, message)
        except StopIteration:
            pass
        except (flight.FlightError, PieceError, OSError) as error:
            cause = f"the control stream broke: {error}"
        finally:
            outbox.close()
            if not leaving:
                self._on_lost(hello.slot, hello.attempt, cause)

    def stop(self) -> None:
        """End all streams; gives up after 2 s on slots that do not answer (their threads are daemons)."""
        with self._lock:
            outboxes = list(self._outboxes.values())
        for outbox in outboxes:
            outbox.put(EndOfStream())
            outbox.close()
        closer = threading.Thread(target=self.shutdown, name="control-shutdown", daemon=True)
        closer.start()
        closer.join(SHUTDOWN_TIMEOUT_S)
