"""Runs one scenario and judges it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.state.handles import DamagedSnapshotError
from tests.simulation.damage import Output
from tests.simulation.oracle import EXPECTED, Model, check_rows, check_state, read_by
from tests.simulation.scenario import Scenario, scenario_of
from tests.simulation.workload import job
from tests.simulation.world import World


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcome of a run."""

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


def simulate(
    scenario: Scenario, trace: Callable[[str], None] | None = None, watch: Callable[[World], None] | None = None
) -> Verdict:
    """Run a scenario.

    Args:
        scenario: what runs and what goes wrong.
        trace: takes each line of the story as it happens.
        watch: looks on before each turn, and may bring something about.
    """
    world = World(scenario, trace)
    world.watch = watch or world.watch
    world.graph = job(scenario, str(world.directory))
    run(world)
    expected, wrong = judge_rows(world, world.reader.rows)
    return verdict_of(world, [*wrong, *judge_state(world, expected)])


def run(world: World) -> None:
    """Run a world that has its job. The one seed that breaks must not hide the others."""
    try:
        world.run()
    except Exception:
        world.violations.append(f"the run ended with an error:\n{traceback.format_exc()}")


def judge_rows(
    world: World, rows_of: Callable[[Sequence[Output]], list[Any]], uids: str = ""
) -> tuple[Model, list[str]]:
    """Return the expected rows of an ended run, and the errors in the visible ones.

    Args:
        world: that has run.
        rows_of: gives what is visible, apart from some of it.
        uids: what those of the region's operators begin with.
    """
    expected = EXPECTED
    if world.has_drained:
        expected = read_by(world.files.at_last_record, world.files.root, world.graph.job_id, uids)

    def check(rows: Sequence[Any]) -> list[str]:
        return check_rows(rows, expected, world.scenario.is_exactly_once, world.has_drained)

    wrong = check(rows_of(()))
    if wrong and world.damaged:
        # an older checkpoint was gone back to: what the damaged one had made visible occurs twice, nothing else
        wrong = check(rows_of(world.damaged))
    return expected, wrong


def judge_state(world: World, expected: Model) -> list[str]:
    """Return the errors in the state of the last checkpoint of an ended run."""
    if world.violations:
        return []
    files, root, job_id = world.files.at_last_record, world.files.root, world.graph.job_id
    try:
        return check_state(files, root, job_id, expected, world.scenario.is_exactly_once)
    except DamagedSnapshotError as error:
        return [f"the last checkpoint cannot be read: {error}"]


def verdict_of(world: World, wrong: Sequence[str]) -> Verdict:
    """Return the errors during the run and at its end."""
    return Verdict(world.scenario, (*world.violations, *world.database.violations, *wrong), world)


def story_of(seed: int, backend: str) -> str:
    """Return the events of a seed's run with a state backend, line by line."""
    lines: list[str] = []
    simulate(scenario_of(seed, backend), lines.append)
    return "\n".join(lines)
