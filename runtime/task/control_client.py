"""FlightControlLink: a slot's control stream to its JobMaster, over Arrow Flight.

Two daemon threads: one reads messages (and answers heartbeats at once with what the loop last published, so that a
frozen process is told from a slow user function, whose stack it looks at), one writes. The slot's lease is renewed by
heartbeat requests: if two of them lie further apart than the lease, the slot has been replaced for all it knows, and
the link is lost for good.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.flight as flight

from runtime.core.clock import Clock
from runtime.core.ids import Attempt, SlotId
from runtime.network.control_stream import SLOT_PIECE_BYTES, Hello, Outbox
from runtime.network.opening import HELLO_HEADER, OpeningError
from runtime.network.pieces import PieceAssembler, PieceError
from runtime.network.tls import TlsError, Transport
from runtime.task.control_link import ControlLostError
from runtime.task.jobmaster_codec import decode_jobmaster_messages
from runtime.task.messages import (
    CancelTasks,
    EndOfStream,
    Heartbeat,
    HeartbeatRequest,
    JobMasterMessage,
    SampleStacks,
    SlotMessage,
    StacksSampled,
)
from runtime.task.slot_codec import encode_slot_messages
from runtime.task.stack_samples import StackSampler
from runtime.task.stalls import SHOWN_AFTER_MS, LoopWatch

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 2.0


class FlightControlLink:
    """Implements `runtime.task.control_link.ControlLink`.

    Args:
        address: of the JobMaster's control server, "grpc+tcp://host:port" or "grpc+tls://host:port".
        hello: who this slot is.
        token: of its attempt; the JobMaster must show that it knows it before anything that it sends is read.
        clock: for the lease.
        lease_ms: how long the slot may go on without a heartbeat request.

    Raises:
        ControlLostError: the JobMaster cannot be reached.
    """

    def __init__(self, address: str, hello: Hello, token: str, clock: Clock, lease_ms: float) -> None:
        self._hello = hello
        self._token = token
        self._clock = clock
        self._lease_ms = lease_ms
        self._lost: ControlLostError | None = None
        self._inbox: deque[JobMasterMessage] = deque()
        self._outbox = Outbox(encode_slot_messages, SLOT_PIECE_BYTES)
        self._listener: Callable[[], None] = lambda: None
        self._heartbeat = Heartbeat(hello.slot, hello.attempt, 0, {})
        self._published_ms = clock.monotonic_ms()
        self._watch: LoopWatch | None = None
        self._sampler: StackSampler | None = None
        #: a stall is logged when it has lasted so long; then twice as long, and so on
        self._warn_after_ms = SHOWN_AFTER_MS
        self._renewed_ms = clock.monotonic_ms()
        try:
            self._client = Transport.of_environment().connect(address)
            headers = [(HELLO_HEADER.encode(), hello.encode(token))]
            self._writer, self._reader = self._client.do_exchange(
                flight.FlightDescriptor.for_command(b"control"), flight.FlightCallOptions(headers=headers)
            )
        except (flight.FlightError, TlsError) as error:
            raise ControlLostError(f"no JobMaster at {address}: {error}") from error
        self._read_thread = threading.Thread(target=self._read, name="control-read", daemon=True)
        #: set once it is known whether this is the JobMaster; nothing is sent before
        self._is_known = threading.Event()
        self._is_proven = False
        self._write_thread = threading.Thread(target=self._write, name="control-write", daemon=True)
        self._read_thread.start()
        self._write_thread.start()

    def poll(self) -> JobMasterMessage | None:
        if self._lost is None and self._clock.monotonic_ms() - self._renewed_ms > self._lease_ms:
            self._lose(f"no heartbeat from the JobMaster for {self._lease_ms:.0f} ms", is_final=True)
        if self._lost is not None:
            raise ControlLostError(str(self._lost), self._lost.is_final)
        try:
            return self._inbox.popleft()
        except IndexError:
            return None

    def send(self, message: SlotMessage) -> None:
        self._outbox.put(message)

    def publish(self, heartbeat: Heartbeat) -> None:
        self._heartbeat = heartbeat
        self._published_ms = self._clock.monotonic_ms()
        self._warn_after_ms = SHOWN_AFTER_MS

    def set_watch(self, watch: LoopWatch, redact: Callable[[str], str]) -> None:
        self._watch, self._sampler = watch, StackSampler(watch, redact)

    def set_listener(self, on_message: Callable[[], None]) -> None:
        self._listener = on_message

    def close(self) -> None:
        self._outbox.close()
        self._write_thread.join(CLOSE_TIMEOUT_S)
        self._read_thread.join(CLOSE_TIMEOUT_S)
        if self._read_thread.is_alive():
            self._reader.cancel()
            self._read_thread.join(CLOSE_TIMEOUT_S)
        self._client.close()

    def drop(self) -> None:
        self._outbox.close()
        # the threads end with the stream, whatever the other end does
        threading.Thread(target=self._end, name="control-drop", daemon=True).start()

    def _end(self) -> None:
        self._reader.cancel()
        self._read_thread.join(CLOSE_TIMEOUT_S)
        self._write_thread.join(CLOSE_TIMEOUT_S)
        if not (self._read_thread.is_alive() or self._write_thread.is_alive()):
            with contextlib.suppress(flight.FlightError, OSError):
                # a writer that is collected unclosed prints the stream's error
                self._writer.close()
        self._client.close()

    def _lose(self, cause: str, is_final: bool = False) -> None:
        if self._lost is None or (is_final and not self._lost.is_final):
            self._lost = ControlLostError(cause, is_final)
        self._listener()

    def _read(self) -> None:
        assembler = PieceAssembler()
        try:
            challenge = self._reader.read_chunk().app_metadata
            self._writer.write_metadata(
                self._hello.answer(b"" if challenge is None else challenge.to_pybytes(), self._token)
            )
            self._is_proven = True
            self._is_known.set()
            while True:
                received = assembler.add(self._reader.read_chunk().app_metadata)
                if received is None:
                    continue
                for message in decode_jobmaster_messages(received):
                    if isinstance(message, HeartbeatRequest):
                        self._answer(message)
                    elif isinstance(message, SampleStacks):
                        self._sample(message)
                        continue
                    elif isinstance(message, CancelTasks) and self._watch is not None:
                        # the loop may be in a call that waits for another system
                        self._watch.interrupt()
                    elif isinstance(message, EndOfStream):
                        self._lose("the JobMaster ended the control stream", is_final=True)
                    self._inbox.append(message)
                self._listener()
        except StopIteration:
            # it has ended without a word, or EndOfStream would have come
            self._lose("the JobMaster is gone")
        except OpeningError as error:
            self._lose(str(error), is_final=True)
            self._reader.cancel()
        except (flight.FlightError, pa.ArrowException, PieceError) as error:
            self._lose(f"control stream broken: {error}")
        finally:
            # what is queued goes nowhere, and the writer finds that out
            self._is_known.set()

    def _answer(self, request: HeartbeatRequest) -> None:
        now = self._clock.monotonic_ms()
        if now - self._renewed_ms > self._lease_ms:
            # the process was frozen: requests that piled up meanwhile do not bring the lease back
            self._lose(f"the slot was frozen for {now - self._renewed_ms:.0f} ms", is_final=True)
            return
        self._renewed_ms = now
        stalled = int(now - self._published_ms)
        call = self._watch.call() if self._watch is not None and stalled >= SHOWN_AFTER_MS else None
        heartbeat = replace(self._heartbeat, sequence=request.sequence, stalled_ms=stalled, stalled_in=call)
        self._outbox.put(heartbeat, may_overtake=True)
        if call is not None and stalled >= self._warn_after_ms:
            self._warn_after_ms = 2 * stalled
            who = "user code" if call.in_user_code else "the runtime"
            logger.warning("%s has not returned for %d s\n%s", who, stalled // 1000, call.stack)

    def _sample(self, request: SampleStacks) -> None:
        slot, attempt = self._hello.slot, self._hello.attempt
        if self._sampler is not None:
            self._sampler.sample(request, lambda stacks: self._outbox.put(StacksSampled(slot, attempt, stacks)))

    def _write(self) -> None:
        self._is_known.wait()
        if not self._is_proven:
            return
        try:
            # `done_writing` is not called: the JobMaster ends the stream on SlotLeaving, and gRPC aborts the process if
            # a reader that finds the stream broken closes it at the same moment
            self._outbox.write_all(self._writer.write_metadata)
        except (flight.FlightError, pa.ArrowException) as error:
            self._lose(f"control stream broken: {error}")


def connect_control(
    address: str, slot: SlotId, attempt: Attempt, token: str, clock: Clock, lease_ms: float
) -> FlightControlLink:
    """Open the control stream of a slot."""
    return FlightControlLink(address, Hello.new(slot, attempt), token, clock, lease_ms)
