"""Frames: encoding of stream elements and the transport's own messages on the wire.

A frame is a fixed header (kind, attempt, channel, sequence number, backlog, CRC) and a body. Records travel as Arrow
IPC when their batch has columns, else by the record type's serializer or as one pickle; event times and marks are
plain int64 arrays. Decoding unpickles: only read frames of a peer that has shown the job's token. Pure: no thread.

All sections of a data frame lie at 4 modulo 8 from its start: gRPC hands out `app_metadata` at such addresses
(measured, pyarrow 26), so columns can be used where they lie; a frame that lies otherwise is copied once.
"""

from __future__ import annotations

import enum
import pickle
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.core.batch import Mark, RecordBatch
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.elements import (
    CheckpointBarrier,
    EndOfInput,
    LatencyMarker,
    StreamElement,
    Watermark,
    WatermarkStatus,
)
from runtime.core.ids import Attempt, CheckpointId, OperatorId, SlotId
from runtime.core.serializers import SerializationError, Serializer, pickle_dumps, serializer_for
from runtime.network.channel import ChannelId, Frame, RecordLimit
from runtime.network.credit import Credit

MAGIC = 0x7D02
"""Marks a frame; the low byte is the version of the layout."""

MAX_FRAME_BYTES = 4 << 20
"""A batch whose frame is larger is cut in two, down to single rows: one large message would hold up all other channels
of its connection, and Arrow Flight refuses messages of 2 GiB."""

_HEADER = struct.Struct("<HBBIIHHQII")
HEADER_BYTES = _HEADER.size
_CRC_OFFSET = HEADER_BYTES - 4
_KIND_OFFSET = 2
_SEQUENCE_OFFSET = 16
_BACKLOG_OFFSET = HEADER_BYTES - 8
_BACKLOG = struct.Struct("<I")
_DATA_HEAD = struct.Struct("<III")
_BARRIER = struct.Struct("<qq")
_LATENCY = struct.Struct("<qi")
_HELLO = struct.Struct("<IIQ")
_INT64 = struct.Struct("<q")
_UINT64 = struct.Struct("<Q")
_MAX_UINT32 = 2**32 - 1

_HAS_TIMESTAMPS = 1
_TYPED = 4
"""The values were written by the record type's serializer."""
_IPC_STREAM = 2
"""The columns are a whole IPC stream: dictionaries cannot be sent as a lone record batch message."""


class FrameError(Exception):
    """Bytes that are not a valid frame, or a frame that does not belong where it came."""


class FrameKind(enum.IntEnum):
    """Content of a frame. The first seven are stream elements of a channel, the rest is the transport's own."""

    DATA_ARROW = 1
    DATA_OBJECT = 2
    WATERMARK = 3
    STATUS = 4
    LATENCY_MARKER = 5
    BARRIER = 6
    END = 7
    CREDIT = 8
    HEARTBEAT = 9
    HELLO = 10
    BYE = 11
    """The sender leaves; it ends the connection but no channel."""
    BACKLOG = 12
    """The producer has frames that no credit covers, and none that could announce them."""


class FrameHeader(NamedTuple):
    """The fixed part of a frame."""

    kind: FrameKind
    flags: int
    attempt: Attempt
    channel_id: ChannelId
    sequence: int
    """Stream elements: 0-based position in the channel. CREDIT: total of bytes consumed. Else 0."""
    backlog_bytes: int
    """Bytes that the producer has queued behind this frame, at most 2**32 - 1. Only advice, so the CRC leaves it
    out.
    """


@dataclass(frozen=True, slots=True)
class Hello:
    """First message of a consumer that connects to a producer."""

    consumer_slot: SlotId
    producer_slot: SlotId
    window_bytes: int
    token: bytes


_NO_CHANNEL = ChannelId(0, 0, 0)


def _frame(kind: FrameKind, flags: int, attempt: int, channel_id: ChannelId, sequence: int, body: bytes) -> bytearray:
    frame = bytearray(HEADER_BYTES)
    frame += body
    return _seal(frame, kind, flags, attempt, channel_id, sequence)


