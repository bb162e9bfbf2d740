"""SlotProvider: provides a JobMaster with slots; implemented by each execution kind.

`send` is called by any thread, the rest by the driver's; what happens to the slots is posted to the driver as events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from runtime.core.ids import Attempt, SlotId
from runtime.jobmaster.actions import SlotProcess
from runtime.jobmaster.execution_graph import Region
from runtime.jobmaster.placement import PlacedRegion
from runtime.task.messages import JobMasterMessage


class SlotProvider(Protocol):
    """Provides the slots of one job."""

    def request_slots(self, attempt: Attempt, regions: Sequence[Region]) -> None:
        """Start slots; each registers itself when it runs. A region whose slots cannot be had ends with StageEnded."""

    def record_placement(self, regions: Sequence[PlacedRegion]) -> None:
        """Record where regions run, so that another JobMaster can adopt them; nothing is deployed before it returns."""

    def adopt_slots(self, regions: Sequence[PlacedRegion]) -> None:
        """Offer slots to adopt them; each that comes over sends a SlotReport. Those that cannot be had say nothing."""

    def send(self, slot: SlotId, attempt: Attempt, message: JobMasterMessage) -> None:
        """Queue a message for a slot; ignored if it is gone."""

    def refuse(self, slot: SlotId, attempt: Attempt, cause: str) -> None:
        """Cut the control stream of a process that has no business here."""

    def kill_slots(self, attempt: Attempt, processes: Sequence[SlotProcess]) -> None:
        """End slots that do not leave by themselves."""

    def release_attempt(self, attempt: Attempt, regions: Sequence[Region] | None = None) -> None:
        """End the attempt, or only these regions of it: cut connections and free what they hold."""

    def close(self) -> None:
        """End the job; waits until nothing of it is left (a few seconds at most)."""
