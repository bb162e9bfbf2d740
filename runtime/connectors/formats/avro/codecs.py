"""Compressed blocks of Avro files that fastavro does not unpack by itself, and the numbers in front of blocks.

Source: Avro 1.12 specification, required and optional codecs, binary encoding of long.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pyarrow as pa


def from_number(raw: bytes | bytearray) -> int:
    """Return the number of a zig-zag encoding that ends with `raw`."""
    value = 0
    for position, byte in enumerate(raw):
        value |= (byte & 0x7F) << (7 * position)
    return (value >> 1) ^ -(value & 1)


def to_number(value: int) -> bytes:
    """Return the zig-zag encoding of a number that is not negative."""
    value <<= 1
    raw = bytearray()
    while value >= 0x80:
        raw.append(value & 0x7F | 0x80)
        value >>= 7
    raw.append(value)
    return bytes(raw)


def _from_snappy(block: bytes) -> bytes:
    """Unpack a block of Snappy's raw format, which begins with the size; behind it is a checksum."""
    end = next(index for index, byte in enumerate(block) if byte < 0x80) + 1
    size = sum((byte & 0x7F) << (7 * position) for position, byte in enumerate(block[:end]))
    data = pa.Codec("snappy").decompress(block[:-4], size, asbytes=True)
    if zlib.crc32(data) != int.from_bytes(block[-4:], "big"):
        raise ValueError("the block's checksum is wrong")
    return bytes(data)


def _from_zstandard(block: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(block), "zstd") as stream:
        return bytes(stream.read())


#: codec → what unpacks one block
UNPACKERS: dict[str, Callable[[bytes], bytes]] = {"snappy": _from_snappy, "zstandard": _from_zstandard}