def _seal(
    frame: bytearray, kind: FrameKind, flags: int, attempt: int, channel_id: ChannelId, sequence: int
) -> bytearray:
    """Fill in the header of a frame whose body is in place."""
    edge_id, producer, consumer = channel_id.edge_id, channel_id.producer, channel_id.consumer
    _HEADER.pack_into(frame, 0, MAGIC, kind, flags, attempt, edge_id, producer, consumer, sequence, 0, 0)
    _BACKLOG.pack_into(frame, _CRC_OFFSET, _crc(frame))
    return frame


def _crc(frame: bytearray | memoryview) -> int:
    view = memoryview(frame)
    return zlib.crc32(view[HEADER_BYTES:], zlib.crc32(view[:_BACKLOG_OFFSET]))


def set_backlog(frame: bytearray, backlog_bytes: int) -> None:
    """Write the producer's backlog into a frame that is about to be sent."""
    _BACKLOG.pack_into(frame, _BACKLOG_OFFSET, min(backlog_bytes, _MAX_UINT32))


def is_barrier(frame: bytearray) -> bool:
    """Return whether a frame carries a checkpoint barrier."""
    return frame[_KIND_OFFSET] == FrameKind.BARRIER


def is_channel_state(frame: Frame) -> bool:
    """Return whether a frame of a stream element has to be kept when a barrier overtakes it.

    Status, latency markers and the end are not: their producers say them again after a restore.
    """
    return memoryview(frame)[_KIND_OFFSET] <= FrameKind.WATERMARK


def sequence_of(frame: bytearray) -> int:
    """Return the position of a stream element's frame in its channel."""
    sequence: int = _UINT64.unpack_from(frame, _SEQUENCE_OFFSET)[0]
    return sequence


def set_sequence(frame: bytearray, sequence: int) -> None:
    """Give a stream element's frame, other than END, another position in its channel."""
    _UINT64.pack_into(frame, _SEQUENCE_OFFSET, sequence)
    _BACKLOG.pack_into(frame, _CRC_OFFSET, _crc(frame))


def barrier_of(header: FrameHeader, frame: pa.Buffer | bytes | bytearray) -> CheckpointBarrier:
    """Return the barrier of a BARRIER frame; any thread.

    Raises:
        FrameError: it cannot be read.
    """
    try:
        barrier = _decode_control(header, memoryview(frame)[HEADER_BYTES:])
    except FrameError:
        raise
    except Exception as error:  # unpickling may raise anything
        raise FrameError(f"unreadable {header.kind.name} frame: {type(error).__name__}: {error}") from error
    assert isinstance(barrier, CheckpointBarrier)
    return barrier


# --- the transport's own frames ---------------------------------------------------------------------------------------


def encode_credit(attempt: Attempt, channel_id: ChannelId, credit: Credit) -> bytearray:
    """Return a CREDIT frame: how much of the channel was consumed and may have been sent since it was made."""
    return _frame(FrameKind.CREDIT, 0, attempt, channel_id, credit.consumed_bytes, _UINT64.pack(credit.limit_bytes))


def decode_credit(header: FrameHeader, frame: pa.Buffer | bytes | bytearray) -> Credit:
    """Return the content of a CREDIT frame whose header was read by `decode_header`.

    Raises:
        FrameError: the body is not a limit.
    """
    if len(memoryview(frame)) != HEADER_BYTES + _UINT64.size:
        raise FrameError("malformed CREDIT frame")
    return Credit(header.sequence, _UINT64.unpack_from(frame, HEADER_BYTES)[0])


def encode_backlog(attempt: Attempt, channel_id: ChannelId, backlog_bytes: int) -> bytearray:
    """Return a BACKLOG frame: that much is queued at the producer."""
    frame = _frame(FrameKind.BACKLOG, 0, attempt, channel_id, 0, b"")
    set_backlog(frame, backlog_bytes)
    return frame


