"""Channels to another process: their two ends, and the connection of two slots that carries all channels between them.

Knows frames, credits and order, but no socket: a transport takes frames from a connection's `outbox` and hands what it
receives to `on_frame`. The ends are used by the slot's loop thread; `on_frame` and `on_end` are called by one thread of
the transport. A connection fails once, with its cause, and ends well only when every channel has ended.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import NamedTuple

import pyarrow as pa

from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import RecordBatch
from runtime.core.elements import CheckpointBarrier, EndOfInput, StreamElement
from runtime.core.ids import Attempt, CheckpointId, SlotId
from runtime.network.channel import (
    BarrierListener,
    ChannelFailure,
    ChannelId,
    ChannelStatistics,
    Frame,
    InputChannel,
    OutputChannel,
    RecordLimit,
)
from runtime.network.credit import (
    DEFAULT_FLOATING_BYTES,
    Credit,
    CreditError,
    FloatingPool,
    ReceiverCredit,
    SenderCredit,
)
from runtime.network.frame_codec import FrameDecoder, FrameEncoder, barrier_of
from runtime.network.frames import (
    FrameError,
    FrameHeader,
    FrameKind,
    decode_credit,
    decode_header,
    encode_backlog,
    encode_credit,
    encode_signal,
    is_barrier,
    is_channel_state,
    sequence_of,
    set_backlog,
    set_sequence,
)


class ConnectionOwner(ABC):
    """Callbacks of a connection to its environment; any thread."""

    @abstractmethod
    def notify(self) -> None:
        """Note that data arrived or space became free."""

    @abstractmethod
    def report(self, failure: ChannelFailure) -> None:
        """Note that the connection broke."""

    @abstractmethod
    def count_refused_frame(self) -> None:
        """Count a frame of another attempt that came and was dropped."""


class Connection(ABC):
    """An end of an ordered pair of slots.

    Args:
        peer: the slot at the other end.
        attempt: frames of any other are refused.
    """

    def __init__(self, peer: SlotId, attempt: Attempt, owner: ConnectionOwner) -> None:
        self.peer = peer
        self.attempt = attempt
        self.owner = owner
        #: frames to send, in order; None = nothing follows, end the stream
        self.outbox: SimpleQueue[bytearray | None] = SimpleQueue()
        #: monotonic time of the last frame; written by the transport
        self.last_heard_ms = 0.0
        #: set when the transport has started to carry frames
        self.is_open = False
        #: set when nothing goes in or out any more
        self.ended = threading.Event()
        #: ends the transport's call at once; set by the transport where it can
        self.cancel: Callable[[], None] | None = None
        #: whether the peer has said goodbye: it sends nothing more; written by the transport's reading thread
        self.heard_bye = False
        self._lock = threading.Lock()
        self._closing = False

    @abstractmethod
    def all_channels_ended(self) -> bool:
        """Return whether every channel has come to its END."""

    @abstractmethod
    def on_element(self, header: FrameHeader, frame: pa.Buffer) -> None:
        """Handle a frame that is not the connection's own."""

    def on_frame(self, frame: pa.Buffer) -> None:
        """Handle a frame. Whatever is wrong with it fails the connection."""
        try:
            header = decode_header(frame)
            if header.attempt != self.attempt:
                self.owner.count_refused_frame()
            elif header.kind is FrameKind.BYE:
                self.heard_bye = True
                if not self.all_channels_ended():
                    self.fail(f"slot {self.peer} closed before its channels had ended")
                self.finish()
            elif header.kind is not FrameKind.HEARTBEAT:
                self.on_element(header, frame)
        except (FrameError, CreditError) as error:
            self.fail(f"slot {self.peer} broke the protocol: {error}")

    def on_end(self, cause: str) -> None:
        """Handle the end of the stream; `cause` says how it ended. Fails unless all channels have ended before."""
        if not self.all_channels_ended():
            self.fail(f"the connection to slot {self.peer} was lost: {cause}")
        self.finish()
        self.ended.set()

    def fail(self, cause: str) -> None:
        """Report a failure, once, and end the stream. Nothing is reported while closing."""
        if self._say_goodbye():
            self.owner.report(ChannelFailure(cause, self.peer))

    def finish(self) -> None:
        """End the stream once everything queued has been sent."""
        self._say_goodbye()

    def heartbeat(self) -> None:
        """Queue a heartbeat."""
        if not self._closing:
            self.outbox.put(encode_signal(FrameKind.HEARTBEAT, self.attempt))

    def close(self) -> None:
        """Say goodbye and end the stream; breakage from now on is not a failure."""
        self._say_goodbye()

    def _say_goodbye(self) -> bool:
        """Queue the last frame; returns False if that was done before."""
        with self._lock:
            if self._closing:
                return False
            self._closing = True
        self.outbox.put(encode_signal(FrameKind.BYE, self.attempt))
        self.outbox.put(None)
        return True

    @property
    def is_closing(self) -> bool:
        return self._closing


