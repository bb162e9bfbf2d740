"""Measures the cost of fault tolerance: throughput with checkpoints, keyed state in RocksDB, incremental uploads,
restores.

The job is that of *state memory*: a running count per key, one slot. The figures of the backends alone come from
`benchmarks.state`, which reports more when run by itself.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping
from functools import partial
from typing import Any

from benchmarks import state
from benchmarks.digest import Digest
from benchmarks.engine import environment, results_directory, run_job
from benchmarks.measure import CPU, TIDEMARK, Options, Outcome, Target, Work, looped, say
from benchmarks.reference.memory import BATCH_ROWS, Pool, count_by_hand
from benchmarks.reference.processes import timed_alone
from benchmarks.sinks import NumbersSink, read_cpu_seconds, read_digest
from benchmarks.works.state import PLAIN, counts_of, whole_batches
from runtime.common import Types
from runtime.datastream.state import ValueStateDescriptor

FEW_KEYS, MANY_KEYS = 10_000, 1_000_000
HASHMAP, ROCKSDB = "hashmap", "rocksdb"
#: long enough for several checkpoints at some million records a second; RocksDB makes a tenth of that with many keys
ROWS = {
    (HASHMAP, FEW_KEYS): 1200 * BATCH_ROWS,
    (HASHMAP, MANY_KEYS): 1200 * BATCH_ROWS,
    (ROCKSDB, FEW_KEYS): 600 * BATCH_ROWS,
    (ROCKSDB, MANY_KEYS): 200 * BATCH_ROWS,
}
QUICK_ROWS = 30_000
QUICK_KEYS = {FEW_KEYS: 100, MANY_KEYS: 10_000}
NEVER, EVERY_SECOND = "no checkpoints", "every 1 s"
CHECKPOINTS = "checkpoints"
SPEED_SHARE = 0.9
#: how many times as much RocksDB may take for a record as the hash map
TIMES_HASHMAP = {FEW_KEYS: 1.5, MANY_KEYS: 6.0}
STATE_ROWS = 400_000
STATE_MB = 1_000
QUICK_STATE_MB = 5
UPLOADED_PERCENT, MEAN_PERCENT, MEDIAN_PERCENT = "most_uploaded_percent", "mean_uploaded_percent", "median_percent"
SECONDS_PER_GB = "restore_seconds_per_gb"
#: of every single checkpoint, those behind a compaction included
MAX_UPLOADED_PERCENT = 5.0
#: nothing was promised: so that the time is in the table
MAX_SECONDS_PER_GB = 20.0


def checkpoint_works(options: Options) -> list[Work]:
    """Jobs with checkpoints and without, the two backends, and the state of RocksDB in checkpoints."""
    sizes = ((FEW_KEYS, "few"), (MANY_KEYS, "many"))
    backends = (HASHMAP, ROCKSDB)
    jobs = [_with_and_without(options, backend, keys, word) for backend in backends for keys, word in sizes]
    return [*jobs, *(_backends(options, keys, word) for keys, word in sizes), _incremental(options)]


def _with_and_without(options: Options, backend: str, keys: int, word: str) -> Work:
    rows = whole_batches(options.rows(ROWS[backend, keys], QUICK_ROWS))
    pool = Pool(QUICK_KEYS[keys] if options.quick else keys)
    run = partial(_run, pool, rows, options.execution)
    interval = "20 ms" if options.quick else "1 s"
    return Work(
        f"checkpoints {backend} {word}",
        f"the job of state memory, {keys:,} keys in {backend}, without checkpoints and with one every second",
        {
            PLAIN: lambda: looped(timed_alone(count_by_hand, pool, rows, threads=1), rows),
            NEVER: partial(run, {"state.backend.type": backend}),
            EVERY_SECOND: partial(run, {"state.backend.type": backend, "execution.checkpointing.interval": interval}),
        },
        (
            Target(EVERY_SECOND, NEVER, at_least=SPEED_SHARE),
            # with none completed, the ratio would say nothing
            Target(EVERY_SECOND, "", at_least=1, figure=CHECKPOINTS),
        ),
    )


def _run(pool: Pool, rows: int, execution: str, configuration: Mapping[str, str]) -> Outcome:
    with results_directory() as directory:
        results, checkpoints = directory / "results", directory / "checkpoints"
        results.mkdir()
        env = environment(1, execution, {**configuration, "execution.checkpointing.dir": checkpoints.as_uri()})
        counts_of(env, pool, rows).sink_to(NumbersSink(results)).uid("results")
        run = run_job(env, "checkpoints")
        details = {CPU: read_cpu_seconds(results), CHECKPOINTS: float(run.checkpoints)}
        return Outcome(run.seconds, rows, read_digest(results), run.beside_seconds, details)


def _backends(options: Options, keys: int, word: str) -> Work:
    used = QUICK_KEYS[keys] if options.quick else keys
    run = partial(_count_in, options.rows(STATE_ROWS, QUICK_ROWS), used)
    return Work(
        f"backends {word}",
        f"value() and update() of {keys:,} random keys, no job around them; seconds of CPU",
        {backend: partial(run, backend) for backend in (HASHMAP, ROCKSDB)},
        (Target(ROCKSDB, HASHMAP, at_least=1 / TIMES_HASHMAP[keys]),),
    )


@functools.cache
def _random_keys(rows: int, keys: int, seed: int) -> list[int]:
    generator = random.Random(seed)
    return [generator.randrange(keys) for _ in range(rows)]


def _count_in(rows: int, keys: int, backend_name: str) -> Outcome:
    """Count random keys; a pass over others comes first, so that caches hold what they would after a long time."""
    with results_directory() as directory:
        backend = state.make(backend_name, directory)
        try:
            counter: Any = backend.get_state(ValueStateDescriptor("count", Types.LONG()))
            state.fill(backend, counter, keys, 0)
            state.count(backend, counter, _random_keys(rows, keys, 1))
            seconds = state.count(backend, counter, _random_keys(rows, keys, 2))
            total = 0
            for key in range(keys):
                backend.set_current_key(key)
                total += counter.value()
        finally:
            backend.dispose()
    return Outcome(seconds, rows, Digest(rows, total), details={CPU: seconds})


def _incremental(options: Options) -> Work:
    return Work(
        "checkpoints incremental",
        "1 GB of RocksDB state in values of 1,000 bytes, 1 % of the keys (random ones) changed between checkpoints: "
        "what is uploaded; the seconds are those of a restore",
        {
            TIDEMARK: partial(
                _run_incremental,
                options.rows(STATE_MB, QUICK_STATE_MB),
                0.0 if options.quick else state.SETTLING_SECONDS,
            )
        },
        (
            Target(TIDEMARK, "", at_most=MAX_UPLOADED_PERCENT, figure=UPLOADED_PERCENT),
            Target(TIDEMARK, "", at_most=MAX_SECONDS_PER_GB, figure=SECONDS_PER_GB),
        ),
        compared=False,
        # a minute at full size; its figures are of bytes, or of a sum of several waits
        repeats=1,
    )


def _run_incremental(state_mb: int, settling_s: float) -> Outcome:
    with results_directory() as directory:
        found = state.incremental(directory, state_mb, say, settling_s)
    rows = state_mb * 1_000_000 // state.VALUE_BYTES
    seconds = found.restore_seconds_per_gb * found.state_bytes / 1e9
    details = {
        UPLOADED_PERCENT: found.uploaded_share_max * 100,
        MEAN_PERCENT: found.uploaded_share_mean * 100,
        MEDIAN_PERCENT: found.uploaded_share * 100,
        SECONDS_PER_GB: found.restore_seconds_per_gb,
    }
    return Outcome(seconds, rows, None, details=details)
