"""The ledger of credits, in bytes: what a producer may send, what the consumer gives back, and the pool of a gate.

A channel has an exclusive window. What the producer has queued beyond it is announced as backlog, and the consumer's
gate lends bytes of its floating pool for it, in turn to all that ask; they return as the channel consumes. So a
channel that nobody reads can hold the pool and its own window, never the window of another.

Pure: no thread, clock or transport. All totals only grow: a credit message carries the bytes consumed so far and the
limit that may have been sent, so a repeated message changes nothing and a lost one is made good by the next.

A frame larger than the credit may be sent when nothing is in flight: it overdraws, but it can never wait for ever.
Source: Flink, credit-based flow control (RemoteInputChannel, BufferManager, LocalBufferPool), in bytes here.
"""

from __future__ import annotations

from typing import NamedTuple

DEFAULT_WINDOW_BYTES = 1 << 20
"""Below about 256 KiB a round trip is waited for too often; above, barriers queue longer behind data, and what gRPC
itself buffers (about 8 MiB, measured) no longer dwarfs what the ledger knows of."""
DEFAULT_FLOATING_BYTES = 4 << 20
"""Shared by the channels of a gate. Four windows, as Flink's 8 floating buffers beside 2 exclusive ones: less and one
busy channel of many runs at the speed of its window; more and a gate that is not read holds that much more."""


class CreditError(Exception):
    """An end of the channel broke the rules; the channel cannot be used any further.

    Attributes:
        reason: what was done.
        story: the ledger's totals at that moment.
    """

    def __init__(self, reason: str, story: str) -> None:
        super().__init__(f"{reason} ({story})")
        self.reason = reason
        self.story = story


class Credit(NamedTuple):
    """Credit that a consumer announces to its producer; both numbers are totals since the channel was made."""

    consumed_bytes: int
    limit_bytes: int
    """Total that may have been sent."""


class SenderCredit:
    """The producer's end: bytes queued, sent and given back.

    Args:
        window_bytes: the channel's exclusive credit, >= 1; the same at both ends.
    """

    __slots__ = ("backlog_bytes", "limit_bytes", "released_bytes", "sent_bytes", "window_bytes")

    def __init__(self, window_bytes: int = DEFAULT_WINDOW_BYTES) -> None:
        if window_bytes < 1:
            raise ValueError(f"the credit window must be at least 1 byte, not {window_bytes}")
        self.window_bytes = window_bytes
        self.backlog_bytes = 0
        """Queued here, not yet covered by credit; announced to the consumer with every frame."""
        self.sent_bytes = 0
        self.released_bytes = 0
        """Total that the consumer has announced as consumed."""
        self.limit_bytes = window_bytes
        """Total that may have been sent."""

    @property
    def in_flight_bytes(self) -> int:
        """Return the bytes sent and not given back: on the wire or in the consumer's queue."""
        return self.sent_bytes - self.released_bytes

    @property
    def is_available(self) -> bool:
        """Return whether more may be queued; one step may overdraw."""
        return self.backlog_bytes < self.window_bytes

    @property
    def overdraft_bytes(self) -> int:
        """Return how far the backlog goes beyond what `is_available` allows."""
        return max(0, self.backlog_bytes - self.window_bytes)

    def queue(self, size: int) -> None:
        """Queue a frame of `size` bytes to be sent."""
        self.backlog_bytes += size

    def may_send(self, size: int) -> bool:
        """Return whether credit covers a frame of `size` bytes now."""
        return self.sent_bytes == self.released_bytes or self.sent_bytes + size <= self.limit_bytes

    def send(self, size: int) -> None:
        """Spend credit on a queued frame.

        Raises:
            CreditError: the credit does not cover it, or it was never queued.
        """
        if not self.may_send(size):
            raise CreditError(f"{size} bytes sent without credit", self.story())
        if size > self.backlog_bytes:
            raise CreditError(f"{size} bytes sent that were never queued", self.story())
        self.backlog_bytes -= size
        self.sent_bytes += size

    def release(self, total_bytes: int, limit_bytes: int | None = None) -> None:
        """Take the consumer's announcement: `total_bytes` consumed, `limit_bytes` allowed; older totals are ignored.

        Args:
            limit_bytes: None = one window beyond what was consumed.

        Raises:
            CreditError: more was given back than was ever sent, or less is allowed than the window.
        """
        if total_bytes > self.sent_bytes:
            raise CreditError(f"{total_bytes} bytes of credit given back", self.story())
        if limit_bytes is None:
            limit_bytes = total_bytes + self.window_bytes
        if limit_bytes < total_bytes + self.window_bytes:
            raise CreditError(f"a limit of {limit_bytes} bytes with {total_bytes} consumed", self.story())
        self.released_bytes = max(self.released_bytes, total_bytes)
        self.limit_bytes = max(self.limit_bytes, limit_bytes)

    def story(self) -> str:
        """Return the totals in words, for errors."""
        return (
            f"sender: window {self.window_bytes}, queued {self.backlog_bytes}, sent {self.sent_bytes} "
            f"of {self.limit_bytes}, given back {self.released_bytes}"
        )

    def check_invariants(self) -> None:
        """Raise CreditError if the totals contradict each other."""
        if not 0 <= self.released_bytes <= self.sent_bytes or self.backlog_bytes < 0:
            raise CreditError("totals out of order", self.story())


