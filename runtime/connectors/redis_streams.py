"""Redis Streams as source and sink: XREAD from positions of our own, XADD in pipelines.

Each stream is a split; a topic with partitions is several streams. There is no consumer group: positions are part of
the job's snapshots, so that each entry is read exactly once by the job's state. Each reader and writer talks to Redis
on its own thread. Entries that were trimmed before they were read are lost.
Source: Redis, documentation of XREAD, XADD and XINFO STREAM.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import redis

from runtime.common.secrets import SecretRef, revealed, secret_text
from runtime.common.serialization import SerializationSchema
from runtime.common.typeinfo import TypeInformation, Types
from runtime.common.types import rows_of
from runtime.connectors.background import BackgroundWriter, ReadAhead
from runtime.connectors.formats.bad_records import ERRORS_METRIC, BadRecordHandler, BadRecords
from runtime.connectors.formats.json.ndjson import NdjsonWriterFormat
from runtime.connectors.formats.messages import MessageDecoder, MessageEncoder, MessageFormat, message_type
from runtime.connectors.formats.writer_format import RowWriterFormat
from runtime.connectors.poll_interval import PollInterval
from runtime.connectors.split_queue import SplitQueue
from runtime.core.batch import RecordBatch
from runtime.operators.sink import Sink, SinkError, SinkWriter, WriterContext
from runtime.operators.source import (
    Boundedness,
    NoSplit,
    ReaderContext,
    ReadStatus,
    Source,
    SourceError,
    SourceSplit,
    SplitEnumerator,
    SplitReader,
)

#: Entries asked for at a time: below some 100 the round trip shows, above some 10,000 the server's other clients wait.
READ_ENTRIES = 2000
#: How long a read waits in the server for news; a reader's thread ends at most so much later than the reader.
BLOCK_MS = 200
#: A server that does not answer within this time counts as lost.
SOCKET_TIMEOUT_S = 10.0
#: Streams that a subtask has open at once, at least. A snapshot may have split that many among fewer subtasks, or have
#: streams that are not the source's any more: one that waited for its turn would wait for ever, and event time with it.
SPLITS_AT_ONCE = 1 << 10
ENTRY_TYPE = Types.ROW_NAMED(["id", "fields"], [Types.STRING(), Types.MAP(Types.STRING(), Types.STRING())])
"""An entry as it is: its id, and its fields as texts."""

_ENTRY_FIELDS = ("id", "fields")
_Entry = tuple[bytes, dict[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class StreamSplit(SourceSplit):
    """A stream; its name is the split's id."""


class RedisStreamSource(Source):
    """Reads records from Redis streams. Event time is the time in the entries' ids, unless an assigner says otherwise.

    Args:
        url: redis://[user:password@]host:port/database, or rediss:// for TLS; or a secret that is one.
        streams: names of the streams; each is read by one subtask.
        message_format: how to read an entry's value; None: rows of ENTRY_TYPE.
        value_field: the field of an entry that holds the value; not used without a format.
        start: "earliest", "latest" (entries added from now on) or an entry's id, behind which to begin.
        bounded: end with the entries that are there when a stream is first read.
        bad_records: what becomes of entries that cannot be read or lack the field.

    Raises:
        ValueError: no stream, one twice, or no such start.
    """

    is_outside = True
    split_format = "entries of Redis streams"

    def __init__(
        self,
        url: str | SecretRef,
        streams: Sequence[str],
        message_format: MessageFormat | None = None,
        value_field: str = "value",
        start: str = "earliest",
        bounded: bool = False,
        bad_records: BadRecords | None = None,
    ) -> None:
        if not streams or len(set(streams)) != len(streams):
            raise ValueError(f"a Redis source needs streams with different names, not {list(streams)}")
        if start not in ("earliest", "latest"):
            _entry_id(start)
        self.url = secret_text(url)
        self.streams = list(streams)
        # streams without end are read side by side, however few subtasks there are; a snapshot may hold more of them
        self.splits_at_once = max(len(streams), SPLITS_AT_ONCE)
        self.start = start
        self.bounded = bounded
        self.boundedness = Boundedness.BOUNDED if bounded else Boundedness.CONTINUOUS_UNBOUNDED
        self._format = message_format
        self._field = value_field
        self._bad_records = bad_records or BadRecords.fail()
        self.dead_letter_tag = self._bad_records.tag

    def produced_type(self) -> TypeInformation | None:
        return ENTRY_TYPE if self._format is None else message_type(self._format)

    def create_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        if restored is None:
            names = self.streams
        elif isinstance(restored, dict):
            known = set(restored["known"])
            left = [name for name in restored["left"] if name in self.streams]
            names = left + [name for name in self.streams if name not in known]
        else:
            # earlier versions saved those alone that had not been dealt out: which of the others are new nobody knows
            names = restored
        return _StreamQueue(self.streams, [StreamSplit(name) for name in names], self.split_to_json, parallelism)

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        if split.split_id not in self.streams:
            return _RemovedStream()
        handler = BadRecordHandler(self._bad_records, context.metrics.counter(ERRORS_METRIC))
        decoder = None if self._format is None else MessageDecoder(self._format, handler, f"stream {split.split_id}")
        return _StreamReader(
            self, split.split_id, position, _Decoder(decoder, self._field.encode(), handler, split.split_id), context
        )

    def split_to_json(self, split: SourceSplit) -> Any:
        return split.split_id

    def split_from_json(self, value: Any) -> SourceSplit:
        return StreamSplit(value)