def encode_signal(kind: FrameKind, attempt: Attempt) -> bytearray:
    """Return a HEARTBEAT or BYE frame."""
    return _frame(kind, 0, attempt, _NO_CHANNEL, 0, b"")


def encode_hello(attempt: Attempt, hello: Hello) -> bytearray:
    """Return a HELLO frame."""
    body = _HELLO.pack(hello.consumer_slot, hello.producer_slot, hello.window_bytes) + hello.token
    return _frame(FrameKind.HELLO, 0, attempt, _NO_CHANNEL, 0, body)


def decode_hello(frame: bytes | memoryview) -> tuple[Attempt, Hello]:
    """Return the attempt and content of a HELLO frame.

    Raises:
        FrameError: it is none.
    """
    view = memoryview(frame)
    header = decode_header(view)
    if header.kind is not FrameKind.HELLO or len(view) < HEADER_BYTES + _HELLO.size:
        raise FrameError(f"expected HELLO, got a {header.kind.name} frame of {len(view)} bytes")
    consumer, producer, window_bytes = _HELLO.unpack_from(view, HEADER_BYTES)
    token = bytes(view[HEADER_BYTES + _HELLO.size :])
    return header.attempt, Hello(SlotId(consumer), SlotId(producer), window_bytes, token)


def decode_header(frame: bytes | bytearray | memoryview) -> FrameHeader:
    """Read and verify the header, and the CRC of the whole frame.

    Raises:
        FrameError: these bytes are no frame, one of another version, or damaged.
    """
    view = memoryview(frame)
    if len(view) < HEADER_BYTES:
        raise FrameError(f"{len(view)} bytes are too few for a frame")
    magic, kind, flags, attempt, edge_id, producer, consumer, sequence, backlog, crc = _HEADER.unpack_from(view)
    if magic != MAGIC:
        raise FrameError(f"not a frame of this version: starts with {magic:#06x}, not {MAGIC:#06x}")
    if _crc(view) != crc:
        raise FrameError(f"damaged frame of {len(view)} bytes: its CRC does not match")
    try:
        frame_kind = FrameKind(kind)
    except ValueError:
        raise FrameError(f"unknown kind of frame: {kind}") from None
    channel_id = ChannelId(edge_id, producer, consumer)
    return FrameHeader(frame_kind, flags, Attempt(attempt), channel_id, sequence, backlog)


# --- stream elements --------------------------------------------------------------------------------------------------


