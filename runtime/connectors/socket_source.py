"""SocketSource: text from a TCP server, line by line, read by one subtask.

The socket does not block; only the server's name is looked up on a thread. No more is read than fits the buffer, so
that back-pressure reaches the server. A socket cannot be read again: what was received behind the last snapshot is
lost when the job restarts. Source: Flink, SocketTextStreamFunction.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from typing import Any

from runtime.common.typeinfo import TypeInformation
from runtime.connectors.background import BackgroundCall
from runtime.connectors.formats.bad_records import ERRORS_METRIC, BadRecordHandler, BadRecords
from runtime.connectors.formats.messages import MessageDecoder, MessageFormat, message_type
from runtime.connectors.formats.text import TextLineFormat
from runtime.connectors.poll_interval import PollInterval
from runtime.connectors.split_queue import SplitQueue
from runtime.core.batch import RecordBatch
from runtime.core.clock import Clock
from runtime.operators.source import (
    Boundedness,
    ReaderContext,
    ReadStatus,
    Source,
    SourceError,
    SourceSplit,
    SplitEnumerator,
    SplitReader,
)

#: Bytes asked for at a time.
RECEIVE_BYTES = 1 << 16
Address = tuple[socket.AddressFamily, Any]


class SocketSource(Source):
    """Reads records from a server that sends them one after the other.

    Args:
        host: name or address of the server.
        port: 1..65535.
        delimiter: what ends a record; what the server sends last may lack it.
        message_format: how to read a record; None: UTF-8 text, of type STRING.
        max_retries: how often in a row it is connected again when connecting fails or the server hangs up; 0 = never:
            the first fails the job, the second ends the stream; -1 = without end. Anything received ends the row.
        retry_interval_ms: time before it is connected again.
        buffer_bytes: received and not yet emitted; also the longest record.
        bad_records: what becomes of records that cannot be read.

    Raises:
        ValueError: a number or the delimiter makes no sense.
    """

    is_outside = True
    split_format = "connections"
    boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    survives_batches = False

    def __init__(
        self,
        host: str,
        port: int,
        delimiter: str = "\n",
        message_format: MessageFormat | None = None,
        max_retries: int = 0,
        retry_interval_ms: int = 500,
        buffer_bytes: int = 1 << 20,
        bad_records: BadRecords | None = None,
    ) -> None:
        if not 0 < port < 65536:
            raise ValueError(f"the port must be in 1..65535, not {port}")
        if not delimiter:
            raise ValueError("the delimiter must not be empty")
        if max_retries < -1 or retry_interval_ms < 0 or buffer_bytes < 1:
            raise ValueError("max_retries must be at least -1, retry_interval_ms 0, buffer_bytes 1")
        self.host = host
        self.port = port
        self.delimiter = delimiter.encode()
        self.max_retries = max_retries
        self.retry_interval_ms = retry_interval_ms
        self.buffer_bytes = buffer_bytes
        self._format: MessageFormat = TextLineFormat() if message_format is None else message_format
        self._bad_records = bad_records or BadRecords.fail()
        self.dead_letter_tag = self._bad_records.tag

    def produced_type(self) -> TypeInformation | None:
        return message_type(self._format)

    def create_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        names = [f"{self.host}:{self.port}"] if restored is None else restored
        return SplitQueue([SourceSplit(name) for name in names], self.split_to_json)

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        handler = BadRecordHandler(self._bad_records, context.metrics.counter(ERRORS_METRIC))
        decoder = MessageDecoder(self._format, handler, split.split_id)
        return _SocketReader(self, decoder, handler, context.clock, 0 if position is None else position)

    def split_to_json(self, split: SourceSplit) -> Any:
        return split.split_id

    def split_from_json(self, value: Any) -> SourceSplit:
        return SourceSplit(value)


class _SocketReader(SplitReader):
    """Reads a socket; its position is the number of records received, which is of use in error messages only."""

    def __init__(
        self, source: SocketSource, decoder: MessageDecoder, handler: BadRecordHandler, clock: Clock, position: int
    ) -> None:
        self._source = source
        self._decoder = decoder
        self._bad_records = handler
        self._records = position
        self._connection = _Connection(source, clock)
        self._poll = PollInterval(clock)
        self._buffer = bytearray()
        #: no delimiter begins before this offset
        self._searched = 0
        #: complete records, the next one last
        self._ready: list[bytes] = []
        self._has_ended = False

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        if not self._ready:
            if self._has_ended:
                return ReadStatus.END_OF_SPLIT
            self._receive()
            if not self._ready:
                return ReadStatus.NOTHING_YET
        self._poll.news()
        messages = self._ready[: -max_rows - 1 : -1]
        decoded = self._decoder.decode(messages, lambda index: f"record {self._records + index + 1}")
        del self._ready[-decoded.consumed :]
        self._records += decoded.consumed
        return decoded.batch

    @property
    def position(self) -> Any:
        return self._records

    def next_read_ms(self) -> int | None:
        return self._connection.retry_at_ms or self._poll.next_ms()

    def take_dead_letters(self) -> RecordBatch | None:
        return self._bad_records.take()

    def close(self) -> None:
        self._connection.close()

    def _receive(self) -> None:
        """Receive available data up to the buffer's size, and cut it into records."""
        limit = self._source.buffer_bytes
        while len(self._buffer) < limit:
            data = self._connection.receive(min(RECEIVE_BYTES, limit - len(self._buffer)))
            if data is None:
                break
            if data == b"":
                self._has_ended = not self._connection.reconnect()
                self._cut(at_end=True)
                return
            self._buffer += data
        self._cut(at_end=False)
        if not self._ready and len(self._buffer) >= limit:
            raise SourceError(f"a record of {self._connection.name} is longer than {limit} bytes (buffer_bytes)")

    def _cut(self, at_end: bool) -> None:
        delimiter, buffer = self._source.delimiter, self._buffer
        if at_end:
            # the next connection begins a new record
            records = bytes(buffer).split(delimiter)
            buffer.clear()
            self._searched = 0
            if not records[-1]:
                records.pop()
        else:
            end = buffer.rfind(delimiter, max(0, self._searched - len(delimiter) + 1))
            self._searched = len(buffer)
            if end < 0:
                return
            records = bytes(buffer[:end]).split(delimiter)
            del buffer[: end + len(delimiter)]
            self._searched = len(buffer)
        if delimiter == b"\n":
            records = [record.removesuffix(b"\r") for record in records]
        self._ready = records[::-1]


