"""Runs simulations by hand: `python -m tests.simulation --seed 17 --trace`, or `--seeds 0 1000` for many.

A run that failed in a test is repeated by its seed.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import sys
import time
from functools import partial

from tests.simulation.passes import pass_scenario_of
from tests.simulation.regions import region_scenario_of, simulate_regions
from tests.simulation.scenario import scenario_of
from tests.simulation.simulate import simulate
from tests.simulation.tally import Tally

TOLD_EVERY = 500
#: of a violation: enough for a traceback
_TOLD_CHARACTERS = 6_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, action="append", help="run this one and tell all about it")
    parser.add_argument("--seeds", type=int, nargs=2, metavar=("FIRST", "STOP"), help="run many, tell what fails")
    parser.add_argument("--backend", choices=["hashmap", "rocksdb"], default="hashmap")
    parser.add_argument("--regions", action="store_true", help="run a job of two regions")
    parser.add_argument("--passes", action="store_true", help="run a job in micro-batches")
    parser.add_argument("--trace", action="store_true", help="print what happens as it happens")
    parser.add_argument("--without-faults", action="store_true", help="leave the seed's faults out")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    many = range(*arguments.seeds) if arguments.seeds else ()
    tally = Tally()
    make = region_scenario_of if arguments.regions else pass_scenario_of if arguments.passes else scenario_of
    # workers take what is printed for output of the job
    trace = partial(print, file=sys.stdout) if arguments.trace else None
    started_s = time.process_time()
    for seed in (*(arguments.seed or ()), *many):
        scenario = make(seed, arguments.backend)
        if arguments.without_faults:
            scenario = dataclasses.replace(scenario, faults=())
        verdict = (simulate_regions if arguments.regions else simulate)(scenario, trace)
        tally.add(verdict)
        if arguments.seed:
            print(verdict.report())
        elif verdict.violations:
            print(f"seed {seed}: {verdict.violations[0][:_TOLD_CHARACTERS]}", flush=True)
        if tally.num_runs % TOLD_EVERY == 0:
            print(f"{arguments.backend}, {time.process_time() - started_s:.0f} s CPU: {tally}", flush=True)
    print(f"{arguments.backend}, {time.process_time() - started_s:.0f} s CPU: {tally}")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
