"""Encoding of stream elements as frames.

Records travel as Arrow IPC when their batch has columns, else by the record type's serializer or as one pickle; event
times and marks are plain int64 arrays. Decoding unpickles: only read frames of a peer that has shown the job's token.
Pure: no thread.

All sections of a data frame lie at 4 modulo 8 from its start: gRPC hands out `app_metadata` at such addresses
(measured, pyarrow 26), so columns can be used where they lie; a frame that lies otherwise is copied once.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.core.arrow_views import without_views
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
from runtime.core.ids import Attempt, CheckpointId, OperatorId
from runtime.core.serializers import SerializationError, Serializer, pickle_dumps, serializer_for
from runtime.network.channel import ChannelId, RecordLimit
from runtime.network.frames import HEADER_BYTES, FrameError, FrameHeader, FrameKind, seal

MAX_FRAME_BYTES = 4 << 20
"""A batch whose frame is larger is cut in two, down to single rows: one large message would hold up all other channels
of its connection, and Arrow Flight refuses messages of 2 GiB."""

_DATA_HEAD = struct.Struct("<III")
_BARRIER = struct.Struct("<qq")
_LATENCY = struct.Struct("<qi")
_INT64 = struct.Struct("<q")
_UINT64 = struct.Struct("<Q")

_HAS_TIMESTAMPS = 1
_TYPED = 4
"""The values were written by the record type's serializer."""
_IPC_STREAM = 2
"""The columns are a whole IPC stream: dictionaries cannot be sent as a lone record batch message."""


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
        return seal(frame, kind, flags, self.attempt, self.channel_id, sequence)

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
        seal(frame, kind, flags, self.attempt, self.channel_id, self._sequence)
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
