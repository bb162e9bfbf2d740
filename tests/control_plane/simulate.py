"""Runs one scenario of the control plane and judges it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.control_plane.scenario import Scenario
from tests.control_plane.world import World


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a run."""

    scenario: Scenario
    violations: tuple[str, ...]
    """Empty: all is well."""
    world: World

    def report(self) -> str:
        """For people: what was simulated, what happened, what was wrong."""
        story = "\n".join(f"  {line}" for line in self.world.story)
        wrong = "\n".join(f"  {violation}" for violation in self.violations) or "  nothing"
        return f"{self.scenario}\nstory:\n{story}\nwrong:\n{wrong}"


def simulate(scenario: Scenario, trace: Callable[[str], None] | None = None) -> Verdict:
    """Run a scenario; Django has an empty database in memory.

    Args:
        scenario: what runs and what goes wrong.
        trace: takes each line of the story as it happens.
    """
    world = World(scenario, trace)
    world.run()
    return Verdict(scenario, tuple(world.violations), world)


def check(verdict: Verdict) -> None:
    """Tell the whole story of a run if anything is wrong with it.

    Raises:
        AssertionError: something is.
    """
    assert not verdict.violations, verdict.report()
