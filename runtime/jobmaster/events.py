"""What can happen to a job, as the driver tells its machine. Frozen; every one carries its cause."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.core.ids import Attempt, SlotId
from runtime.task.messages import SlotMessage


@dataclass(frozen=True, slots=True)
class Submitted:
    """Start the job. Once."""


@dataclass(frozen=True, slots=True)
class SlotMessageReceived:
    """A message came in over an authenticated control stream."""

    message: SlotMessage
    slot: SlotId | None = None
    """The slot that the stream belongs to, if the driver knows; fences messages that do not name their slot."""


@dataclass(frozen=True, slots=True)
class SlotLost:
    """A slot's control stream ended without SlotLeaving, or its process is known to be dead."""

    slot: SlotId
    attempt: Attempt
    cause: str


@dataclass(frozen=True, slots=True)
class StageEnded:
    """The barrier stage that hosted a region's slots is over, and with it their processes."""

    region: int
    attempt: Attempt
    error: str | None
    """None: it returned in good order."""


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """The user wants the job to stop now."""


@dataclass(frozen=True, slots=True)
class Tick:
    """`JobMasterMachine.next_deadline_ms` has come. More ticks do no harm."""


JobMasterEvent = Submitted | SlotMessageReceived | SlotLost | StageEnded | CancelRequested | Tick
