"""SlotRegistry: which slots of an attempt were requested, have come, still answer, and have gone.

Pure; times are monotonic milliseconds. A slot is expected → live → gone (left | lost), and never comes back: a process
that was declared lost may thaw, but its messages are no longer accepted.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runtime.core.ids import SlotId


class SlotStatus(enum.Enum):
    EXPECTED = "EXPECTED"
    LIVE = "LIVE"
    LEFT = "LEFT"
    """Ended in good order."""
    LOST = "LOST"
    """Declared dead; its process may still live."""


@dataclass(slots=True)
class SlotEntry:
    """A slot of the attempt."""

    slot: SlotId
    status: SlotStatus = SlotStatus.EXPECTED
    pid: int | None = None
    host: str = ""
    data_address: str = ""
    last_heartbeat_ms: float = 0.0
    """When it last proved to be alive; meaningless before it registers."""
    is_excused: bool = False
    """Whether it need not prove that now."""


class SlotRegistry:
    """Slots of one attempt."""

    def __init__(self, slots: Iterable[SlotId]) -> None:
        self._entries = {slot: SlotEntry(slot) for slot in slots}

    def __contains__(self, slot: SlotId) -> bool:
        return slot in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def entry(self, slot: SlotId) -> SlotEntry:
        return self._entries[slot]

    def entries(self) -> Iterable[SlotEntry]:
        return self._entries.values()

    def register(self, slot: SlotId, pid: int, host: str, data_address: str, now_ms: float) -> bool:
        """Register a slot that has come. Returns False if it is unknown, has registered before, or was given up."""
        entry = self._entries.get(slot)
        if entry is None or entry.status is not SlotStatus.EXPECTED:
            return False
        entry.status = SlotStatus.LIVE
        entry.pid, entry.host, entry.data_address = pid, host, data_address
        entry.last_heartbeat_ms = now_ms
        return True

    def place(self, slot: SlotId, pid: int, host: str, data_address: str) -> None:
        """Note the process of a slot that is expected to come over from an earlier JobMaster."""
        entry = self._entries[slot]
        entry.pid, entry.host, entry.data_address = pid, host, data_address

    def heartbeat(self, slot: SlotId, now_ms: float) -> None:
        self._entries[slot].last_heartbeat_ms = now_ms

    def renew_all(self, now_ms: float) -> None:
        """Restart every live slot's lease."""
        for entry in self._entries.values():
            entry.last_heartbeat_ms = now_ms

    def excuse(self, slots: Iterable[SlotId]) -> None:
        """Do not count these slots as silent until `renew`."""
        for slot in slots:
            self._entries[slot].is_excused = True

    def renew(self, slots: Iterable[SlotId], now_ms: float) -> None:
        """Start the lease of these slots, excused or not, again."""
        for slot in slots:
            self._entries[slot].is_excused = False
            self._entries[slot].last_heartbeat_ms = now_ms

    def expect_again(self, slots: Iterable[SlotId]) -> None:
        """Expect new processes in the places of these slots."""
        for slot in slots:
            self._entries[slot] = SlotEntry(slot)

    def mark_left(self, slot: SlotId) -> None:
        self._entries[slot].status = SlotStatus.LEFT

    def mark_lost(self, slot: SlotId) -> None:
        self._entries[slot].status = SlotStatus.LOST

    def is_live(self, slot: SlotId) -> bool:
        entry = self._entries.get(slot)
        return entry is not None and entry.status is SlotStatus.LIVE

    def is_gone(self, slot: SlotId) -> bool:
        """Return whether nothing more may come from it."""
        return self._entries[slot].status in (SlotStatus.LEFT, SlotStatus.LOST)

    def live(self, slots: Iterable[SlotId] | None = None) -> list[SlotId]:
        """Return the live slots, of these or of all."""
        return [e.slot for e in self._of(slots) if e.status is SlotStatus.LIVE]

    def missing(self, slots: Iterable[SlotId] | None = None) -> list[SlotId]:
        """Return the slots that have not come yet, of these or of all."""
        return [e.slot for e in self._of(slots) if e.status is SlotStatus.EXPECTED]

    def all_live(self, slots: Iterable[SlotId] | None = None) -> bool:
        return all(e.status is SlotStatus.LIVE for e in self._of(slots))

    def silent(self, now_ms: float, timeout_ms: float) -> list[SlotId]:
        """Return the live slots that have not answered for `timeout_ms` or longer."""
        return [e.slot for e in self._judged() if now_ms - e.last_heartbeat_ms >= timeout_ms]

    def next_silence_ms(self, timeout_ms: float) -> float | None:
        """Return when the first live slot will have been silent for too long."""
        return min((e.last_heartbeat_ms + timeout_ms for e in self._judged()), default=None)

    def may_live(self, slots: Iterable[SlotId] | None = None) -> list[SlotEntry]:
        """Return the slots that registered and did not leave in good order: their processes may still run."""
        return [e for e in self._of(slots) if e.pid is not None and e.status is not SlotStatus.LEFT]

    def peers(self) -> Mapping[SlotId, str]:
        """Return the data addresses of the live slots."""
        return {slot: self._entries[slot].data_address for slot in self.live()}

    def _of(self, slots: Iterable[SlotId] | None) -> Iterable[SlotEntry]:
        return self._entries.values() if slots is None else [self._entries[slot] for slot in slots]

    def _judged(self) -> list[SlotEntry]:
        return [e for e in self._entries.values() if e.status is SlotStatus.LIVE and not e.is_excused]
