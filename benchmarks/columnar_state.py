"""A million rows of columnar state, of which 1 % changes between checkpoints: what they write, and how long it opens.

Run as `python -m benchmarks.columnar_state`; `make bench` does so at its end. A top-N, a window and an interval join
are filled, changed at random and checkpointed; then a new operator opens the last checkpoint. A canonical savepoint,
which is what each checkpoint was before, stands beside it. The last line is a batch of RocksDB state of as many keys:
opened, 1 % of them touched, written. Exit code 1: a limit is exceeded.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from runtime.common.typeinfo import Types
from runtime.core.batch import RecordBatch
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.ids import CheckpointId
from runtime.operators.columnar.aggregates import aggregate_spec
from runtime.operators.columnar.interval_join import ColumnIntervalJoinOperatorFactory, ColumnIntervalJoinSpec
from runtime.operators.columnar.join_columns import JoinSides
from runtime.operators.columnar.panes import Panes
from runtime.operators.columnar.top_n import TopNOperatorFactory
from runtime.operators.columnar.top_n_plan import top_n_spec
from runtime.operators.columnar.window_aggregate import WindowAggregateSpec
from runtime.operators.columnar.window_factory import WindowAggregateOperatorFactory
from runtime.operators.operator import OperatorFactory
from runtime.state.descriptors import ValueStateDescriptor
from runtime.state.handles import KeyedStateHandle, PendingKeyedState
from runtime.state.key_groups import key_group_range
from runtime.state.readers import load_keyed_state
from runtime.state.rocksdb.backend import RocksDBKeyedStateBackend
from runtime.state.snapshot import OperatorSnapshot, SnapshotRequest
from runtime.testing.clock import ManualClock
from runtime.testing.harness import OneInputHarness, OperatorHarness
from runtime.testing.two_input_harness import TwoInputHarness
from tests.operators.columnar.checkpoints import CheckpointedJob
from tests.state.files import DirectoryFiles

ROWS: Final = Types.ROW_NAMED(["key", "name", "price"], [Types.LONG(), Types.STRING(), Types.LONG()])
OTHERS: Final = Types.ROW_NAMED(["key", "city"], [Types.LONG(), Types.STRING()])
TOP: Final = 4
CHANGED: Final = 0.01
BATCH_ROWS: Final = 8_192
DAY_MS: Final = 86_400_000
MAX_OPEN_S, MAX_SHARE, MAX_BATCH = 0.1, 0.05, 2.0
ROUNDS: Final = 50
"""More than a state has segments: everything is written anew in between."""

Columns = tuple[Any, Any]
"""Keys and prices."""


def batches(columns: Columns) -> list[RecordBatch]:
    """Return rows as they come from an exchange."""
    keys, prices = columns
    made = []
    for start in range(0, len(keys), BATCH_ROWS):
        part, price = keys[start : start + BATCH_ROWS], prices[start : start + BATCH_ROWS]
        names = pa.array([f"name-{number % 1000}" for number in price.tolist()])
        arrow = pa.RecordBatch.from_arrays([pa.array(part), names, pa.array(price)], ROWS.field_names)
        made.append(RecordBatch.of_arrow(arrow, ROWS, np.full(len(part), 1_000, dtype=np.int64)))
    return made


def top_n(rows: int) -> tuple[OperatorFactory, Columns, Callable[[Any, int], Columns]]:
    """Four rows of each key; a changed key has a better one."""
    keys = np.repeat(np.arange(rows // TOP), TOP)
    factory = TopNOperatorFactory(top_n_spec(ROWS, ["key"], TOP, "price", True, None))

    def changed(random: Any, round_number: int) -> Columns:
        some = random.choice(rows // TOP, int(rows // TOP * CHANGED), replace=False)
        return some, random.integers(0, 1 << 20, len(some)) + (round_number + 2 << 40)

    return factory, (keys, np.arange(len(keys))), changed


def windows(rows: int) -> tuple[OperatorFactory, Columns, Callable[[Any, int], Columns]]:
    """Partials of a key each in a long window."""
    aggregates = aggregate_spec(ROWS, ["key"], ["count(*) AS n", "max(price) AS greatest", "min(name) AS least"], {})
    panes = Panes(DAY_MS, DAY_MS, DAY_MS, 0)
    return _spread(WindowAggregateOperatorFactory(WindowAggregateSpec(aggregates, panes)), rows)


def join(rows: int) -> tuple[OperatorFactory, Columns, Callable[[Any, int], Columns]]:
    """Rows of one side that wait for the other's."""
    sides = JoinSides((ROWS, OTHERS), (("key",), ("key",)))
    return _spread(ColumnIntervalJoinOperatorFactory(ColumnIntervalJoinSpec(sides, 0, DAY_MS)), rows)


def _spread(factory: OperatorFactory, rows: int) -> tuple[OperatorFactory, Columns, Callable[[Any, int], Columns]]:
    def changed(random: Any, _: int) -> Columns:
        some = random.choice(rows, int(rows * CHANGED), replace=False)
        return some, some

    return factory, (np.arange(rows), np.arange(rows)), changed


WORKS: Final = {"top-N": top_n, "window": windows, "join": join}


