"""Options of the rocksdb backend, with Flink's keys and defaults, and the changes of the predefined sets.

A key that is set takes precedence over the predefined set. Flink's keys without meaning here are listed, so that users
who set them get a warning. Plain values. Source: Flink 2.3, RocksDBOptions, RocksDBConfigurableOptions,
RocksDBManualCompactionOptions and PredefinedOptions; descriptions state different defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from runtime.common.config_options import ConfigOption, ConfigOptions
from runtime.common.configuration import Configuration

_PREFIX: Final = "state.backend.rocksdb."
DEFAULT_SET: Final = "DEFAULT"
PREDEFINED: Final[Mapping[str, Mapping[str, Any]]] = {
    DEFAULT_SET: {},
    "SPINNING_DISK_OPTIMIZED": {"background_threads": 4, "dynamic_level_size": True},
    "SPINNING_DISK_OPTIMIZED_HIGH_MEM": {
        "background_threads": 4,
        "dynamic_level_size": True,
        "target_file_size": 256 << 20,
        "level_base_size": 1 << 30,
        "write_buffer_count": 4,
        "write_buffers_to_merge": 3,
        "block_size": 128 << 10,
        "block_cache_size": 256 << 20,
        "uses_bloom_filter": True,
    },
    "FLASH_SSD_OPTIMIZED": {"background_threads": 4},
}
"""Settings that each predefined set changes, by name."""

PREDEFINED_OPTIONS: ConfigOption[str] = (
    ConfigOptions.key(f"{_PREFIX}predefined-options").string_type().default_value(DEFAULT_SET)
)
"""Predefined set of options: DEFAULT, SPINNING_DISK_OPTIMIZED, SPINNING_DISK_OPTIMIZED_HIGH_MEM,
FLASH_SSD_OPTIMIZED."""

MEMORY_MANAGED: ConfigOption[bool] = ConfigOptions.key(f"{_PREFIX}memory.managed").boolean_type().default_value(True)
"""Whether all backends of a slot share one bounded block cache, which includes write buffers. If off, each column
family has a cache and write buffers of its own, unless MEMORY_PER_SLOT is set."""

MEMORY_PER_SLOT: ConfigOption[int] = (
    ConfigOptions.key(f"{_PREFIX}memory.fixed-per-slot").memory_type().at_least(1 << 20).default_value(256 << 20)
)
"""Bytes that RocksDB may use in a slot, if managed. Flink: no default, a share of the TaskManager's memory."""

WRITE_BUFFER_RATIO: ConfigOption[float] = (
    ConfigOptions.key(f"{_PREFIX}memory.write-buffer-ratio").double_type().at_least(0.0).default_value(0.5)
)
"""Share of that memory for write buffers."""

CACHE_MEMORY: ConfigOption[int] = (
    ConfigOptions.key(f"{_PREFIX}cache.memory-per-operator").memory_type().at_least(1 << 20).default_value(256 << 20)
)
"""Estimated maximum number of bytes of one operator subtask's decoded values. Tidemark's own: values are read and
written through a cache of Python objects in front of RocksDB. With less, more reads go to RocksDB (some 5 µs each)."""

LOCAL_DIRECTORIES: ConfigOption[str | None] = ConfigOptions.key(f"{_PREFIX}localdir").string_type().no_default_value()
"""Local directories for databases, separated by commas and used in turn. If not set, the task's working directory."""

TRANSFER_THREADS: ConfigOption[int] = (
    ConfigOptions.key(f"{_PREFIX}checkpoint.transfer.thread.num").int_type().at_least(1).default_value(4)
)
"""Number of files of a snapshot that are uploaded at a time."""

WRITE_BATCH_SIZE: ConfigOption[int] = (
    ConfigOptions.key(f"{_PREFIX}write-batch-size").memory_type().at_least(0).default_value(2 << 20)
)
"""Size of a batch of changes written to RocksDB, bytes; 0 = all in one."""

