"""`make bench`: two jobs over 5 million generated bids, beside reference loops over the same file in the same run.

Prints a table, and writes docs/performance.md and docs/performance.json for a run of the full size. A result that
differs from the reference's ends the run with exit code 1: a fast wrong answer is not a measurement.

    python -m benchmarks.bench [--rows 5000000] [--slots 2] [--execution spark]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import polars as pl

from benchmarks import jobs, reference, report
from benchmarks.bids import bids_file
from benchmarks.report import Measurement
from runtime.datastream import StreamExecutionEnvironment

ROOT = Path(__file__).resolve().parent.parent
FULL_ROWS = 5_000_000
WARM_UP_ROWS = 10_000
CASES: dict[str, Callable[[StreamExecutionEnvironment, Path, Path], None]] = {
    "filter": jobs.define_filter,
    "count": jobs.define_count,
}


class JobRun(NamedTuple):
    """One run of a job."""

    net_seconds: float
    start_seconds: float
    """What `execute` took beside the net runtime."""
    records_out: int
    """What the job itself says that its result's sink has taken."""


def run_job(case: str, bids: Path, output: Path, slots: int, execution: str) -> JobRun:
    """Run one job to its end."""
    shutil.rmtree(output, ignore_errors=True)
    env = jobs.environment(slots, execution)
    CASES[case](env, bids, output)
    started = time.monotonic()
    client = env.execute_async(f"bench {case}")
    net = client.get_job_execution_result().result().get_net_runtime() / 1000.0
    elapsed = time.monotonic() - started
    suffix = f"{jobs.RESULT}.numRecordsOut"
    counters = [
        value for task in client.get_status().tasks for name, value in task.metrics.items() if name.endswith(suffix)
    ]
    return JobRun(net, elapsed - net, sum(int(str(value)) for value in counters))


def read_output(output: Path) -> pl.DataFrame:
    """Everything that a job has written; without columns if that is nothing."""
    parts = sorted(output.rglob("part-*"))
    return pl.concat([pl.read_ndjson(part) for part in parts]) if parts else pl.DataFrame()


def check(case: str, records_out: int, output: pl.DataFrame, expected: reference.Outcome) -> None:
    """Compare what a job wrote, and how many records it says that it emitted, with a loop's result.

    Raises:
        SystemExit: they differ.
    """
    if case == "filter":
        same = output.height == expected.rows_out
    else:
        same = Counter(dict(output.select("auction", "count").iter_rows())) == expected.counts
    if not same or records_out != expected.rows_out:
        sys.exit(
            f"bench: {case}: the job's result ({records_out:,} records) is not the reference's ({expected.rows_out:,})"
        )


def measure_case(case: str, bids: Path, rows: int, slots: int, execution: str, directory: Path) -> list[Measurement]:
    """The engine and both loops over the same file, one after the other."""
    print(f"{case}: tidemark", file=sys.stderr, flush=True)
    run = run_job(case, bids, directory / case, slots, execution)
    measurements = []
    for loop in ("python", "polars"):
        print(f"{case}: {loop}", file=sys.stderr, flush=True)
        outcome = reference.run(case, loop, bids, slots)
        if outcome.rows_in != rows:
            sys.exit(f"bench: {case}: the {loop} loop read {outcome.rows_in:,} of {rows:,} rows")
        check(case, run.records_out, read_output(directory / case), outcome)
        measurements.append(Measurement(case, loop, rows, outcome.rows_out, outcome.seconds))
    return [Measurement(case, "tidemark", rows, run.records_out, run.net_seconds, run.start_seconds), *measurements]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure Tidemark beside reference loops.")
    parser.add_argument("--rows", type=int, default=FULL_ROWS)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--execution", choices=["spark", "mini-cluster"], default="spark")
    parser.add_argument("--directory", type=Path, default=ROOT / ".tidemark" / "bench", help="for data and results")
    options = parser.parse_args(arguments)
    directory: Path = options.directory.resolve()

    print(f"bids: {options.rows:,}", file=sys.stderr, flush=True)
    bids = bids_file(directory, options.rows, options.seed)
    # the first job of a process also pays for the start of the JVM
    run_job("filter", bids_file(directory, WARM_UP_ROWS, options.seed), directory / "warm-up", 1, options.execution)
    measurements: list[Measurement] = []
    for case in CASES:
        measurements += measure_case(case, bids, options.rows, options.slots, options.execution, directory)

    run = report.document(measurements, options.rows, options.slots, options.execution)
    target = ROOT / "docs" if options.rows >= FULL_ROWS else directory
    (target / "performance.json").write_text(json.dumps(run, indent=2) + "\n", encoding="utf-8")
    (target / "performance.md").write_text(report.page(run, measurements), encoding="utf-8")
    print(report.table(measurements))
    print(f"\nwritten: {target / 'performance.md'}", file=sys.stderr)


if __name__ == "__main__":
    main()
