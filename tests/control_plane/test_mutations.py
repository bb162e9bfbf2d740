"""Mistakes put into the control plane on purpose: the simulation has to find each, as what it is."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache

import pytest

from tests.control_plane.mutations import MISTAKES, Mistake
from tests.control_plane.scenario import Scenario
from tests.control_plane.simulate import simulate
from tests.simulation.mutations import mutated

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(1200)]


@cache
def is_clean(scenario: Scenario) -> bool:
    """Return whether nothing is wrong with a scenario as the code is."""
    return not simulate(scenario).violations


def finds(mistake: Mistake, scenario: Scenario) -> bool:
    """Return whether a scenario that is clean without the mistake shows it as what it is."""
    with ExitStack() as stack:
        for mutation in (mistake.mutation, *mistake.others):
            stack.enter_context(mutated(mutation))
        violations = simulate(scenario).violations
    found = [violation for violation in violations if violation.startswith(mistake.mutation.found_as)]
    return bool(found) and is_clean(scenario)


@pytest.mark.parametrize("mistake", [pytest.param(m, id=m.mutation.name) for m in MISTAKES])
def test_a_mistake_is_found(mistake: Mistake) -> None:
    assert mistake.mutation.found_as
    assert any(finds(mistake, scenario) for scenario in mistake.scenarios)
