"""Runs one scenario and judges it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation.oracle import check_rows, check_state, expected_of
from tests.simulation.scenario import Scenario, scenario_of
from tests.simulation.workload import job
from tests.simulation.world import World


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run ended."""

    scenario: Scenario
    violations: tuple[str, ...]
    """Empty: all is well."""
    world: World

    def report(self) -> str:
        """For people: what was simulated, what happened, what was wrong."""
        happened = "\n".join(f"    {fault}" for fault in self.world.happened) or "    nothing"
        story = "\n".join(f"  {line}" for line in self.world.story)
        wrong = "\n".join(f"  {violation}" for violation in self.violations) or "  nothing"
        return f"{self.scenario}\n  happened:\n{happened}\nstory:\n{story}\nwrong:\n{wrong}"


def simulate(scenario: Scenario, trace: Callable[[str], None] | None = None) -> Verdict:
    """Run a scenario.

    Args:
        scenario: what runs and what goes wrong.
        trace: takes each line of the story as it happens.
    """
    world = World(scenario, trace)
    world.graph = job(scenario, str(world.directory))
    try:
        world.run()
    except Exception:
        # the one seed that breaks must not hide the others
        world.violations.append(f"the run ended with an error:\n{traceback.format_exc()}")
    violations = [*world.violations, *world.database.violations]
    rows = world.reader.rows()
    expected = expected_of(rows, world.has_drained)
    violations += check_rows(rows, expected, scenario.is_exactly_once, world.has_drained)
    if not world.violations:
        files, root, job_id = world.files.at_last_record, world.files.root, world.graph.job_id
        violations += check_state(files, root, job_id, expected, scenario.is_exactly_once_inside)
    return Verdict(scenario, tuple(violations), world)


def story_of(seed: int) -> str:
    """What happens in the run of a seed, line by line."""
    lines: list[str] = []
    simulate(scenario_of(seed), lines.append)
    return "\n".join(lines)