class ProducerConnection(Connection):
    """The end at the slot that produces; carries data out and credits in."""

    def __init__(self, peer: SlotId, attempt: Attempt, owner: ConnectionOwner) -> None:
        super().__init__(peer, attempt, owner)
        self.channels: dict[ChannelId, RemoteOutputChannel] = {}

    def all_channels_ended(self) -> bool:
        return all(channel.is_drained for channel in self.channels.values())

    def on_element(self, header: FrameHeader, frame: pa.Buffer) -> None:
        channel = self.channels.get(header.channel_id)
        if header.kind is not FrameKind.CREDIT or channel is None:
            raise FrameError(f"{header.kind.name} for {header.channel_id} from a consumer")
        channel.on_credit(decode_credit(header, frame))


class ConsumerConnection(Connection):
    """The end at the slot that consumes; carries data in and credits out."""

    def __init__(self, peer: SlotId, attempt: Attempt, owner: ConnectionOwner) -> None:
        super().__init__(peer, attempt, owner)
        self.channels: dict[ChannelId, RemoteInputChannel] = {}

    def all_channels_ended(self) -> bool:
        return all(channel.ended for channel in self.channels.values())

    def on_element(self, header: FrameHeader, frame: pa.Buffer) -> None:
        channel = self.channels.get(header.channel_id)
        if header.kind is FrameKind.BACKLOG and channel is not None:
            channel.on_backlog(header.backlog_bytes)
            return
        if header.kind > FrameKind.END or channel is None:
            raise FrameError(f"{header.kind.name} for {header.channel_id} from a producer")
        channel.on_frame(header, frame)
        if channel.ended and self.all_channels_ended():
            self.finish()


