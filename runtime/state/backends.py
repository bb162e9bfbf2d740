"""Creates the keyed state backend that a job's configuration names. Task's thread."""

from __future__ import annotations

from pathlib import Path

from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.core.clock import Clock
from runtime.state.backend import KeyedStateBackend
from runtime.state.hashmap.backend import HashMapKeyedStateBackend
from runtime.state.key_groups import KeyGroupRange
from runtime.state.rocksdb.backend import RocksDBKeyedStateBackend
from runtime.state.rocksdb.options import RocksDBSettings


def create_keyed_backend(
    configuration: Configuration,
    key_groups: KeyGroupRange,
    max_parallelism: int,
    clock: Clock,
    working_directory: Path,
    operator_name: str,
) -> KeyedStateBackend:
    """Return an empty backend of the kind that `state.backend.type` names.

    Args:
        configuration: the job's.
        key_groups: of the subtask.
        max_parallelism: number of key groups of the operator.
        clock: by which state with time to live ages.
        working_directory: of this attempt of the task; local, removed by the caller when the task has ended.
        operator_name: for the names of local directories.

    Raises:
        KeyGroupRangeError: the range lies outside of [0, max_parallelism).
        OSError: the working directory cannot be written.
    """
    if configuration.get(options.STATE_BACKEND) == "rocksdb":
        settings = RocksDBSettings.of(configuration)
        return RocksDBKeyedStateBackend(key_groups, max_parallelism, clock, settings, working_directory, operator_name)
    return HashMapKeyedStateBackend(key_groups, max_parallelism, clock)
