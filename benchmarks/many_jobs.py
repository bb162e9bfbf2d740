"""Many small jobs on one session cluster: what each costs the jobmanager, and how long a reader of all of them waits.

Run as `python -m benchmarks.many_jobs [--jobs 40]`, on a machine that does nothing else. Every job has one slot, reads
twenty records a second and takes a checkpoint every other second. The jobmanager's CPU time is taken over a minute with
all jobs at work, and over another one with jobs that read nothing and take no checkpoints; that of a cluster without
jobs, measured first, is taken off. Exit code 1: a limit is passed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import psutil

from tests.cluster.stack import Stack, running_stack
from tests.support.waiting import wait_until

PROGRAM: Final = Path(__file__).with_name("small_job.py")
MEASURED_S: Final = 60.0
SETTLED_S: Final = 20.0
"""After the last change, before anything is measured."""
START_S: Final = 900.0
READS: Final = 100
IDLE_SHARE: Final = 0.002
"""Of a core, for each job that does nothing."""
OVERVIEW_MS: Final = 30.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=40)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        environment = {"TIDEMARK_SLOTS": str(options.jobs), "TIDEMARK_JOBS_PER_USER": "0"}
        with running_stack(Path(directory) / "home", **environment) as stack:
            for demonstration in stack.client.jobs():
                stack.client.cancel(demonstration["jid"])
            wait_until(lambda: not _running(stack), START_S, "the demonstration's job is canceled")
            alone = share_of_core(stack)
            program = stack.client.upload(PROGRAM)
            idle, submitted = measure(stack, program, options.jobs, ["--idle"], {})
            busy, _ = measure(stack, program, options.jobs, [], {"execution.checkpointing.interval": "2 s"})
    print(f"{options.jobs} jobs; a cluster without one takes {alone:.1%} of a core for its jobmanager")
    idle_share = (idle["share"] - alone) / options.jobs
    print(f"an idle job   {idle_share:8.3%} of a core (limit {IDLE_SHARE:.1%})")
    print(f"one at work   {(busy['share'] - alone) / options.jobs:8.3%} of a core")
    print(f"overview      {busy['overview_ms']:8.1f} ms, p95 of {READS} (limit {OVERVIEW_MS:.0f} ms)")
    print(f"a submission  {submitted:8.2f} s, median")
    return int(idle_share > IDLE_SHARE or busy["overview_ms"] > OVERVIEW_MS)


def measure(
    stack: Stack, program: str, jobs: int, arguments: list[str], configuration: dict[str, str]
) -> tuple[dict[str, float], float]:
    """Run so many jobs, and return what they cost with the median duration of a submission, s; they are canceled."""
    durations = []
    for _ in range(jobs):
        begun = time.monotonic()
        stack.client.run(program, arguments, configuration, 1, None, None)
        durations.append(time.monotonic() - begun)
    wait_until(lambda: len(_running(stack)) == jobs, START_S, "all jobs run")
    share = share_of_core(stack)
    reads = []
    for _ in range(READS):
        begun = time.monotonic()
        stack.client.jobs()
        reads.append((time.monotonic() - begun) * 1e3)
    running = _running(stack)
    assert len(running) == jobs, "a job has ended, or restarts"
    for job in running:
        stack.client.cancel(job["jid"])
    wait_until(lambda: not _running(stack), START_S, "all jobs are canceled")
    overview_ms = statistics.quantiles(reads, n=20)[-1]
    return {"share": share, "overview_ms": overview_ms}, statistics.median(durations)


def share_of_core(stack: Stack) -> float:
    """Return the share of a core that the jobmanager takes, its children among them."""
    time.sleep(SETTLED_S)
    jobmanager = psutil.Process(stack.pid_of("jobmanager"))
    before = _cpu_seconds(jobmanager)
    time.sleep(MEASURED_S)
    return (_cpu_seconds(jobmanager) - before) / MEASURED_S


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def _running(stack: Stack) -> list[dict[str, Any]]:
    return [job for job in stack.client.jobs() if job["state"] == "RUNNING"]


if __name__ == "__main__":
    sys.exit(main())
