"""The keyed state backends that the contract tests run against, and small helpers for them."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from runtime.core.clock import Clock
from runtime.core.keys import encode_key
from runtime.state.backend import KeyedStateBackend, Timer
from runtime.state.hashmap.backend import HashMapKeyedStateBackend
from runtime.state.key_groups import KeyGroupRange, key_group_of, key_group_range, operator_index_for_key_group
from runtime.state.redistribution import redistribute
from runtime.state.rocksdb.backend import RocksDBKeyedStateBackend
from runtime.state.rocksdb.options import RocksDBSettings
from runtime.state.snapshot import KeyedSnapshot, OperatorSnapshot

MAX_PARALLELISM = 16

BackendFactory = Callable[[KeyGroupRange, int, Clock], KeyedStateBackend]

# in memory where there is such a place: RocksDB waits for the disk whenever it makes a column family
_memory = Path("/dev/shm")
_directory = Path(tempfile.mkdtemp(prefix="tidemark-state-", dir=_memory if os.access(_memory, os.W_OK) else None))
atexit.register(shutil.rmtree, _directory, ignore_errors=True)
TEMPORARY = _directory
"""For files of tests; removed at the end."""
_made: list[RocksDBKeyedStateBackend] = []


def rocksdb_backend(
    key_groups: KeyGroupRange, max_parallelism: int, clock: Clock, settings: RocksDBSettings | None = None
) -> RocksDBKeyedStateBackend:
    """A rocksdb backend in a temporary directory; `dispose_of_all` closes it at the latest."""
    backend = RocksDBKeyedStateBackend(key_groups, max_parallelism, clock, settings, _directory, "test")
    _made.append(backend)
    return backend


def dispose_of_all() -> None:
    """Dispose of all rocksdb backends."""
    while _made:
        _made.pop().dispose()


BACKENDS: dict[str, BackendFactory] = {"hashmap": HashMapKeyedStateBackend, "rocksdb": rocksdb_backend}


class SettableClock:
    """A clock that stands still until it is set."""

    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.time_ms = now_ms

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic_ms(self) -> float:
        return float(self.time_ms)


class AverageFunction:
    """Mean of the numbers added; the accumulator is (sum, count)."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]


def whole_range(factory: BackendFactory, clock: Clock | None = None) -> KeyedStateBackend:
    """A backend that owns every key group."""
    return factory(KeyGroupRange(0, MAX_PARALLELISM - 1), MAX_PARALLELISM, clock or SettableClock())


def subtasks(factory: BackendFactory, parallelism: int, clock: Clock) -> list[KeyedStateBackend]:
    """Empty backends of all subtasks."""
    ranges = [key_group_range(MAX_PARALLELISM, parallelism, index) for index in range(parallelism)]
    return [factory(key_groups, MAX_PARALLELISM, clock) for key_groups in ranges]


def canonical(backend: KeyedStateBackend) -> KeyedSnapshot:
    """Return the backend's canonical snapshot, which is never pending."""
    snapshot = backend.snapshot()
    assert isinstance(snapshot, KeyedSnapshot)
    return snapshot


def rescaled(
    factory: BackendFactory, backends: Sequence[KeyedStateBackend], parallelism: int, clock: Clock
) -> list[KeyedStateBackend]:
    """Backends of another parallelism that have restored what `backends` held; `backends` are disposed of."""
    snapshots = redistribute([OperatorSnapshot(canonical(b)) for b in backends], parallelism, MAX_PARALLELISM)
    for backend in backends:
        backend.dispose()
    restored = subtasks(factory, parallelism, clock)
    for backend, snapshot in zip(restored, snapshots, strict=True):
        assert snapshot.keyed is not None
        backend.restore(snapshot.keyed)
    return restored


def subtask_of(key: Any, parallelism: int) -> int:
    key_group = key_group_of(encode_key(key), MAX_PARALLELISM)
    return operator_index_for_key_group(MAX_PARALLELISM, parallelism, key_group)


def ignore(timer: Timer) -> None:
    """A timer callback that does nothing."""
