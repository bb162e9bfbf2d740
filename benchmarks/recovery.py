"""How long a job on Spark is away when one of its processes dies: `python -m benchmarks.recovery [--kills N]`.

A keyed job at parallelism 2 with checkpoints every 500 ms; kill -9 of one of its workers, again and again. Each
recovery is told by its parts: until the loss is noticed, until the attempt is gone, the restart strategy's delay, until
the tasks of the next attempt run, until the first record is before the sink, until output is visible. Needs an idle
machine.
"""

from __future__ import annotations

import argparse
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

from runtime.common import Configuration, Types, WatermarkStrategy
from runtime.connectors import DataGeneratorSource, FileSink, RollingPolicy
from runtime.datastream import JobClient, MapFunction, RuntimeContext, StreamExecutionEnvironment
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.slot_registry import SlotStatus

POLL_S = 0.005
TIMEOUT_S = 60.0
ROWS_PER_SECOND = 2_000
NO_DELAY = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000",
    "restart-strategy.fixed-delay.delay": "0 ms",
}
DEFAULTS: dict[str, str] = {}
"""Exponential delay, from one second on."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """One recovery; seconds since the kill."""

    noticed: float
    """The job is FAILING."""
    gone: float
    """The attempt is over, and the delay begins."""
    requested: float
    """The next attempt's slots are asked for."""
    running: float
    """All of its tasks run."""
    first_record: float
    """A record is in front of the sink."""
    output: float
    """A file has become visible."""


class Tap(MapFunction):
    """Notes when its process was handed its first record.

    Args:
        directory: of the notes.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def open(self, runtime_context: RuntimeContext) -> None:
        self._is_first = True

    def map(self, value: int) -> int:
        if self._is_first:
            self._is_first = False
            (Path(self._directory) / f"{os.getpid()}-{time.monotonic_ns()}").touch()
        return value


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
    sink = FileSink.for_ndjson(directory / "out").with_rolling_policy(rolling).build()
    summed.map(Tap(str(directory / "taps")), Types.LONG()).sink_to(sink).uid("files")
    client = env.execute_async("recovery")
    try:
        yield client
    finally:
        client.cancel().result(TIMEOUT_S)


def measure(kills: int, options: dict[str, str]) -> list[Recovery]:
    """Kill that many workers, one after the other; how the job came back each time.

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
    def files() -> int:
        return len(list((directory / "out").glob("part-*")))

    def goes_on() -> bool:
        status = client.get_status()
        return status.state is JobState.RUNNING and files() > before

    def taps_since(killed_ns: int) -> list[int]:
        return [at for path in (directory / "taps").iterdir() if (at := int(path.name.split("-")[1])) > killed_ns]

    before = files()
    _wait(goes_on)
    status = client.get_status()
    workers = [slot.pid for slot in status.slots if slot.pid is not None and slot.status is SlotStatus.LIVE]
    # at another time between two checkpoints each time
    time.sleep(0.05 * (number % 10))
    before = files()
    killed_ns = time.monotonic_ns()
    os.kill(workers[number % len(workers)], signal.SIGKILL)
    _wait(lambda: client.get_status().attempt > status.attempt and bool(taps_since(killed_ns)))
    first = min(taps_since(killed_ns))
    # what a checkpoint before the kill held becomes visible when it is restored: it is new output, too
    _wait(lambda: client.get_status().state is JobState.RUNNING and files() > before)
    output_ns = time.monotonic_ns()
    since = client.get_status().state_since_ms
    noticed, gone, requested, running = (
        since[state] / 1000.0 - killed_ns / 1e9
        for state in (JobState.FAILING, JobState.RESTARTING, JobState.CREATED, JobState.RUNNING)
    )
    return Recovery(noticed, gone, requested, running, (first - killed_ns) / 1e9, (output_ns - killed_ns) / 1e9)


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the job did not go on within {TIMEOUT_S:g} s")
        time.sleep(POLL_S)


def quantile(values: Sequence[float], q: float) -> float:
    """The smallest value that at least that part of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def table(name: str, recoveries: Sequence[Recovery]) -> str:
    """Medians and 95th percentiles of the parts, in lines."""
    lines = [f"{name}, {len(recoveries)} kills: seconds since kill -9          p50    p95"]
    for part in Recovery.__slots__:
        values = [getattr(recovery, part) for recovery in recoveries]
        lines.append(f"  {part.replace('_', ' '):50} {statistics.median(values):6.2f} {quantile(values, 0.95):6.2f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recovery")
    parser.add_argument("--kills", type=int, default=20)
    kills = parser.parse_args().kills
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    print(table("fixed-delay 0", measure(kills, NO_DELAY)))
    print(table("default strategy", measure(min(kills, 3), DEFAULTS)))


if __name__ == "__main__":
    main()