BLOB_MIN_SIZE: ConfigOption[int] = (
    ConfigOptions.key(f"{_PREFIX}blob.min-size").memory_type().at_least(0).default_value(256)
)
"""Minimum size in bytes of values that are kept in a file of values, apart from their keys; 0 = never. Tidemark's own:
compactions then move keys only, so that incremental checkpoints upload little more than the changes. With a smaller
size, the reference to a value is no smaller than the value; with a larger one, each compaction causes values of that
size to be uploaded again."""


def _int(key: str, minimum: int = 0) -> ConfigOption[int | None]:
    return ConfigOptions.key(_PREFIX + key).int_type().at_least(minimum).no_default_value()


def _size(key: str) -> ConfigOption[int | None]:
    return ConfigOptions.key(_PREFIX + key).memory_type().at_least(1).no_default_value()


_OPTIONS: Final[Mapping[str, ConfigOption[Any]]] = {
    "background_threads": _int("thread.num", 1),
    "max_open_files": _int("files.open", -1),
    "log_file_count": _int("log.file-num", 1),
    "log_file_size": _size("log.max-file-size"),
    "log_directory": ConfigOptions.key(f"{_PREFIX}log.dir").string_type().no_default_value(),
    "compaction_style": ConfigOptions.key(f"{_PREFIX}compaction.style")
    .choice_type("level", "universal", "fifo")
    .no_default_value(),
    "compression": ConfigOptions.key(f"{_PREFIX}compression.per.level").string_type().no_default_value(),
    "dynamic_level_size": ConfigOptions.key(f"{_PREFIX}compaction.level.use-dynamic-size")
    .boolean_type()
    .no_default_value(),
    "target_file_size": _size("compaction.level.target-file-size-base"),
    "level_base_size": _size("compaction.level.max-size-level-base"),
    "write_buffer_size": _size("writebuffer.size"),
    "write_buffer_count": _int("writebuffer.count", 1),
    "write_buffers_to_merge": _int("writebuffer.number-to-merge", 1),
    "block_size": _size("block.blocksize"),
    "metadata_block_size": _size("block.metadata-blocksize"),
    "block_cache_size": _size("block.cache-size"),
    "uses_bloom_filter": ConfigOptions.key(f"{_PREFIX}use-bloom-filter").boolean_type().no_default_value(),
    "bloom_bits_per_key": ConfigOptions.key(f"{_PREFIX}bloom-filter.bits-per-key").double_type().no_default_value(),
    "bloom_is_block_based": ConfigOptions.key(f"{_PREFIX}bloom-filter.block-based-mode")
    .boolean_type()
    .no_default_value(),
    "partitions_index": ConfigOptions.key(f"{_PREFIX}memory.partitioned-index-filters")
    .boolean_type()
    .no_default_value(),
}
"""Option of each setting; if not set, the predefined set's value or the default of RocksDBSettings."""


