"""Runs simulations by hand: `python -m tests.simulation --seed 17 --trace`, or `--seeds 0 1000` for many.

A run that failed in a test is repeated by its seed.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time

from tests.simulation.scenario import scenario_of
from tests.simulation.simulate import simulate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, action="append", help="run this one and tell all about it")
    parser.add_argument("--seeds", type=int, nargs=2, metavar=("FIRST", "STOP"), help="run many, tell what fails")
    parser.add_argument("--backend", choices=["hashmap", "rocksdb"], default="hashmap")
    parser.add_argument("--trace", action="store_true", help="print what happens as it happens")
    parser.add_argument("--without-faults", action="store_true", help="leave the seed's faults out")
    arguments = parser.parse_args()
    many = range(*arguments.seeds) if arguments.seeds else ()
    failed: list[int] = []
    started = time.monotonic()
    for seed in (*(arguments.seed or ()), *many):
        scenario = scenario_of(seed, arguments.backend)
        if arguments.without_faults:
            scenario = dataclasses.replace(scenario, faults=())
        verdict = simulate(scenario, print if arguments.trace else None)
        if arguments.seed:
            print(verdict.report())
        elif verdict.violations:
            print(f"seed {seed}: {verdict.violations[0][:300]}")
        failed += [seed] if verdict.violations else []
    count = len(arguments.seed or ()) + len(many)
    print(f"{count} runs in {time.monotonic() - started:.1f} s, {len(failed)} failed: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
