"""Finds two things in tables of RocksDB that it does not tell: where properties begin, and references to values.

RocksDB names the block of a table that it cannot read, but only once it has the properties, and never the place in a
file of separate values: `partial.py` needs both. Whatever else is in its files only RocksDB reads. Pure; any thread.
Source: RocksDB, table/format.cc, block_based_table_format.md, db/blob/blob_index.h, db/blob/blob_log_format.h.
"""

from __future__ import annotations

import bz2
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa

TRAILER_BYTES: Final = 5
"""Behind each block: how it is compressed, and its checksum."""
RECORD_HEADER_BYTES: Final = 32
"""In front of the key and the value in a file of values."""
MAX_BLOCK_BYTES: Final = 64 << 20
_NONE, _SNAPPY, _BZIP2, _LZ4, _LZ4HC, _ZSTD = 0, 1, 3, 4, 5, 7
_ARROW_NAMES: Final = {_SNAPPY: "snappy", _LZ4: "lz4_raw", _LZ4HC: "lz4_raw", _ZSTD: "zstd"}
_RESTARTS: Final = struct.Struct("<I")
_BUCKETS: Final = struct.Struct("<H")
_HASHED: Final = 1 << 31
"""Set in the number of restarts if there is an index of hashes in front of it."""
_SUFFIX: Final = struct.Struct("<Q")
"""Behind each key: its sequence number, and in the lowest byte its type."""
_SEPARATE_VALUE: Final = 0x11
_STORED_VALUE: Final = 1
"""Type of a reference to a value without time to live."""


_FOOTER: Final = struct.Struct("<B40sIQ")
"""Kind of checksum, places of the parts, version of the format, magic number."""
_FOOTER_OF_6: Final = struct.Struct("<4s3I")
"""Since version 6, of where things are: magic bytes, two checksums, size of the index of what is no data."""
PROPERTIES: Final = b"rocksdb.properties"


class ValueReference(NamedTuple):
    """Place of a value that is stored apart."""

    key: bytes
    file: int
    """Number of the file of values."""
    offset: int
    """Of the value in it; its header and the key are in front."""
    size: int
    """Bytes, as they are stored."""


def properties_start(tail: bytes, size: int) -> int:
    """Return where the properties of a table begin, which everything of later use at its end follows.

    Args:
        tail: the end of the table.
        size: of the table.

    Raises:
        ValueError, IndexError, struct.error: it does not end like a table, or its index of what is no data is not in
            the tail.
    """
    _, places, version, _ = _FOOTER.unpack_from(tail, len(tail) - _FOOTER.size)
    if version >= 6:
        length = _FOOTER_OF_6.unpack_from(places)[3]
        offset = size - _FOOTER.size - TRAILER_BYTES - length
    else:
        offset, at = _number(places, 0)
        length, _ = _number(places, at)
    start = offset - (size - len(tail))
    if start < 0:
        raise ValueError(f"it begins {-start} bytes before the tail")
    handles = dict(_entries(tail[start : start + length]))
    return _number(handles[PROPERTIES], 0)[0] if PROPERTIES in handles else offset


def references_in(stored: bytes) -> Iterator[ValueReference]:
    """Yield the references to separate values in a block of data, with its trailer as a table has it.

    Raises:
        ValueError, IndexError, struct.error, OSError: it is not such a block.
    """
    for key, value in _entries(_content(stored)):
        (suffix,) = _SUFFIX.unpack_from(key, len(key) - _SUFFIX.size)
        if suffix & 0xFF == _SEPARATE_VALUE and value[0] == _STORED_VALUE:
            file, at = _number(value, 1)
            offset, at = _number(value, at)
            yield ValueReference(key[: -_SUFFIX.size], file, offset, _number(value, at)[0])


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a block, without its trailer."""
    (restarts,) = _RESTARTS.unpack_from(block, len(block) - _RESTARTS.size)
    end = len(block) - _RESTARTS.size * (1 + (restarts & ~_HASHED))
    if restarts & _HASHED:
        # in front of the number of restarts: the hashes, and how many there are
        (buckets,) = _BUCKETS.unpack_from(block, len(block) - _RESTARTS.size - _BUCKETS.size)
        end -= _BUCKETS.size + buckets
    at, key = 0, b""
    while at < end:
        shared, at = _number(block, at)
        unshared, at = _number(block, at)
        size, at = _number(block, at)
        key = key[:shared] + block[at : at + unshared]
        at += unshared
        yield key, block[at : at + size]
        at += size


def _content(stored: bytes) -> bytes:
    data, kind = stored[:-TRAILER_BYTES], stored[-TRAILER_BYTES]
    if kind == _NONE:
        return data
    size, start = _number(data, 0)
    if size > MAX_BLOCK_BYTES:
        raise ValueError(f"a block of {size} bytes")
    if kind in _ARROW_NAMES:
        # what snappy compresses begins with the size by itself
        body = data if kind == _SNAPPY else data[start:]
        content: bytes = pa.decompress(body, size, _ARROW_NAMES[kind], asbytes=True)
        return content
    if kind == _BZIP2:
        return bz2.BZ2Decompressor().decompress(data[start:], size)
    raise ValueError(f"no compression of kind {kind}")


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return the number of variable length at `at`, and where it ends."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
