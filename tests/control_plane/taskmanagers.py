"""TaskManagers of a simulated cluster: the real TaskManager, on stages whose slots answer from a script.

A slot is no fiber: it answers messages a little later. It connects to the control server of the leader that deployed
it. If that connection breaks, or says nothing for its lease, the slot ends by itself; where its job says so, it waits
for another leader to adopt it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow.flight as flight

from backend.cluster.taskmanager import TaskManager, TaskManagerIdentity
from runtime.checkpoint.handles import CheckpointMetrics, OperatorSubtaskState, TaskStateHandle
from runtime.core.ids import Attempt, OperatorId, SlotId, TaskId
from runtime.execution.spark_slot import SlotSpec
from runtime.state.handles import FileHandle, KeyedStateHandle
from runtime.state.key_groups import KeyGroupRange
from runtime.task.control_session import AdoptionOffer
from runtime.task.messages import (
    AcknowledgeCheckpoint,
    Deploy,
    FailureInfo,
    Heartbeat,
    JobMasterMessage,
    RegisterSlot,
    SlotMessage,
    SlotReport,
    TaskState,
    TaskStateChanged,
    TriggerCheckpoint,
)
from tests.control_plane.fibers import Process
from tests.jobmaster.simulation import SimulatedSlot

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.control_plane.world import World

_START_MS = 200.0
_LINK_MS = 3.0
#: until the JobMaster or a slot notices that the other one is gone
_BREAK_MS = 40.0
_LEASE_CHECK_MS = 1_000.0
_ROOM_MS = 300.0
#: time that slots have to leave by themselves
_LEAVE_MS = 2_000.0
HOST = "host"

Key = tuple[str, int, int]


class SimulatedControlServer:
    """The control server of one job under one leader."""

    def __init__(
        self,
        world: World,
        on_message: Callable[[SlotId, SlotMessage], None],
        on_lost: Callable[[SlotId, Attempt, str], None],
    ) -> None:
        self._world = world
        process = world.scheduler.process
        assert process is not None
        self.process = process
        self._on_message = on_message
        self._on_lost = on_lost
        self._slots: dict[tuple[SlotId, Attempt], SlotProcess] = {}
        self.address = world.listen(self)

    # --- the slot provider --------------------------------------------------------------------------------------------

    def send(self, slot: SlotId, attempt: Attempt, message: JobMasterMessage) -> None:
        self._world.edge()
        process = self._slots.get((slot, attempt))
        if process is not None:
            self._world.scheduler.later(
                self._world.delay_ms(_LINK_MS), lambda: process.receive(message), process.process
            )

    def is_connected(self, slot: SlotId, attempt: Attempt) -> bool:
        return (slot, attempt) in self._slots

    def disconnect(self, attempt: Attempt, slot: SlotId | None = None) -> None:
        for (number, of), process in list(self._slots.items()):
            if of == attempt and slot in (None, number):
                self._world.scheduler.later(self._world.delay_ms(_BREAK_MS), self._cutting(process, is_final=True))

    def stop(self) -> None:
        self._world.stop_listening(self)
        for process in self._slots.values():
            self._world.scheduler.later(self._world.delay_ms(_BREAK_MS), self._cutting(process, is_final=True))

    # --- slots --------------------------------------------------------------------------------------------------------

    def connect(self, process: SlotProcess) -> bool:
        """A slot connects; False: another process has its name."""
        key = (process.script.slot, process.script.attempt)
        if key in self._slots:
            return False
        self._slots[key] = process
        return True

    def hear(self, process: SlotProcess, message: SlotMessage) -> None:
        """A slot says something."""
        scheduler, slot = self._world.scheduler, process.script.slot
        scheduler.later(self._world.delay_ms(_LINK_MS), lambda: self._on_message(slot, message), self.process)

    def lose(self, process: SlotProcess, cause: str | None) -> None:
        """A slot has ended; None: it has said so before."""
        script = process.script
        if self._slots.pop((script.slot, script.attempt), None) is not None and cause is not None:
            scheduler = self._world.scheduler
            lost = lambda: self._on_lost(script.slot, script.attempt, cause)  # noqa: E731
            scheduler.later(self._world.delay_ms(_BREAK_MS), lost, self.process)

    def process_ended(self) -> None:
        """The leader has ended: every slot finds its connection broken."""
        self._world.stop_listening(self)
        for process in list(self._slots.values()):
            self._world.scheduler.later(self._world.delay_ms(_BREAK_MS), self._cutting(process, is_final=False))

    def _cutting(self, process: SlotProcess, is_final: bool) -> Callable[[], None]:
        return lambda: process.cut_off(self, is_final)


class ScriptedSlot(SimulatedSlot):
    """Answers as a slot does, and writes one file for each part of a checkpoint."""

    #: of each of its tasks
    metrics: Mapping[str, float] = MappingProxyType({})

    def answer(self, message: JobMasterMessage) -> list[SlotMessage]:
        metrics = dict.fromkeys(self.tasks, self.metrics)
        answers = super().answer(message)
        return [replace(told, metrics=metrics) if isinstance(told, Heartbeat) else told for told in answers]

    def ack(self, trigger: TriggerCheckpoint, task: TaskId) -> AcknowledgeCheckpoint:
        uri = f"{trigger.options.directory}/{task.vertex_id}-{task.subtask_index}"
        path = Path(uri.removeprefix("file://"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b".")
        handle = KeyedStateHandle(
            "test", KeyGroupRange(0, 127), 128, {"keyed": FileHandle(uri, 1, hashlib.sha256(b".").hexdigest())}
        )
        state = TaskStateHandle({OperatorId(task.vertex_id): OperatorSubtaskState(handle)})
        return AcknowledgeCheckpoint(
            self.slot, self.attempt, task, trigger.checkpoint_id, state, CheckpointMetrics(state_bytes=1)
        )


class SlotProcess:
    """A slot's process in a stage."""

    def __init__(self, world: World, stage: Stage, slot: SlotId, pid: int) -> None:
        self._world = world
        self.stage = stage
        self.process = stage.process
        self.pid = pid
        self.script = ScriptedSlot(slot, stage.spec.attempt)
        self.script.metrics = dict(world.scenario.submissions[world.users.job_ids.index(stage.key[0])].metrics)
        self.is_over = False
        self.epoch = stage.spec.epoch
        self._server: SimulatedControlServer | None = None
        self._heard_ms = 0.0
        #: since when it has no JobMaster, but goes on
        self._orphaned_ms: float | None = None

    def start(self) -> None:
        """Connect to whoever deployed it, and register."""
        if self.is_over:
            return
        self._server = self._world.server_at(self.stage.spec.control_address)
        if self._server is None:
            self.end("nobody answers at the address of the jobmanager")
            return
        if not self._server.connect(self):
            self._server = None
            self.end("the slot is connected already")
            return
        self._heard_ms = self._world.clock.monotonic_ms()
        self._say(self.script.register())
        self._check_lease()

    @property
    def address(self) -> str:
        """The address of its data server."""
        return f"sim-slot://{self.pid}"

    def adopt(self, offer: AdoptionOffer) -> None:
        """Come over to another leader, and report.

        Raises:
            FlightUnavailableError: it is not there.
            FlightServerError: it does not come over.
        """
        if self.is_over or (self._server is None and self._orphaned_ms is None):
            raise flight.FlightUnavailableError(f"nobody answers at {self.address}")
        server = self._world.server_at(offer.address)
        is_mine = (offer.slot, offer.attempt) == (self.script.slot, self.script.attempt)
        if not is_mine or self.stage.spec.orphan_timeout_ms <= 0 or offer.epoch <= self.epoch or server is None:
            self._world.refused["slots"] += 1
            raise flight.FlightServerError(f"slot {self.script.slot} of epoch {self.epoch} does not come over")
        if self._server is not None:
            self._server.lose(self, "the slot has come over to another leader")
        server.connect(self)
        self._server, self.epoch, self._orphaned_ms = server, offer.epoch, None
        self._heard_ms = self._world.clock.monotonic_ms()
        self._world.oracle.counts["adopted"] += 1
        for message in self.script.report():
            self._say(message)

    def _say(self, message: SlotMessage) -> None:
        if self._server is None:
            return
        if isinstance(message, SlotReport):
            message = replace(message, registration=self._identified(message.registration))
        if isinstance(message, RegisterSlot):
            message = self._identified(message)
        self._server.hear(self, message)

    def _identified(self, registration: RegisterSlot) -> RegisterSlot:
        return replace(registration, pid=self.pid, host=HOST, data_address=self.address)

    def receive(self, message: JobMasterMessage) -> None:
        """Answer a message."""
        if self.is_over or self._server is None:
            return
        self._heard_ms = self._world.clock.monotonic_ms()
        if isinstance(message, Deploy):
            self._world.oracle.deployed(self.stage.key, message)
        self._world.oracle.told(self, message)
        for answer in self.script.answer(message):
            self._say(answer)
        if self.script.gone:
            self.end(None)

    def fail(self, message: str) -> None:
        """Have one of its tasks fail."""
        if self._server is not None and self.script.tasks and not self.is_over:
            script, task = self.script, self.script.tasks[0]
            failure = FailureInfo(message, task=task, slot=script.slot)
            self._say(TaskStateChanged(script.slot, script.attempt, task, TaskState.FAILED, failure))

    def cut_off(self, server: SimulatedControlServer, is_final: bool) -> None:
        """Its connection to a JobMaster has ended: by that, or because it is gone."""
        if self._server is not server:
            # it has come over to another one
            return
        if self.script.gone or is_final or self.stage.spec.orphan_timeout_ms <= 0:
            self.end(None if self.script.gone else "the control stream ended")
            return
        server.lose(self, None)
        self._server, self._orphaned_ms = None, self._world.clock.monotonic_ms()

    def end(self, error: str | None) -> None:
        """The process ends."""
        if self.is_over:
            return
        self.is_over = True
        if self._server is not None:
            self._server.lose(self, error)
        self.stage.slot_ended(error)

    def _check_lease(self) -> None:
        if self.is_over:
            return
        now_ms, spec = self._world.clock.monotonic_ms(), self.stage.spec
        if self._orphaned_ms is not None and now_ms - self._orphaned_ms > spec.orphan_timeout_ms:
            self.end("no other JobMaster has come")
            return
        if self._orphaned_ms is None and now_ms - self._heard_ms > max(spec.lease_ms, spec.orphan_timeout_ms):
            self.end("its lease has expired")
            return
        self._world.scheduler.later(_LEASE_CHECK_MS, self._check_lease, self.process)


