"""Mistakes put into production code on purpose: the simulation has to find each, as what it is.

It finds it in one of the scenarios made for it, or else within a bounded set of seeds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.mutated_runs import finds
from tests.simulation.mutations import MUTATIONS, Mutation, mutated
from tests.simulation.scenario import scenario_of

pytestmark = pytest.mark.timeout(1200)

NUM_SEEDS = 160
"""Of which one at least has to fail. A mistake that needs more is one that the simulation does not look for."""


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def is_found(mutation: Mutation) -> bool:
    """Return whether a scenario made for the mistake finds it, or else a seed; known ones are tried first."""
    seeds = () if mutation.scenarios else dict.fromkeys((*mutation.seeds, *range(NUM_SEEDS)))
    return any(finds(mutation, scenario) for scenario in (*mutation.scenarios, *map(scenario_of, seeds)))


@pytest.mark.parametrize(
    "mutation",
    [pytest.param(m, id=m.name, marks=[pytest.mark.slow] if m.hangs else []) for m in MUTATIONS],
)
def test_a_mistake_is_found(mutation: Mutation) -> None:
    assert mutation.found_as
    assert is_found(mutation), f"nothing fails although {mutation.name}"


def test_a_mutation_that_fits_nowhere_is_an_error() -> None:
    lost = Mutation("gone", MUTATIONS[0].owner, MUTATIONS[0].function, "no such line", "")
    with pytest.raises(LookupError), mutated(lost):
        pass