class _StreamQueue(SplitQueue):
    """Deals out an even share to each subtask: else the first one to ask would read them all."""

    def __init__(
        self,
        streams: Sequence[str],
        splits: Sequence[SourceSplit],
        split_to_json: Callable[[SourceSplit], Any],
        parallelism: int,
    ) -> None:
        super().__init__(splits, split_to_json)
        self._streams = list(streams)
        self._share = math.ceil(len(splits) / parallelism)
        self._dealt = [0] * parallelism

    def next_split(self, subtask_index: int) -> SourceSplit | NoSplit:
        if self._dealt[subtask_index] == self._share:
            return NoSplit.NEVER
        self._dealt[subtask_index] += 1
        return super().next_split(subtask_index)

    def add_splits_back(self, splits: Sequence[SourceSplit]) -> None:
        super().add_splits_back(splits)
        self._share += len(splits)

    def snapshot(self) -> Any:
        return {"known": self._streams, "left": super().snapshot()}


class _RemovedStream(SplitReader):
    """Reads a stream that the snapshot has, and the source no longer: it ends at once, and event time goes on."""

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        return ReadStatus.END_OF_SPLIT

    @property
    def position(self) -> Any:
        return None


class _Chunk(NamedTuple):
    """Entries that were read, and the known end of reading."""

    entries: list[_Entry]
    last: str
    """Id behind which the next read begins."""
    end: str | None
    """Id of the last entry to be read, of a bounded source."""


class _StreamReader(SplitReader):
    """Reads a stream; its position is [id of the last entry emitted, id of the last one to be emitted or None]."""

    def __init__(
        self, source: RedisStreamSource, stream: str, position: Any | None, decoder: _Decoder, context: ReaderContext
    ) -> None:
        self._decoder = decoder
        self._poll = PollInterval(context.clock)
        self._position: list[Any] | None = position
        self._entries: list[_Entry] = []
        self._row = 0
        #: answers of the server until it is known what there is; the first one may say where to begin
        self._looks = 2 if position is None else 1
        self._read_ahead = ReadAhead(f"redis-{stream}", lambda stop: _read(source, stream, position, stop))

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        if self._row == len(self._entries):
            chunk = self._read_ahead.take()
            if chunk is None:
                return ReadStatus.END_OF_SPLIT if self._read_ahead.is_exhausted else ReadStatus.NOTHING_YET
            self._poll.news()
            self._looks -= 1
            self._entries, self._row = chunk.entries, 0
            if not chunk.entries:
                self._position = [chunk.last, chunk.end]
                return ReadStatus.NOTHING_YET
            end = chunk.end
        else:
            assert self._position is not None
            end = self._position[1]
        entries = self._entries[self._row : self._row + max_rows]
        batch, consumed = self._decoder.decode(entries)
        self._row += consumed
        self._position = [entries[consumed - 1][0].decode(), end]
        return batch

    @property
    def position(self) -> Any:
        return self._position

    def next_read_ms(self) -> int | None:
        return self._poll.next_ms()

    def is_looking(self) -> bool:
        return self._looks > 0 and not self._read_ahead.is_exhausted

    def take_dead_letters(self) -> RecordBatch | None:
        return self._decoder.bad_records.take()

    def close(self) -> None:
        # without waiting: a thread may be waiting for the server, and there may be many of them
        self._read_ahead.stop()


