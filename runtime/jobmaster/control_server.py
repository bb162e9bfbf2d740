"""ControlServer: the JobMaster's end of all control streams of a job, which slots open as clients of Arrow Flight.

Two threads serve a slot, one that writes and one that reads; what arrives is handed to callbacks that only queue it.
A stream that ends before SlotLeaving is a lost slot.

Slots run the code of users. What they send is read by a closed codec, is bounded, and must name the slot and attempt
for which the stream was opened; else the stream ends, and the slot is lost (ADR 36). Whoever does not know the
attempt's token is refused by the headers of the call, before anything of its body is read.

The server is gRPC's and not Flight's, which reads the first message of each call by itself, whatever its size: here no
message is read before the hello, and none above a slot's frame at any time (ADR 63).
"""

from __future__ import annotations

import resource
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import grpc
import pyarrow as pa

from runtime.core.closed_codec import WireError
from runtime.core.ids import Attempt, SlotId
from runtime.network.addresses import in_uri, listening_host
from runtime.network.control_stream import MAX_SLOT_FRAME_BYTES, Hello, Outbox
from runtime.network.flight_data import EXCHANGE_METHOD, FlightDataError, flight_data_of, message_in
from runtime.network.opening import HELLO_HEADER, OpeningError, is_answer
from runtime.network.pieces import PieceAssembler, PieceError
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
"""Streams whose slot has not answered the challenge yet. A slot answers at once; each holds two threads and a frame."""
ANSWER_TIMEOUT_S = 10.0
"""From the challenge to the answer. Longer: whoever replays hellos keeps slots from opening theirs; shorter: a slot on
a busy machine is refused, and lost."""
MAX_CONNECTIONS = 8192
"""Of one job. A slot has one; gRPC closes what is above it, and what has not opened HTTP/2 within seconds."""
SHARE_OF_FILES = 4
"""The connections of one job are at most this part, a quarter, of the files that the process may have open."""
IDLE_CONNECTION_MS = 5_000
"""A connection without a call is closed then. A slot calls as soon as it is connected, for as long as it lives."""
_OPTIONS = (
    # with what Flight puts around a frame
    ("grpc.max_receive_message_length", MAX_SLOT_FRAME_BYTES + 1024),
    ("grpc.max_metadata_size", 8 << 10),
    ("grpc.max_concurrent_streams", 8),
    ("grpc.server_handshake_timeout_ms", 10_000),
    # what is on its way and not asked for yet: the windows are not to grow with the bandwidth
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 64 << 10),
    ("grpc.so_reuseport", 0),
)


