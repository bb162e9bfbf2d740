"""Workloads and contestants: runs all contestants of a workload in turn, and compares their results.

The contestants run in turn for the requested number of rounds, so that a slow minute of the machine hits all of them;
medians count. A result that differs from the reference's is an error: a fast wrong answer is not a measurement.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.digest import Digest
from benchmarks.reference.processes import Timed

TIDEMARK = "tidemark"
CPU = "cpu_seconds"
"""Name of a further figure of most outcomes: CPU time of all processes at work, s."""


class WrongResultError(Exception):
    """A contestant's result differs from the reference's."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of all workloads."""

    directory: Path
    """Directory for generated data and for the output of jobs."""
    slots: int
    execution: str
    """spark | mini-cluster"""
    repeats: int
    scale: float
    """Factor of all sizes; docs/performance.md describes 1."""
    quick: bool = False
    """Everything as small as possible: only checks that all runs and results agree."""
    peers: bool = False
    flink_python: str | None = None
    """An interpreter with apache-flink; None = skip that peer."""
    bytewax_python: str | None = None
    """An interpreter with bytewax; None = skip that peer."""

    def rows(self, full: int, quick: int) -> int:
        """Return the number of records of a workload that has `full` of them at scale 1."""
        return quick if self.quick else max(quick, int(full * self.scale))


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one run of one contestant."""

    seconds: float
    rows_in: int
    result: Digest | Any
    """Must equal the reference's; None = nothing to compare."""
    beside_seconds: float = 0.0
    """Time for starting and stopping, which is not in `seconds`."""
    details: Mapping[str, float] = field(default_factory=dict)
    """Further figures: latencies in ms, for example."""

    @property
    def rows_per_second(self) -> float:
        return self.rows_in / self.seconds


Run = Callable[[], Outcome]


def looped(timed: Timed, rows: int) -> Outcome:
    """The outcome of a reference loop."""
    return Outcome(timed.seconds, rows, timed.result, details={CPU: timed.cpu_seconds})


@dataclass(frozen=True, slots=True)
class Target:
    """Figure that has to be reached."""

    subject: str
    """The contestant to judge."""
    against: str
    """The contestant to compare with; "" = none."""
    at_least: float | None = None
    at_most: float | None = None
    figure: str = "ratio"
    """"ratio" of rows per second, "rows_per_second", or a name of `Outcome.details`."""
    per_slot: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """A workload of several contestants."""

    name: str
    text: str
    """Description in one line."""
    contestants: Mapping[str, Run]
    """By name; the first one is the reference for results."""
    targets: Sequence[Target] = ()
    compared: bool = True
    repeats: int | None = None
    """None: the requested number."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target and the measured figure."""

    target: Target
    measured: float

    @property
    def reached(self) -> bool:
        target = self.target
        return (target.at_least is None or self.measured >= target.at_least) and (
            target.at_most is None or self.measured <= target.at_most
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """All runs of a workload."""

    work: Work
    outcomes: Mapping[str, Sequence[Outcome]]

    def median_seconds(self, contestant: str) -> float:
        return statistics.median(outcome.seconds for outcome in self.outcomes[contestant])

    def rows_per_second(self, contestant: str) -> float:
        """Return the rows per second of the median run."""
        return self.outcomes[contestant][0].rows_in / self.median_seconds(contestant)

    def ratio(self, contestant: str, against: str) -> float:
        """Return how many times as fast one contestant is as another."""
        return self.rows_per_second(contestant) / self.rows_per_second(against)

    def detail(self, contestant: str, name: str) -> float:
        """Return the median of a further figure."""
        return statistics.median(outcome.details[name] for outcome in self.outcomes[contestant])

    def verdicts(self) -> list[Verdict]:
        """Return each target with its figure, without those of contestants that did not take part."""
        found = []
        for target in self.work.targets:
            if target.subject not in self.outcomes or (target.against and target.against not in self.outcomes):
                continue
            if target.figure == "ratio":
                measured = self.ratio(target.subject, target.against)
            elif target.figure == "rows_per_second":
                measured = self.rows_per_second(target.subject)
            else:
                measured = self.detail(target.subject, target.figure)
            found.append(Verdict(target, measured))
        return found


def measure(work: Work, repeats: int) -> Measured:
    """Run all contestants of a workload in turn, and compare their results.

    Raises:
        WrongResultError: two contestants, or two runs of one, do not agree.
    """
    outcomes: dict[str, list[Outcome]] = {name: [] for name in work.contestants}
    rounds = work.repeats or repeats
    for number in range(rounds):
        for name, run in work.contestants.items():
            outcome = run()
            outcomes[name].append(outcome)
            rate = f"{outcome.seconds:8.2f} s {outcome.rows_per_second:14,.0f}/s"
            say(f"{work.name:28} {name:18} {number + 1}/{rounds} {rate}")
    if work.compared:
        check_agreement(work.name, {name: [o.result for o in found] for name, found in outcomes.items()})
    return Measured(work, outcomes)


def check_agreement(work: str, results: Mapping[str, Sequence[Any]]) -> None:
    """Compare all results with the first contestant's first one.

    Raises:
        WrongResultError: one differs.
    """
    reference, *_ = results
    expected = results[reference][0]
    for name, found in results.items():
        for result in found:
            if result != expected:
                raise WrongResultError(f"{work}: {name} found {result!r:.300}, {reference} {expected!r:.300}")


def say(line: str) -> None:
    """Print progress to stderr; stdout is for the table."""
    print(line, file=sys.stderr, flush=True)
