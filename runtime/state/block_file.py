"""Block files: immutable files of numbered blocks with an index, so that some blocks are read without the others.

    magic | block … block | tail: JSON header, index | footer: where the tail is | magic

The index follows the blocks, so a file is written in one pass with one block in memory. Every byte is covered by a
checksum (blocks and tail by CRC-32, which detects any burst of flips within 32 bits) or compared with its expected
value. Blocks are numbered by key group in the files of keyed state; a number may occur more than once, in order. Pure
except for the `read` function passed in; any thread.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.state.handles import DamagedSnapshotError

ReadRange = Callable[[int, int], bytes]
"""(offset, length) → that many bytes of a file, or fewer where it ends."""

COMPRESSIONS: Final = ("none", "zstd", "lz4")
_MAGIC: Final = b"TIDEMARK"
_VERSION: Final = 1
_FOOTER: Final = struct.Struct("<QQIHBxI8s")
"""Tail's offset, length and CRC; version; compression; CRC of all this; magic."""
_FOOTER_CHECKED: Final = 24
_COUNT: Final = struct.Struct("<I")
_INDEX: Final = np.dtype([("id", "<u4"), ("offset", "<u8"), ("size", "<u8"), ("raw_size", "<u8"), ("crc", "<u4")])
_FIRST_READ_BYTES: Final = 64 << 10
"""Bytes read from the end at once: tail and footer of most files. Less costs a second round trip, more is read for
nothing.
"""


class BlockStream:
    """The bytes of a block file, produced during iteration; may be iterated again if `blocks` may.

    Args:
        header: small, JSON; information that the format needs to read its blocks.
        blocks: numbers (0 to 2³² - 1) and contents; one content is in memory at a time.
        compression: one of COMPRESSIONS.

    Raises:
        ValueError: there is no such compression.
    """

    def __init__(
        self, header: Mapping[str, Any], blocks: Iterable[tuple[int, bytes]], compression: str = "none"
    ) -> None:
        if compression not in COMPRESSIONS:
            raise ValueError(f"unknown snapshot compression {compression!r}; known are {', '.join(COMPRESSIONS)}")
        self._header = json.dumps(header, separators=(",", ":")).encode()
        self._blocks = blocks
        self._compression = compression

    def __iter__(self) -> Iterator[bytes]:
        yield _MAGIC
        offset = len(_MAGIC)
        index: list[tuple[int, int, int, int, int]] = []
        for number, raw in self._blocks:
            stored = raw if self._compression == "none" else _compressed(raw, self._compression)
            index.append((number, offset, len(stored), len(raw), zlib.crc32(stored)))
            offset += len(stored)
            yield stored
        tail = _COUNT.pack(len(self._header)) + self._header + np.array(index, _INDEX).tobytes()
        yield tail
        footer = (offset, len(tail), zlib.crc32(tail), _VERSION, COMPRESSIONS.index(self._compression))
        checked = _FOOTER.pack(*footer, 0, b"")[:_FOOTER_CHECKED]
        yield _FOOTER.pack(*footer, zlib.crc32(checked), _MAGIC)


