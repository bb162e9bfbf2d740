"""HostedSlots: the slots of a job whose tasks run in passes, hosted in the loop of a MiniCluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runtime.core.clock import Clock
from runtime.core.ids import Attempt, SlotId
from runtime.execution.attempt_passes import LocalPasses
from runtime.execution.local_link import LocalControlLink
from runtime.execution.local_slots import LocalSlots
from runtime.execution.slot_host import MakePasses, SlotHost
from runtime.jobmaster.events import JobMasterEvent
from runtime.jobmaster.execution_graph import Region
from runtime.task.slot import MAX_WAIT_MS


class HostedSlots(LocalSlots[SlotHost]):
    """One host for the tasks of each region, instead of slots.

    Args:
        post: takes events for the JobMaster.
        clock: gives each pass its time.
        wake: has the loop look again.
        make_passes: says where the tasks run.
    """

    def __init__(
        self,
        post: Callable[[JobMasterEvent], None],
        clock: Clock,
        wake: Callable[[], None],
        make_passes: MakePasses = LocalPasses,
    ) -> None:
        super().__init__(post, wake)
        self._clock = clock
        self._make_passes = make_passes

    @property
    def hosts(self) -> Sequence[SlotHost]:
        """Return the hosts that have not left."""
        return list({id(host): host for host, _ in self.slots.values()}.values())

    def request_slots(self, attempt: Attempt, regions: Sequence[Region]) -> None:
        for region in regions:
            links = {slot: LocalControlLink(slot, attempt, self._post) for slot in region.slots}
            host = SlotHost(attempt, links, self._clock, self._make_passes)
            for slot, link in links.items():
                self.slots[slot, attempt] = (host, link)

    def lose_all(self, cause: str) -> None:
        """Give up all slots, and tell the JobMaster."""
        for slot, attempt in list(self.slots):
            self._lose(slot, attempt, cause)

    def step(self) -> bool:
        """Take one turn of every host. Returns whether anything was done."""
        worked = False
        for host in self.hosts:
            try:
                worked = host.step() or worked
            except Exception as error:
                # an error of the host itself is a bug of ours: its slots are lost
                worked = True
                for (slot, attempt), (owner, _) in list(self.slots.items()):
                    if owner is host:
                        self._lose(slot, attempt, f"{type(error).__name__}: {error}")
        for key, (host, _) in list(self.slots.items()):
            if host.has_left(key[0]):
                del self.slots[key]
        return worked

    def awaits_mail(self) -> bool:
        """Return whether another thread is at work for an operator."""
        return any(host.awaits_mail for host in self.hosts)

    def idle_ms(self) -> float:
        """Return how long there is nothing to do if no message comes."""
        return min((host.idle_ms() for host in self.hosts), default=MAX_WAIT_MS)

    def _release(self, host: SlotHost, slot: SlotId) -> None:
        host.release(slot)
