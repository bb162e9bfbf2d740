"""Frames: every element comes back as it went, and damage of any kind is a FrameError."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.common.typeinfo import TypeInformation, Types
from runtime.common.types import Row
from runtime.core.batch import Mark, RecordBatch
from runtime.core.elements import (
    CheckpointBarrier,
    EndOfInput,
    LatencyMarker,
    StreamElement,
    Watermark,
    WatermarkStatus,
)
from runtime.core.ids import Attempt, CheckpointId, OperatorId
from runtime.network.channel import ChannelId, RecordLimit, RecordTooLargeError
from runtime.network.frame_codec import MAX_FRAME_BYTES, FrameDecoder, FrameEncoder
from runtime.network.frames import FrameError, FrameKind, decode_header, make_frame

CHANNEL = ChannelId(7, 3, 65535)
ATTEMPT = Attempt(9)
ROW_TYPE = Types.ROW_NAMED(["n", "s"], [Types.LONG(), Types.STRING()])
int64s = st.integers(-(2**63), 2**63 - 1)


def encode(element: StreamElement, record_type: TypeInformation | None = None) -> bytes:
    return bytes(FrameEncoder(CHANNEL, ATTEMPT, record_type).encode(element))


def decode(frame: bytes, record_type: TypeInformation | None) -> StreamElement:
    return FrameDecoder(record_type).decode(decode_header(frame), frame)


def as_lists(batch: StreamElement) -> tuple[list[Any], list[int] | None, list[Mark]]:
    assert isinstance(batch, RecordBatch)
    return batch.values(), batch.timestamps(), list(batch.marks)


@st.composite
def batches(draw: st.DrawFn, values: st.SearchStrategy[Any] = int64s) -> RecordBatch:
    records = draw(st.lists(values, max_size=20))
    timestamps = draw(st.none() | st.lists(int64s, min_size=len(records), max_size=len(records)))
    offsets = sorted(draw(st.lists(st.integers(0, len(records)), max_size=4)))
    watermarks = sorted(draw(st.lists(int64s, min_size=len(offsets), max_size=len(offsets))))
    return RecordBatch.of_values(records, timestamps, list(map(Mark, offsets, watermarks)), keys=list(records))


controls = st.one_of(
    st.builds(Watermark, int64s),
    st.sampled_from(WatermarkStatus),
    st.builds(LatencyMarker, int64s, st.builds(OperatorId, st.text(max_size=40)), st.integers(0, 2**31 - 1)),
    st.builds(CheckpointBarrier, st.builds(CheckpointId, st.integers(1, 2**62)), int64s),
    st.just(EndOfInput()),
)


@given(controls)
def test_control_elements_come_back(element: StreamElement) -> None:
    assert decode(encode(element), None) == element


@given(batches(st.none() | st.booleans() | int64s | st.text() | st.tuples(st.text(), st.floats(allow_nan=False))))
def test_object_batches_come_back_without_their_keys(batch: RecordBatch) -> None:
    decoded = decode(encode(batch), None)
    assert as_lists(decoded) == as_lists(batch)
    assert isinstance(decoded, RecordBatch) and decoded.keys is None


@given(batches(st.builds(lambda n, s: Row(n=n, s=s), st.none() | int64s, st.none() | st.text())))
def test_rows_and_columns_come_back_alike(batch: RecordBatch) -> None:
    typed = batch.with_values(batch.values(), ROW_TYPE)
    by_rows = decode(encode(typed, ROW_TYPE), ROW_TYPE)
    typed.arrow()
    by_columns = decode(encode(typed, ROW_TYPE), ROW_TYPE)
    assert isinstance(by_rows, RecordBatch) and not by_rows.has_arrow
    assert isinstance(by_columns, RecordBatch) and by_columns.has_arrow and not by_columns.has_values
    assert as_lists(by_rows) == as_lists(by_columns) == as_lists(batch)


def test_rows_that_do_not_fit_their_type_are_pickled() -> None:
    batch = RecordBatch.of_values([Row(n="not a number", s="x")], type_info=ROW_TYPE)
    assert as_lists(decode(encode(batch, ROW_TYPE), ROW_TYPE)) == as_lists(batch)


def test_columns_of_an_edge_without_a_type_travel_as_values() -> None:
    batch = RecordBatch.of_arrow(pa.record_batch({"value": pa.array([1, 2])}), Types.LONG())
    assert as_lists(decode(encode(batch), None))[0] == [1, 2]


@pytest.mark.parametrize("data_type", [pa.string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_columns_of_any_string_layout_come_back(data_type: pa.DataType) -> None:
    column = pa.array(["a", None, "long enough to be out of line", "b"]).cast(data_type)
    columns = pa.record_batch({"value": column}).slice(1, 2)
    encoder, decoder = FrameEncoder(CHANNEL, ATTEMPT, Types.STRING()), FrameDecoder(Types.STRING())
    for _ in range(2):
        frame = encoder.encode(RecordBatch.of_arrow(columns, Types.STRING()))
        decoded = decoder.decode(decode_header(frame), frame)
        assert isinstance(decoded, RecordBatch)
        assert decoded.arrow().column(0).to_pylist() == [None, "long enough to be out of line"]


@pytest.mark.parametrize("misplaced", range(8))
def test_columns_are_aligned_wherever_the_frame_lies(misplaced: int) -> None:
    columns = pa.record_batch({"n": pa.array([1, 2]), "s": pa.array(["x", "y"])})
    frame = encode(RecordBatch.of_arrow(columns, ROW_TYPE, np.array([5, 6]), [Mark(1, 4)]), ROW_TYPE)
    buffer = pa.allocate_buffer(misplaced + len(frame))
    np.frombuffer(buffer, np.uint8)[misplaced:] = np.frombuffer(frame, np.uint8)
    placed = buffer.slice(misplaced)
    decoded = FrameDecoder(ROW_TYPE).decode(decode_header(placed), placed)
    assert isinstance(decoded, RecordBatch)
    assert all(b is None or b.address % 8 == 0 for column in decoded.arrow().columns for b in column.buffers())
    assert (decoded.timestamps(), decoded.marks) == ([5, 6], [Mark(1, 4)])


@pytest.mark.parametrize("columns", [False, True])
def test_large_batch_is_sliced_in_order(columns: bool) -> None:
    batch = RecordBatch.of_values([f"{i:0100}" for i in range(1000)], list(range(1000)), [Mark(400, 7)], Types.STRING())
    if columns:
        batch.arrow()
    encoder, decoder = FrameEncoder(CHANNEL, ATTEMPT, Types.STRING()), FrameDecoder(Types.STRING())
    for _ in range(2):  # values: the second batch knows the rows' size from the first
        sliced = list(encoder.encode_sliced(batch, 10_000))
        parts = [decoder.decode(decode_header(frame), frame) for frame in sliced]
        assert [value for part in parts for value in as_lists(part)[0]] == batch.values()
        assert sum(len(as_lists(part)[2]) for part in parts) == 1
    assert len(sliced) >= 10 and max(map(len, sliced)) < 15_000


def test_batch_beyond_the_size_of_a_frame_is_cut_by_the_size_of_its_rows() -> None:
    batch = RecordBatch.of_values([bytes(1 << 20)] * 8 + [bytes(5 << 20)])
    sizes = [len(frame) for frame in FrameEncoder(CHANNEL, ATTEMPT, None).encode_sliced(batch, 1 << 30)]
    assert all(size <= MAX_FRAME_BYTES for size in sizes[:-1]) and sizes[-1] > 5 << 20


@pytest.mark.parametrize("at", [0, 2000, 4095])
def test_large_row_among_many_goes_alone_with_order_and_marks_kept(at: int) -> None:
    values: list[object] = list(range(4096))
    values[at] = bytes(5 << 20)
    batch = RecordBatch.of_values(values, list(range(4096)), [Mark(at, 7), Mark(4096, 9)])
    encoder, decoder = FrameEncoder(CHANNEL, ATTEMPT, None), FrameDecoder(None)
    parts = [decoder.decode(decode_header(frame), frame) for frame in encoder.encode_sliced(batch, 1 << 30)]
    assert [value for part in parts for value in as_lists(part)[0]] == values
    assert [mark.watermark for part in parts for mark in as_lists(part)[2]] == [7, 9]
    assert len(parts) == 3 - (at in (0, 4095))


class CountsItsPickles:
    """A large record that counts how often it is encoded."""

    def __init__(self) -> None:
        self.pickles = 0

    def __reduce__(self) -> tuple[type[bytes], tuple[int]]:
        self.pickles += 1
        return bytes, (bytes(5 << 20),)  # type: ignore[return-value]


def test_large_row_among_many_is_encoded_twice() -> None:
    large = CountsItsPickles()
    batch = RecordBatch.of_values([*range(4000), large, *range(4000)])
    assert sum(1 for _ in FrameEncoder(CHANNEL, ATTEMPT, None).encode_sliced(batch, 1 << 30)) == 3
    assert large.pickles == 2


@pytest.mark.parametrize("columns", [False, True])
def test_record_beyond_the_limit_is_refused_with_its_operator_and_the_option(columns: bool) -> None:
    batch = RecordBatch.of_values(["x" * 2000, "short"], None, [], Types.STRING())
    if columns:
        batch.arrow()
    encoder = FrameEncoder(CHANNEL, ATTEMPT, Types.STRING())
    encoder.limit_records(RecordLimit("enlarge", 1000))
    with pytest.raises(
        RecordTooLargeError, match=r"'enlarge'.* of 2,\d{3} bytes; taskmanager.network.max-record-size "
    ):
        list(encoder.encode_sliced(batch, 500))


def test_many_small_records_may_be_beyond_the_limit_together() -> None:
    encoder = FrameEncoder(CHANNEL, ATTEMPT, None)
    encoder.limit_records(RecordLimit("many", 1000))
    sizes = [len(frame) for frame in encoder.encode_sliced(RecordBatch.of_values(["x" * 100] * 100), 1 << 20)]
    assert len(sizes) < 20 and max(sizes) <= 1000


def test_what_cannot_be_pickled_is_an_error() -> None:
    with pytest.raises(FrameError, match="cannot be pickled"):
        encode(RecordBatch.of_values([(i for i in range(3))]))


@given(st.data(), controls | batches())
def test_damage_is_found(data: st.DataObject, element: StreamElement) -> None:
    frame = bytearray(encode(element))
    position = data.draw(
        st.integers(0, len(frame) - 1).filter(lambda i: not 24 <= i < 28)
    )  # the backlog is only advice
    frame[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(FrameError):
        decode_header(frame)


@given(st.data(), controls | batches())
def test_cut_frames_are_found(data: st.DataObject, element: StreamElement) -> None:
    frame = encode(element)
    with pytest.raises(FrameError):
        decode_header(frame[: data.draw(st.integers(0, len(frame) - 1))])


@given(st.binary(max_size=100), st.sampled_from(FrameKind))
def test_nonsense_with_a_valid_header_is_an_error_or_an_element(body: bytes, kind: FrameKind) -> None:
    frame = make_frame(kind, 0, 1, CHANNEL, 0, body)
    try:
        element = decode(bytes(frame), Types.LONG())
    except FrameError:
        return
    assert isinstance(element, StreamElement)


def test_end_that_contradicts_its_sequence_number_is_an_error() -> None:
    frame = make_frame(FrameKind.END, 0, 1, CHANNEL, 5, (4).to_bytes(8, "little"))
    with pytest.raises(FrameError, match="end of the channel"):
        decode(bytes(frame), None)
