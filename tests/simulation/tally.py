"""Totals of many runs: faults by point, points passed, and checks made."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.simulation.faults import Action, Point
from tests.simulation.scenario import Barriers
from tests.simulation.simulate import Verdict


@dataclass
class Tally:
    """Sums over runs; can be sent between processes and added up."""

    num_runs: int = 0
    #: by barriers and state backend
    modes: Counter[tuple[Barriers, str]] = field(default_factory=Counter)
    #: seeds that failed
    failed: list[int] = field(default_factory=list)
    #: how often each point was passed
    passed: Counter[Point] = field(default_factory=Counter)
    #: faults that happened, by what went wrong
    actions: Counter[Action] = field(default_factory=Counter)
    #: and by where
    points: Counter[Point] = field(default_factory=Counter)
    #: whatever else is counted, by what it is
    others: Counter[str] = field(default_factory=Counter)

    def add(self, verdict: Verdict) -> None:
        """Count a run."""
        world = verdict.world
        self.num_runs += 1
        self.modes[verdict.scenario.barriers, verdict.scenario.backend] += 1
        self.failed += [verdict.scenario.seed] if verdict.violations else []
        self.passed += world.passed
        self.actions += Counter(fault.action for fault in world.happened)
        self.points += Counter(fault.point for fault in world.happened)
        # not +=, which leaves out what has never happened
        self.others.update(
            {
                "second failures during recovery": world.num_second_failures,
                "resumed behind a suspension": world.resumed[False],
                "resumed behind a drain": world.resumed[True],
                "checkpoints that the storage made fail": len(world.failed_checkpoints),
                "operations refused of a restore": world.files.num_refused["restore"],
                "operations refused of a take-over": world.files.num_refused["take-over"],
                "acknowledged between slices of timers": world.num_between_timers,
                "looks at what is visible": world.reader.num_reads,
                "attempts": int(world.last_attempt) + 1,
            }
        )

    def merge(self, other: Tally) -> None:
        """Add another one."""
        self.num_runs += other.num_runs
        self.modes += other.modes
        self.failed += other.failed
        self.passed += other.passed
        self.actions += other.actions
        self.points += other.points
        self.others.update(other.others)

    def __str__(self) -> str:
        lines = [f"{self.num_runs} runs, {self.actions.total()} faults, violations={len(self.failed)}"]
        lines += [f"  {barriers.name}, {backend}: {count}" for (barriers, backend), count in self.modes.most_common()]
        lines += [f"  {action.name}: {count}" for action, count in self.actions.most_common()]
        lines += [
            f"  at {point.name}: {count} of {self.passed[point]} passages" for point, count in _sorted(self.points)
        ]
        lines += [f"  {what}: {count}" for what, count in self.others.items()]
        return "\n".join([*lines, *([f"  failed: {self.failed}"] if self.failed else [])])


def _sorted(points: Counter[Point]) -> list[tuple[Point, int]]:
    return [(point, points[point]) for point in Point]