@dataclass(frozen=True, slots=True)
class RocksDBSettings:
    """Settings of a database. Sizes in bytes."""

    background_threads: int = 2
    """Of flushes and compactions."""
    max_open_files: int = -1
    log_file_count: int = 4
    log_file_size: int = 25 << 20
    log_directory: str | None = None
    compaction_style: str = "level"
    compression: str = "SNAPPY_COMPRESSION"
    """Of all levels, or several joined by ";", one for each level."""
    dynamic_level_size: bool = False
    target_file_size: int = 64 << 20
    level_base_size: int = 256 << 20
    write_buffer_size: int = 64 << 20
    write_buffer_count: int = 2
    write_buffers_to_merge: int = 1
    block_size: int = 4 << 10
    metadata_block_size: int = 4 << 10
    block_cache_size: int = 8 << 20
    uses_bloom_filter: bool = False
    bloom_bits_per_key: float = 10.0
    bloom_is_block_based: bool = False
    partitions_index: bool = False
    memory_is_managed: bool = True
    memory_per_slot: int = 256 << 20
    write_buffer_ratio: float = 0.5
    cache_memory: int = 256 << 20
    write_batch_size: int = 2 << 20
    blob_min_size: int = 256
    local_directories: tuple[str, ...] = ()
    transfer_threads: int = 4

    @classmethod
    def of(cls, configuration: Configuration) -> RocksDBSettings:
        """Return the settings of a job.

        Raises:
            ValueError: there is no such predefined set or compression; the message names the key.
        """
        name = configuration.get(PREDEFINED_OPTIONS)
        if name not in PREDEFINED:
            raise ValueError(f"{PREDEFINED_OPTIONS.key}: there is no set {name!r}, only {', '.join(PREDEFINED)}")
        found = dict(PREDEFINED[name])
        for setting, option in _OPTIONS.items():
            value = configuration.get(option)
            if value is not None:
                found[setting] = value
        settings = cls(
            **found,
            memory_is_managed=configuration.get(MEMORY_MANAGED) or configuration.contains_key(MEMORY_PER_SLOT.key),
            memory_per_slot=configuration.get(MEMORY_PER_SLOT),
            write_buffer_ratio=configuration.get(WRITE_BUFFER_RATIO),
            cache_memory=configuration.get(CACHE_MEMORY),
            write_batch_size=configuration.get(WRITE_BATCH_SIZE),
            blob_min_size=configuration.get(BLOB_MIN_SIZE),
            local_directories=tuple(
                path.strip() for path in (configuration.get(LOCAL_DIRECTORIES) or "").split(",") if path.strip()
            ),
            transfer_threads=configuration.get(TRANSFER_THREADS),
        )
        unknown = [name for name in settings.compressions if name not in COMPRESSIONS]
        if unknown:
            raise ValueError(
                f"{_OPTIONS['compression'].key}: unknown compression {unknown[0]}; known are {', '.join(COMPRESSIONS)}"
            )
        return settings

    @property
    def compressions(self) -> list[str]:
        """Return the compression of the levels; the last one applies to all further levels."""
        return [name.strip().upper() for name in self.compression.split(";")]


COMPRESSIONS: Final = (
    "NO_COMPRESSION",
    "SNAPPY_COMPRESSION",
    "LZ4_COMPRESSION",
    "LZ4HC_COMPRESSION",
    "ZSTD_COMPRESSION",
    "ZLIB_COMPRESSION",
    "BZLIB2_COMPRESSION",
)

_ONE_WAY: Final = "databases are brought to another parallelism in one way"
_NO_FILTERS: Final = "rocksdict has no compaction filters, each batch of changes deletes some expired rows instead"
WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    f"{_PREFIX}memory.high-prio-pool-ratio": "rocksdict's block cache has no pool of high priority",
    f"{_PREFIX}memory.fixed-per-tm": f"slots are processes of their own, each with {MEMORY_PER_SLOT.key}",
    f"{_PREFIX}timer-service.factory": "timers are always in RocksDB, the first ones in memory as well",
    f"{_PREFIX}timer-service.cache-size": "a fixed number of timers is in memory, shared by the key groups",
    f"{_PREFIX}log.level": "rocksdict cannot set it, it is INFO_LEVEL",
    f"{_PREFIX}options-factory": "there are no Java classes to be loaded",
    f"{_PREFIX}compaction.filter.query-time-after-num-entries": _NO_FILTERS,
    f"{_PREFIX}compaction.filter.periodic-compaction-time": _NO_FILTERS,
    f"{_PREFIX}manual-compaction.": "RocksDB alone decides when to compact",
    f"{_PREFIX}metrics.": "RocksDB's own metrics are not reported",
    f"{_PREFIX}checkpoint.upload-jitter": "uploads begin at once",
    f"{_PREFIX}use-ingest-db-restore-mode": _ONE_WAY,
    f"{_PREFIX}restore-overlap-fraction-threshold": _ONE_WAY,
    f"{_PREFIX}rescaling.use-delete-files-in-range": _ONE_WAY,
    f"{_PREFIX}incremental-restore-async-compact-after-rescale": _ONE_WAY,
}
"""Flink's key, or the prefix of several → the reason why it has no effect here."""


def without_effect(keys: Iterable[str]) -> dict[str, str]:
    """Return those of some keys that Flink knows but that have no effect here, each with the reason."""
    found = {}
    for key in sorted(keys):
        for known, reason in WITHOUT_EFFECT.items():
            if key == known or (known.endswith(".") and key.startswith(known)):
                found[key] = reason
    return found
