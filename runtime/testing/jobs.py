"""run_job: runs a whole job for a test, by default on a MiniCluster, and gives back what it delivered.

On a MiniCluster time is the test's: the clock jumps to the next deadline, so windows of processing time, pauses and
restart delays take no time. On Spark it is the machine's. Call it from one thread at a time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runtime.common.configuration import Configuration
from runtime.common.options import EXECUTION_MODE, EXECUTION_TARGET, PARALLELISM_DEFAULT, RUNTIME_MODE
from runtime.core.clock import Clock
from runtime.datastream.data_stream import DataStream
from runtime.datastream.job_client import execution_result
from runtime.datastream.stream_execution_environment import StreamExecutionEnvironment
from runtime.execution.errors import JobExecutionError
from runtime.jobmaster.status import JobStatusSnapshot
from runtime.testing.clock import ManualClock
from runtime.testing.collecting_sink import CollectingSink, collected_records

__all__ = [
    "ALL_MODES",
    "BATCH_ON_MINI_CLUSTER",
    "BATCH_ON_SPARK",
    "CONTINUOUS_MODES",
    "CONTINUOUS_ON_MINI_CLUSTER",
    "CONTINUOUS_ON_SPARK",
    "MICRO_BATCH_ON_MINI_CLUSTER",
    "MICRO_BATCH_ON_SPARK",
    "START_MS",
    "STREAMING_MODES",
    "BuildJob",
    "JobMode",
    "JobResult",
    "run_job",
]

BuildJob = Callable[[StreamExecutionEnvironment], DataStream | Sequence[DataStream] | None]
"""Writes a job into an environment and returns the stream, or streams, to collect; None if there is none."""

START_MS = 1_767_225_600_000
"""Start of a MiniCluster's clock: 2026-01-01 00:00 UTC, so that dates in a test's output look like dates."""
_CANCEL_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class JobMode:
    """A kind of execution."""

    name: str
    """For messages."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options that make a job run that way."""


CONTINUOUS_ON_MINI_CLUSTER = JobMode("continuous on MiniCluster", {EXECUTION_TARGET.key: "mini-cluster"})
CONTINUOUS_ON_SPARK = JobMode("continuous on Spark", {EXECUTION_TARGET.key: "spark"})
MICRO_BATCH_ON_MINI_CLUSTER = JobMode(
    "micro-batch on MiniCluster", {EXECUTION_TARGET.key: "mini-cluster", EXECUTION_MODE.key: "micro-batch"}
)
MICRO_BATCH_ON_SPARK = JobMode(
    "micro-batch on Spark", {EXECUTION_TARGET.key: "spark", EXECUTION_MODE.key: "micro-batch"}
)
BATCH_ON_MINI_CLUSTER = JobMode(
    "batch on MiniCluster", {EXECUTION_TARGET.key: "mini-cluster", RUNTIME_MODE.key: "batch"}
)
BATCH_ON_SPARK = JobMode("batch on Spark", {EXECUTION_TARGET.key: "spark", RUNTIME_MODE.key: "batch"})
CONTINUOUS_MODES = (CONTINUOUS_ON_MINI_CLUSTER, CONTINUOUS_ON_SPARK)
STREAMING_MODES = (*CONTINUOUS_MODES, MICRO_BATCH_ON_MINI_CLUSTER, MICRO_BATCH_ON_SPARK)
"""Those that also run jobs without end, and emit results before they are final."""
ALL_MODES = (*STREAMING_MODES, BATCH_ON_MINI_CLUSTER, BATCH_ON_SPARK)
"""Every kind of execution that there is; the first is what the others are compared with."""


@dataclass(frozen=True)
class JobResult:
    """A job that has finished."""

    outputs: Sequence[list[Any]]
    """Records of each stream that was returned, in order of arrival at each subtask, subtask by subtask. Exactly once:
    records that a failed attempt had not committed are not there.
    """
    status: JobStatusSnapshot

    @property
    def values(self) -> list[Any]:
        """Return the records of the only stream.

        Raises:
            ValueError: none was returned, or several were.
        """
        if len(self.outputs) != 1:
            raise ValueError(f"the job has returned {len(self.outputs)} streams: use outputs[i]")
        return self.outputs[0]

    @property
    def restarts(self) -> int:
        """Return how often the job was restarted."""
        return self.status.restarts

    @property
    def failures(self) -> list[str]:
        """Return the reason of each restart, oldest first, in one line."""
        return [entry.cause.message for entry in self.status.exceptions]

    @property
    def accumulators(self) -> dict[str, Any]:
        """Return the accumulators by name; see `RuntimeContext.add_accumulator`."""
        return execution_result(self.status).get_all_accumulator_results()


def run_job(
    build: BuildJob,
    *,
    parallelism: int = 1,
    mode: JobMode = CONTINUOUS_ON_MINI_CLUSTER,
    options: Mapping[str, str] | None = None,
    timeout_s: float = 60.0,
    clock: Clock | None = None,
    directory: Path | None = None,
) -> JobResult:
    """Run a job to its end.

    Args:
        build: writes the job, without executing it.
        parallelism: of operators that set none.
        mode: how to run it.
        options: of the job, such as its restart strategy; they go before the mode's.
        timeout_s: seconds of real time that it may take; it is cancelled then.
        clock: of a MiniCluster; `SYSTEM_CLOCK` for a job that waits for something outside. None: a ManualClock.
        directory: for what is collected, on a file system that all slots share. None: a temporary one of this machine.

    Raises:
        GraphError, DataStreamError: the job cannot run as it is.
        JobExecutionError: it failed; the message is the first cause.
        TimeoutError: it did not end in time.
    """
    settings = {PARALLELISM_DEFAULT.key: str(parallelism), **mode.options, **(options or {})}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    # a slot that does not end in time may still write into the directory while it is removed
    with tempfile.TemporaryDirectory(prefix="tidemark-run-job-", dir=directory, ignore_cleanup_errors=True) as own:
        made = build(env)
        streams = [] if made is None else [made] if isinstance(made, DataStream) else list(made)
        places = [Path(own) / str(index) for index in range(len(streams))]
        for stream, place in zip(streams, places, strict=True):
            stream.sink_to(CollectingSink(place)).name("Collect")
        status = _run(env, timeout_s, ManualClock(START_MS) if clock is None else clock)
        return JobResult([collected_records(place) for place in places], status)


def _run(env: StreamExecutionEnvironment, timeout_s: float, clock: Clock) -> JobStatusSnapshot:
    handle = env.execute_async("test job", clock=clock).handle
    try:
        return handle.wait(timeout_s)
    except BaseException as error:
        if handle.result.done():
            raise
        # out of time, or Ctrl-C: leave nothing running
        status = handle.status()
        handle.cancel()
        with suppress(JobExecutionError, TimeoutError):
            handle.wait(_CANCEL_TIMEOUT_S)
        if isinstance(error, TimeoutError):
            tasks = ", ".join(f"{task.name} {task.state.name}" for task in status.tasks) or "none deployed"
            raise TimeoutError(
                f"the job has not ended within {timeout_s:g} s; it was {status.state.name}, its tasks: {tasks}"
            ) from None
        raise
