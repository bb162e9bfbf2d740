"""Runs one of our jobs to its end, and measures the time.

The measured time is from the moment all tasks run to the end of the job, with sinks committed; the time for requesting
slots, starting their processes and importing is reported separately, as for the processes of the loops.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from runtime.common import Configuration
from runtime.connectors.blackhole import BlackHoleSink
from runtime.datastream import StreamExecutionEnvironment
from runtime.jobmaster.job_state import JobState

Define = Callable[[StreamExecutionEnvironment, Path], None]
"""Adds a job to an environment; its sinks leave their results in the directory."""


class JobRun(NamedTuple):
    """Times of one run of a job."""

    seconds: float
    """From every task running to the end of the job."""
    beside_seconds: float
    """Remaining time of `execute`."""
    submitted: float
    """Time of submission, s since the epoch."""
    checkpoints: int
    """Number of completed checkpoints."""


@contextmanager
def results_directory() -> Iterator[Path]:
    """Return a directory for the results of one run."""
    path = Path(tempfile.mkdtemp(prefix="tidemark-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def environment(slots: int, execution: str, options: Mapping[str, str] | None = None) -> StreamExecutionEnvironment:
    """Return an environment with that many slots on "spark" or "mini-cluster"."""
    config = Configuration()
    config.set_integer("parallelism.default", slots)
    config.set_string("execution.target", execution)
    for key, value in (options or {}).items():
        config.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(config)


def run_job(env: StreamExecutionEnvironment, name: str) -> JobRun:
    """Run the environment's job to its end."""
    submitted, started = time.time(), time.monotonic()
    client = env.execute_async(f"bench {name}")
    client.get_job_execution_result().result()
    elapsed = time.monotonic() - started
    status = client.get_status()
    since = status.state_since_ms
    seconds = (since[JobState.FINISHED] - since[JobState.RUNNING]) / 1000.0
    return JobRun(seconds, elapsed - seconds, submitted, status.checkpoints.counts.completed)


def warm_up(slots: int, execution: str, options: Mapping[str, str] | None = None) -> None:
    """Run an empty job: the first job of a process also pays for the start of the JVM."""
    env = environment(slots, execution, options)
    env.from_collection([1, 2, 3]).sink_to(BlackHoleSink())
    run_job(env, "warm-up")
