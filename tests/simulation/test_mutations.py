"""Mistakes put into production code on purpose: the simulation has to find each within a bounded set of seeds."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache

import pytest

from tests.simulation.mutations import MUTATIONS, Mutation, mutated
from tests.simulation.scenario import scenario_of
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
def is_clean(seed: int) -> bool:
    """Return whether a seed passes without a mutation; every mutation that a seed finds calls this."""
    return not simulate(scenario_of(seed)).violations


def finds(mutation: Mutation) -> bool:
    """Return whether a seed that passes without the mistake fails with it; known ones are tried first."""
    seeds = dict.fromkeys((*mutation.seeds, *range(NUM_SEEDS)))
    return any(is_clean(seed) and _finds(mutation, seed) for seed in seeds)


def _finds(mutation: Mutation, seed: int) -> bool:
    with mutated(mutation):
        violations = simulate(scenario_of(seed)).violations
    return any(mutation.found_as in violation for violation in violations)


@pytest.mark.parametrize(
    "mutation",
    [pytest.param(m, id=m.name, marks=[pytest.mark.slow] if m.hangs else []) for m in MUTATIONS],
)
def test_a_mistake_is_found(mutation: Mutation) -> None:
    assert finds(mutation), f"no seed below {NUM_SEEDS} fails although {mutation.name}"


def test_a_mutation_that_fits_nowhere_is_an_error() -> None:
    lost = Mutation("gone", MUTATIONS[0].owner, MUTATIONS[0].function, "no such line", "")
    with pytest.raises(LookupError), mutated(lost):
        pass
