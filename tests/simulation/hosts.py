"""A process that hosts all slots of a region whose tasks run in passes, in its own thread or in workers of Spark.

Real are the SlotHost and, of Spark's side, what makes passes for it and answers its query (`SparkPasses`); workers are
simulated by `workers`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from runtime.core.ids import Attempt, CheckpointId, SlotId
from runtime.execution.attempt_passes import AttemptPasses, LocalPasses
from runtime.execution.slot_host import SlotHost
from runtime.execution.spark_passes import SparkPasses
from runtime.task.control_link import ControlLostError
from runtime.task.messages import (
    JobMasterMessage,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    SlotReport,
    TriggerCheckpoint,
)
from tests.simulation.control import SimulatedLink
from tests.simulation.faults import Point
from tests.simulation.process import Process
from tests.simulation.scenario import Passes

if TYPE_CHECKING:
    from tests.simulation.workers import SparkWorker
    from tests.simulation.world import JobMasterProcess, World

CANCELLED_MS = 2_500.0
"""How long a worker may go on whose work nobody wants any more."""
OUTLIVED_MS = 12_000.0
"""How long one may that is hard to reach."""


class HostProcess(Process):
    """All slots of a region."""

    def __init__(self, world: World, slots: Sequence[SlotId], attempt: Attempt, master: JobMasterProcess) -> None:
        super().__init__(world, f"host of attempt {attempt} under {master.name}")
        self.epoch = master.epoch
        #: workers that run, or are about to run, tasks of a pass
        self.workers: list[SparkWorker] = []
        #: the latest checkpoint that it was asked for
        self._last_asked = CheckpointId(0)
        #: how it was told that checkpoints have ended
        self._ends: dict[CheckpointId, type] = {}
        self._links = {slot: SimulatedLink(world, slot, attempt, self, master) for slot in slots}
        self._host = SlotHost(attempt, self._links, world.clock, self._make_passes)

    def _make_passes(self, host: SlotHost) -> AttemptPasses:
        if self.world.scenario.passes is Passes.ELSEWHERE:
            return SparkPasses(host, cast(Any, None), self.name, self.post)
        return LocalPasses(host)

    def post(self, action: Callable[[], None]) -> None:
        """Have the process do something soon."""

        def run() -> None:
            action()
            self.wake()

        self.world.later(self, run)

    def obeys(self, epoch: int) -> bool:
        """Return whether it ends when a leader says so."""
        return self.epoch <= epoch

    def reports(self, report: SlotReport) -> None:
        """Hosts do not come over to another JobMaster."""
        raise AssertionError(f"{self.name} makes a report for another JobMaster")

    def heard(self, message: JobMasterMessage) -> None:
        """Note that one of its slots is about to act on a message."""
        match message:
            case NotifyCheckpointComplete(checkpoint_id) | NotifyCheckpointAborted(checkpoint_id):
                if self._ends.setdefault(checkpoint_id, type(message)) is not type(message):
                    self.world.violate(f"{self.name} is told that checkpoint {checkpoint_id} is complete and given up")
            case TriggerCheckpoint(checkpoint_id):
                # each of its slots is told
                if checkpoint_id < self._last_asked:
                    self.world.violate(f"{self.name} is asked for checkpoint {checkpoint_id} after {self._last_asked}")
                self._last_asked = checkpoint_id

    def step(self) -> None:
        world = self.world
        world.reach(Point.STEP, self.name)
        try:
            self._host.step()
            self._host.publish()
        except ControlLostError as error:
            world.tell(f"{self.name} ends by itself: {error}")
            self._leave(str(error))
            return
        if self._host.is_released:
            world.tell(f"{self.name} is released")
            self._leave("")
            return
        self.due_ms = world.clock.monotonic_ms() + self._host.idle_ms()

    def _leave(self, cause: str) -> None:
        if cause:
            for link in self._links.values():
                link.break_off("the host has ended")
        self.is_dead = True
        self.world.database.forget_open(self.transactions)
        self.world.disk.ended(self)
        self.cancel()

    def ended(self) -> None:
        for link in self._links.values():
            link.break_off("its process is gone")
        self.cancel()

    def cancel(self) -> None:
        """Have the workers end: they hear of it sooner or later, some much later."""
        world = self.world
        workers, self.workers = self.workers, []
        for worker in [worker for worker in workers if not worker.is_dead]:
            world.num_passes["given up"] += 1
            most_ms = OUTLIVED_MS if world.strays.random() < 0.3 else CANCELLED_MS
            world.at(world.clock.monotonic_ms() + world.delay_ms(most_ms), worker.cancel)