class FrameEncoder:
    """Turns the elements of one channel into frames, numbering them. For the producer's thread only.

    Args:
        channel_id: the channel; its numbers must fit the header (edge 32 bits, subtasks 16 bits).
        attempt: written into every frame.
        record_type: type of the edge's records; None = Python objects, and columns are then not sent as such, as the
            consumer could not read them.
    """

    __slots__ = (
        "_limit",
        "_max_frame_bytes",
        "_record_type",
        "_row_bytes",
        "_schema",
        "_schema_bytes",
        "_sequence",
        "_serializer",
        "_whole_stream",
        "attempt",
        "channel_id",
    )

    def __init__(self, channel_id: ChannelId, attempt: Attempt, record_type: TypeInformation | None) -> None:
        self.channel_id = channel_id
        self.attempt = attempt
        self._limit: RecordLimit | None = None
        self._max_frame_bytes = MAX_FRAME_BYTES
        self._record_type = record_type
        self._sequence = 0
        self._schema: pa.Schema | None = None
        self._schema_bytes = b""
        self._whole_stream = False
        self._serializer = _serializer_of(record_type)
        self._row_bytes = 0.0

    def limit_records(self, limit: RecordLimit) -> None:
        """Refuse larger records in `encode_sliced` from now on."""
        self._limit = limit
        # what is above it is then alone in its frame, and the frame's size is the record's
        self._max_frame_bytes = min(MAX_FRAME_BYTES, limit.max_bytes)

    @property
    def sequence(self) -> int:
        """Return the number of elements encoded so far."""
        return self._sequence

    def encode(self, element: StreamElement) -> bytearray:
        """Return a frame with the element, as the next of the channel. The `keys` of a batch are left out.

        Raises:
            FrameError: the records cannot be pickled.
        """
        return self._number(*self._body(element))

    def encode_at(self, element: StreamElement, sequence: int) -> bytearray:
        """Return a frame with an element other than a batch, at a position of the channel that is already counted."""
        frame, kind, flags = self._body(element)
        return _seal(frame, kind, flags, self.attempt, self.channel_id, sequence)

    def encode_sliced(self, batch: RecordBatch, target_bytes: int) -> Iterator[bytearray]:
        """Yield frames of about `target_bytes` each with the rows of a batch, as the next of the channel.

        How many rows make a frame is told from the columns' size, or from what earlier values took. Where a frame is
        beyond MAX_FRAME_BYTES nevertheless, its rows are measured one by one: each is encoded three times at most, and
        a large one twice, however many rows there are.

        Raises:
            FrameError: the records cannot be pickled.
            RecordTooLargeError: a record is beyond the limit.
        """
        size = float(batch.arrow().nbytes) if self._sends_columns(batch) else self._row_bytes * batch.num_rows
        step = max(1, int(batch.num_rows * target_bytes / size)) if size > target_bytes else max(1, batch.num_rows)
        if step >= batch.num_rows:
            yield from self._encode_bounded(batch)
            return
        for start in range(0, batch.num_rows, step):
            yield from self._encode_bounded(batch.slice(start, min(start + step, batch.num_rows)))

    def _encode_bounded(self, batch: RecordBatch) -> Iterator[bytearray]:
        frame, kind, flags = self._body(batch)
        if len(frame) > self._max_frame_bytes and batch.num_rows > 1:
            del frame
            yield from self._encode_row_by_row(batch)
            return
        yield self._numbered(batch, frame, kind, flags)

    def _encode_row_by_row(self, batch: RecordBatch) -> Iterator[bytearray]:
        """Frames of as many rows as fit one by the size of each; a row beyond it is one by itself."""
        first = size = 0
        for row in range(batch.num_rows):
            frame, kind, flags = self._body(batch.slice(row, row + 1))
            if first < row and size + len(frame) > self._max_frame_bytes:
                yield self._number_rows(batch, first, row)
                first, size = row, 0
            if len(frame) > self._max_frame_bytes:
                yield self._numbered(batch.slice(row, row + 1), frame, kind, flags)
                first = row + 1
            else:
                size += len(frame)
        if first < batch.num_rows:
            yield self._number_rows(batch, first, batch.num_rows)

    def _number_rows(self, batch: RecordBatch, first: int, stop: int) -> bytearray:
        rows = batch.slice(first, stop)
        return self._numbered(rows, *self._body(rows))

    def _numbered(self, batch: RecordBatch, frame: bytearray, kind: FrameKind, flags: int) -> bytearray:
        if self._limit is not None and batch.num_rows == 1:
            self._limit.check(len(frame))
        if kind is FrameKind.DATA_OBJECT and batch.num_rows:
            self._row_bytes = len(frame) / batch.num_rows
        return self._number(frame, kind, flags)

    def _number(self, frame: bytearray, kind: FrameKind, flags: int) -> bytearray:
        _seal(frame, kind, flags, self.attempt, self.channel_id, self._sequence)
        self._sequence += 1
        return frame

    def _body(self, element: StreamElement) -> tuple[bytearray, FrameKind, int]:
        if isinstance(element, RecordBatch):
            return self._arrow_body(element) if self._sends_columns(element) else self._object_body(element)
        kind, body = _control_body(element, self._sequence)
        frame = bytearray(HEADER_BYTES)
        frame += body
        return frame, kind, 0

    def _sends_columns(self, batch: RecordBatch) -> bool:
        return batch.has_arrow and self._record_type is not None

    def _object_body(self, batch: RecordBatch) -> tuple[bytearray, FrameKind, int]:
        values = batch.values()
        if self._serializer is not None:
            try:
                frame, flags = _data_frame(batch, b"", self._serializer.serialize_many(values))
                return frame, FrameKind.DATA_OBJECT, flags | _TYPED
            except SerializationError:
                # a value is not of the declared type; the records still are what the user emitted
                self._serializer = None
        try:
            payload = pickle_dumps(values)
        except Exception as error:  # user objects may refuse in any way
            raise FrameError(f"records cannot be pickled: {type(error).__name__}: {error}") from error
        frame, flags = _data_frame(batch, b"", payload)
        return frame, FrameKind.DATA_OBJECT, flags

    def _arrow_body(self, batch: RecordBatch) -> tuple[bytearray, FrameKind, int]:
        columns = without_views(batch.arrow())
        schema = columns.schema
        if schema is not self._schema and (self._schema is None or not schema.equals(self._schema)):
            self._schema_bytes = _padded(schema.serialize().to_pybytes())
            self._whole_stream = any(_has_dictionary(field.type) for field in schema)
        self._schema = schema
        if not self._whole_stream:
            frame, flags = _data_frame(batch, self._schema_bytes, columns.serialize())
            return frame, FrameKind.DATA_ARROW, flags
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as writer:
            writer.write_batch(columns)
        frame, flags = _data_frame(batch, b"", sink.getvalue())
        return frame, FrameKind.DATA_ARROW, flags | _IPC_STREAM