class _Threads(ThreadPoolExecutor):
    """A new thread for each call, which ends with it, and keeps no process alive; gRPC bounds their number."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # whoever waits for the result is told
                future.set_exception(error)

        threading.Thread(target=run, name="control-write", daemon=True).start()
        return future


class _Calls(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc is not typed
    """Finds what serves a call. gRPC's thread keeps it, and it does not keep the server: one that nobody has any more
    ends.
    """

    def __init__(self, server: ControlServer) -> None:
        self._server = weakref.ref(server)

    def service(self, handler_call_details: Any) -> Any:
        # gRPC's own thread asks, so the call itself is judged by what serves it
        server = self._server()
        is_stream = server is not None and handler_call_details.method == EXCHANGE_METHOD
        return grpc.stream_stream_rpc_method_handler(server._serve if server is not None and is_stream else _refuse)


class ControlServer:
    """Serves the control streams of one job.

    Args:
        host: address that slots connect to.
        token_of: returns the secret of an attempt; who does not know it is refused.
        on_message: called with the slot and each of its messages, on that slot's thread.
        on_lost: called with (slot, attempt, cause) when a stream ends without SlotLeaving.

    Raises:
        OSError: nothing can listen at that address.
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
        most = max_connections()
        options = (
            *_OPTIONS,
            ("grpc.max_allowed_incoming_connections", most),
            ("grpc.max_connection_idle_ms", IDLE_CONNECTION_MS),
        )
        self._server = grpc.server(_Threads(), handlers=[_Calls(self)], options=options, maximum_concurrent_rpcs=most)
        try:
            port = _listen(self._server, f"{in_uri(listening_host(host))}:0", transport)
        except RuntimeError as error:
            raise OSError(f"the control server cannot listen at {host}: {error}") from error
        self._server.start()
        self.address = f"{transport.scheme}://{in_uri(host)}:{port}"

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

    def _serve(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """Serve one slot's stream for its whole life."""
        hello = self._hello_of(context)
        challenge, expected = hello.challenge(self._token_of(hello.attempt))
        with self._lock:
            is_full = self._unanswered >= MAX_UNANSWERED
            self._unanswered += not is_full
        if is_full:
            REFUSALS.count("connections")
            context.abort(grpc.StatusCode.UNKNOWN, "too many streams are being opened")
        # also where the challenge itself is not taken
        deadline = threading.Timer(ANSWER_TIMEOUT_S, context.cancel)
        deadline.daemon = True
        deadline.start()
        try:
            yield flight_data_of(challenge)
            answer = _first_message(requests)
        finally:
            deadline.cancel()
            with self._lock:
                self._unanswered -= 1
        if not is_answer(answer, expected):
            if answer:
                REFUSALS.count("connections")
            reason = "the hello is a repetition" if answer else "no answer to the challenge"
            context.abort(grpc.StatusCode.UNAUTHENTICATED, reason)
        outbox = Outbox(encode_jobmaster_messages)
        with self._lock:
            is_second = self._outboxes.setdefault((hello.slot, hello.attempt), outbox) is not outbox
        if is_second:
            reason = f"slot {hello.slot} of attempt {hello.attempt} is connected already"
            context.abort(grpc.StatusCode.UNKNOWN, reason)
        reading = threading.Thread(
            target=self._read, args=(requests, hello, outbox), name=f"control-{hello.slot}", daemon=True
        )
        reading.start()
        for frame in outbox.frames():
            yield flight_data_of(frame)
        # the slot ends the stream, once it has read what was written
        reading.join()

    def _hello_of(self, context: Any) -> Hello:
        """Return the hello of a call, or end it."""
        values = [value for key, value in context.invocation_metadata() if key == HELLO_HEADER]
        if len(values) != 1:
            _refuse(None, context)
        value = values[0]
        try:
            hello, proof = Hello.read(value.encode() if isinstance(value, str) else value)
            hello.check(proof, self._token_of(hello.attempt))
        except OpeningError as error:
            _refuse(None, context, str(error))
        return hello

    def _read(self, requests: Iterator[bytes], hello: Hello, outbox: Outbox) -> None:
        cause = "the control stream ended"
        assembler = PieceAssembler(MAX_MESSAGE_BYTES)
        leaving = False
        try:
            for request in requests:
                frame = message_in(request)
                if frame is None:
                    raise PieceError("a frame without a message")
                received = assembler.add(pa.py_buffer(frame))
                for message in decode_slot_messages(received) if received is not None else ():
                    _check_sender(message, hello)
                    leaving = leaving or isinstance(message, SlotLeaving)
                    self._on_message(hello.slot, message)
                if leaving:
                    break
        except grpc.RpcError:
            cause = "the control stream broke"
        except (FlightDataError, PieceError, WireError, MemoryError) as error:
            REFUSALS.count("messages")
            cause = f"the control stream broke: {error}"
        finally:
            outbox.close()
            with self._lock:
                self._outboxes.pop((hello.slot, hello.attempt), None)
            if not leaving:
                self._on_lost(hello.slot, hello.attempt, cause)

    def stop(self) -> None:
        """End all streams; those of slots that do not answer within 2 s are broken."""
        with self._lock:
            outboxes = list(self._outboxes.values())
        for outbox in outboxes:
            outbox.put(EndOfStream())
            outbox.close()
        self._server.stop(SHUTDOWN_TIMEOUT_S).wait(2 * SHUTDOWN_TIMEOUT_S)


def max_connections() -> int:
    """Return how many connections the server of one job takes, as of the files that this process may have open now."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if limit == resource.RLIM_INFINITY else max(1, min(MAX_CONNECTIONS, limit // SHARE_OF_FILES))


def _listen(server: Any, address: str, transport: Transport) -> int:
    """Have a server listen at an address, in the clear or with the certificates of this process; its port is returned.

    Raises:
        RuntimeError: the address cannot be had.
    """
    own = transport.certificates
    if own is None:
        return int(server.add_insecure_port(address))
    pair = (own.key.encode(), own.certificate.encode())
    return int(server.add_secure_port(address, grpc.ssl_server_credentials([pair], own.authority.encode(), True)))


def _refuse(_: Any, context: Any, reason: str = "only slots are served here") -> Any:
    """End a call of somebody who is no slot."""
    REFUSALS.count("connections")
    context.abort(grpc.StatusCode.UNAUTHENTICATED, reason)


def _first_message(requests: Iterator[bytes]) -> bytes:
    """Return the first message of a stream, after the descriptor that Flight's clients open it with; b"": none."""
    try:
        for request in requests:
            message = message_in(request)
            if message is not None:
                return bytes(message)
    except (FlightDataError, grpc.RpcError):
        pass
    return b""


def _check_sender(message: SlotMessage, hello: Hello) -> None:
    """Raise WireError if a slot speaks for another one, or for another attempt."""
    slot = hello.slot if isinstance(message, OperatorEvent) else message.slot
    if (slot, message.attempt) != (hello.slot, hello.attempt):
        raise WireError(f"slot {hello.slot} of attempt {hello.attempt} speaks for {slot} of {message.attempt}")
