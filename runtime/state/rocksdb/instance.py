"""RocksDBInstance: one open database, and the owner of all its native handles.

Handles that outlive `close` keep the database's lock, so only rows, batches and counts leave this module. A database's
directory is always fresh: it is never opened twice. The write-ahead log is off, because checkpoints hold all state that
is restored. Iteration checks the iterator's status, because rocksdict ends silently at a damaged block. Any thread, one
at a time; only `get` and `scan` may run during writes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

from rocksdict import (
    AccessType,
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    Checkpoint,
    ColumnFamily,
    DBCompactionStyle,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)

from runtime.state.errors import StateError
from runtime.state.handles import DamagedSnapshotError
from runtime.state.rocksdb.options import RocksDBSettings

_COMPRESSIONS = {
    "NO_COMPRESSION": DBCompressionType.none,
    "SNAPPY_COMPRESSION": DBCompressionType.snappy,
    "LZ4_COMPRESSION": DBCompressionType.lz4,
    "LZ4HC_COMPRESSION": DBCompressionType.lz4hc,
    "ZSTD_COMPRESSION": DBCompressionType.zstd,
    "ZLIB_COMPRESSION": DBCompressionType.zlib,
    "BZLIB2_COMPRESSION": DBCompressionType.bz2,
}
_NUM_LEVELS = 7
_FLUSHES_TO_COMPACT = 8
"""Number of files at level 0 at which they are merged into level 1. Each checkpoint creates one, and the output of a
merge has to be uploaded: with fewer (RocksDB has 4) checkpoints upload more, with more reads search more files."""
_BLOB_FILE_BYTES = 8 << 20
"""Bytes of a file of values. With larger ones, one garbage collection covers much of a small state; with smaller ones,
there are very many files.
"""
_BLOB_COLLECTED_SHARE = 0.02
_BLOB_GARBAGE_SHARE = 0.5
"""Garbage collection copies the live values of the oldest 2 % of the files of values, with each compaction and when
half of them is garbage. With more, a checkpoint after a compaction uploads more than 5 % of the state; with less, the
files take more than twice the space of their live values."""
_MANIFEST_BYTES = 4 << 20
"""Bytes after which RocksDB rewrites its list of files: every checkpoint uploads all of it."""
_STYLES = {
    "level": DBCompactionStyle.level,
    "universal": DBCompactionStyle.universal,
    "fifo": DBCompactionStyle.fifo,
}
_DEFAULT_COLUMN = "default"


class RocksDBReadError(StateError):
    """A database that was written or verified on this machine can no longer be read because of its disk."""


class SharedMemory:
    """The block cache and the budget of write buffers, shared by all databases of a slot's process. Any thread."""

    def __init__(self, settings: RocksDBSettings) -> None:
        self._capacity = settings.memory_per_slot
        self._lock = threading.Lock()
        self._num_open = 0
        self.cache = Cache(settings.memory_per_slot)
        self.write_buffers = WriteBufferManager.new_write_buffer_manager_with_cache(
            int(settings.memory_per_slot * settings.write_buffer_ratio), False, self.cache
        )

    def opened(self) -> None:
        """Note that a database that uses it is open."""
        with self._lock:
            self._num_open += 1

    def closed(self) -> None:
        """Note that one is closed; with the last, the cache forgets all blocks, which are of no use to another one.

        In micro-batches of one process, each batch left its blocks there, up to the capacity.
        """
        with self._lock:
            self._num_open -= 1
            if not self._num_open:
                self.cache.set_capacity(0)
                self.cache.set_capacity(self._capacity)


_shared: dict[tuple[int, float], SharedMemory] = {}
_shared_lock = threading.Lock()


def shared_memory(settings: RocksDBSettings) -> SharedMemory:
    """Return the shared memory of this process; one for each budget, of which a job has one."""
    budget = (settings.memory_per_slot, settings.write_buffer_ratio)
    with _shared_lock:
        if budget not in _shared:
            _shared[budget] = SharedMemory(settings)
        return _shared[budget]