class FrameDecoder:
    """Turns the frames of one channel back into elements. For the consumer's thread only.

    Args:
        record_type: type of the edge's records, as at the encoder.
    """

    __slots__ = ("_record_type", "_schema", "_schema_bytes", "_serializer")

    def __init__(self, record_type: TypeInformation | None) -> None:
        self._record_type = record_type
        self._serializer = _serializer_of(record_type)
        self._schema: pa.Schema | None = None
        self._schema_bytes = b""

    def decode(self, header: FrameHeader, frame: pa.Buffer | bytes | bytearray) -> StreamElement:
        """Return the element of a frame whose header was read (and so its CRC verified) by `decode_header`.

        Raises:
            FrameError: the body does not fit the header, or cannot be read.
        """
        try:
            if header.kind is FrameKind.DATA_ARROW or header.kind is FrameKind.DATA_OBJECT:
                return self._decode_batch(header, frame)
            return _decode_control(header, memoryview(frame)[HEADER_BYTES:])
        except FrameError:
            raise
        except Exception as error:  # unpickling may raise anything
            raise FrameError(f"unreadable {header.kind.name} frame: {type(error).__name__}: {error}") from error

    def _decode_batch(self, header: FrameHeader, frame: pa.Buffer | bytes | bytearray) -> RecordBatch:
        buffer = frame if isinstance(frame, pa.Buffer) else pa.py_buffer(frame)
        if header.kind is FrameKind.DATA_ARROW and buffer.address % 8 != 4:
            buffer = _aligned_copy(buffer)
        rows, num_marks, schema_size = _DATA_HEAD.unpack_from(buffer, HEADER_BYTES)
        marks_at = HEADER_BYTES + _DATA_HEAD.size
        timestamps_at = marks_at + 16 * num_marks
        schema_at = timestamps_at + (8 * rows if header.flags & _HAS_TIMESTAMPS else 0)
        payload_at = schema_at + schema_size
        if payload_at > buffer.size:
            raise FrameError(f"{rows} rows and {num_marks} marks do not fit a frame of {buffer.size} bytes")
        marks = _decode_marks(np.frombuffer(buffer, np.int64, 2 * num_marks, marks_at), rows) if num_marks else ()
        timestamps = None
        if header.flags & _HAS_TIMESTAMPS:
            timestamps = np.frombuffer(buffer, np.int64, rows, timestamps_at)
        if header.kind is FrameKind.DATA_OBJECT:
            payload = memoryview(buffer)[payload_at:]
            if not header.flags & _TYPED:
                values = pickle.loads(payload)
            elif self._serializer is not None:
                values = self._serializer.deserialize_many(bytes(payload), rows)
            else:
                raise FrameError(f"rows of columns where the records' type is {self._record_type}")
            if type(values) is not list or len(values) != rows:
                raise FrameError(f"the records are not the {rows} that the frame announces")
            return RecordBatch(rows, values, None, None, timestamps, marks, self._record_type)
        columns = self._decode_columns(header, buffer, schema_at, schema_size)
        if columns.num_rows != rows or self._record_type is None:
            raise FrameError(f"{columns.num_rows} rows of columns of type {self._record_type}, announced: {rows}")
        return RecordBatch.of_arrow(columns, self._record_type, timestamps, marks)

    def _decode_columns(
        self, header: FrameHeader, buffer: pa.Buffer, schema_at: int, schema_size: int
    ) -> pa.RecordBatch:
        payload = buffer.slice(schema_at + schema_size)
        if header.flags & _IPC_STREAM:
            with pa.ipc.open_stream(payload) as reader:
                return reader.read_next_batch()
        schema_bytes = bytes(buffer.slice(schema_at, schema_size))
        if schema_bytes != self._schema_bytes or self._schema is None:
            self._schema = pa.ipc.read_schema(pa.py_buffer(schema_bytes))
            self._schema_bytes = schema_bytes
        return pa.ipc.read_record_batch(payload, self._schema)