class RemoteOutputChannel(OutputChannel):
    """Producer's end of a channel to another process. Elements are encoded when they are added, so the ledger counts
    the very bytes that travel."""

    def __init__(
        self,
        channel_id: ChannelId,
        connection: ProducerConnection,
        record_type: TypeInformation | None,
        window_bytes: int,
    ) -> None:
        self.channel_id = channel_id
        self._connection = connection
        self._encoder = FrameEncoder(channel_id, connection.attempt, record_type)
        # two frames fit the window, so that one travels while the credit of the other comes back
        self._frame_bytes = max(1, window_bytes // 2)
        self._credit = SenderCredit(window_bytes)
        self._backlog: deque[bytearray] = deque()
        #: barriers in the backlog
        self._waiting_barriers: dict[CheckpointId, bytearray] = {}
        #: guards ledger and backlog: the loop adds, the transport's thread brings credit
        self._lock = threading.Lock()
        self._bytes = 0
        self._batches = 0
        self._rows = 0
        self._ended = False
        #: whether the consumer knows that frames wait here
        self._is_backlog_known = False

    def limit_records(self, limit: RecordLimit) -> None:
        self._encoder.limit_records(limit)

    def add(self, element: StreamElement) -> None:
        if isinstance(element, RecordBatch):
            for frame in self._encoder.encode_sliced(element, self._frame_bytes):
                self._queue(frame)
            self._batches += 1
            self._rows += element.num_rows
        else:
            frame = self._encoder.encode(element)
            if isinstance(element, EndOfInput):
                self._ended = True
            elif isinstance(element, CheckpointBarrier):
                with self._lock:
                    self._waiting_barriers[element.checkpoint_id] = frame
            self._queue(frame)

    def add_overtaking(self, barrier: CheckpointBarrier) -> Sequence[Frame]:
        frame = self._encoder.encode(barrier)
        with self._lock:
            self._waiting_barriers[barrier.checkpoint_id] = frame
            self._backlog.append(frame)
            overtaken = self._move_up(frame, len(self._backlog) - 1)
            self._send_covered()
        return overtaken

    def holds_barrier(self, checkpoint_id: CheckpointId) -> bool:
        return checkpoint_id in self._waiting_barriers

    def expedite(self, barrier: CheckpointBarrier) -> Sequence[Frame]:
        with self._lock:
            queued = self._waiting_barriers.get(barrier.checkpoint_id)
            if queued is None:
                return ()
            position = next(i for i, frame in enumerate(self._backlog) if frame is queued)
            frame = self._encoder.encode_at(barrier, sequence_of(queued))
            self._waiting_barriers[barrier.checkpoint_id] = self._backlog[position] = frame
            overtaken = self._move_up(frame, position)
            self._send_covered()
        return overtaken

    def _move_up(self, barrier: bytearray, position: int) -> Sequence[Frame]:
        """Move a barrier in the backlog up to the next barrier; frames are renumbered in their sending order."""
        backlog = self._backlog
        first = position
        while first > 0 and not is_barrier(backlog[first - 1]):
            first -= 1
        if first == position:
            return ()
        between = [backlog[index] for index in range(first, position)]
        overtaken = [bytes(frame) for frame in between if is_channel_state(frame)]
        del backlog[position]
        backlog.insert(first, barrier)
        set_sequence(barrier, sequence_of(between[0]))
        for frame in between:
            set_sequence(frame, sequence_of(frame) + 1)
        return overtaken

    def is_available(self) -> bool:
        return self._credit.is_available

    @property
    def overdraft_bytes(self) -> int:
        return self._credit.overdraft_bytes

    @property
    def is_drained(self) -> bool:
        """Return whether END has gone out, and all before it."""
        return self._ended and not self._backlog

    def statistics(self) -> ChannelStatistics:
        return ChannelStatistics(
            self._bytes,
            self._batches,
            self._rows,
            self._credit.backlog_bytes,
            remote=True,
            queued_elements=len(self._backlog),
            window_bytes=self._credit.window_bytes,
        )

    def on_credit(self, credit: Credit) -> None:
        """Take the consumer's announcement of what it has consumed, and what it allows.

        Raises:
            CreditError: more was consumed than was sent.
        """
        with self._lock:
            was_available = self._credit.is_available
            self._credit.release(*credit)
            self._send_covered()
            freed = not was_available and self._credit.is_available
        if freed:
            self._connection.owner.notify()

    def check_invariants(self) -> None:
        """Raise CreditError if ledger and backlog contradict each other."""
        with self._lock:
            self._credit.check_invariants()
            if self._credit.backlog_bytes != sum(map(_cost_of, self._backlog)):
                raise CreditError("the backlog is not what the ledger says", self._credit.story())

    def _queue(self, frame: bytearray) -> None:
        self._bytes += len(frame)
        with self._lock:
            self._credit.queue(_cost_of(frame))
            self._backlog.append(frame)
            self._send_covered()
            if self._backlog and not self._is_backlog_known:
                # no frame goes out that could tell of it, and the consumer may not read this channel for long
                self._is_backlog_known = True
                connection = self._connection
                signal = encode_backlog(connection.attempt, self.channel_id, self._credit.backlog_bytes)
                if not connection.is_closing:
                    connection.outbox.put(signal)

    def _send_covered(self) -> None:
        credit, backlog, outbox = self._credit, self._backlog, self._connection.outbox
        while backlog:
            frame = backlog[0]
            if is_barrier(frame):
                # needs no credit: a consumer that waits for it may not be reading anything else
                self._waiting_barriers = {i: f for i, f in self._waiting_barriers.items() if f is not frame}
            elif credit.may_send(len(frame)):
                credit.send(len(frame))
            else:
                return
            del backlog[0]
            set_backlog(frame, credit.backlog_bytes)
            self._is_backlog_known = bool(backlog)
            outbox.put(frame)


def _cost_of(frame: bytearray) -> int:
    """Return what a frame costs of the channel's credit."""
    return 0 if is_barrier(frame) else len(frame)


class _Received(NamedTuple):
    header: FrameHeader
    frame: pa.Buffer


class GateCredit:
    """The floating pool of one gate: the channels of one edge into one subtask.

    Its lock guards the ledgers of all its channels: transport threads receive, the loop's thread consumes, and what one
    channel gives back is another one's to borrow.
    """

    def __init__(self, floating_bytes: int = DEFAULT_FLOATING_BYTES) -> None:
        self.pool = FloatingPool(floating_bytes)
        self.lock = threading.Lock()
        self.channels: dict[ReceiverCredit, RemoteInputChannel] = {}

    def lend(self) -> list[RemoteInputChannel]:
        """Return the channels that can borrow now and must announce it; call under the lock."""
        return [self.channels[credit] for credit in self.pool.lend()]

    def check_invariants(self) -> None:
        """Raise CreditError if bytes of the pool were made or lost."""
        with self.lock:
            lent = sum(credit.floating_bytes for credit in self.channels)
            for credit in self.channels:
                credit.check_invariants()
        if lent != self.pool.lent_bytes:
            raise CreditError(f"{lent} bytes are borrowed", f"{self.pool.lent_bytes} of the pool are lent")


class RemoteInputChannel(InputChannel):
    """Consumer's end of a channel from another process. Frames are decoded when they are polled: unpickling needs the
    GIL, and the loop thread has it already."""

    def __init__(
        self,
        channel_id: ChannelId,
        connection: ConsumerConnection,
        record_type: TypeInformation | None,
        window_bytes: int,
        gate: GateCredit,
    ) -> None:
        self.channel_id = channel_id
        self._connection = connection
        self._decoder = FrameDecoder(record_type)
        self._credit = ReceiverCredit(window_bytes, gate.pool)
        self.gate = gate
        gate.channels[self._credit] = self
        self._queue: deque[_Received] = deque()
        #: written by the transport's thread only; END has been received
        self.ended = False
        #: written by the transport's thread only
        self._expected_sequence = 0
        self._batches = 0
        self._rows = 0
        #: called by the transport's thread
        self._on_barrier: BarrierListener | None = None
        #: what was polled since recording began; loop's thread only, as the next one
        self._recorded: list[Frame] | None = None
        #: barriers that were taken out, and are still in the queue
        self._taken_barriers: set[CheckpointId] = set()

    def poll(self) -> StreamElement | None:
        if not self._queue:
            return None
        header, frame = self._queue.popleft()
        connection = self._connection
        if header.kind is FrameKind.BARRIER:
            barrier = barrier_of(header, frame)
            if barrier.checkpoint_id not in self._taken_barriers:
                return barrier
            self._taken_barriers.discard(barrier.checkpoint_id)
            return self.poll()
        if self._recorded is not None and is_channel_state(frame):
            self._recorded.append(memoryview(frame))
        try:
            # credit goes out first: the producer can fill the wire while this end decodes
            with self.gate.lock:
                told = self._credit.consume(frame.size) is not None
                if header.kind is FrameKind.END:
                    self._credit.end()
                lent = self.gate.lend()
                if told and self not in lent:
                    self._announce()
                for channel in lent:
                    channel._announce()
            element = self._decoder.decode(header, frame)
        except (FrameError, CreditError) as error:
            self._queue.clear()
            connection.fail(f"{self.channel_id} from slot {connection.peer}: {error}")
            return None
        if isinstance(element, RecordBatch):
            self._batches += 1
            self._rows += element.num_rows
        return element

    def has_data(self) -> bool:
        return bool(self._queue)

    def set_barrier_listener(self, on_barrier: BarrierListener) -> None:
        self._on_barrier = on_barrier

    def start_recording(self) -> None:
        self._recorded = []

    def take_barrier(self, checkpoint_id: CheckpointId) -> None:
        self._taken_barriers.add(checkpoint_id)
        for header, frame in list(self._queue):
            if header.kind is FrameKind.BARRIER:
                if barrier_of(header, frame).checkpoint_id == checkpoint_id:
                    return
            elif self._recorded is not None and is_channel_state(frame):
                self._recorded.append(memoryview(frame))
        raise LookupError(f"the barrier of checkpoint {checkpoint_id} is not in {self.channel_id}")

    def stop_recording(self) -> Sequence[Frame]:
        recorded, self._recorded = self._recorded, None
        return recorded or ()

    def statistics(self) -> ChannelStatistics:
        credit = self._credit
        return ChannelStatistics(
            credit.received_bytes,
            self._batches,
            self._rows,
            credit.queued_bytes,
            remote=True,
            queued_elements=len(self._queue),
            window_bytes=credit.window_bytes,
            floating_bytes=credit.floating_bytes,
            pool_bytes=self.gate.pool.size_bytes,
        )

    def on_frame(self, header: FrameHeader, frame: pa.Buffer) -> None:
        """Take a frame of this channel; the transport's thread.

        Raises:
            FrameError: it is not the next of the channel.
            CreditError: the producer had no credit for it.
        """
        if self.ended or header.sequence != self._expected_sequence:
            expected = "nothing" if self.ended else f"number {self._expected_sequence}"
            raise FrameError(f"{self.channel_id}: got frame number {header.sequence}, expected {expected}")
        self._expected_sequence += 1
        barrier = barrier_of(header, frame) if header.kind is FrameKind.BARRIER else None
        with self.gate.lock:
            if barrier is None:
                self._credit.receive(frame.size, header.backlog_bytes)
            else:
                self._credit.hear_backlog(header.backlog_bytes)
            for channel in self.gate.lend():
                channel._announce()
        self.ended = header.kind is FrameKind.END
        self._queue.append(_Received(header, frame))
        if barrier is not None:
            # it may be of use long before it is reached
            if self._on_barrier is not None:
                self._on_barrier(barrier)
            self._connection.owner.notify()
            return
        # a longer queue is being worked off already: the loop was told when it began
        if len(self._queue) == 1:
            self._connection.owner.notify()

    def on_backlog(self, backlog_bytes: int) -> None:
        """Note that the producer has frames that wait for credit; the transport's thread."""
        with self.gate.lock:
            self._credit.hear_backlog(backlog_bytes)
            for channel in self.gate.lend():
                channel._announce()

    def _announce(self) -> None:
        """Tell the producer what it may send; under the gate's lock."""
        connection = self._connection
        credit = self._credit.announce()
        if not connection.is_closing:
            connection.outbox.put(encode_credit(connection.attempt, self.channel_id, credit))
