"""FlightNetworkEnvironment: channels between processes over Arrow Flight, one DoExchange per ordered pair of slots.

Each slot runs one Flight server. A consumer connects to its producer with a hello (slots, attempt, window) in the
headers; once both have shown that they know the attempt's token (`runtime.network.opening`), frames go both ways in
`app_metadata`, without any schema or record batch of Flight's own. `runtime.network.tls` says how they are carried.
Four daemon threads serve a pair (a reader and a writer at each side) and one monitor sends heartbeats and watches
deadlines; none of them touches the loop's objects beyond `runtime.network.remote`.

What Flight does not do, and how that is met: a crashed peer looks like a clean end of stream (END frames tell them
apart); a frozen peer is never noticed (heartbeats); a server cannot cancel a running call and `shutdown` waits for it
(BYE asks the client to end it; a frozen one is left to a daemon thread, so a process that must end then uses
`os._exit`).
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

from runtime.common.typeinfo import TypeInformation
from runtime.core.clock import SYSTEM_CLOCK, Clock
from runtime.core.ids import Attempt, SlotId
from runtime.network.addresses import in_uri, listening_host
from runtime.network.channel import ChannelFailure, ChannelId, InputChannel, NetworkEnvironment, OutputChannel
from runtime.network.credit import DEFAULT_FLOATING_BYTES, DEFAULT_WINDOW_BYTES
from runtime.network.data_stream import DataHello
from runtime.network.local import LocalNetwork
from runtime.network.opening import HELLO_HEADER, OpeningError, is_answer
from runtime.network.pieces import MAX_RECEIVED_BYTES, PIECE_BYTES, PieceAssembler, PieceError, pieces_of
from runtime.network.remote import (
    Connection,
    ConnectionOwner,
    ConsumerConnection,
    GateCredit,
    ProducerConnection,
    RemoteInputChannel,
    RemoteOutputChannel,
)
from runtime.network.tls import Transport

_GOODBYE_SECONDS = 1.0
"""Time that `close` gives peers to end their streams before it cancels them; with what follows it stays under 2 s."""
_CLIENT_OPTIONS = [
    # of a frame and what Flight puts around it; gRPC reads no more of a larger one
    ("grpc.max_receive_message_length", MAX_RECEIVED_BYTES + (64 << 10)),
]
MAX_CONSUMERS_MESSAGE_BYTES = PIECE_BYTES
"""Consumers send credit, heartbeats and their goodbye, each far shorter."""
MAX_UNANSWERED = 256
"""Streams whose consumer has not answered the challenge yet. A slot answers at once; each holds a thread."""


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    """Says when to give up a silent peer."""

    interval_ms: int = 1_000
    timeout_ms: int = 7_000
    """Longer than the JobMaster's `heartbeat.timeout`, which should be the first to report a frozen process."""
    connect_timeout_ms: int = 10_000
    """From `connect` to a peer's first frame: slots of one stage are told to start a little apart."""


@dataclass(frozen=True, slots=True)
class FlightStatistics:
    """Counts what was refused since the start."""

    refused_connections: int
    """Wrong token, attempt, slot or window, a repeated hello, or a second connection of a pair."""
    refused_frames: int
    """Frames of another attempt."""