def job_of(factory: OperatorFactory, directory: Path) -> CheckpointedJob:
    """Return a job of one operator."""
    is_join = isinstance(factory, ColumnIntervalJoinOperatorFactory)

    def create(
        parallelism: int, subtask: int, clock: ManualClock, snapshot: OperatorSnapshot | None
    ) -> OperatorHarness[Any]:
        if is_join:
            return TwoInputHarness(factory, (None, None), parallelism, subtask, clock=clock, snapshot=snapshot)
        return OneInputHarness(factory, None, parallelism, subtask, clock=clock, snapshot=snapshot, input_type=ROWS)

    def feed(harnesses: Sequence[Any], columns: Columns) -> None:
        operator = harnesses[0].operator
        for batch in batches(columns):
            (operator.inputs[0] if is_join else operator).process_batch(batch)

    return CheckpointedJob(create, feed, directory)


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds that an action takes, and what it returns."""
    started = time.perf_counter()
    result = action()
    return time.perf_counter() - started, result


def measure_columns(name: str, rows: int, rounds: int) -> bool:
    """Measure one operator, print a line, and return whether it keeps to the limits."""
    factory, filled, changed = WORKS[name](rows)
    draw = np.random.default_rng(7)
    with tempfile.TemporaryDirectory() as directory:
        job = job_of(factory, Path(directory))
        job.feed(job.harnesses, filled)
        whole, syncs, shares = job.checkpoint().written_bytes, [], []
        for number in range(rounds):
            job.feed(job.harnesses, changed(draw, number))
            sync, checkpoint = timed(job.take)
            job.write(checkpoint)
            job.complete(checkpoint)
            syncs.append(sync)
            shares.append(checkpoint.written_bytes / whole)
        opens = min(timed(partial(job.restore, 1))[0] for _ in range(5))
        savepoint_sync, savepoint = timed(partial(job.take, SnapshotKind.CANONICAL))
        job.write(savepoint)
        job.complete(savepoint)
        savepoint_opens = min(timed(partial(job.restore, 1))[0] for _ in range(5))
        job.close()
    for kind, *figures in (
        ("segments", opens, statistics.median(syncs), statistics.median(shares), statistics.fmean(shares)),
        ("canonical", savepoint_opens, savepoint_sync, 1.0, 1.0),
    ):
        print("{:<9}{:<11}{:>8.3f} s{:>10.4f} s{:>10.2%}{:>10.2%}".format(name, kind, *figures), flush=True)
    return opens <= MAX_OPEN_S and statistics.fmean(shares) <= MAX_SHARE


def measure_rocksdb(keys: int, rounds: int) -> bool:
    """Measure batches of RocksDB state, print a line, and return whether they keep to the limits."""
    descriptor = ValueStateDescriptor("value", Types.LONG())
    own = key_group_range(128, 1, 0)
    with tempfile.TemporaryDirectory() as directory:
        files, place = DirectoryFiles(Path(directory) / "files"), Path(directory) / "work"

        def batch(handle: KeyedStateHandle | None, number: int, touched: Sequence[int]) -> KeyedStateHandle:
            backend = RocksDBKeyedStateBackend(own, 128, working_directory=place / str(number))
            if handle is not None:
                backend.restore(load_keyed_state([handle], own, 128, files, place / str(number)))
            state = backend.get_state(descriptor)
            for key in touched:
                backend.set_current_key(key)
                state.update(key + number)
            pending = backend.snapshot(SnapshotRequest(SnapshotKind.INCREMENTAL, CheckpointId(number)))
            assert isinstance(pending, PendingKeyedState)
            while not pending.advance(100):
                pass
            written = pending.write(files)
            backend.dispose()
            return written

        handle = batch(None, 1, range(keys))
        whole, draw, empty, full, shares = handle.size, random.Random(7), [], [], []
        for number in range(2, 2 * rounds + 2, 2):
            seconds, handle = timed(partial(batch, handle, number, ()))
            empty.append(seconds)
            before = files.written_bytes
            touched = draw.sample(range(keys), int(keys * CHANGED))
            seconds, handle = timed(partial(batch, handle, number + 1, touched))
            full.append(seconds)
            shares.append((files.written_bytes - before) / whole)
    took, took_empty = statistics.median(full), statistics.median(empty)
    print(
        f"rocksdb  a batch {took:.3f} s, an empty one {took_empty:.3f} s: {took / took_empty:.2f} times; "
        f"written {statistics.median(shares):.2%}, on average {statistics.fmean(shares):.2%} of {whole / 1e6:.0f} MB"
    )
    return took / took_empty <= MAX_BATCH and statistics.fmean(shares) <= MAX_SHARE


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.columnar_state", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args(arguments)
    print(f"{'state':<9}{'form':<11}{'opens in':>10}{'holds up':>12}{'written':>10}{'average':>10}")
    kept = [measure_columns(name, given.rows, given.rounds) for name in WORKS]
    kept.append(measure_rocksdb(given.rows, min(given.rounds, 10)))
    print(f"limits: {MAX_OPEN_S:g} s, {MAX_SHARE:.0%} on average; a batch takes {MAX_BATCH:g} empty ones at most")
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