class _Decoder:
    """Turns entries into records with event times."""

    def __init__(
        self, decoder: MessageDecoder | None, field: bytes, bad_records: BadRecordHandler, stream: str
    ) -> None:
        self._decoder = decoder
        self._stream = stream
        self._field = field
        self.bad_records = bad_records

    def decode(self, entries: list[_Entry]) -> tuple[RecordBatch, int]:
        """Return the records of entries, of which there is at least one, and how many of those it was."""
        times = np.array([int(entry_id.partition(b"-")[0]) for entry_id, _ in entries], dtype=np.int64)
        if self._decoder is None:
            rows = rows_of([(entry_id.decode(), _texts(fields)) for entry_id, fields in entries], _ENTRY_FIELDS)
            return RecordBatch.of_values(rows, times.tolist(), type_info=ENTRY_TYPE), len(entries)
        missing = next((i for i, (_, fields) in enumerate(entries) if self._field not in fields), len(entries))
        if missing == 0:
            self._set_aside(*entries[0])
            return self._decoder.decode((), str).batch, 1
        messages = [fields[self._field] for _, fields in entries[:missing]]
        batch, kept, consumed = self._decoder.decode(messages, lambda index: entries[index][0].decode())
        return batch.with_timestamps((times[:consumed] if kept is None else times[kept]).tolist(), ()), consumed

    def _set_aside(self, entry_id: bytes, fields: dict[bytes, bytes]) -> None:
        """Set aside an entry that lacks the field."""
        error = f"the entry has no field {self._field.decode()!r}"
        if not self.bad_records.is_tolerant:
            raise SourceError(f"{entry_id.decode()}: {error}: {fields!r:.200}")
        self.bad_records.add(f"stream {self._stream}", entry_id.decode(), error, repr(fields).encode())


def _texts(fields: dict[bytes, bytes]) -> dict[str, str]:
    return {name.decode("utf-8", "replace"): text.decode("utf-8", "replace") for name, text in fields.items()}


def _read(source: RedisStreamSource, stream: str, position: Any | None, stop: threading.Event) -> Iterator[_Chunk]:
    """Yield chunks of entries; runs on the reader's thread."""
    try:
        with _connect(source.url) as client:
            last, end = position or (None, None)
            if last is None:
                newest = _newest_id(client, stream)
                last = {"earliest": "0-0", "latest": newest}.get(source.start, source.start)
                end = newest if source.bounded else None
                # from now on a snapshot has it, and "latest" is not looked for again
                yield _Chunk([], last, end)
            is_first = True
            while not stop.is_set() and (end is None or _entry_id(last) < _entry_id(end)):
                found: Any = client.xread({stream: last}, READ_ENTRIES, None if end else BLOCK_MS)
                entries = found[0][1] if found else []
                if end is not None:
                    entries = [entry for entry in entries if _entry_id(entry[0].decode()) <= _entry_id(end)]
                    if not entries:
                        return  # the rest has been deleted
                if entries or is_first:
                    # that there is nothing is worth knowing, too
                    last = entries[-1][0].decode() if entries else last
                    yield _Chunk(entries, last, end)
                is_first = False
    except (redis.RedisError, OSError) as error:
        raise SourceError(f"Redis stream {stream}: {error}") from error