def encode(
    element: StreamElement, channel_id: ChannelId, attempt: Attempt, record_type: TypeInformation | None
) -> bytes:
    """Encode one element as the first frame of a channel; for a whole channel keep a FrameEncoder."""
    return bytes(FrameEncoder(channel_id, attempt, record_type).encode(element))


def decode(frame: bytes, record_type: TypeInformation | None) -> StreamElement:
    """Decode the element of one frame; for a whole channel keep a FrameDecoder.

    Raises:
        FrameError: damaged, unreadable, or not a stream element.
    """
    return FrameDecoder(record_type).decode(decode_header(frame), frame)


def without_views(columns: pa.RecordBatch) -> pa.RecordBatch:
    """Return the same columns, with view types (`string_view`, `binary_view`) made plain.

    Polars hands out views; pyarrow 26 has no `take` for them, and a slice would carry all the batch's data along.
    """
    types = columns.schema.types
    plain = [_without_views(data_type) for data_type in types]
    if all(kept is data_type for kept, data_type in zip(plain, types, strict=True)):
        return columns
    arrays = [
        column if kept is data_type else column.cast(kept)
        for column, kept, data_type in zip(columns.columns, plain, types, strict=True)
    ]
    fields = [field.with_type(kept) for field, kept in zip(columns.schema, plain, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, columns.schema.metadata))


def _without_views(data_type: pa.DataType) -> pa.DataType:
    """Return the type without views in it; the very same object if there are none."""
    if pa.types.is_string_view(data_type):
        return pa.string()
    if pa.types.is_binary_view(data_type):
        return pa.binary()
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        items = data_type.value_field
        kept = _without_views(items.type)
        make = pa.list_ if pa.types.is_list(data_type) else pa.large_list
        return data_type if kept is items.type else make(items.with_type(kept))
    if pa.types.is_struct(data_type):
        fields = list(data_type)
        types = [_without_views(field.type) for field in fields]
        if any(kept is not field.type for kept, field in zip(types, fields, strict=True)):
            return pa.struct([field.with_type(kept) for field, kept in zip(fields, types, strict=True)])
    return data_type


# --- bodies -----------------------------------------------------------------------------------------------------------


