"""Control streams of the simulated cluster: messages in order, encoded as on the wire, each direction with its delay.

The slot's end keeps the lease as the engine's own link does: whoever has not heard of the JobMaster for too long, or
finds that it stood still itself, takes the stream for lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.core.ids import Attempt, SlotId
from runtime.jobmaster.events import SlotLost, SlotMessageReceived
from runtime.operators.interruption import FIRING_STATE
from runtime.task.control_link import ControlLostError
from runtime.task.jobmaster_codec import decode_jobmaster_messages, encode_jobmaster_messages
from runtime.task.messages import (
    AcknowledgeCheckpoint,
    CommitFinished,
    Deploy,
    Heartbeat,
    HeartbeatRequest,
    JobMasterMessage,
    NotifyCheckpointComplete,
    SlotLeaving,
    SlotMessage,
    SlotReport,
    SnapshotCoordinators,
    TriggerCheckpoint,
)
from runtime.task.slot_codec import decode_slot_messages, encode_slot_messages
from runtime.task.stalls import LoopWatch
from tests.simulation.faults import Point
from tests.simulation.process import Process

if TYPE_CHECKING:
    from tests.simulation.hosts import HostProcess
    from tests.simulation.world import JobMasterProcess, SlotProcess, World

OLD_EPOCH = "a message of an older epoch is acted on"

_POINTS: dict[type, Point] = {
    SnapshotCoordinators: Point.SOURCES,
    TriggerCheckpoint: Point.TRIGGER,
    NotifyCheckpointComplete: Point.NOTIFY,
    CommitFinished: Point.END,
}


class SimulatedLink:
    """Both ends of one slot's control stream. Implements ControlLink for the slot."""

    def __init__(
        self,
        world: World,
        slot: SlotId,
        attempt: Attempt,
        process: SlotProcess | HostProcess,
        master: JobMasterProcess,
    ) -> None:
        self._world = world
        self._slot = slot
        self._attempt = attempt
        self._process = process
        self.master = master
        self._inbox: deque[JobMasterMessage] = deque()
        self._arrives_ms = [0.0, 0.0]
        self._heartbeat = Heartbeat(slot, attempt, 0, {})
        self._published_ms = self._renewed_ms = world.clock.monotonic_ms()
        self.lost: str | None = None
        #: whether no other JobMaster can want the slot
        self._is_final = False
        self._lease_ms = max(world.lease_ms, world.scenario.orphan_timeout_ms)
        self.is_over = False
        self._is_cut = False
        master.links[slot, attempt] = self

    # --- the slot's end -----------------------------------------------------------------------------------------------

    def poll(self) -> JobMasterMessage | None:
        if self.lost is None and self._world.clock.monotonic_ms() - self._renewed_ms > self._lease_ms:
            self.lost, self._is_final = "no heartbeat from the JobMaster", True
        if self.lost is not None:
            raise ControlLostError(self.lost, self._is_final)
        if not self._inbox:
            return None
        message = self._inbox.popleft()
        if self.master.epoch < self._process.epoch:
            self._world.violate(
                f"{OLD_EPOCH}: {self._process.name} hears {type(message).__name__} of {self.master.name}"
            )
        self._process.heard(message)
        point = _POINTS.get(type(message))
        if point is not None:
            self._world.reach(point, self._process.name)
        return message

    def send(self, message: SlotMessage) -> None:
        self._world.check_alive()
        if isinstance(message, SlotReport):
            self._process.reports(message)
        copy = message if isinstance(message, Heartbeat) else decode_slot_messages(encode_slot_messages([message]))[0]

        def arrive() -> None:
            if isinstance(copy, AcknowledgeCheckpoint):
                self._world.reach(Point.ACKNOWLEDGE, str(copy.checkpoint_id))
                if any(FIRING_STATE in operator.operator_states for operator in copy.state.operators.values()):
                    self._world.num_between_timers += 1
            self.master.post(SlotMessageReceived(copy, self._slot))
            if isinstance(copy, SlotLeaving):
                self.is_over = True

        self._carry(0, self.master, arrive)

    def publish(self, heartbeat: Heartbeat) -> None:
        self._heartbeat = heartbeat
        self._published_ms = self._world.clock.monotonic_ms()

    def set_listener(self, on_message: Callable[[], None]) -> None:
        """The scheduler is told instead."""

    def set_watch(self, watch: LoopWatch, redact: Callable[[str], str]) -> None:
        """Nothing to look into: one thread runs all, and stands still with the loop."""

    def close(self) -> None:
        """Do nothing: sent messages still arrive."""

    def drop(self) -> None:
        self.is_over = self._is_cut = True
        lost = SlotLost(self._slot, self._attempt, "the slot has gone over to another JobMaster")
        self._world.later(self.master, lambda: self.master.post(lost))

    # --- the JobMaster's end ------------------------------------------------------------------------------------------

    def tell(self, message: JobMasterMessage) -> None:
        """Send to the slot."""
        if isinstance(message, Deploy):
            self._world.deployed(self.master, self._attempt, message)
        copy = message
        if not isinstance(message, HeartbeatRequest):
            copy = decode_jobmaster_messages(encode_jobmaster_messages([message]))[0]

        def arrive() -> None:
            if isinstance(copy, HeartbeatRequest):
                self._answer(copy)
            self._inbox.append(copy)
            self._process.wake()

        self._carry(1, self._process, arrive)

    def _answer(self, request: HeartbeatRequest) -> None:
        now = self._world.clock.monotonic_ms()
        if now - self._renewed_ms > self._lease_ms:
            self.lost, self._is_final = self.lost or "the slot stood still", True
            return
        self._renewed_ms = now
        self.send(replace(self._heartbeat, sequence=request.sequence, stalled_ms=int(now - self._published_ms)))

    # --- both ---------------------------------------------------------------------------------------------------------

    def _carry(self, side: int, process: Process, arrive: Callable[[], None]) -> None:
        if self.is_over or self._process.is_isolated:
            return
        at_ms = max(self._arrives_ms[side], self._world.clock.monotonic_ms() + self._world.delay_ms())
        self._arrives_ms[side] = at_ms

        def arrive_if_there() -> None:
            if not self._is_cut and not self._process.is_isolated:
                arrive()

        self._world.deliver(process, at_ms, arrive_if_there)

    def break_off(self, cause: str, is_final: bool = False) -> None:
        """The stream ends; who is left at either end notices, unless nothing gets through.

        Args:
            cause: why.
            is_final: whether the JobMaster has ended it, and tells the slot so.
        """
        if self.is_over:
            return
        self.is_over = True

        def slot_notices() -> None:
            self.lost, self._is_final = self.lost or cause, self._is_final or is_final
            self._process.wake()

        # what was on its way may be lost with it
        self._is_cut = self._world.random.random() < 0.5
        if not self._process.is_isolated:
            self._world.later(self._process, slot_notices)
            at_ms = max(self._arrives_ms[0], self._world.clock.monotonic_ms() + self._world.delay_ms())
            lost = SlotLost(self._slot, self._attempt, cause)
            self._world.deliver(self.master, at_ms, lambda: self.master.post(lost))
