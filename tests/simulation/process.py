"""Process: what runs, freezes and ends as a whole in the simulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.world import World


class Process:
    """Something that runs, freezes and ends as a whole."""

    is_jobmaster = False

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.is_dead = False
        self.is_frozen = False
        #: stands still only to wait for what a thread of its own is told
        self.is_waiting = False
        #: cut off from the JobMaster, and out of reach of whoever would end it
        self.is_isolated = False
        #: what arrived while it was frozen
        self.held: list[Callable[[], None]] = []
        #: transactions that it has begun: their connection ends with it
        self.transactions: list[str] = []
        self.due_ms = world.clock.monotonic_ms()

    @property
    def is_taking_over(self) -> bool:
        """Return whether it continues the job of an earlier JobMaster and has not begun anything yet."""
        return False

    def wake(self) -> None:
        self.due_ms = min(self.due_ms, self.world.clock.monotonic_ms())

    def step(self) -> None:
        raise NotImplementedError

    def ended(self) -> None:
        """It has been killed."""
