"""Mistakes put into production code on purpose: the simulation has to find each, as what it is.

It finds it in one of the scenarios made for it, or else within a bounded set of seeds.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from functools import cache

import pytest

from tests.simulation.mutations import MUTATIONS, Mutation, mutated
from tests.simulation.scenario import Scenario, scenario_of
from tests.simulation.simulate import simulate

pytestmark = pytest.mark.timeout(1200)

NUM_SEEDS = 160
"""Of which one at least has to fail. A mistake that needs more is one that the simulation does not look for."""


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@cache
def is_clean(scenario: Scenario) -> bool:
    """Return whether a scenario passes without a mutation; every mutation that one finds calls this."""
    return not simulate(scenario).violations


def finds(mutation: Mutation) -> bool:
    """Return whether a scenario that passes without the mistake fails with it; known seeds are tried first."""
    seeds = () if mutation.scenarios else dict.fromkeys((*mutation.seeds, *range(NUM_SEEDS)))
    scenarios = itertools.chain(mutation.scenarios, map(scenario_of, seeds))
    return any(_finds(mutation, scenario) and is_clean(scenario) for scenario in scenarios)


def _finds(mutation: Mutation, scenario: Scenario) -> bool:
    with mutated(mutation):
        violations = simulate(scenario).violations
    return any(mutation.found_as in violation for violation in violations)


@pytest.mark.parametrize(
    "mutation",
    [pytest.param(m, id=m.name, marks=[pytest.mark.slow] if m.hangs else []) for m in MUTATIONS],
)
def test_a_mistake_is_found(mutation: Mutation) -> None:
    assert mutation.found_as
    assert finds(mutation), f"nothing fails although {mutation.name}"


def test_a_mutation_that_fits_nowhere_is_an_error() -> None:
    lost = Mutation("gone", MUTATIONS[0].owner, MUTATIONS[0].function, "no such line", "")
    with pytest.raises(LookupError), mutated(lost):
        pass
