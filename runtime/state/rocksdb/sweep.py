"""Deletes rows of expired state, a few at a time, in an endless cycle over all rows.

Flink uses compaction filters for this, which rocksdict does not offer; the sweep finds the same rows a little later.
Task's thread only, right after all changes were written.
"""

from __future__ import annotations

import struct

from runtime.state.codecs import StateCodec
from runtime.state.rocksdb.instance import RocksDBInstance
from runtime.state.rocksdb.rows import StoredState

_ROWS = 500
"""Rows checked after each batch (some 0.5 ms). More would delay processing; with fewer, expired rows accumulate."""
_TIME = struct.Struct("<q")


class ExpiredRows:
    """The sweep of one state."""

    def __init__(self, db: RocksDBInstance, stored: StoredState, ttl_ms: int, codec: StateCodec) -> None:
        self._db = db
        self._stored = stored
        self._ttl_ms = ttl_ms
        self._codec = codec
        self._next = b""

    def delete_some(self, now_ms: int) -> int:
        """Check the next rows; returns the number of deleted ones."""
        found, handle = self._db.batch(), self._db.handle(self._stored.column)
        start, self._next = self._next, b""
        for count, (row, value) in enumerate(self._db.scan(self._stored.column, start)):
            if count == _ROWS:
                self._next = row
                break
            if self._touched_ms(value) + self._ttl_ms <= now_ms:
                found.delete(row, handle)
        deleted = len(found)
        if deleted:
            self._db.write(found)
        return deleted

    def _touched_ms(self, value: bytes) -> int:
        """Return when the most recent part of a row was touched."""
        if self._stored.meta.kind == "list":
            return max(int(time) for _, time in self._codec.decode_timed(value))
        return int(_TIME.unpack_from(value)[0])
