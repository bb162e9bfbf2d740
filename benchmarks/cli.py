"""`make bench`, or `python -m benchmarks [WORK…]`: measure some or all workloads, print a table, write a JSON file.

WORK is the beginning of a workload's name (`ndjson`, `nexmark q5`, `state`); `--list` lists all. Results that differ
from the reference's end the run with exit code 1: a fast wrong answer is not a measurement.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import report
from benchmarks.engine import warm_up
from benchmarks.measure import Measured, Options, Work, WrongResultError, measure, say
from benchmarks.reference.processes import warm_pools
from benchmarks.works.bids import bid_works
from benchmarks.works.checkpoints import checkpoint_works
from benchmarks.works.columns import column_works
from benchmarks.works.latency import latency_works
from benchmarks.works.nexmark import nexmark_works
from benchmarks.works.peers import peer_works
from benchmarks.works.programs import program_works
from benchmarks.works.scaling import scaling_works
from benchmarks.works.state import state_works
from benchmarks.works.timers import timer_works

DEFAULT_DIRECTORY = Path(".tidemark") / "bench"


def all_works(options: Options) -> list[Work]:
    """Return every workload, in the order in which they run."""
    makers = (
        *(bid_works, column_works, nexmark_works, state_works, timer_works),
        *(latency_works, program_works, scaling_works, checkpoint_works, peer_works),
    )
    return [work for make in makers for work in make(options)]


def chosen(works: Sequence[Work], names: Sequence[str]) -> list[Work]:
    """Return the workloads whose names begin with the words of one of `names`; all if `names` is empty.

    Raises:
        ValueError: no workload has such a name.
    """
    for name in names:
        if not any(_is_called(work, name) for work in works):
            raise ValueError(f"there is no work {name!r}; there are: {', '.join(work.name for work in works)}")
    return [work for work in works if not names or any(_is_called(work, name) for name in names)]


def _is_called(work: Work, name: str) -> bool:
    return f"{work.name} ".startswith(f"{name} ")


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("works", nargs="*", metavar="WORK", help="beginnings of names; none: all works")
    parser.add_argument("--list", action="store_true", help="name the works and end")
    parser.add_argument("--repeats", type=int, default=5, help="rounds; medians count (default: 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the sizes (default: 1)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one round: does it run, do results agree?")
    parser.add_argument("--slots", type=int, default=2, help="slots, and processes of the loops (default: 2)")
    parser.add_argument("--execution", choices=["spark", "mini-cluster"], default="spark")
    parser.add_argument("--directory", type=Path, default=DEFAULT_DIRECTORY, help="for generated data")
    parser.add_argument("--output", type=Path, help="the JSON file (default: results.json in the directory)")
    parser.add_argument("--peers", action="store_true", help="beside other engines too")
    parser.add_argument(
        "--flink-python",
        default=os.environ.get("TIDEMARK_BENCH_FLINK_PYTHON"),
        metavar="PATH",
        help="an interpreter with apache-flink, for --peers (default: $TIDEMARK_BENCH_FLINK_PYTHON)",
    )
    parser.add_argument(
        "--bytewax-python",
        default=os.environ.get("TIDEMARK_BENCH_BYTEWAX_PYTHON"),
        metavar="PATH",
        help="an interpreter with bytewax, for --peers (default: $TIDEMARK_BENCH_BYTEWAX_PYTHON)",
    )
    return parser


def run(works: Sequence[Work], options: Options) -> list[Measured]:
    """Measure workloads one after the other.

    Raises:
        WrongResultError: see `measure`.
    """
    warm_up(options.slots, options.execution)
    warm_pools(options.slots)
    return [measure(work, options.repeats) for work in works]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    given = parser().parse_args(arguments)
    options = Options(
        directory=given.directory.resolve(),
        slots=given.slots,
        execution=given.execution,
        repeats=1 if given.quick else given.repeats,
        scale=given.scale,
        quick=given.quick,
        peers=given.peers,
        flink_python=given.flink_python,
        bytewax_python=given.bytewax_python,
    )
    try:
        works = chosen(all_works(options), given.works)
    except ValueError as error:
        say(f"bench: {error}")
        return 2
    if given.list:
        print("\n".join(f"{work.name:28} {work.text}" for work in works))
        return 0
    machine = report.machine()
    try:
        measured = run(works, options)
    except WrongResultError as error:
        say(f"bench: wrong result: {error}")
        return 1
    path: Path = given.output or options.directory / "results.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report.document(machine, options, measured), indent=2) + "\n", encoding="utf-8")
    print(report.table(measured, with_targets=not options.quick))
    say(f"written: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