class Stage:
    """A barrier stage on a TaskManager."""

    def __init__(self, stages: Stages, key: Key, spec: SlotSpec, on_end: Callable[[str | None], None]) -> None:
        self._stages = stages
        self.process = stages.process
        self.key = key
        self.spec = spec
        self._on_end = on_end
        self._error: str | None = None
        self.is_begun = self.is_over = False
        self.slots = [SlotProcess(stages.world, self, slot, stages.world.new_pid()) for slot in spec.slots]

    def slot_ended(self, error: str | None) -> None:
        """Handle the end of a slot; the stage ends with its last slot, or at once if one fails."""
        self._error = self._error or error
        if error is not None:
            for slot in self.slots:
                slot.end("another slot of the stage has ended")
        if not self.is_over and all(slot.is_over for slot in self.slots):
            self.is_over = True
            self._stages.ended(self)

    def report(self) -> None:
        """Tell the TaskManager."""
        self._on_end(self._error)


class Stages:
    """Implements what TaskManager needs of SparkStages."""

    def __init__(self, world: World, process: TaskManagerProcess) -> None:
        self.world = world
        self.process = process
        self.running: dict[str, Stage] = {}

    def start(self, group: str, spec: SlotSpec, on_end: Callable[[str | None], None]) -> None:
        """Start a stage; `on_end` is called when it has ended."""
        job_id, _, stage = group.rsplit("-", 2)
        made = Stage(self, (job_id, int(spec.attempt), int(stage)), spec, on_end)
        self.running[group] = made
        self.world.oracle.started(self.process, made)
        self.world.scheduler.later(self.world.delay_ms(_START_MS), lambda: self._begin(made), self.process)

    def _begin(self, stage: Stage) -> None:
        """Start the slots of a stage once Spark has room for them: what earlier leaders have left may still run."""
        if stage.is_over:
            return
        others = [s for s in self.running.values() if s.is_begun]
        if sum(len(other.slots) for other in others) + len(stage.slots) > self.process.num_slots:
            self.world.scheduler.later(_ROOM_MS, lambda: self._begin(stage), self.process)
            return
        stage.is_begun = True
        for slot in stage.slots:
            self.world.scheduler.later(self.world.delay_ms(_START_MS), slot.start, self.process)

    def cancel(self, group: str) -> None:
        """End a stage at once."""
        stage = self.running.get(group)
        for slot in () if stage is None else stage.slots:
            self.world.scheduler.later(self.world.delay_ms(_START_MS), _ending(slot), self.process)

    def end(self, groups: Sequence[str]) -> None:
        """End stages that do not end by themselves."""
        for group in groups:
            self.world.scheduler.later(_LEAVE_MS, _cancelling(self, group), self.process)

    def ended(self, stage: Stage) -> None:
        """A stage is over: the TaskManager reports it."""
        for group, running in list(self.running.items()):
            if running is stage:
                del self.running[group]
        if not self.process.is_dead:
            self.world.scheduler.spawn(self.process, f"end of {stage.key}", stage.report)