class FlightNetworkEnvironment(NetworkEnvironment, ConnectionOwner):
    """The channels of one slot. Starts its server at once; use in a process that will not fork any more.

    Args:
        slot: this slot.
        attempt: only peers of the same attempt are let in.
        token: shared secret of the job's slots.
        host: address that peers connect to.
        clock: its monotonic time measures silence.
        window_bytes: exclusive credit of each channel; the same in all slots.
        floating_bytes: credit that the channels of one edge into one subtask share beside that.
        heartbeats: when a silent peer is given up.
    """

    def __init__(
        self,
        slot: SlotId,
        attempt: Attempt,
        token: str,
        host: str,
        clock: Clock = SYSTEM_CLOCK,
        window_bytes: int = DEFAULT_WINDOW_BYTES,
        heartbeats: HeartbeatSettings = HeartbeatSettings(),
        floating_bytes: int = DEFAULT_FLOATING_BYTES,
    ) -> None:
        self.slot = slot
        self.attempt = attempt
        self._token = token
        self._clock = clock
        self._window_bytes = window_bytes
        self._floating_bytes = floating_bytes
        #: by edge and consuming subtask
        self._gates: dict[tuple[int, int], GateCredit] = {}
        self._heartbeats = heartbeats
        self._local = LocalNetwork(window_bytes).environment(slot)
        self._producers: dict[SlotId, ProducerConnection] = {}
        self._consumers: dict[SlotId, ConsumerConnection] = {}
        self._failures: deque[ChannelFailure] = deque()
        self._on_change: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self._refused_connections = 0
        self._refused_frames = 0
        self._unanswered = 0
        self._closing = threading.Event()
        #: by name; written before peers know the address
        self._actions: dict[str, Callable[[bytes], None]] = {}
        self._threads: list[threading.Thread] = []
        self._host = in_uri(host)
        self._transport = Transport.of_environment()
        self._server = _FlightServer(in_uri(listening_host(host)), self._transport, self)

    @property
    def address(self) -> str:
        return f"{self._transport.scheme}://{self._host}:{self._server.port}"

    def create_output_channel(
        self, channel_id: ChannelId, consumer_slot: SlotId, record_type: TypeInformation | None
    ) -> OutputChannel:
        if consumer_slot == self.slot:
            return self._local.create_output_channel(channel_id, consumer_slot, record_type)
        connection = self._producers.get(consumer_slot)
        if connection is None:
            connection = self._producers[consumer_slot] = ProducerConnection(consumer_slot, self.attempt, self)
        channel = RemoteOutputChannel(channel_id, connection, record_type, self._window_bytes)
        connection.channels[channel_id] = channel
        return channel

    def create_input_channel(
        self, channel_id: ChannelId, producer_slot: SlotId, record_type: TypeInformation | None
    ) -> InputChannel:
        if producer_slot == self.slot:
            return self._local.create_input_channel(channel_id, producer_slot, record_type)
        connection = self._consumers.get(producer_slot)
        if connection is None:
            connection = self._consumers[producer_slot] = ConsumerConnection(producer_slot, self.attempt, self)
        gate = self._gates.setdefault((channel_id.edge_id, channel_id.consumer), GateCredit(self._floating_bytes))
        channel = RemoteInputChannel(channel_id, connection, record_type, self._window_bytes, gate)
        connection.channels[channel_id] = channel
        return channel

    def connect(self, peers: Mapping[SlotId, str]) -> None:
        now = self._clock.monotonic_ms()
        for connection in self._connections():
            connection.last_heard_ms = now
        for producer, consumer_end in self._consumers.items():
            self._start_thread(f"net-in-{self.slot}-from-{producer}", self._run_client, consumer_end, peers[producer])
        if self._consumers or self._producers:
            self._start_thread(f"net-monitor-{self.slot}", self._monitor)

    def poll_failures(self) -> list[ChannelFailure]:
        failures = self._local.poll_failures()
        while self._failures:
            failures.append(self._failures.popleft())
        return failures

    def set_listener(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._local.set_listener(on_change)

    def serve_action(self, name: str, handler: Callable[[bytes], None]) -> None:
        """Have the data server answer a Flight action; before anybody knows its address.

        Args:
            name: the action's type.
            handler: called with its body, on a thread of the server; what it raises is the caller's answer.
        """
        self._actions[name] = handler

    def statistics(self) -> FlightStatistics:
        """Return the counts of what was refused so far; any thread."""
        return FlightStatistics(self._refused_connections, self._refused_frames)

    def close(self) -> None:
        if self._closing.is_set():
            return
        self._closing.set()
        self._on_change = None
        self._local.close()
        connections = list(self._connections())
        for connection in connections:
            connection.close()
        deadline = self._clock.monotonic_ms() + 1000 * _GOODBYE_SECONDS
        for connection in connections:
            if connection.is_open:
                connection.ended.wait(max(0.0, deadline - self._clock.monotonic_ms()) / 1000)
        for connection in connections:
            if not connection.ended.is_set() and connection.cancel is not None:
                connection.cancel()
        # shutdown waits for every running call, and a frozen peer never ends its own
        shutdown = threading.Thread(target=self._server.shutdown, name=f"net-shutdown-{self.slot}", daemon=True)
        shutdown.start()
        shutdown.join(0.4)
        for thread in self._threads:
            thread.join(0.1 if shutdown.is_alive() else 0.4)

    # --- called by connections and their threads ----------------------------------------------------------------------

    def notify(self) -> None:
        on_change = self._on_change
        if on_change is not None:
            on_change()

    def report(self, failure: ChannelFailure) -> None:
        if not self._closing.is_set():
            self._failures.append(failure)
            self.notify()

    def count_refused_frame(self) -> None:
        with self._lock:
            self._refused_frames += 1

    def admit(self, header: str | bytes) -> DataHello:
        """Check the hello of a call before its body is read.

        Raises:
            FlightUnauthenticatedError: it is not one of a peer; counted, and not a failure of this slot.
        """
        try:
            hello, proof = DataHello.read(header.encode() if isinstance(header, str) else header)
            # the token first: a stranger learns nothing else
            hello.check(proof, self._token)
        except OpeningError as error:
            raise self.refusal(str(error)) from error
        return hello

    def accept(self, hello: DataHello, reader: Any, writer: Any) -> ProducerConnection:
        """Give a consumer its connection, once both ends have shown that they know the token.

        Raises:
            FlightUnauthenticatedError: the hello does not fit this slot, or is a repetition; counted, no failure.
        """
        reason = self._misfit(hello)
        if reason:
            raise self.refusal(reason)
        self._challenge(hello, reader, writer)
        connection = self._producers[hello.consumer_slot]
        with self._lock:
            is_second = connection.is_open
            connection.is_open = True
        if is_second:
            raise self.refusal(f"slot {hello.consumer_slot} is connected already")
        return connection

    def refusal(self, reason: str) -> Exception:
        """Count a refused connection, and return what its caller is told."""
        with self._lock:
            self._refused_connections += 1
        return fl.FlightUnauthenticatedError(f"refused: {reason}")  # type: ignore[no-any-return]

    def act(self, name: str, body: bytes) -> None:
        """Perform an action that somebody has called.

        Raises:
            FlightServerError: there is no such action, or it was refused.
        """
        handler = self._actions.get(name)
        if handler is None or self._closing.is_set():
            raise fl.FlightServerError(f"there is no action {name}")
        try:
            handler(body)
        except Exception as error:
            raise fl.FlightServerError(f"{type(error).__name__}: {error}") from error

    def _misfit(self, hello: DataHello) -> str:
        """Return why a hello of somebody who knows the token does not fit here; "": it does."""
        if hello.attempt != self.attempt:
            return f"attempt {hello.attempt} is not attempt {self.attempt}"
        if hello.producer_slot != self.slot:
            return f"slot {hello.producer_slot} is elsewhere, this is slot {self.slot}"
        if hello.window_bytes != self._window_bytes:
            return f"window of {hello.window_bytes} bytes, here it is {self._window_bytes}"
        if hello.consumer_slot not in self._producers or self._closing.is_set():
            return f"there is no channel to slot {hello.consumer_slot}"
        return ""

    def _challenge(self, hello: DataHello, reader: Any, writer: Any) -> None:
        """Show the consumer that this is its producer, and have it show that its hello is no repetition."""
        with self._lock:
            is_full = self._unanswered >= MAX_UNANSWERED
            self._unanswered += not is_full
        if is_full:
            raise self.refusal("too many streams are being opened")
        try:
            challenge, expected = hello.challenge(self._token)
            writer.write_metadata(challenge)
            answer = reader.read_chunk().app_metadata
        except StopIteration:
            raise self.refusal("no answer to the challenge") from None
        finally:
            with self._lock:
                self._unanswered -= 1
        if answer is None or answer.size > len(expected) or not is_answer(answer.to_pybytes(), expected):
            raise self.refusal("the hello is a repetition")

    # --- threads ------------------------------------------------------------------------------------------------------

    def _connections(self) -> Iterator[Connection]:
        yield from self._producers.values()
        yield from self._consumers.values()

    def _start_thread(self, name: str, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run_client(self, connection: ConsumerConnection, address: str) -> None:
        """Connect to a producer and read until the stream ends."""
        hello = DataHello.new(self.slot, connection.peer, self.attempt, self._window_bytes)
        options = fl.FlightCallOptions(headers=[(HELLO_HEADER.encode(), hello.encode(self._token))])
        client, writer = None, None
        try:
            client = self._transport.connect(address, _CLIENT_OPTIONS)
            writer, reader = client.do_exchange(fl.FlightDescriptor.for_command(b"data"), options)
            connection.cancel = reader.cancel
            # frames may hold pickles: none is read before the producer has proven itself
            writer.write_metadata(hello.answer(_first_message(reader), self._token))
            connection.is_open = True
            self.serve(connection, reader, writer, is_server=False)
        except Exception as error:  # the transport raises errors of several families
            connection.on_end(_in_short(error))
        finally:
            connection.ended.set()
            with contextlib.suppress(Exception):
                # a writer that is collected unclosed prints the stream's error, which on_end has told already
                if writer is not None:
                    writer.close()
            if client is not None:
                client.close()

    def serve(self, connection: Connection, reader: Any, writer: Any, is_server: bool) -> None:
        """Carry frames until the stream ends. The calling thread reads, another one writes.

        A stream ends by the client's BYE, on which the server returns. `done_writing` is never called: Flight closes
        the client's half by itself when a read finds the stream broken, and gRPC aborts the process if both do it at
        once.
        """
        writing = threading.Thread(
            target=_write_outbox, args=(connection, writer), name=f"net-out-{self.slot}", daemon=True
        )
        writing.start()
        try:
            _read_frames(connection, reader, self._clock, is_server)
        finally:
            # Flight frees the stream when this returns, so nobody may be writing to it then; a write to a dead call
            # fails at once
            connection.outbox.put(None)
            writing.join()

    def _monitor(self) -> None:
        """Send heartbeats; give up silent peers."""
        settings = self._heartbeats
        interval_ms = settings.interval_ms
        last_tick_ms = self._clock.monotonic_ms()
        while not self._closing.wait(interval_ms / 1000):
            now = self._clock.monotonic_ms()
            # this process itself was stopped or starved: the peers' frames have not been read yet
            stalled_ms = max(0.0, now - last_tick_ms - 2 * interval_ms)
            last_tick_ms = now
            for connection in self._connections():
                if connection.is_closing:
                    continue
                connection.last_heard_ms += stalled_ms
                connection.heartbeat()
                allowed_ms = settings.timeout_ms if connection.is_open else settings.connect_timeout_ms
                silent_ms = now - connection.last_heard_ms
                if silent_ms > allowed_ms:
                    connection.fail(f"slot {connection.peer} was silent for {silent_ms / 1000:.1f} s")
                    if connection.cancel is not None:
                        connection.cancel()


class _Calls(fl.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow is not typed
    """Checks the hello of a DoExchange before its body is read: who is no slot of the attempt holds nothing here."""

    def __init__(self, environment: FlightNetworkEnvironment) -> None:
        self._environment = environment

    def start_call(self, info: Any, headers: dict[str, list[str | bytes]]) -> _Admitted | None:
        if info.method != fl.FlightMethod.DO_EXCHANGE:
            return None
        values: Sequence[str | bytes] = headers.get(HELLO_HEADER, ())
        return _Admitted(self._environment.admit(values[0] if len(values) == 1 else b""))


class _Admitted(fl.ServerMiddleware):  # type: ignore[misc]
    """Carries the hello of a call to its handler."""

    def __init__(self, hello: DataHello) -> None:
        self.hello = hello


class _FlightServer(fl.FlightServerBase):  # type: ignore[misc]  # pyarrow is not typed
    """Hands each DoExchange and DoAction to its environment; everything else Flight answers with "not implemented"."""

    def __init__(self, host: str, transport: Transport, environment: FlightNetworkEnvironment) -> None:
        calls = {HELLO_HEADER: _Calls(environment)}
        super().__init__(f"{transport.scheme}://{host}:0", middleware=calls, **transport.server_arguments())
        self._environment = environment

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        hello = context.get_middleware(HELLO_HEADER).hello
        connection = self._environment.accept(hello, reader, writer)
        try:
            self._environment.serve(connection, reader, writer, is_server=True)
        finally:
            connection.ended.set()

    def do_action(self, context: Any, action: Any) -> Iterator[Any]:
        self._environment.act(action.type, action.body.to_pybytes())
        return iter(())


def _first_message(reader: Any) -> bytes:
    try:
        message = reader.read_chunk().app_metadata
    except StopIteration:
        raise OpeningError("the stream ended") from None
    return b"" if message is None else bytes(message.to_pybytes())


def _read_frames(connection: Connection, reader: Any, clock: Clock, is_server: bool) -> None:
    cause = "the stream ended"
    # records of producers have a limit where they are written
    assembler = PieceAssembler(MAX_CONSUMERS_MESSAGE_BYTES if is_server else None)
    try:
        while not (is_server and connection.heard_bye):
            received = reader.read_chunk().app_metadata or pa.py_buffer(b"")
            connection.last_heard_ms = clock.monotonic_ms()
            if received.size > MAX_RECEIVED_BYTES:
                raise PieceError(f"a frame of {received.size} bytes")
            frame = assembler.add(received)
            if frame is not None:
                connection.on_frame(frame)
    except StopIteration:
        pass
    except Exception as error:  # the transport raises errors of several families
        cause = _in_short(error)
    connection.on_end(cause)


def _write_outbox(connection: Connection, writer: Any) -> None:
    outbox = connection.outbox
    try:
        while (frame := outbox.get()) is not None:
            for piece in pieces_of(frame):
                writer.write_metadata(piece)
    except Exception:  # the reader sees the same end, and reports it with its cause
        return


def _in_short(error: Exception) -> str:
    """Return the first line of a Flight error without gRPC's debug context."""
    lines = str(error).partition(". gRPC client debug context")[0].splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"
