from __future__ import annotations

import pytest

from runtime.jobmaster.restart_strategy import FixedDelay
from tests.jobmaster.simulation import Simulation


@pytest.fixture
def running() -> Simulation:
    simulation = Simulation(strategy=FixedDelay(1, 1_000))
    simulation.run_to_running()
    return simulation