class _Connection:
    """A TCP connection that is made, and made again, without waiting."""

    def __init__(self, source: SocketSource, clock: Clock) -> None:
        self.name = f"{source.host}:{source.port}"
        self._source = source
        self._clock = clock
        self._retries = 0
        self._lookup: BackgroundCall[list[Address]] | None = None
        self._addresses: list[Address] = []
        self._socket: socket.socket | None = None
        self._is_connected = False
        #: wall-clock time at which to connect again; None = now
        self.retry_at_ms: int | None = None

    def receive(self, max_bytes: int) -> bytes | None:
        """Return what has been received; None if nothing is there yet, b"" if the server hung up.

        Raises:
            SourceError: there is no connection, and no retry is left.
        """
        try:
            if not self._is_connected and not self._connect():
                return None
            assert self._socket is not None
            data = self._socket.recv(max_bytes)
        except BlockingIOError:
            return None
        except OSError as error:
            was_connected, reason = self._is_connected, error.strerror or str(error)
            if self._addresses and not was_connected:
                # the name has further addresses
                self._disconnect(keep_addresses=True)
                return None
            if self.reconnect():
                return None
            raise SourceError(f"no connection to {self.name}: {reason}") from error
        if data:
            self._retries = 0
        return data

    def reconnect(self) -> bool:
        """Hang up, and connect again when it is time; returns False if no retry is left."""
        self._disconnect(keep_addresses=False)
        if self._retries == self._source.max_retries:
            return False
        self._retries += 1
        self.retry_at_ms = self._clock.now_ms() + self._source.retry_interval_ms
        return True

    def close(self) -> None:
        self._disconnect(keep_addresses=False)
        lookup, self._lookup = self._lookup, None
        if lookup is not None:
            lookup.close()

    def _connect(self) -> bool:
        """Do what can be done now; returns whether there is a connection."""
        if self.retry_at_ms is not None:
            if self._clock.now_ms() < self.retry_at_ms:
                return False
            self.retry_at_ms = None
        if self._socket is None:
            if not self._addresses and not self._look_up():
                return False
            family, address = self._addresses.pop(0)
            self._socket = socket.socket(family, socket.SOCK_STREAM)
            self._socket.setblocking(False)
            _check(self._socket.connect_ex(address))
        # an error of a connection that is being made is told once it is asked for
        _check(self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        try:
            self._socket.getpeername()
        except OSError as error:
            if error.errno == errno.ENOTCONN:
                return False
            raise
        self._is_connected = True
        return True

    def _look_up(self) -> bool:
        """Find the addresses of the server's name; returns whether they are known."""
        if self._lookup is None:
            self._lookup = BackgroundCall("socket-lookup", _lookup(self._source.host, self._source.port))
        if not self._lookup.is_done:
            return False
        lookup, self._lookup = self._lookup, None
        self._addresses = lookup.result()
        return True

    def _disconnect(self, keep_addresses: bool) -> None:
        self._is_connected = False
        if not keep_addresses:
            self._addresses = []
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _lookup(host: str, port: int) -> Callable[[], list[Address]]:
    return lambda: [(found[0], found[4]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def _check(code: int) -> None:
    if code not in (0, errno.EINPROGRESS):
        raise OSError(code, os.strerror(code))