def _newest_id(client: redis.Redis, stream: str) -> str:
    """Return the id of the newest entry that the stream ever had; 0-0 if there was none or there is no stream."""
    if not client.exists(stream):
        return "0-0"
    info: Any = client.xinfo_stream(stream)
    newest = info["last-generated-id"]
    return newest.decode() if isinstance(newest, bytes) else str(newest)


def _connect(url: str | SecretRef) -> redis.Redis:
    try:
        # replies stay bytes, in the shape of the oldest protocol
        return redis.Redis.from_url(
            revealed(url), protocol=2, socket_timeout=SOCKET_TIMEOUT_S, socket_connect_timeout=SOCKET_TIMEOUT_S
        )
    except ValueError:
        if isinstance(url, SecretRef):
            # without its cause, which shows parts of the value
            raise ValueError(f"the value of {url} is not a URL of a Redis server") from None
        raise


def _entry_id(text: str) -> tuple[int, int]:
    """Return an entry's id in the order of the stream.

    Raises:
        ValueError: it is none.
    """
    milliseconds, _, sequence = text.partition("-")
    if not milliseconds.isdecimal() or not (sequence or "0").isdecimal():
        raise ValueError(f"{text!r} is not an entry id of a Redis stream")
    return int(milliseconds), int(sequence or 0)


class RedisStreamSink(Sink):
    """Adds records to Redis streams, at least once: what was added behind the last snapshot is added again.

    Args:
        url: as of the source.
        streams: names; a subtask writes to one of them, so with several they are read in parallel.
        message_format: how to write a record; None: JSON.
        value_field: the field of an entry that holds the record.
        max_length: about how many entries a stream keeps; None = all.

    Raises:
        ValueError: no stream, or a length below 1.
    """

    state_format = "entries of Redis streams"

    def __init__(
        self,
        url: str | SecretRef,
        streams: Sequence[str],
        message_format: RowWriterFormat | SerializationSchema | None = None,
        value_field: str = "value",
        max_length: int | None = None,
    ) -> None:
        if not streams:
            raise ValueError("a Redis sink needs at least one stream")
        if max_length is not None and max_length < 1:
            raise ValueError(f"the length of a stream must be at least 1, not {max_length}")
        self._url = secret_text(url)
        self._streams = list(streams)
        self._format = NdjsonWriterFormat() if message_format is None else message_format
        self._field = value_field
        self._max_length = max_length

    def accepts_changelog(self) -> bool:
        return isinstance(self._format, RowWriterFormat) and self._format.shows_row_kinds

    def keeps_state(self) -> bool:
        return False

    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        stream = self._streams[context.subtask_index % len(self._streams)]
        encoder = MessageEncoder(self._format, context.input_type)
        return _StreamWriter(self._url, stream, encoder, self._field, self._max_length)


class _StreamWriter(SinkWriter):
    def __init__(
        self, url: str | SecretRef, stream: str, encoder: MessageEncoder, field: str, max_length: int | None
    ) -> None:
        self._stream = stream
        self._encoder = encoder
        self._field = field
        self._max_length = max_length
        self._client = _connect(url)
        self._writer = BackgroundWriter(f"redis-{stream}", self._add, close=self._client.close)

    def write(self, batch: RecordBatch) -> None:
        if batch.num_rows:
            self._writer.submit(self._encoder.encode(batch))

    def is_available(self) -> bool:
        return self._writer.is_available()

    def flush(self, end_of_input: bool) -> None:
        self._writer.drain()

    def close(self) -> None:
        self._writer.close()

    def _add(self, batches: list[list[bytes]]) -> None:
        # not a transaction: half of a batch does no harm, and the server's other clients are not held up
        pipeline = self._client.pipeline(transaction=False)
        for message in itertools.chain.from_iterable(batches):
            pipeline.xadd(self._stream, {self._field: message}, maxlen=self._max_length, approximate=True)
        try:
            pipeline.execute()
        except (redis.RedisError, OSError) as error:
            raise SinkError(f"Redis stream {self._stream}: {error}") from error
