"""Actions that a JobMasterMachine wants done. Frozen; the driver performs them in order and reports back with events.

An action that cannot be performed is an event of its own (a slot that cannot be written to is a SlotLost), never an
exception into the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runtime.checkpoint.messages import (
    DeleteFiles,
    ForgetCheckpoints,
    ForgetDamaged,
    RecordEnd,
    StoreCheckpoint,
    SweepOrphans,
)
from runtime.core.ids import Attempt, CheckpointId, SlotId
from runtime.jobmaster.execution_graph import Region
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.placement import PlacedRegion
from runtime.task.messages import FailureInfo, JobMasterMessage


@dataclass(frozen=True, slots=True)
class RequestSlots:
    """Start one barrier stage per region, one task of it per slot; each must register within the slot timeout."""

    attempt: Attempt
    regions: Sequence[Region]


@dataclass(frozen=True, slots=True)
class RecordPlacement:
    """Record where regions run, before anything is deployed there; one that cannot be recorded is not adopted later."""

    regions: Sequence[PlacedRegion]


@dataclass(frozen=True, slots=True)
class AdoptSlots:
    """Offer the slots of regions that an earlier leader has deployed to adopt them; each that comes over reports."""

    regions: Sequence[PlacedRegion]


@dataclass(frozen=True, slots=True)
class SendToSlot:
    """Queue a message on a slot's control stream; order per slot is kept."""

    slot: SlotId
    attempt: Attempt
    message: JobMasterMessage


@dataclass(frozen=True, slots=True)
class RefuseSlot:
    """Close the control stream that the refused RegisterSlot came on: its process belongs to an older attempt, or to a
    slot that exists already (whose own stream is another one and stays open)."""

    slot: SlotId
    attempt: Attempt
    cause: str


@dataclass(frozen=True, slots=True)
class SlotProcess:
    """A slot's process that is to be killed."""

    slot: SlotId
    pid: int
    host: str


@dataclass(frozen=True, slots=True)
class KillSlots:
    """kill -9 these processes: they were told to leave, or are lost, and may still live. A missing one is no error."""

    attempt: Attempt
    slots: Sequence[SlotProcess]


@dataclass(frozen=True, slots=True)
class ReleaseAttempt:
    """The attempt is over: cancel its stages if they still run, forget its streams."""

    attempt: Attempt
    regions: Sequence[Region] | None = None
    """Only these regions of it are over; None = all."""


@dataclass(frozen=True, slots=True)
class JobStateChanged:
    """Tells listeners and the client that the job's state has changed."""

    state: JobState
    attempt: Attempt
    cause: FailureInfo | None
    """Of FAILING, RESTARTING and FAILED."""


@dataclass(frozen=True, slots=True)
class StopWanted:
    """The job has no more batches and is to stop with a savepoint, requested as by a user. Repeated until it is."""


@dataclass(frozen=True, slots=True)
class DeliverClientOutput:
    """Bytes for the program that started the job; the driver answers the slot with ClientAck as they are taken."""

    slot: SlotId
    attempt: Attempt
    channel: str
    position: int
    """Of the payload among all bytes of the channel."""
    payload: bytes


@dataclass(frozen=True, slots=True)
class RequestAnswered:
    """Answers a SavepointRequested, CheckpointRequested or RescaleRequested."""

    request_id: str
    location: str | None = None
    """URI of the savepoint or checkpoint that was asked for."""
    checkpoint_id: CheckpointId | None = None
    error: str | None = None
    """None: it was done."""
    is_premature: bool = False
    """Whether nothing was begun because the job does not run: it may be requested again once it does."""


StorageAction = StoreCheckpoint | RecordEnd | ForgetCheckpoints | ForgetDamaged | DeleteFiles | SweepOrphans
"""To be performed in order, off the machine's thread; StorageAnswered follows StoreCheckpoint and ForgetDamaged."""

JobMasterAction = (
    RequestSlots
    | RecordPlacement
    | AdoptSlots
    | SendToSlot
    | RefuseSlot
    | KillSlots
    | ReleaseAttempt
    | JobStateChanged
    | StopWanted
    | DeliverClientOutput
    | RequestAnswered
    | StoreCheckpoint
    | RecordEnd
    | ForgetCheckpoints
    | ForgetDamaged
    | DeleteFiles
    | SweepOrphans
)
