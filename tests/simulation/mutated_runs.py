"""Runs of code with a mistake in it: of scenarios that pass without it, and no longer than it takes to find it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from runtime.jobmaster.job_state import JobState
from tests.simulation.mutations import Mutation, mutated
from tests.simulation.progress import NOT_ENDED
from tests.simulation.scenario import Scenario
from tests.simulation.simulate import simulate
from tests.simulation.world import World

_TURNS = 4
"""Times as many turns as without the mistake; a job that needs more does not end. Restarts cost less."""


@cache
def clean_turns(scenario: Scenario) -> int | None:
    """Return the turns that a scenario takes as the code is; None: something is wrong with it."""
    verdict = simulate(scenario)
    return None if verdict.violations else verdict.world.num_turns


def finds(mutation: Mutation, scenario: Scenario) -> bool:
    """Return whether a scenario that passes without the mistake shows it as what it is."""
    turns = clean_turns(scenario)
    if turns is None:
        return False

    def end_once_found(world: World) -> None:
        if world.outcome is None and any(mutation.found_as in violation for violation in world.violations):
            world.outcome = JobState.FAILING

    if mutation.found_as == NOT_ENDED:
        scenario = replace(scenario, max_turns=_TURNS * turns)
    with mutated(mutation):
        violations = simulate(scenario, watch=end_once_found).violations
    return any(mutation.found_as in violation for violation in violations)