class FloatingPool:
    """Credit that the channels of one gate share. Its bytes are either here or lent to one of them.

    Args:
        size_bytes: >= 0; with 0 every channel has its window only.
    """

    __slots__ = ("_waiting", "available_bytes", "size_bytes")

    def __init__(self, size_bytes: int = DEFAULT_FLOATING_BYTES) -> None:
        if size_bytes < 0:
            raise ValueError(f"a floating pool cannot have {size_bytes} bytes")
        self.size_bytes = size_bytes
        self.available_bytes = size_bytes
        #: channels whose backlog is not covered, longest waiting first; the values mean nothing
        self._waiting: dict[ReceiverCredit, None] = {}

    def request(self, channel: ReceiverCredit) -> None:
        """Queue the channel if its backlog is not covered, else take it out of the queue."""
        if channel.deficit_bytes > 0:
            self._waiting.setdefault(channel)
        else:
            self._waiting.pop(channel, None)

    def give_back(self, size: int) -> None:
        """Take back bytes that were lent."""
        self.available_bytes += size

    def lend(self) -> list[ReceiverCredit]:
        """Lend what there is to the channels that wait, a window at a time in turn.

        Returns:
            Those who have got some, each once; they must announce it.
        """
        served: dict[ReceiverCredit, None] = {}
        while self._waiting and self.available_bytes > 0:
            channel = next(iter(self._waiting))
            del self._waiting[channel]
            size = min(channel.deficit_bytes, channel.window_bytes, self.available_bytes)
            if size > 0:
                self.available_bytes -= size
                channel.borrow(size)
                served[channel] = None
            self.request(channel)
        return list(served)

    @property
    def lent_bytes(self) -> int:
        return self.size_bytes - self.available_bytes


