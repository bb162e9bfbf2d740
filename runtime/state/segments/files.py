"""Segments: immutable Arrow IPC files with rows of many keys, in the order of their key groups.

A row's place, its key group and the hash of its key, is a column of the file: rows are found by key, and key groups are
cut out, without the keys being read. Also the form that rows of one key group have in canonical snapshots. Any thread.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.core.column_keys import ColumnKeys
from runtime.state.handles import DamagedSnapshotError
from runtime.state.key_groups import assign_key_groups

PLACE: Final = "__place"
"""Last column of a segment: what its rows are ordered by, uint64; see `places_of`."""
_HEADER: Final = struct.Struct("<qq")
Places = npt.NDArray[np.uint64]


class Header(NamedTuple):
    """Part of a snapshot beside the rows of a key group."""

    watermark: int
    sequence: int
    """Number of rows that had arrived."""


def places_of(columns: pa.RecordBatch, keys: ColumnKeys, max_parallelism: int) -> Places:
    """Return the places of rows: the key group in the upper 32 bits, the key's canonical hash in the lower ones."""
    hashes = keys.hashes(columns)
    groups = assign_key_groups(hashes, max_parallelism).astype(np.uint64)
    places: Places = (groups << np.uint64(32)) | hashes
    return places


def key_groups_of(places: Places) -> npt.NDArray[np.int64]:
    """Return the key groups of rows, given their places."""
    return (places >> np.uint64(32)).astype(np.int64)


def encode_segment(columns: pa.RecordBatch, keys: ColumnKeys, max_parallelism: int, compression: str) -> bytes:
    """Return rows as the content of a segment.

    Args:
        columns: rows of a key are in the order in which they arrived; without views.
        keys: how the stream is keyed.
        max_parallelism: number of key groups.
        compression: none | zstd | lz4.
    """
    places = places_of(columns, keys, max_parallelism)
    order = np.argsort(places, kind="stable")
    columns = columns.take(pa.array(order)).append_column(PLACE, pa.array(places[order]))
    options = pa.ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, columns.schema, options=options) as writer:
        writer.write_batch(columns)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decode_segment(data: bytes, name: str) -> pa.Table:
    """Return the columns of a segment, sharing the memory of `data` unless it is compressed.

    Raises:
        DamagedSnapshotError: it is none.
    """
    try:
        with pa.ipc.open_file(pa.BufferReader(data)) as reader:
            table = reader.read_all()
    except (pa.ArrowException, OSError) as error:
        raise DamagedSnapshotError(name, f"it is no segment of columns: {error}") from error
    if table.column_names[-1:] != [PLACE]:
        raise DamagedSnapshotError(name, "its rows have no places")
    return table


def pack_rows(header: Header, columns: pa.RecordBatch) -> bytes:
    """Return rows of one key group as the value that canonical snapshots have."""
    return _HEADER.pack(*header) + to_ipc(columns)


def unpack_rows(value: bytes) -> tuple[Header, pa.Table]:
    """Return what `pack_rows` was given."""
    with pa.ipc.open_stream(value[_HEADER.size :]) as reader:
        return Header(*_HEADER.unpack_from(value)), reader.read_all()


def to_ipc(columns: pa.RecordBatch) -> bytes:
    """Return columns as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, columns.schema) as writer:
        writer.write_batch(columns)
    data: bytes = sink.getvalue().to_pybytes()
    return data
