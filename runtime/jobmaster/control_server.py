"""ControlServer: the JobMaster's end of all control streams of a job, over Arrow Flight.

One Flight handler thread per slot writes, a second one reads; what arrives is handed to callbacks that only queue it.
A stream that ends before SlotLeaving is a lost slot.

Slots run the code of users. What they send is read by a closed codec, is bounded, and must name the slot and attempt
for which the stream was opened; else the stream ends, and the slot is lost (ADR 36). Whoever does not know the
attempt's token is refused by the headers of the call, before anything of its body is read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow.flight as flight

from runtime.core.closed_codec import WireError
from runtime.core.ids import Attempt, SlotId
from runtime.network.addresses import in_uri, listening_host
from runtime.network.control_stream import Hello, Outbox
from runtime.network.opening import HELLO_HEADER, OpeningError, is_answer
from runtime.network.pieces import MAX_RECEIVED_BYTES, PieceAssembler, PieceError
from runtime.network.refusals import REFUSALS
from runtime.network.tls import Transport
from runtime.task.jobmaster_codec import encode_jobmaster_messages
from runtime.task.messages import (
    EndOfStream,
    HeartbeatRequest,
    JobMasterMessage,
    OperatorEvent,
    SlotLeaving,
    SlotMessage,
)
from runtime.task.slot_codec import decode_slot_messages

SHUTDOWN_TIMEOUT_S = 2.0
MAX_MESSAGE_BYTES = 1 << 30
"""Most that a slot may send as one list of messages. Acknowledgements carry operator state, and a printed record may
have 512 MiB; below that, jobs with large union states would fail."""
MAX_UNANSWERED = 256
"""Streams whose slot has not answered the challenge yet. A slot answers at once; each holds a thread."""


class _HelloFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Checks the hello of a call before its body is read: who is not a slot of the job holds nothing here."""

    def __init__(self, token_of: Callable[[Attempt], str]) -> None:
        self._token_of = token_of

    def start_call(self, info: Any, headers: dict[str, list[str | bytes]]) -> _HelloChecked:
        values: Sequence[str | bytes] = headers.get(HELLO_HEADER, ())
        if info.method != flight.FlightMethod.DO_EXCHANGE or len(values) != 1:
            REFUSALS.count("connections")
            raise flight.FlightUnauthenticatedError("only slots are served here")
        value = values[0]
        try:
            hello, proof = Hello.read(value.encode() if isinstance(value, str) else value)
            hello.check(proof, self._token_of(hello.attempt))
            return _HelloChecked(hello)
        except OpeningError as error:
            REFUSALS.count("connections")
            raise flight.FlightUnauthenticatedError(str(error)) from error


class _HelloChecked(flight.ServerMiddleware):  # type: ignore[misc]
    """Carries the hello of a call to its handler."""

    def __init__(self, hello: Hello) -> None:
        self.hello = hello


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
        self._unanswered = 0
        transport = Transport.of_environment()
        super().__init__(
            f"{transport.scheme}://{in_uri(listening_host(host))}:0",
            middleware={HELLO_HEADER: _HelloFactory(token_of)},
            **transport.server_arguments(),
        )
        self.address = f"{transport.scheme}://{in_uri(host)}:{self.port}"

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
        hello: Hello = context.get_middleware(HELLO_HEADER).hello
        self._challenge(hello, reader, writer)
        identity = (hello.slot, hello.attempt)
        outbox = Outbox(encode_jobmaster_messages)
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

    def _challenge(self, hello: Hello, reader: Any, writer: Any) -> None:
        """Show the slot that this is its JobMaster, and have it show that it is the slot.

        Raises:
            FlightUnauthenticatedError: it is not.
            FlightServerError: too many have not answered yet.
        """
        with self._lock:
            if self._unanswered >= MAX_UNANSWERED:
                REFUSALS.count("connections")
                raise flight.FlightServerError("too many streams are being opened")
            self._unanswered += 1
        try:
            challenge, expected = hello.challenge(self._token_of(hello.attempt))
            writer.write_metadata(challenge)
            answer = reader.read_chunk().app_metadata
            if answer is None or answer.size > len(expected) or not is_answer(answer.to_pybytes(), expected):
                REFUSALS.count("connections")
                raise flight.FlightUnauthenticatedError("the hello is a repetition")
        except StopIteration:
            raise flight.FlightUnauthenticatedError("no answer to the challenge") from None
        finally:
            with self._lock:
                self._unanswered -= 1

    def _read(self, reader: Any, hello: Hello, outbox: Outbox) -> None:
        cause = "the control stream ended"
        assembler = PieceAssembler(MAX_MESSAGE_BYTES)
        leaving = False
        try:
            while not leaving:
                frame = reader.read_chunk().app_metadata
                if frame is None or frame.size > MAX_RECEIVED_BYTES:
                    raise PieceError("a frame without a message" if frame is None else f"a frame of {frame.size} bytes")
                received = assembler.add(frame)
                for message in decode_slot_messages(received) if received is not None else ():
                    _check_sender(message, hello)
                    leaving = leaving or isinstance(message, SlotLeaving)
                    self._on_message(hello.slot, message)
        except StopIteration:
            pass
        except (flight.FlightError, PieceError, WireError, OSError, MemoryError) as error:
            if isinstance(error, PieceError | WireError):
                REFUSALS.count("messages")
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


def _check_sender(message: SlotMessage, hello: Hello) -> None:
    """Raise WireError if a slot speaks for another one, or for another attempt."""
    slot = hello.slot if isinstance(message, OperatorEvent) else message.slot
    if (slot, message.attempt) != (hello.slot, hello.attempt):
        raise WireError(f"slot {hello.slot} of attempt {hello.attempt} speaks for {slot} of {message.attempt}")
