"""Runs simulations of the control plane by hand: `python -m tests.control_plane --seed 17 --trace`, or `--seeds 0 99`.

A run that failed in a test is repeated by its seed.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter

from tests.control_plane import in_memory

#: of a violation: enough for a traceback
_TOLD_CHARACTERS = 4_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.control_plane", description=__doc__)
    parser.add_argument("--seed", type=int, action="append", help="run this one and tell all about it")
    parser.add_argument("--seeds", type=int, nargs=2, metavar=("FIRST", "STOP"), help="run many, tell what fails")
    parser.add_argument("--trace", action="store_true", help="print what happens as it happens")
    parser.add_argument("--without-faults", action="store_true", help="leave the seed's faults out")
    parser.add_argument("--logs", action="store_true", help="print what the cluster logs")
    arguments = parser.parse_args()
    in_memory.set_up()
    # they need Django to be set up
    from tests.control_plane.scenario import scenario_of, without_faults
    from tests.control_plane.simulate import simulate

    if not arguments.logs:
        logging.disable(logging.CRITICAL)
    started_s, failed, found = time.process_time(), 0, Counter[str]()
    seeds = [*(arguments.seed or ()), *range(*arguments.seeds or (0, 0))]
    for seed in seeds:
        scenario = scenario_of(seed)
        if arguments.without_faults:
            scenario = without_faults(scenario)
        verdict = simulate(scenario, print if arguments.trace else None)
        failed += bool(verdict.violations)
        found.update({violation.partition(":")[0] for violation in verdict.violations})
        if arguments.seed:
            print(verdict.report())
        elif verdict.violations:
            print(f"seed {seed}: {verdict.violations[0][:_TOLD_CHARACTERS]}", flush=True)
    took_s = time.process_time() - started_s
    print(f"{len(seeds)} seeds, {failed} fail, {took_s:.1f} s CPU: {dict(found)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
