"""The lease of the leader: who may act, who may take over, and when. Pure; all times are one's own monotonic clock's.

The leader renews a row of the database every second. It acts for `LEASE_MS` from the moment at which it *began* its
last successful renewal. A standby takes over `TAKE_OVER_MS` after it *saw* the last change of the row. So the leader
has always stopped before another one begins, although no clock is compared with another.

What a standby sees counts only while the database answers promptly: as long as it does not, the leader cannot renew
either, and nobody takes over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: interval of renewals
RENEW_MS: Final = 1_000.0
#: interval of trying again after a renewal that failed
RETRY_MS: Final = 250.0
#: the leader stops acting after this time without a renewal; the difference to `TAKE_OVER_MS` is for what it has begun
LEASE_MS: Final = 2_500.0
#: a standby takes over after this time without a change. Shorter: one late renewal deposes a leader on a busy machine;
#: longer: jobs go without a leader
TAKE_OVER_MS: Final = 3_000.0
#: the same if the leader's process is known to have ended; more than an interval of renewals, should that be wrong
DEAD_MS: Final = 1_200.0
#: the database rolls back a leader's write after this time without a word from it: a leader that freezes in a write,
#: up to `RENEW_MS` after it has renewed its lease, must not keep the row locked when a standby takes over
SILENT_WRITE_MS: Final = TAKE_OVER_MS - RENEW_MS
#: interval of a standby's looks
LOOK_MS: Final = 250.0
#: a look that takes longer, or comes later after the one before, proves nothing
SLOW_MS: Final = 1_000.0
#: a leader whose loop has taken no step for this time does not renew its lease, though the process lives: it may wait
#: for ever, as for a share that hangs. Shorter: a lock of tables deposes one leader after the other; longer: nobody
#: takes jobs and operations meanwhile
STALL_MS: Final = 60_000.0


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """The lease as the database has it."""

    epoch: int
    beat: int
    """Changes with every renewal; never goes back."""
    holder: str
    """The leader's name; "": nobody leads, because the leader has released its lease or there was none yet."""
    address: str
    """host:port at which the leader's process listens while it lives; "": nowhere."""


class HeldLease:
    """The lease as its holder knows it. Used by any thread; renewed by one.

    Args:
        begun_ms: the moment at which the take-over was begun.
    """

    def __init__(self, begun_ms: float) -> None:
        self._renewed_ms = begun_ms

    def renewed(self, begun_ms: float) -> None:
        """Note a successful renewal.

        Args:
            begun_ms: the moment before it was sent to the database.
        """
        self._renewed_ms = begun_ms

    def is_valid(self, now_ms: float) -> bool:
        """Return whether the holder may act."""
        return now_ms - self._renewed_ms < LEASE_MS


class StandbyWatch:
    """A standby's view of the lease: looks at the row go in, decisions to take over come out."""

    def __init__(self) -> None:
        #: epoch and beat last seen, and since when; None: the timer has not begun
        self._seen: tuple[int, int] | None = None
        self._since_ms = 0.0
        self._looked_ms = 0.0
        self._dead_epoch: int | None = None

    def looked(self, row: LeaseRow, begun_ms: float, ended_ms: float) -> bool:
        """Handle a look at the row, from its begin to its end; return whether to try to take over from what it shows.

        The attempt must be a compare-and-set on the row's epoch and beat, and `interrupted` follows if it fails.
        """
        if not row.holder:
            return True
        is_prompt = ended_ms - begun_ms <= SLOW_MS and begun_ms - self._looked_ms <= SLOW_MS
        self._looked_ms = ended_ms
        if not is_prompt or self._seen != (row.epoch, row.beat):
            self._seen, self._since_ms = (row.epoch, row.beat), ended_ms
            return False
        # the row is what it was when the look began, or later
        unchanged_ms = begun_ms - self._since_ms
        return unchanged_ms >= (DEAD_MS if row.epoch == self._dead_epoch else TAKE_OVER_MS)

    def interrupted(self) -> None:
        """Restart the timer: a look or an attempt to take over has failed, or was slow."""
        self._seen = None

    def holder_ended(self, epoch: int) -> None:
        """Note that the process that holds this epoch seems to have ended."""
        self._dead_epoch = epoch