class RocksDBInstance:
    """An open database."""

    def __init__(self, path: Path, settings: RocksDBSettings, *, is_new: bool, is_read_only: bool = False) -> None:
        """Open a database.

        Args:
            path: its directory; its parent exists.
            settings: options of the database.
            is_new: whether to create it; otherwise it must exist.
            is_read_only: whether nothing will be written; the directory then stays as it is.

        Raises:
            DamagedSnapshotError: it cannot be opened, and is not new.
            StateError: a new one cannot be made.
        """
        self.path = path
        self._settings = settings
        self._write_options = WriteOptions()
        # an attribute at run time, contrary to its type information
        self._write_options.disable_wal = True  # type: ignore[assignment, method-assign]
        self._columns: dict[str, Rdict] = {}
        self._handles: dict[str, ColumnFamily] = {}
        self._lock = threading.Lock()
        try:
            names = [] if is_new else Rdict.list_cf(str(path), self._options())
            self._db: Rdict | None = Rdict(
                str(path),
                self._options(create=is_new),
                column_families=None if is_new else {name: self._options() for name in names},
                access_type=AccessType.read_only() if is_read_only else AccessType.read_write(),
            )
        except Exception as error:
            if is_new:
                raise StateError(f"RocksDB cannot make a database in {path}: {error}") from error
            raise DamagedSnapshotError(str(path), f"RocksDB cannot open it: {error}") from error
        self._shared = shared_memory(settings) if settings.memory_is_managed else None
        if self._shared is not None:
            self._shared.opened()
        for name in names:
            if name != _DEFAULT_COLUMN:
                self._adopt(name)

    @property
    def columns(self) -> list[str]:
        """Return the names of the column families, without the default one, which is empty."""
        return list(self._columns)

    def column(self, name: str) -> Rdict:
        """Return a column family, creating it if needed; for `get`, and only while the instance is open."""
        if name not in self._columns:
            self._open.create_column_family(name, self._options())
            self._adopt(name)
        return self._columns[name]

    def handle(self, name: str) -> ColumnFamily:
        """Return the handle of a column family in a batch."""
        self.column(name)
        return self._handles[name]

    def drop_column(self, name: str) -> None:
        """Remove a column family with all rows, if there is one."""
        if name in self._columns:
            del self._handles[name]
            self._columns.pop(name).close()
            self._open.drop_column_family(name)

    def batch(self) -> WriteBatch:
        """Return an empty batch."""
        return WriteBatch(raw_mode=True)

    def write(self, batch: WriteBatch) -> None:
        """Write a batch, whole or not at all.

        Raises:
            StateError: the disk refuses.
        """
        try:
            self._open.write(batch, self._write_options)
        except Exception as error:
            raise StateError(f"RocksDB cannot write to {self.path}: {error}") from error

    def delete_range(self, name: str, begin: bytes, end: bytes) -> None:
        """Remove the rows of a column family from `begin` (inclusive) to `end` (exclusive)."""
        self.column(name).delete_range(begin, end, self._write_options)

    def scan(self, name: str, begin: bytes, end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows of a column family from `begin` (inclusive) to `end` (exclusive), as of the first step.

        Raises:
            RocksDBReadError: a block is damaged; the rows before it have been yielded.
        """
        if name not in self._columns:
            return
        options = ReadOptions()
        if end is not None:
            options.set_iterate_upper_bound(end)
        rows = self._columns[name].iter(options)
        rows.seek(begin)
        while rows.valid():
            yield rows.key(), rows.value()
            rows.next()
        try:
            rows.status()
        except Exception as error:
            raise RocksDBReadError(f"RocksDB cannot read column {name!r} of {self.path}: {error}") from error

    def start_flush(self) -> None:
        """Flush everything that was written to files, in the background."""
        for column in self._columns.values():
            column.flush(False)

    def is_flushed(self) -> bool:
        """Return whether nothing waits to be flushed."""
        return all(
            (column.property_int_value("rocksdb.num-immutable-mem-table") or 0) == 0
            # a copy: the task's thread may create another one meanwhile
            for column in list(self._columns.values())
        )

    def checkpoint(self, path: Path) -> None:
        """Create a directory with everything written so far: hard links, so never change a file in it.

        Raises:
            OSError: it cannot be made.
        """
        with self._lock:
            checkpoint = Checkpoint(self._open)
            try:
                checkpoint.create_checkpoint(str(path))
            except Exception as error:
                raise OSError(f"RocksDB cannot make a checkpoint of {self.path}: {error}") from error
            finally:
                # it keeps the database's lock
                del checkpoint

    def is_empty(self, name: str) -> bool:
        """Return whether a column family has no rows."""
        return next(self.scan(name, b""), None) is None

    def close(self) -> None:
        """Close the database; idempotent."""
        self._handles.clear()
        for column in self._columns.values():
            column.close()
        self._columns.clear()
        if self._db is not None:
            self._db.close()
            self._db = None
            if self._shared is not None:
                self._shared.closed()

    def __enter__(self) -> RocksDBInstance:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def _open(self) -> Rdict:
        if self._db is None:
            raise StateError(f"the database {self.path} is closed")
        return self._db

    def _adopt(self, name: str) -> None:
        assert self._db is not None
        self._columns[name] = self._db.get_column_family(name)
        self._handles[name] = self._db.get_column_family_handle(name)

    def _options(self, *, create: bool = False) -> Options:
        settings = self._settings
        options = Options(raw_mode=True)
        options.create_if_missing(create)
        options.set_max_background_jobs(settings.background_threads)
        options.set_max_open_files(settings.max_open_files)
        options.set_keep_log_file_num(settings.log_file_count)
        options.set_max_log_file_size(settings.log_file_size)
        if settings.log_directory is not None:
            options.set_db_log_dir(settings.log_directory)
        options.set_stats_dump_period_sec(0)
        options.set_compaction_style(_STYLES[settings.compaction_style]())
        levels = settings.compressions
        if len(levels) == 1:
            options.set_compression_type(_COMPRESSIONS[levels[0]]())
        else:
            levels = (levels + levels[-1:] * _NUM_LEVELS)[:_NUM_LEVELS]
            options.set_compression_per_level([_COMPRESSIONS[name]() for name in levels])
        options.set_level_compaction_dynamic_level_bytes(settings.dynamic_level_size)
        options.set_target_file_size_base(settings.target_file_size)
        options.set_max_bytes_for_level_base(settings.level_base_size)
        options.set_write_buffer_size(settings.write_buffer_size)
        options.set_max_write_buffer_number(settings.write_buffer_count)
        options.set_min_write_buffer_number_to_merge(settings.write_buffers_to_merge)
        options.set_level_zero_file_num_compaction_trigger(_FLUSHES_TO_COMPACT)
        options.set_max_manifest_file_size(_MANIFEST_BYTES)
        if settings.blob_min_size:
            options.set_enable_blob_files(True)
            options.set_min_blob_size(settings.blob_min_size)
            options.set_blob_file_size(_BLOB_FILE_BYTES)
            options.set_blob_compression_type(_COMPRESSIONS[levels[-1]]())
            options.set_enable_blob_gc(True)
            options.set_blob_gc_age_cutoff(_BLOB_COLLECTED_SHARE)
            options.set_blob_gc_force_threshold(_BLOB_GARBAGE_SHARE)
        blocks = BlockBasedOptions()
        blocks.set_block_size(settings.block_size)
        blocks.set_metadata_block_size(settings.metadata_block_size)
        if settings.uses_bloom_filter:
            blocks.set_bloom_filter(settings.bloom_bits_per_key, settings.bloom_is_block_based)  # type: ignore[arg-type]
        if settings.partitions_index:
            blocks.set_index_type(BlockBasedIndexType.two_level_index_search())
            blocks.set_partition_filters(True)
        if settings.memory_is_managed:
            memory = shared_memory(settings)
            blocks.set_block_cache(memory.cache)
            blocks.set_cache_index_and_filter_blocks(True)
            blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
            options.set_write_buffer_manager(memory.write_buffers)
        else:
            blocks.set_block_cache(Cache(settings.block_cache_size))
        options.set_block_based_table_factory(blocks)
        return options
