"""Measures the cost of keyed state: `python -m benchmarks.state [--state-mb N]`.

Per-record cost of ValueState in both backends, the part of a snapshot during which processing waits, the upload of an
incremental checkpoint of RocksDB state, and the time of a restore. Times per record are CPU time of the processing
thread, so that a busy machine changes them little; the others are wall-clock times.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from runtime.checkpoint.state_files import TaskStateReader, TaskStateWriter, default_file_system
from runtime.common.typeinfo import Types
from runtime.core.checkpoint_options import CheckpointOptions, SnapshotKind
from runtime.core.clock import SYSTEM_CLOCK
from runtime.core.ids import CheckpointId
from runtime.state.backend import KeyedStateBackend
from runtime.state.descriptors import ValueStateDescriptor
from runtime.state.handles import KeyedStateHandle, PendingKeyedState
from runtime.state.hashmap.backend import HashMapKeyedStateBackend
from runtime.state.key_groups import KeyGroupRange
from runtime.state.readers import load_keyed_state
from runtime.state.rocksdb.backend import RocksDBKeyedStateBackend
from runtime.state.snapshot import SnapshotRequest

KEY_GROUPS = KeyGroupRange(0, 127)
MAX_PARALLELISM = 128
RECORDS = 400_000
ROUNDS = 3
VALUE_BYTES = 1_000
CHANGED_SHARE = 0.01
CHECKPOINTS = 20
"""Enough for two compactions: level 0 is merged when it has eight files."""
SETTLING_SECONDS = 1.0
"""Between checkpoints, as in a job; compactions go on meanwhile."""


class Incremental(NamedTuple):
    """Measurements of checkpoints of RocksDB state."""

    state_bytes: int
    uploaded_share: float
    """Share of the values uploaded by a checkpoint after a random one per cent of the keys has changed; median."""
    uploaded_share_mean: float
    uploaded_share_max: float
    """The same, by a checkpoint that follows a compaction."""
    restore_seconds_per_gb: float
    """At the parallelism at which it was taken."""


def writer(directory: Path, number: int) -> TaskStateWriter:
    """Return a writer of one checkpoint."""
    options = CheckpointOptions((directory / f"chk-{number}").as_uri(), (directory / "shared").as_uri())
    return TaskStateWriter(default_file_system(), options, CheckpointId(number), "bench")


def make(name: str, directory: Path) -> KeyedStateBackend:
    """Return an empty backend."""
    if name == "hashmap":
        return HashMapKeyedStateBackend(KEY_GROUPS, MAX_PARALLELISM, SYSTEM_CLOCK)
    return RocksDBKeyedStateBackend(KEY_GROUPS, MAX_PARALLELISM, SYSTEM_CLOCK, None, directory, "bench")


def fill(backend: KeyedStateBackend, state: Any, num_keys: int, value: Any) -> None:
    """Give every key a value."""
    set_key, update = backend.set_current_key, state.update
    for key in range(num_keys):
        set_key(key)
        update(value)


def count(backend: KeyedStateBackend, state: Any, keys: list[int]) -> float:
    """Read and update the state of each key; CPU seconds."""
    set_key, value, update = backend.set_current_key, state.value, state.update
    started = time.thread_time()
    for key in keys:
        set_key(key)
        update(value() + 1)
    return time.thread_time() - started


def per_record(directory: Path) -> None:
    """value() and update() of random keys."""
    generator = random.Random(1)
    for num_keys in (10_000, 1_000_000):
        # others in each round: with the same ones, a cache that is too small for all keys holds just those
        rounds = [[generator.randrange(num_keys) for _ in range(RECORDS)] for _ in range(1 + ROUNDS)]
        costs = {}
        for name in ("hashmap", "rocksdb"):
            backend = make(name, directory)
            state = backend.get_state(ValueStateDescriptor("count", Types.LONG()))
            fill(backend, state, num_keys, 0)
            count(backend, state, rounds[0])
            costs[name] = min(count(backend, state, keys) for keys in rounds[1:]) / RECORDS
            backend.dispose()
        ratio = costs["rocksdb"] / costs["hashmap"]
        shown = ", ".join(f"{name} {cost * 1e9:,.0f} ns" for name, cost in costs.items())
        print(f"ValueState, {num_keys:>9,} keys      {shown}, {ratio:.2f} x")


def take(backend: KeyedStateBackend, number: int, directory: Path) -> tuple[KeyedStateHandle, int, float, float, float]:
    """A completed incremental checkpoint: its handle, bytes written, ms that processing waits, longest slice, all."""
    files = writer(directory, number)
    started = time.perf_counter()
    pending = backend.snapshot(SnapshotRequest(SnapshotKind.INCREMENTAL, CheckpointId(number)))
    assert isinstance(pending, PendingKeyedState)
    taken = time.perf_counter()
    longest, is_done = 0.0, False
    while not is_done:
        begun = time.perf_counter()
        is_done = pending.advance(5)
        longest = max(longest, time.perf_counter() - begun)
    handle = pending.write(files)
    ended = time.perf_counter()
    backend.notify_checkpoint_complete(CheckpointId(number))
    return handle, files.written_bytes, (taken - started) * 1e3, longest * 1e3, (ended - started) * 1e3


def synchronous_part(directory: Path) -> None:
    """Measure how long processing waits for a snapshot of a million keys."""
    num_keys = 1_000_000
    for name in ("hashmap", "rocksdb"):
        backend = make(name, directory)
        state = backend.get_state(ValueStateDescriptor("count", Types.LONG()))
        fill(backend, state, num_keys, 0)
        for number, changed in ((1, num_keys), (2, num_keys // 100), (3, num_keys // 100), (4, num_keys)):
            files = directory / f"sync-{name}"
            handle, written, sync_ms, longest_ms, total_ms = take(backend, number, files)
            print(
                f"{name}, 1 M keys, {changed:>9,} changed   waits {sync_ms:6.1f} ms, slices up to {longest_ms:5.1f} ms,"
                f" {total_ms:7.0f} ms in all, {written / 1e6:6.1f} of {handle.size / 1e6:6.1f} MB"
            )
            fill(backend, state, num_keys // 100 if number < 3 else num_keys, number)
        backend.dispose()


def incremental(
    directory: Path, state_mb: int, tell: Callable[[str], None] = print, settling_s: float = SETTLING_SECONDS
) -> Incremental:
    """Measure the upload of incremental checkpoints of RocksDB state of which one per cent has changed, and restores.

    Args:
        directory: for the state and its checkpoints.
        state_mb: size of the state.
        tell: takes a line for each checkpoint and restore.
        settling_s: between checkpoints.
    """
    num_keys = state_mb * 1_000_000 // VALUE_BYTES
    generator = random.Random(2)
    backend = make("rocksdb", directory)
    state = backend.get_state(ValueStateDescriptor("payload", Types.PICKLED_BYTE_ARRAY()))
    set_key, update = backend.set_current_key, state.update
    for key in range(num_keys):
        set_key(key)
        update(generator.randbytes(VALUE_BYTES))
    number, written, shares = 0, 1 << 40, []
    # the bulk load leaves compactions behind, each of which creates new files
    while written > 1_000_000 and number < 30:
        number += 1
        handle, written, sync_ms, _, total_ms = take(backend, number, directory / "incremental")
        tell(
            f"rocksdb, {handle.size / 1e6:,.0f} MB, loading, checkpoint {number}    waits {sync_ms:6.1f} ms, "
            f"{total_ms:7.0f} ms in all, uploads {written / 1e6:,.1f} MB, {written / handle.size:.1%}"
        )
        time.sleep(settling_s)
    for _ in range(CHECKPOINTS):
        for _ in range(int(num_keys * CHANGED_SHARE)):
            set_key(generator.randrange(num_keys))
            update(generator.randbytes(VALUE_BYTES))
        number += 1
        handle, written, sync_ms, _, total_ms = take(backend, number, directory / "incremental")
        shares.append(written / (num_keys * VALUE_BYTES))
        tell(
            f"rocksdb, {handle.size / 1e6:,.0f} MB, {CHANGED_SHARE:.0%} changed, checkpoint {number}  waits "
            f"{sync_ms:6.1f} ms, {total_ms:7.0f} ms in all, uploads {written / 1e6:,.1f} MB, {shares[-1]:.1%}"
        )
        time.sleep(settling_s)
    mean, median = statistics.mean(shares), statistics.median(shares)
    shown = f"{median:.1%} (median), {mean:.1%} (mean), {max(shares):.1%} (most)"
    tell(f"of the state, an incremental checkpoint uploads {shown}")
    backend.dispose()
    files = TaskStateReader(default_file_system())
    restores = []
    for parallelism, key_groups in ((1, KEY_GROUPS), (2, KeyGroupRange(0, 63))):
        started = time.perf_counter()
        snapshot = load_keyed_state([handle], key_groups, MAX_PARALLELISM, files, directory / f"restore-{parallelism}")
        restored = RocksDBKeyedStateBackend(key_groups, MAX_PARALLELISM, SYSTEM_CLOCK, None, directory, "restored")
        restored.restore(snapshot)
        restored.get_state(ValueStateDescriptor("payload", Types.PICKLED_BYTE_ARRAY()))
        restores.append((time.perf_counter() - started) / (handle.size / 1e9))
        tell(f"restore at parallelism {parallelism}           {restores[-1]:.2f} s per GB")
        restored.dispose()
    return Incremental(handle.size, median, mean, max(shares), restores[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state-mb", type=int, default=200, help="size of the RocksDB state, MB")
    state_mb = parser.parse_args().state_mb
    directory = Path(tempfile.mkdtemp(prefix="tidemark-bench-"))
    try:
        per_record(directory)
        synchronous_part(directory)
        incremental(directory, state_mb)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