def _serializer_of(record_type: TypeInformation | None) -> Serializer | None:
    """Return the serializer of rows, which is twice as fast as pickle; for longs, strings and tuples pickle is as fast
    or faster (measured over 8,192 of each).
    """
    return serializer_for(record_type) if isinstance(record_type, RowTypeInfo) else None


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def _has_dictionary(data_type: pa.DataType) -> bool:
    return pa.types.is_dictionary(data_type) or any(
        _has_dictionary(data_type.field(i).type) for i in range(data_type.num_fields)
    )


def _data_frame(batch: RecordBatch, schema: bytes, payload: bytes | pa.Buffer) -> tuple[bytearray, int]:
    """Return a frame with room for its header, and its flags."""
    parts: list[Any] = [bytes(HEADER_BYTES), _DATA_HEAD.pack(batch.num_rows, len(batch.marks), len(schema))]
    if batch.marks:
        parts.append(np.array(batch.marks, dtype=np.int64).tobytes())
    timestamps = batch.timestamps_array()
    if timestamps is not None:
        parts.append(np.ascontiguousarray(timestamps).tobytes())
    parts.append(schema)
    parts.append(memoryview(payload))
    return bytearray().join(parts), _HAS_TIMESTAMPS if timestamps is not None else 0


def _aligned_copy(buffer: pa.Buffer) -> pa.Buffer:
    copy = pa.allocate_buffer(buffer.size + 4)  # at a multiple of 64
    np.frombuffer(copy, np.uint8)[4:] = np.frombuffer(buffer, np.uint8)
    return copy.slice(4)


def _decode_marks(numbers: npt.NDArray[np.int64], rows: int) -> list[Mark]:
    pairs = numbers.reshape(-1, 2)
    offsets = pairs[:, 0]
    if offsets[0] < 0 or offsets[-1] > rows or bool(np.any(np.diff(offsets) < 0)):
        raise FrameError(f"marks are not in order within {rows} rows")
    return [Mark(offset, watermark) for offset, watermark in pairs.tolist()]


def _control_body(element: StreamElement, sequence: int) -> tuple[FrameKind, bytes]:
    match element:
        case Watermark(timestamp):
            return FrameKind.WATERMARK, _INT64.pack(timestamp)
        case WatermarkStatus():
            return FrameKind.STATUS, _INT64.pack(element.value)
        case LatencyMarker(marked_time_ms, operator_id, subtask_index):
            return FrameKind.LATENCY_MARKER, _LATENCY.pack(marked_time_ms, subtask_index) + operator_id.encode()
        case CheckpointBarrier(checkpoint_id, timestamp_ms, options):
            return FrameKind.BARRIER, _BARRIER.pack(checkpoint_id, timestamp_ms) + pickle_dumps(options)
        case EndOfInput():
            return FrameKind.END, _UINT64.pack(sequence)
    raise FrameError(f"not a stream element: {element!r}")


def _decode_control(header: FrameHeader, body: memoryview) -> StreamElement:
    match header.kind:
        case FrameKind.WATERMARK:
            return Watermark(_INT64.unpack(body)[0])
        case FrameKind.STATUS:
            return WatermarkStatus(_INT64.unpack(body)[0])
        case FrameKind.LATENCY_MARKER:
            marked_time_ms, subtask_index = _LATENCY.unpack_from(body)
            return LatencyMarker(marked_time_ms, OperatorId(str(body[_LATENCY.size :], "utf-8")), subtask_index)
        case FrameKind.BARRIER:
            checkpoint_id, timestamp_ms = _BARRIER.unpack_from(body)
            options: CheckpointOptions = pickle.loads(body[_BARRIER.size :])
            return CheckpointBarrier(CheckpointId(checkpoint_id), timestamp_ms, options)
        case FrameKind.END:
            if _UINT64.unpack(body)[0] != header.sequence:
                raise FrameError(
                    f"the end of the channel says {_UINT64.unpack(body)[0]} elements, not {header.sequence}"
                )
            return EndOfInput()
    raise FrameError(f"{header.kind.name} is not a stream element")