class BlockFile:
    """Reads a block file, block by block.

    Args:
        read: returns ranges of the file.
        size: of the file, bytes.
        name: for error messages.

    Raises:
        DamagedSnapshotError: it is not a block file, or its index is corrupt.
    """

    def __init__(self, read: ReadRange, size: int, name: str) -> None:
        self.name = name
        self.size = size
        self._read = read
        if size < len(_MAGIC) + _FOOTER.size:
            raise self._damaged(f"it has {size} bytes only")
        at = max(0, size - _FIRST_READ_BYTES)
        end = self._range(at, size - at)
        *footer, footer_crc, magic = _FOOTER.unpack(end[-_FOOTER.size :])
        if magic != _MAGIC or footer_crc != zlib.crc32(end[-_FOOTER.size :][:_FOOTER_CHECKED]):
            raise self._damaged("its end is corrupt")
        offset, length, crc, version, compression = footer
        if version != _VERSION:
            raise self._damaged(f"it has version {version}; this program reads version {_VERSION}")
        if offset + length + _FOOTER.size != size:
            raise self._damaged("its end is corrupt")
        tail = end[offset - at : offset - at + length] if offset >= at else self._range(offset, length)
        if zlib.crc32(tail) != crc:
            raise self._damaged("its index is corrupt")
        if self._range(0, len(_MAGIC)) != _MAGIC:
            raise self._damaged("its beginning is corrupt")
        self.compression = COMPRESSIONS[compression]
        (header_size,) = _COUNT.unpack_from(tail)
        self.header: dict[str, Any] = json.loads(tail[_COUNT.size : _COUNT.size + header_size])
        self._index: npt.NDArray[Any] = np.frombuffer(tail, _INDEX, offset=_COUNT.size + header_size)
        self._rows: dict[int, list[int]] = {}
        for row, number in enumerate(self._index["id"].tolist()):
            self._rows.setdefault(number, []).append(row)

    @classmethod
    def of_bytes(cls, data: bytes, name: str) -> BlockFile:
        """Return a reader of a file in memory."""
        return cls(lambda offset, length: data[offset : offset + length], len(data), name)

    @classmethod
    def of_path(cls, path: Path) -> BlockFile:
        """Return a reader of a local file; it is opened for each read, so nothing has to be closed.

        Raises:
            OSError: it cannot be read.
        """
        return cls(local_reads(path), path.stat().st_size, str(path))

    @property
    def numbers(self) -> list[int]:
        """Return the numbers that have blocks, ascending."""
        return sorted(self._rows)

    def size_of(self, number: int) -> int:
        """Return the stored bytes of the blocks of a number; 0 if there are none."""
        return sum(int(self._index["size"][row]) for row in self._rows.get(number, ()))

    def blocks(self, number: int) -> Iterator[bytes]:
        """Yield the contents of the blocks of a number, in order, verified.

        Raises:
            DamagedSnapshotError: a block is corrupt.
        """
        for row in self._rows.get(number, ()):
            yield self._block(row)

    def all_blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield every block with its number, in the order of the file."""
        for row, number in enumerate(self._index["id"].tolist()):
            yield number, self._block(row)

    def _block(self, row: int) -> bytes:
        number, offset, size, raw_size, crc = self._index[row].tolist()
        stored = self._range(offset, size)
        if zlib.crc32(stored) != crc:
            raise self._damaged(f"block {number} is corrupt")
        if self.compression == "none":
            return stored
        raw: bytes = pa.decompress(stored, raw_size, self.compression, asbytes=True)
        return raw

    def _range(self, offset: int, length: int) -> bytes:
        data = self._read(offset, length)
        if len(data) != length:
            raise self._damaged(f"{length} bytes at {offset} are missing")
        return data

    def _damaged(self, why: str) -> DamagedSnapshotError:
        return DamagedSnapshotError(self.name, why)


def local_reads(path: Path) -> ReadRange:
    """Return a function that reads ranges of a local file, opening it each time."""

    def read(offset: int, length: int) -> bytes:
        with path.open("rb", buffering=0) as file:
            pieces = []
            while length > 0 and (piece := os.pread(file.fileno(), length, offset)):
                pieces.append(piece)
                offset, length = offset + len(piece), length - len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    return read


def _compressed(raw: bytes, compression: str) -> bytes:
    stored: bytes = pa.compress(raw, compression, asbytes=True)
    return stored


# --- contents of blocks -----------------------------------------------------------------------------------------------

_NO_VALUE: Final = 0xFFFFFFFF


def pack_columns(columns: Sequence[Sequence[bytes | None]]) -> bytes:
    """Pack columns of bytes, all of one length, into bytes; None is a value of its own (a tombstone, for example).

    Raises:
        OverflowError: a value has 4 GiB or more.
        ValueError: the columns have different lengths.
    """
    count = len(columns[0])
    parts = [_COUNT.pack(count)]
    for column in columns:
        if len(column) != count:
            raise ValueError("columns of a block have different lengths")
        try:
            lengths = np.fromiter(map(len, column), np.int64, count)  # type: ignore[arg-type]
        except TypeError:
            lengths = np.fromiter((_NO_VALUE if v is None else len(v) for v in column), np.int64, count)
            column = [b"" if v is None else v for v in column]
        if count and lengths.max() > _NO_VALUE:
            raise OverflowError("a value of 4 GiB or more does not fit a snapshot")
        parts.append(lengths.astype("<u4").tobytes())
        parts.extend(column)  # type: ignore[arg-type]
    return b"".join(parts)


def unpack_columns(data: bytes, offset: int, num_columns: int) -> tuple[list[list[bytes | None]], int]:
    """Return the columns passed to `pack_columns`, and where they end in `data`.

    Raises:
        ValueError, struct.error: `data` is not of that form.
    """
    (count,) = _COUNT.unpack_from(data, offset)
    offset += _COUNT.size
    columns: list[list[bytes | None]] = []
    for _ in range(num_columns):
        lengths = np.frombuffer(data, "<u4", count, offset).astype(np.int64)
        offset += 4 * count
        absent = lengths == _NO_VALUE
        lengths[absent] = 0
        ends = offset + np.cumsum(lengths)
        column: list[bytes | None] = [
            data[start:end] for start, end in zip((ends - lengths).tolist(), ends.tolist(), strict=True)
        ]
        for row in np.flatnonzero(absent).tolist():
            column[row] = None
        offset = int(ends[-1]) if count else offset
        if offset > len(data):
            raise ValueError(f"values end at {offset} of {len(data)} bytes")
        columns.append(column)
    return columns, offset
