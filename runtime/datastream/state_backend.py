"""StateBackend: the kind of keyed state storage, as values at PyFlink's module path.

In Flink 2 no method takes one: a program chooses by options, and here a backend tells which:
`env.configure(EmbeddedRocksDBStateBackend(True).to_configuration())`. Source: PyFlink, state_backend.py.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NoReturn

from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.common.exclusions import refuse_attribute, refusing_module

__all__ = ["EmbeddedRocksDBStateBackend", "HashMapStateBackend", "PredefinedOptions", "StateBackend"]

_PREDEFINED_OPTIONS = "state.backend.rocksdb.predefined-options"
_LOCAL_DIRECTORIES = "state.backend.rocksdb.localdir"
_TRANSFER_THREADS = "state.backend.rocksdb.checkpoint.transfer.thread.num"


class StateBackend:
    """Storage of operators' keyed state."""

    def to_configuration(self) -> Configuration:
        """Return the options that choose this backend."""
        raise NotImplementedError(f"{type(self).__name__} names no backend")


class HashMapStateBackend(StateBackend):
    """State in the slots' memory: the default."""

    def to_configuration(self) -> Configuration:
        return Configuration().set_string(options.STATE_BACKEND.key, "hashmap")

    def __str__(self) -> str:
        return "HashMapStateBackend"


class PredefinedOptions(enum.Enum):
    """Sets of RocksDB settings, by the disks that they suit; see runtime.state.rocksdb.options."""

    DEFAULT = "DEFAULT"
    SPINNING_DISK_OPTIMIZED = "SPINNING_DISK_OPTIMIZED"
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = "SPINNING_DISK_OPTIMIZED_HIGH_MEM"
    FLASH_SSD_OPTIMIZED = "FLASH_SSD_OPTIMIZED"


class EmbeddedRocksDBStateBackend(StateBackend):
    """State in RocksDB on the slots' local disks, for state that is larger than memory."""

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        """Describe the backend.

        Args:
            enable_incremental_checkpointing: whether a checkpoint refers to files of the ones before it; None = as
                `execution.checkpointing.incremental` says.

        Raises:
            TypeError: it is neither a bool nor None.
        """
        if not isinstance(enable_incremental_checkpointing, bool | None):
            raise TypeError(
                f"enable_incremental_checkpointing must be a bool or None, not {enable_incremental_checkpointing!r}"
            )
        self._incremental = enable_incremental_checkpointing
        self._paths: list[str] = []
        self._predefined = PredefinedOptions.DEFAULT
        self._transfer_threads = 4

    def set_db_storage_paths(self, *paths: str) -> None:
        """Set the local directories that databases are made in; none = a slot's working directory."""
        self._paths = list(paths)

    def get_db_storage_paths(self) -> list[str] | None:
        return self._paths or None

    def is_incremental_checkpoints_enabled(self) -> bool:
        return bool(self._incremental)

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Choose a set of RocksDB settings; options that are set go first."""
        self._predefined = PredefinedOptions(options)

    def get_predefined_options(self) -> PredefinedOptions:
        return self._predefined

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Set how many files are transferred at a time when a database is restored.

        Raises:
            ValueError: not positive.
        """
        if number_of_transfering_threads <= 0:
            raise ValueError(f"the number of threads must be positive, not {number_of_transfering_threads}")
        self._transfer_threads = number_of_transfering_threads

    def get_number_of_transfer_threads(self) -> int:
        return self._transfer_threads

    def to_configuration(self) -> Configuration:
        configuration = Configuration().set_string(options.STATE_BACKEND.key, "rocksdb")
        configuration.set_string(_PREDEFINED_OPTIONS, self._predefined.value)
        configuration.set_integer(_TRANSFER_THREADS, self._transfer_threads)
        if self._incremental is not None:
            configuration.set_boolean(options.INCREMENTAL_CHECKPOINTS.key, self._incremental)
        if self._paths:
            configuration.set_string(_LOCAL_DIRECTORIES, ",".join(self._paths))
        return configuration

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            refuse_attribute(self, name)

    def __str__(self) -> str:
        return f"EmbeddedRocksDBStateBackend({self._predefined.value})"


__getattr__ = refusing_module(__name__)
