"""PartialDatabase: reads a few rows of a stored database, and of its files only the parts that they are in.

It keeps local files of the right sizes with holes for everything that it has not read. RocksDB looks for the rows; when
it comes to a hole it says so, because every block has a checksum that no hole passes, and names the block; that is read
from the storage, and RocksDB goes on. So what is read is what RocksDB needs, whatever its options are, and everything
that it uses is verified by its own checksums. One thread.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from runtime.state.handles import DamagedSnapshotError, FileHandle, KeyedStateHandle, StateFileReader
from runtime.state.rocksdb.blocks import (
    RECORD_HEADER_BYTES,
    TRAILER_BYTES,
    ValueReference,
    properties_start,
    references_in,
)
from runtime.state.rocksdb.instance import RocksDBInstance, RocksDBReadError
from runtime.state.rocksdb.options import RocksDBSettings
from runtime.state.rocksdb.restore import states_of

TABLES: Final = ".sst"
VALUES: Final = ".blob"
TAIL_BYTES: Final = 8 << 10
"""Read of a table's end at once, with its properties in it. Less: more round trips; more: it is read of each table, and
only some are needed further."""
AHEAD_BYTES: Final = 64 << 10
"""Read at once where rows are read one after the other. Less: more round trips; more: more than is needed."""
_HEAD_BYTES: Final = 30
_FOOT_BYTES: Final = 32
"""Ends of a file of values."""
_SETTINGS: Final = RocksDBSettings(
    # the fewest that RocksDB takes: it opens two tables by itself then, and the others when rows may be in them
    max_open_files=20,
    # a cache of its own: it must meet the hole of every block once, as the references in it are needed
    memory_is_managed=False,
)
_BLOCK: Final = re.compile(r"([^/\s]+\.sst) offset (\d+) size (\d+)")
_TABLE: Final = re.compile(r"([^/\s]+\.sst)\b")


class PartialDatabase:
    """A stored database of which parts are read.

    Args:
        handle: of the rocksdb format.
        files: reads its files.
        path: directory for the local files; it does not exist yet.

    Raises:
        DamagedSnapshotError: a file is missing or is corrupt.
        OSError: the storage cannot be reached, or a local file cannot be that large.
    """

    def __init__(self, handle: KeyedStateHandle, files: StateFileReader, path: Path) -> None:
        self._handle = handle
        self._files = files
        self._path = path
        self._db: RocksDBInstance | None = None
        #: the parts that are there, by file, offset and length
        self._parts: set[tuple[str, int, int]] = set()
        #: the blocks of tables that RocksDB has named
        self._blocks: list[bytes] = []
        self.states = states_of(handle)
        path.mkdir()
        for name, file in handle.files.items():
            if Path(name).name != name:
                raise DamagedSnapshotError(file.uri, f"its handle names it {name!r}")
            if name.endswith((TABLES, VALUES)):
                with (path / name).open("wb") as hole:
                    hole.truncate(file.size)
            else:
                files.download(file, path / name)

    @property
    def columns(self) -> list[str]:
        """Return the names of the column families."""
        while True:
            try:
                return self._opened().columns
            except DamagedSnapshotError as error:
                self._fill(error, b"", b"")

    def rows(self, column: str, begin: bytes, end: bytes, *, ahead: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows of a column family from `begin` (inclusive) to `end` (exclusive).

        Args:
            ahead: whether to read further than needed, for many rows with small values.

        Raises:
            DamagedSnapshotError, OSError: see the class.
        """
        while True:
            try:
                for row, value in self._opened().scan(column, begin, end):
                    yield row, value
                    begin = row + b"\0"
                return
            except (DamagedSnapshotError, RocksDBReadError) as error:
                self._fill(error, begin, end, AHEAD_BYTES if ahead else 0)

    def close(self) -> None:
        """Close the database; idempotent."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def __enter__(self) -> PartialDatabase:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _opened(self) -> RocksDBInstance:
        if self._db is None:
            self._db = RocksDBInstance(self._path, _SETTINGS, is_new=False, is_read_only=True)
        return self._db

    def _fill(self, error: Exception, begin: bytes, end: bytes, ahead_bytes: int = 0) -> None:
        """Read what RocksDB has met a hole of, on its way from `begin` to `end`.

        Raises:
            DamagedSnapshotError: it is there, so it is damaged.
        """
        block, table = _BLOCK.search(str(error)), _TABLE.search(str(error))
        if block is not None:
            name, offset, size = block[1], int(block[2]), int(block[3]) + TRAILER_BYTES
            is_new = self._read(name, offset, max(size, ahead_bytes))
            self._blocks.append(self._stored(name, offset, size))
        elif table is not None and "magic number" in str(error):
            is_new = self._read_end(table[1])
        else:
            # RocksDB does not say which value it cannot read: one of those that the blocks refer to
            is_new = any(self._read_values(block, begin, end) for block in self._blocks)
        if not is_new:
            name = "" if table is None else table[1]
            uri = self._handle.files[name].uri if name in self._handle.files else "of rocksdb state"
            raise DamagedSnapshotError(uri, str(error)) from error

    def _read_end(self, name: str) -> bool:
        """Read the properties of a table and what follows them; return whether they had not been read."""
        file = self._file(name)
        at = max(0, file.size - TAIL_BYTES)
        tail = self._files.read_range(file, at, file.size - at)
        with suppress(ValueError, IndexError, struct.error):
            start = properties_start(tail, file.size)
            # nothing before them: RocksDB is to name each block of data
            return self._read(name, start, file.size - start, tail[start - at :] if start >= at else None)
        return False

    def _read_values(self, stored: bytes, begin: bytes, end: bytes) -> bool:
        """Read the next separate values of a block; return whether there were any that had not been read."""
        found: list[ValueReference] = []
        # an index is no block of data; what is damaged RocksDB has refused
        with suppress(ValueError, IndexError, struct.error, OSError):
            found = [reference for reference in references_in(stored) if begin <= reference.key < end]
        new_bytes = 0
        for reference in found:
            name, in_front = f"{reference.file:06d}{VALUES}", RECORD_HEADER_BYTES + len(reference.key)
            if self._read(name, reference.offset - in_front, in_front + reference.size):
                self._read(name, 0, _HEAD_BYTES)
                self._read(name, self._file(name).size - _FOOT_BYTES, _FOOT_BYTES)
                new_bytes += reference.size
            if new_bytes > AHEAD_BYTES:
                break
        return new_bytes > 0

    def _read(self, name: str, offset: int, length: int, data: bytes | None = None) -> bool:
        """Read a part of a file, unless it is given, into the local copy; return whether it was not there yet."""
        file = self._file(name)
        length = min(length, file.size - offset)
        if offset < 0 or length <= 0:
            raise DamagedSnapshotError(file.uri, f"there is nothing at {offset}")
        if (name, offset, length) in self._parts:
            return False
        with (self._path / name).open("r+b", buffering=0) as local:
            local.seek(offset)
            local.write(self._files.read_range(file, offset, length) if data is None else data)
        self._parts.add((name, offset, length))
        return True

    def _stored(self, name: str, offset: int, size: int) -> bytes:
        with (self._path / name).open("rb", buffering=0) as local:
            local.seek(offset)
            return local.read(size)

    def _file(self, name: str) -> FileHandle:
        if name not in self._handle.files:
            raise DamagedSnapshotError(str(self._path), f"RocksDB needs {name}, which its handle does not name")
        return self._handle.files[name]