class ReceiverCredit:
    """The consumer's end: bytes received, consumed, announced as consumed, and borrowed from the gate's pool.

    Small frames are announced together: at a quarter of the window, or as soon as nothing is queued, so that a sender
    that waits for the last byte is never left waiting. The channels of one gate must not be used by two threads at
    once.

    Args:
        window_bytes: as at the sender.
        pool: of the gate; None = there is nothing to borrow.
    """

    __slots__ = (
        "_announce_at",
        "announced_bytes",
        "backlog_bytes",
        "consumed_bytes",
        "floating_bytes",
        "pool",
        "received_bytes",
        "window_bytes",
    )

    def __init__(self, window_bytes: int = DEFAULT_WINDOW_BYTES, pool: FloatingPool | None = None) -> None:
        if window_bytes < 1:
            raise ValueError(f"the credit window must be at least 1 byte, not {window_bytes}")
        self.window_bytes = window_bytes
        self.pool = pool
        self._announce_at = max(1, window_bytes // 4)
        self.received_bytes = 0
        self.backlog_bytes = 0
        """The producer's queue behind the last frame."""
        self.consumed_bytes = 0
        self.announced_bytes = 0
        """Consumed, and the sender was told."""
        self.floating_bytes = 0
        """Borrowed, and not given back yet."""

    @property
    def queued_bytes(self) -> int:
        """Return the bytes received and not consumed."""
        return self.received_bytes - self.consumed_bytes

    @property
    def limit_bytes(self) -> int:
        """Return the total that the sender may have sent; it never falls: borrowed bytes return only as they are
        consumed.
        """
        return self.consumed_bytes + self.window_bytes + self.floating_bytes

    @property
    def deficit_bytes(self) -> int:
        """Return the part of the producer's backlog that neither credit on its way nor borrowed bytes cover."""
        return self.backlog_bytes - (self.limit_bytes - self.received_bytes)

    def announce(self) -> Credit:
        """Return what the sender is to be told now; the caller tells it."""
        self.announced_bytes = self.consumed_bytes
        return Credit(self.consumed_bytes, self.limit_bytes)

    def receive(self, size: int, backlog_bytes: int = 0) -> None:
        """Take a frame of `size` bytes with `backlog_bytes` queued behind it; call `pool.lend` afterwards.

        Raises:
            CreditError: the sender had no credit for it.
        """
        # the sender may overdraw once it has heard that all was consumed
        if self.received_bytes > self.announced_bytes and self.received_bytes + size > self.limit_bytes:
            raise CreditError(f"{size} bytes received beyond the window", self.story())
        self.received_bytes += size
        self.hear_backlog(backlog_bytes)

    def hear_backlog(self, backlog_bytes: int) -> None:
        """Note that the producer has that much queued behind what was received; call `pool.lend` afterwards."""
        self.backlog_bytes = backlog_bytes
        if self.pool is not None:
            self.pool.request(self)

    def consume(self, size: int) -> int | None:
        """Note that the consumer has taken a frame of `size` bytes; call `pool.lend` afterwards.

        Returns:
            The total to announce to the sender now; None if that can wait.

        Raises:
            CreditError: more was consumed than received.
        """
        consumed = self.consumed_bytes + size
        if consumed > self.received_bytes:
            raise CreditError(f"{size} bytes consumed that were never received", self.story())
        self.consumed_bytes = consumed
        if self.pool is not None and self.floating_bytes:
            self._give_back(min(size, self.floating_bytes))
            self.pool.request(self)
        if consumed == self.received_bytes or consumed - self.announced_bytes >= self._announce_at:
            self.announced_bytes = consumed
            return consumed
        return None

    def borrow(self, size: int) -> None:
        """Take `size` bytes that the pool lends."""
        self.floating_bytes += size

    def end(self) -> None:
        """Return what is still borrowed: the channel has ended and everything was consumed."""
        if self.pool is not None:
            self.backlog_bytes = 0
            self._give_back(self.floating_bytes)
            self.pool.request(self)

    def _give_back(self, size: int) -> None:
        assert self.pool is not None
        self.floating_bytes -= size
        self.pool.give_back(size)

    def story(self) -> str:
        """Return the totals in words, for errors."""
        return (
            f"receiver: window {self.window_bytes}, borrowed {self.floating_bytes}, received {self.received_bytes}, "
            f"consumed {self.consumed_bytes}, announced {self.announced_bytes}"
        )

    def check_invariants(self) -> None:
        """Raise CreditError if the totals contradict each other. Not for use while another thread is receiving."""
        if not 0 <= self.announced_bytes <= self.consumed_bytes <= self.received_bytes or self.floating_bytes < 0:
            raise CreditError("totals out of order", self.story())
        if self.consumed_bytes == self.received_bytes != self.announced_bytes:
            raise CreditError("credit held back though nothing is queued", self.story())
