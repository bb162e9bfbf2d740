"""LocalSlots: what providers have in common whose slots live in the loop of this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from runtime.core.ids import Attempt, SlotId
from runtime.execution.local_link import LocalControlLink
from runtime.jobmaster.actions import SlotProcess
from runtime.jobmaster.events import JobMasterEvent, SlotLost
from runtime.jobmaster.execution_graph import Region
from runtime.jobmaster.placement import PlacedRegion
from runtime.task.messages import JobMasterMessage

T = TypeVar("T")


class LocalSlots(ABC, Generic[T]):
    """Implements SlotProvider, except for what a slot is.

    Args:
        post: takes events for the JobMaster.
        wake: has the loop look again.
    """

    def __init__(self, post: Callable[[JobMasterEvent], None], wake: Callable[[], None]) -> None:
        self._post = post
        self._wake = wake
        #: what hosts each slot, and the slot's link to the JobMaster
        self.slots: dict[tuple[SlotId, Attempt], tuple[T, LocalControlLink]] = {}

    @abstractmethod
    def request_slots(self, attempt: Attempt, regions: Sequence[Region]) -> None:
        """Add the slots of regions."""

    @abstractmethod
    def _release(self, host: T, slot: SlotId) -> None:
        """Let go of a slot that was removed."""

    def send(self, slot: SlotId, attempt: Attempt, message: JobMasterMessage) -> None:
        entry = self.slots.get((slot, attempt))
        if entry is not None:
            entry[1].deliver(message)
            self._wake()

    def refuse(self, slot: SlotId, attempt: Attempt, cause: str) -> None:
        self._remove(slot, attempt)

    def record_placement(self, regions: Sequence[PlacedRegion]) -> None:
        """Do nothing: the slots of an application end with it."""

    def adopt_slots(self, regions: Sequence[PlacedRegion]) -> None:
        """Do nothing: there is nobody to adopt."""

    def kill_slots(self, attempt: Attempt, processes: Sequence[SlotProcess]) -> None:
        for process in processes:
            self._remove(process.slot, attempt)

    def release_attempt(self, attempt: Attempt, regions: Sequence[Region] | None = None) -> None:
        over = None if regions is None else {slot for region in regions for slot in region.slots}
        for slot, of_attempt in list(self.slots):
            if of_attempt == attempt and (over is None or slot in over):
                self._remove(slot, attempt)

    def close(self) -> None:
        for slot, attempt in list(self.slots):
            self._remove(slot, attempt)

    def _lose(self, slot: SlotId, attempt: Attempt, cause: str) -> None:
        """Remove a slot, and tell the JobMaster."""
        self._remove(slot, attempt)
        self._post(SlotLost(slot, attempt, cause))

    def _remove(self, slot: SlotId, attempt: Attempt) -> None:
        entry = self.slots.pop((slot, attempt), None)
        if entry is not None:
            self._release(entry[0], slot)
