"""`python -m tests.chaos --faults N --seed S`: a job on Spark under N random faults; nothing may be lost or come twice.

Prints each fault with how long it took, then the tally by kind, recovery times, and last `violations=N`; the exit code
is 0 only for none. The same seed gives the same faults in the same order; when they strike is up to the machine. The
job of an even seed has two regions.

`--leaders` has leaders of a session cluster killed and frozen instead; see `leaders`.
"""

from __future__ import annotations

import argparse
import math
import signal
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence

from benchmarks.recovery import quantile
from tests.chaos.faults import FAULTS, Fault, inject
from tests.chaos.kafka_topic import KafkaTopic
from tests.chaos.leaders import lose_leaders
from tests.chaos.postgres import PostgresServer
from tests.chaos.runner import ChaosRun, Recovery, Report, StalledError
from tests.chaos.verify import tally_of


def schedule(run: ChaosRun, count: int, only: str) -> list[Fault]:
    """Faults of a run: each kind once before any comes twice, as far as they reach, in random order."""
    possible = [fault for fault in FAULTS if fault.is_possible(run) and only in fault.name]
    planned: list[Fault] = []
    while len(planned) < count:
        round_of = [fault for fault in possible for _ in range(1 if not planned else fault.weight)]
        run.random.shuffle(round_of)
        planned += round_of
    return planned[:count]


def _print_recoveries(recoveries: Sequence[Recovery]) -> None:
    by_kind: defaultdict[str, list[float]] = defaultdict(list)
    for recovery in recoveries:
        by_kind[recovery.fault].append(recovery.output_s)
    struck = Counter(recovery.fault for recovery in recoveries)
    for fault in FAULTS:
        if fault.name in struck:
            times = by_kind[fault.name]
            longest = f"output after {max(times):5.1f} s at most"
            print(f"{fault.matrix:4} {fault.name:56} {struck[fault.name]:3} times   {longest}")
    for what, times in (
        ("first record", [r.first_record_s for r in recoveries if r.first_record_s is not None]),
        ("new output", [r.output_s for r in recoveries]),
    ):
        if times:
            print(f"{what}: p50 {statistics.median(times):.1f} s, p95 {quantile(times, 0.95):.1f} s, of {len(times)}")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--faults", type=int, default=100, metavar="N")
    parser.add_argument("--seed", type=int, default=7, metavar="S")
    parser.add_argument("--only", default="", metavar="TEXT", help="faults with that text in their names")
    parser.add_argument("--minutes", type=float, default=math.inf, metavar="M", help="no fault begins later than that")
    parser.add_argument("--no-postgres", action="store_true", help="without a table")
    parser.add_argument("--no-kafka", action="store_true", help="without a topic")
    parser.add_argument("--leaders", action="store_true", help="kill and freeze the leaders of a session cluster")
    given = parser.parse_args(arguments)
    # whoever ends the run ends what it has started, too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    if given.leaders:
        leaders = lose_leaders(given.faults, given.seed, given.only, _log, 60 * given.minutes)
        print("", *leaders.lines(), sep="\n", flush=True)
        return 1 if leaders.violations else 0
    with_postgres = not given.no_postgres and PostgresServer.is_installed()
    # of the two protocols of transactions, by turns
    kafka = 1 + given.seed // 2 % 2 if KafkaTopic.is_installed() and not given.no_kafka else None
    regions = 2 if given.seed % 2 == 0 else 1
    run = ChaosRun(
        given.seed,
        with_postgres=with_postgres,
        kafka=kafka,
        regions=regions,
        vary=True,
        log=_log,
    )
    report = _run(run, schedule(run, given.faults, given.only), 60 * given.minutes)
    print()
    _print_recoveries(report.recoveries)
    print(f"{len(report.recoveries)} faults, {report.restarts} restarts, {report.rows} records, seed {given.seed}")
    sinks = ["files", *(["PostgreSQL"] if with_postgres else []), *([] if kafka is None else [f"Kafka (v{kafka})"])]
    print(f"regions: {regions}; sinks: {', '.join(sinks)}")
    print(f"messages of older attempts that were refused: {report.refused}")
    for note in Counter(report.notes).items():
        print(f"note: {note[0]} ({note[1]} times)")
    for violation in report.violations[:50]:
        print(f"VIOLATION {violation}")
    print(f"by kind: {tally_of(report.violations)}")
    print(f"violations={len(report.violations)}")
    return 1 if report.violations else 0


def _log(text: str) -> None:
    print(text, flush=True)


def _run(run: ChaosRun, faults: Sequence[Fault], limit_s: float) -> Report:
    begun = time.monotonic()
    try:
        run.start()
        for number, fault in enumerate(faults, 1):
            started = time.monotonic()
            if started - begun > limit_s:
                break
            print(f"{number:3} {fault.matrix:4} {fault.name}", flush=True)
            inject(run, fault)
            run.log(f"      {time.monotonic() - started:.1f} s")
    except StalledError as error:
        run.report.violations.append(f"stalled: {error}")
        run.close()
        return run.report
    except BaseException:
        run.close()
        raise
    return run.finish()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
