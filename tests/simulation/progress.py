"""Watches the job's progress: soon after the last fault there must be output or checkpoints again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.jobmaster.job_state import JobState
from tests.simulation.faults import Action, Fault, Point

if TYPE_CHECKING:
    from tests.simulation.world import World

HANGS = "the job hangs"
NOT_ENDED = "the job has not ended"
PATIENCE_MS = 30_000.0
"""Of simulated time. Leases, the storage's retries and the restart delay are a few seconds each."""


class Progress:
    """Looks as often as the reader does."""

    def __init__(self, world: World) -> None:
        self._world = world
        #: what is visible, and how many checkpoints have been recorded
        self._reached = (0, 0)
        self._since_ms = world.clock.monotonic_ms()

    def disturbed_by(self, fault: Fault) -> None:
        """A fault happens, and may last: until it is over nothing is expected."""
        lasts_ms = 0 if fault.action is Action.CLOCK_JUMP else fault.ms
        self._since_ms = max(self._since_ms, self._world.clock.monotonic_ms() + lasts_ms)

    def look(self) -> None:
        """End a run whose job has stood still for too long: it hangs."""
        world, now_ms = self._world, self._world.clock.monotonic_ms()
        reached = (world.reader.num_visible, world.passed[Point.RECORDED])
        if reached != self._reached:
            self._reached, self._since_ms = reached, max(self._since_ms, now_ms)
        elif now_ms - self._since_ms > PATIENCE_MS and world.outcome is None:
            world.violate(f"{HANGS}: no output and no checkpoint for {PATIENCE_MS / 1000:g} s; {self._standing()}")
            world.outcome = JobState.FAILING

    def _standing(self) -> str:
        leader = self._world.leader
        if leader is None:
            return "it has no JobMaster"
        status = leader.driver.status()
        return f"it is {status.state.name} and waits for {status.waiting_for or 'nothing'}"