def _ending(slot: SlotProcess) -> Callable[[], None]:
    return lambda: slot.end("the stage was cancelled")


def _cancelling(stages: Stages, group: str) -> Callable[[], None]:
    return lambda: stages.cancel(group)


class TaskManagerProcess(Process):
    """A TaskManager with its slots."""

    def __init__(self, world: World, number: int, slots: int) -> None:
        super().__init__(f"taskmanager {number}")
        self.world = world
        self.num_slots = slots
        #: whether it is drained, and no other takes its place
        self.is_leaving = False
        self.stages = Stages(world, self)
        identity = TaskManagerIdentity(
            f"{HOST}:{number}", f"worker-{number}", HOST, number, slots, "local", world.clock.now_ms()
        )
        #: highest epoch whose command it has accepted
        self.epoch = 0
        stages: Any = self.stages
        self.manager = TaskManager(identity, stages, lambda: None, world.clock, self._die, world.send)

    @property
    def worker_name(self) -> str:
        return self.manager.identity.worker_name

    def slots(self) -> list[SlotProcess]:
        """Slots that live."""
        return [slot for stage in self.stages.running.values() for slot in stage.slots if not slot.is_over]

    def ended(self) -> None:
        """The process has ended, and its slots with it."""
        for slot in self.slots():
            slot.end("its TaskManager is gone")

    def _die(self, cause: str) -> None:
        self.world.tell(f"{self.name} ends itself: {cause}")
        self.world.kill(self)
