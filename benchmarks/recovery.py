"""Measures the recovery of a job on Spark after a process has died: `python -m benchmarks.recovery [--kills N]`.

Repeatedly kills a worker of a keyed job at parallelism 2 with checkpoints every 500 ms. Each recovery is reported by
its parts: until the loss is detected, until the attempt is gone, the delay of the restart strategy, until the tasks of
the next attempt run, until a sink has the first new record, until a transactional sink shows new ones. Needs an idle
machine, and reports how idle it was.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.common import Configuration, Types, WatermarkStrategy
from runtime.connectors import BucketAssigner, DataGeneratorSource, FileSink, RollingPolicy
from runtime.core.batch import RecordBatch
from runtime.datastream import JobClient, StreamExecutionEnvironment
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.slot_registry import SlotStatus
from runtime.operators.sink import Sink, SinkWriter, WriterContext

POLL_S = 0.005
TIMEOUT_S = 60.0
ROWS_PER_SECOND = 2_000
NO_DELAY = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000",
    "restart-strategy.fixed-delay.delay": "0 ms",
}
DEFAULTS = {"restart-strategy.exponential-delay.reset-backoff-threshold": "500 ms"}
"""Exponential delay from one second on, the same for each kill."""
SLOWDOWN_CPU_S = 0.1


@dataclass(frozen=True, slots=True)
class Recovery:
    """Times of one recovery, seconds since the kill."""

    noticed: float
    """The job is FAILING."""
    gone: float
    """The attempt is over, and the delay begins."""
    requested: float
    """The next attempt's slots are requested."""
    running: float
    """All of its tasks run."""
    first_record: float
    """A sink that waits for no checkpoint has received a record."""
    output: float
    """A file that was written after the kill has become visible."""
    slowdown: float
    """See the function of that name; no time."""


def slowdown() -> float:
    """Return the present duration of a computation as a multiple of its processor time: 1 on an idle machine."""
    started, used = time.monotonic(), time.thread_time()
    while time.thread_time() - used < SLOWDOWN_CPU_S:
        pass
    return (time.monotonic() - started) / SLOWDOWN_CPU_S


PARTS = ("noticed", "gone", "requested", "running", "first_record", "output")
"""Parts of a recovery, in their order."""


class Tap(Sink):
    """Records when each of its writers received its first record.

    Args:
        directory: of the notes.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        return _TapWriter(Path(self._directory) / f"{context.attempt}-{context.subtask_index}")


class _TapWriter(SinkWriter):
    def __init__(self, note: Path) -> None:
        self._note = note
        self._is_first = True

    def write(self, batch: RecordBatch) -> None:
        if self._is_first and batch.num_rows > 0:
            self._is_first = False
            self._note.with_name(f"{self._note.name}-{time.monotonic_ns()}").touch()


@contextmanager
def running_job(directory: Path, options: dict[str, str]) -> Iterator[JobClient]:
    """The job, until the block ends."""
    fixed = {
        "execution.target": "spark",
        "parallelism.default": "2",
        "execution.checkpointing.interval": "500 ms",
        "execution.checkpointing.dir": (directory / "checkpoints").as_uri(),
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(fixed | options))
    (directory / "taps").mkdir()
    source = DataGeneratorSource(lambda index: index, None, ROWS_PER_SECOND, Types.LONG())
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    kind = Types.TUPLE([Types.LONG(), Types.LONG()])
    sums = numbers.map(lambda n: (n % 100, n), kind).key_by(lambda pair: pair[0])
    summed = sums.reduce(lambda a, b: (a[0], a[1] + b[1])).uid("sums").map(lambda pair: pair[1], Types.LONG())
    rolling = RollingPolicy.on_checkpoint_rolling_policy()
    buckets = BucketAssigner.base_path_bucket_assigner()
    sink = FileSink.for_ndjson(directory / "out").with_bucket_assigner(buckets).with_rolling_policy(rolling).build()
    summed.sink_to(sink).uid("files")
    summed.sink_to(Tap(str(directory / "taps"))).uid("tap")
    client = env.execute_async("recovery")
    try:
        yield client
    finally:
        client.cancel().result(TIMEOUT_S)


def measure(kills: int, options: dict[str, str]) -> list[Recovery]:
    """Kill that many workers, one after the other; returns each recovery.

    Raises:
        TimeoutError: it did not within a minute.
    """
    directory = Path(tempfile.mkdtemp(prefix="tidemark-recovery-"))
    try:
        with running_job(directory, options) as client:
            return [_recovery(client, directory, number) for number in range(kills)]
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _recovery(client: JobClient, directory: Path, number: int) -> Recovery:
    def goes_on(since_ns: int) -> bool:
        """Return whether the job runs and shows output written since then; a commit does not change the time of
        writing."""
        if client.get_status().state is not JobState.RUNNING:
            return False
        return any(path.stat().st_mtime_ns > since_ns for path in (directory / "out").glob("part-*"))

    def taps_since(killed_ns: int) -> list[int]:
        return [at for path in (directory / "taps").iterdir() if (at := int(path.name.split("-")[2])) > killed_ns]

    now_ns = time.time_ns()
    _wait(lambda: goes_on(now_ns))
    status = client.get_status()
    workers = [slot.pid for slot in status.slots if slot.pid is not None and slot.status is SlotStatus.LIVE]
    # at another time between two checkpoints each time
    time.sleep(0.05 * (number % 10))
    slowed = slowdown()
    killed_ns, killed_at_ns = time.monotonic_ns(), time.time_ns()
    os.kill(workers[number % len(workers)], signal.SIGKILL)
    _wait(lambda: client.get_status().attempt > status.attempt and bool(taps_since(killed_ns)))
    first = min(taps_since(killed_ns))
    # what a checkpoint before the kill held becomes visible when it is restored: that is no new output
    _wait(lambda: goes_on(killed_at_ns))
    output_ns = time.monotonic_ns()
    since = client.get_status().state_since_ms
    noticed, gone, requested, running = (
        since[state] / 1000.0 - killed_ns / 1e9
        for state in (JobState.FAILING, JobState.RESTARTING, JobState.CREATED, JobState.RUNNING)
    )
    record, output = ((at - killed_ns) / 1e9 for at in (first, output_ns))
    return Recovery(noticed, gone, requested, running, record, output, slowed)


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the job did not go on within {TIMEOUT_S:g} s")
        time.sleep(POLL_S)


def quantile(values: Sequence[float], q: float) -> float:
    """Return the smallest value that at least that share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[math.ceil(q * len(ordered)) - 1]


def table(name: str, recoveries: Sequence[Recovery]) -> str:
    """Return the medians and 95th percentiles of the parts, as lines."""
    lines = [f"{name}, {len(recoveries)} kills: seconds since kill -9          p50    p95"]
    for part in PARTS:
        values = [getattr(recovery, part) for recovery in recoveries]
        lines.append(f"  {part.replace('_', ' '):50} {statistics.median(values):6.2f} {quantile(values, 0.95):6.2f}")
    slowed = statistics.median(recovery.slowdown for recovery in recoveries)
    return "\n".join([*lines, f"  the machine was slowed down {slowed:.2f} times"])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recovery")
    parser.add_argument("--kills", type=int, default=20)
    kills = parser.parse_args().kills
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    print(table("fixed-delay 0", measure(kills, NO_DELAY)))
    print(table("default strategy", measure(kills, DEFAULTS)))


if __name__ == "__main__":
    main()
