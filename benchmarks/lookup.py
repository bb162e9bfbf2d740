"""A key of a large RocksDB savepoint: how long it takes to find, and how much of the savepoint is read.

Run as `python -m benchmarks.lookup`; `make bench` does so at its end. It fills the state of two subtasks, takes a
canonical savepoint and an incremental snapshot of it, and looks keys up as the state browser does. Exit code 1: a
limit is exceeded, or a value is wrong.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from runtime.common.typeinfo import Types
from runtime.core.checkpoint_options import SnapshotKind
from runtime.state.backend import KeyedStateBackend
from runtime.state.descriptors import ValueStateDescriptor
from tests.checkpoint.test_key_lookup import snapshot_of

VALUE_BYTES: Final = 1_000
LOOKUPS: Final = 15
MAX_S, MAX_SHARE = 2.0, 0.02


def value_of(key: int) -> bytes:
    """Return a value that does not compress."""
    return random.Random(key).randbytes(VALUE_BYTES)


def measured(directory: Path, kind: SnapshotKind, total_bytes: int) -> bool:
    """Measure one kind of snapshot, print a line, and return whether it keeps to the limits."""
    keys = total_bytes // VALUE_BYTES

    def fill(keyed: KeyedStateBackend, is_own: Callable[[Any], bool]) -> None:
        state = keyed.get_state(ValueStateDescriptor("value", Types.PRIMITIVE_ARRAY(Types.BYTE())))
        for key in filter(is_own, range(keys)):
            keyed.set_current_key(key)
            state.update(value_of(key))

    reader = snapshot_of(directory, "rocksdb", kind, fill)
    size = sum(subtask.keyed.size for subtask in reader.metadata.operators[0].subtasks if subtask.keyed is not None)
    times, shares, is_right = [], [], True
    for key in random.Random(1).sample(range(keys), LOOKUPS):
        before, began = reader.read_bytes, time.process_time()
        (found,) = reader.lookup("op", "value", key).values
        times.append(time.process_time() - began)
        shares.append((reader.read_bytes - before) / size)
        is_right = is_right and found.value == value_of(key)
    print(
        f"{kind.value:<12}{size / 1e9:>8.2f} GB{statistics.median(times) * 1000:>10.0f} ms{max(times) * 1000:>10.0f} ms"
        f"{statistics.median(shares):>10.2%}{max(shares):>10.2%}{'' if is_right else '  wrong values'}",
        flush=True,
    )
    return is_right and max(times) <= MAX_S and max(shares) <= MAX_SHARE


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lookup", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    given = parser.parse_args(arguments)
    print(f"{'snapshot':<12}{'size':>11}{'CPU, median':>13}{'most':>13}{'read':>10}{'most':>10}")
    kept = True
    for kind in (SnapshotKind.CANONICAL, SnapshotKind.INCREMENTAL):
        with tempfile.TemporaryDirectory() as directory:
            kept = measured(Path(directory), kind, int(given.gigabytes * 1e9)) and kept
    print(f"limits: {MAX_S:g} s, {MAX_SHARE:.0%}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
