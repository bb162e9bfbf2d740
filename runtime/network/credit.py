"""The ledger of credits of one channel, in bytes: what the producer may send and what the consumer gives back.

Pure: no thread, clock or transport. Both ends count in running totals that only grow, and a credit message carries the
total that was consumed, so a repeated message changes nothing and a lost one is made good by the next. Each total has
one writer (named at the field), so that an end whose receiving and consuming threads differ needs no lock.

A frame larger than the window may be sent when nothing is in flight: it overdraws, but it can never wait for ever.
Source: Flink, credit-based flow control (RemoteInputChannel, CreditBasedSequenceNumberingViewReader), in bytes here.
"""

from __future__ import annotations

DEFAULT_WINDOW_BYTES = 1 << 20
"""Below about 256 KiB a round trip is waited for too often; above, barriers queue longer behind data, and what gRPC
itself buffers (about 8 MiB, measured) no longer dwarfs what the ledger knows of."""


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


class SenderCredit:
    """The producer's end: bytes queued, sent and given back.

    Args:
        window_bytes: bytes that may be in flight, >= 1; the same at both ends.
    """

    __slots__ = ("backlog_bytes", "released_bytes", "sent_bytes", "window_bytes")

    def __init__(self, window_bytes: int = DEFAULT_WINDOW_BYTES) -> None:
        if window_bytes < 1:
            raise ValueError(f"the credit window must be at least 1 byte, not {window_bytes}")
        self.window_bytes = window_bytes
        self.backlog_bytes = 0
        """Queued here, not yet covered by credit; announced to the consumer with every frame."""
        self.sent_bytes = 0
        self.released_bytes = 0
        """Total that the consumer has announced as consumed."""

    @property
    def in_flight_bytes(self) -> int:
        """Sent and not given back: on the wire or in the consumer's queue."""
        return self.sent_bytes - self.released_bytes

    @property
    def is_available(self) -> bool:
        """Whether more may be queued; one step may overdraw."""
        return self.backlog_bytes < self.window_bytes

    def queue(self, size: int) -> None:
        """A frame of `size` bytes waits to be sent."""
        self.backlog_bytes += size

    def may_send(self, size: int) -> bool:
        """Whether credit covers a frame of `size` bytes now."""
        in_flight = self.sent_bytes - self.released_bytes
        return in_flight == 0 or in_flight + size <= self.window_bytes

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

    def release(self, total_bytes: int) -> None:
        """The consumer has announced `total_bytes` as consumed since the channel was made; older totals are ignored.

        Raises:
            CreditError: more was given back than was ever sent.
        """
        if total_bytes > self.sent_bytes:
            raise CreditError(f"{total_bytes} bytes of credit given back", self.story())
        self.released_bytes = max(self.released_bytes, total_bytes)

    def story(self) -> str:
        """The totals in words, for errors."""
        return (
            f"sender: window {self.window_bytes}, queued {self.backlog_bytes}, sent {self.sent_bytes}, "
            f"given back {self.released_bytes}"
        )

    def check_invariants(self) -> None:
        """Raise CreditError if the totals contradict each other."""
        if not 0 <= self.released_bytes <= self.sent_bytes or self.backlog_bytes < 0:
            raise CreditError("totals out of order", self.story())


class ReceiverCredit:
    """The consumer's end: bytes received, consumed and announced as consumed.

    Small frames are announced together: at a quarter of the window, or as soon as nothing is queued, so that a sender
    that waits for the last byte is never left waiting.
    """

    __slots__ = ("_announce_at", "announced_bytes", "backlog_bytes", "consumed_bytes", "received_bytes", "window_bytes")

    def __init__(self, window_bytes: int = DEFAULT_WINDOW_BYTES) -> None:
        if window_bytes < 1:
            raise ValueError(f"the credit window must be at least 1 byte, not {window_bytes}")
        self.window_bytes = window_bytes
        self._announce_at = max(1, window_bytes // 4)
        #: written by the receiving thread only
        self.received_bytes = 0
        #: written by the receiving thread only; what the producer has queued beside what it has sent
        self.backlog_bytes = 0
        #: written by the consuming thread only
        self.consumed_bytes = 0
        #: written by the consuming thread only
        self.announced_bytes = 0

    @property
    def queued_bytes(self) -> int:
        """Received and not consumed."""
        return self.received_bytes - self.consumed_bytes

    def receive(self, size: int, backlog_bytes: int = 0) -> None:
        """A frame of `size` bytes has come; call before the consumer can see it.

        Raises:
            CreditError: the sender had no credit for it.
        """
        outstanding = self.received_bytes - self.announced_bytes
        if outstanding > 0 and outstanding + size > self.window_bytes:
            raise CreditError(f"{size} bytes received beyond the window", self.story())
        self.backlog_bytes = backlog_bytes
        self.received_bytes += size

    def consume(self, size: int) -> int | None:
        """The consumer has taken a frame of `size` bytes.

        Returns:
            The total to announce to the sender now; None if that can wait.

        Raises:
            CreditError: more was consumed than received.
        """
        consumed = self.consumed_bytes + size
        received = self.received_bytes
        if consumed > received:
            raise CreditError(f"{size} bytes consumed that were never received", self.story())
        self.consumed_bytes = consumed
        if consumed == received or consumed - self.announced_bytes >= self._announce_at:
            self.announced_bytes = consumed
            return consumed
        return None

    def story(self) -> str:
        """The totals in words, for errors."""
        return (
            f"receiver: window {self.window_bytes}, received {self.received_bytes}, consumed {self.consumed_bytes}, "
            f"announced {self.announced_bytes}"
        )

    def check_invariants(self) -> None:
        """Raise CreditError if the totals contradict each other. Not for use while another thread is receiving."""
        if not 0 <= self.announced_bytes <= self.consumed_bytes <= self.received_bytes:
            raise CreditError("totals out of order", self.story())
        if self.consumed_bytes == self.received_bytes != self.announced_bytes:
            raise CreditError("credit held back though nothing is queued", self.story())
