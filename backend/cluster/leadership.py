"""Leadership: a lease and an epoch in one row of the database; `lease` decides, this module reads and writes the row.

The row is locked while the leader writes, so that a new leader's take-over waits for writes in progress and fences off
all later ones. PostgreSQL rolls back a write whose leader has frozen. A leader whose lease has lapsed does not act
until it could renew it; one that finds another epoch in the row has been replaced and must end.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.db import OperationalError, connection, transaction
from django.db.models import F

from backend.cluster.connections import limit_silence
from backend.cluster.lease import RENEW_MS, RETRY_MS, SILENT_WRITE_MS, SLOW_MS, STALL_MS, HeldLease, LeaseRow
from backend.cluster.models import LeaderEpoch
from runtime.core.clock import Clock

logger = logging.getLogger(__name__)

ROLE = "jobmanager"


class LeadershipLostError(Exception):
    """Another jobmanager has taken over."""

    def __init__(self, epoch: int, now: int, holder: str) -> None:
        self.epoch, self.now, self.holder = epoch, now, holder
        super().__init__(f"epoch {epoch} is over: {holder or 'another JobManager'} leads with epoch {now}")


class LeaseLapsedError(OperationalError):
    """The leader could not renew its lease, and must not act until it could; to callers, the database is away."""


class ActingNotAllowedError(Exception):
    """The leader must not act at present; nothing was done, and the next poll repeats it."""


class LoopStalledError(Exception):
    """The leader's loop has taken no step for so long that somebody else had better lead."""


class SlowDatabaseError(OperationalError):
    """The take-over took so long that the leader may just have waited for the database, too; it was rolled back."""


class Leadership:
    """The leadership of one jobmanager. Any thread.

    Args:
        epoch: the epoch that it took.
        lease: its lease.
        clock: its monotonic time is the lease's.
    """

    def __init__(self, epoch: int, lease: HeldLease, clock: Clock) -> None:
        self.epoch = epoch
        self._lease = lease
        self._clock = clock
        self._lost: LeadershipLostError | None = None
        self._is_released = False
        #: monotonic ms of the loop's last step, or of the take-over
        self._stepped_ms = clock.monotonic_ms()

    def stepped(self) -> None:
        """Note that the leader's loop takes a step: without one for `STALL_MS`, the lease is not renewed."""
        self._stepped_ms = self._clock.monotonic_ms()

    def may_act(self) -> bool:
        """Return whether the lease is valid.

        Raises:
            LeadershipLostError: another jobmanager leads.
        """
        if self._lost is not None:
            raise LeadershipLostError(self._lost.epoch, self._lost.now, self._lost.holder)
        return not self._is_released and self._lease.is_valid(self._clock.monotonic_ms())

    @contextmanager
    def fenced(self) -> Iterator[None]:
        """Run the block in a transaction during which the epoch cannot change.

        Raises:
            LeadershipLostError: it has changed; the block was not run.
            LeaseLapsedError: the lease is not valid; the block was not run.
        """
        if not self.may_act():
            raise LeaseLapsedError("the leader's lease could not be renewed")
        with transaction.atomic():
            limit_silence(SILENT_WRITE_MS)
            row = LeaderEpoch.objects.select_for_update().get(name=ROLE)
            if row.epoch != self.epoch:
                raise LeadershipLostError(self.epoch, row.epoch, row.holder)
            yield

    def renew(self) -> None:
        """Renew the lease.

        Raises:
            LeadershipLostError: another jobmanager leads.
            LoopStalledError: it was not renewed, because the leader's loop stands still.
            DatabaseError: it is unknown whether the lease was renewed.
        """
        begun_ms = self._clock.monotonic_ms()
        if begun_ms - self._stepped_ms > STALL_MS:
            raise LoopStalledError(f"the leader's loop has taken no step for {STALL_MS / 1000:g} s")
        if LeaderEpoch.objects.filter(name=ROLE, epoch=self.epoch).update(beat=F("beat") + 1) == 1:
            self._lease.renewed(begun_ms)
            return
        row = read_lease()
        self._lost = LeadershipLostError(self.epoch, row.epoch, row.holder)
        raise self._lost

    def release(self) -> None:
        """End the lease, so that a standby takes over at once; this leader acts no more.

        Raises:
            DatabaseError: a standby may have to wait for the lease to end.
        """
        self._is_released = True
        LeaderEpoch.objects.filter(name=ROLE, epoch=self.epoch).update(beat=F("beat") + 1, holder="", address="")


class LeaseKeeper:
    """Renews the lease on a thread of its own, whatever the leader waits for, until `stop` or until it is lost.

    It pauses while the leader has waited for `STALL_MS`.

    Args:
        leadership: the leadership to keep.
        clock: for the intervals.
    """

    def __init__(self, leadership: Leadership, clock: Clock) -> None:
        self._leadership = leadership
        self._clock = clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        """Start to renew."""
        self._thread.start()

    def stop(self) -> None:
        """Renew no more; a renewal in progress may still succeed."""
        self._stop.set()
        self._thread.join(SLOW_MS / 1000)

    def _run(self) -> None:
        is_away = False
        wait_ms = RENEW_MS
        while not self._stop.wait(wait_ms / 1000):
            begun_ms = self._clock.monotonic_ms()
            try:
                self._leadership.renew()
            except LeadershipLostError as lost:
                logger.error("%s", lost)
                break
            except Exception as error:
                # whatever it is: a leader that renewed no more could never lead again, nor learn that it was replaced
                if not is_away:
                    logger.warning("the lease cannot be renewed: %r", error)
                is_away, wait_ms = True, RETRY_MS
                connection.close()
            else:
                if is_away:
                    logger.info("the lease is renewed again")
                is_away, wait_ms = False, max(0.0, RENEW_MS - (self._clock.monotonic_ms() - begun_ms))
        connection.close()


def check_may_act(may_act: Callable[[], bool]) -> None:
    """Check that the leader may act, just before a thread does what cannot be undone; any thread.

    Args:
        may_act: returns whether the leader's lease is valid, as `Leadership.may_act`.

    Raises:
        ActingNotAllowedError: it is not, or another jobmanager leads.
    """
    try:
        if may_act():
            return
    except LeadershipLostError as lost:
        raise ActingNotAllowedError(str(lost)) from lost
    raise ActingNotAllowedError("the leader's lease could not be renewed")


def read_lease() -> LeaseRow:
    """Return the lease as it is now."""
    row = LeaderEpoch.objects.filter(name=ROLE).first()
    return LeaseRow(0, 0, "", "") if row is None else LeaseRow(row.epoch, row.beat, row.holder, row.address)


def take_over(seen: LeaseRow, holder: str, address: str, clock: Clock, above: int = 0) -> Leadership | None:
    """Become leader unless the lease has changed since it was seen; the previous leader is fenced off from now on.

    Args:
        seen: the lease that a standby has decided to take over.
        holder: host and process, shown to users.
        address: host:port at which this process listens while it lives.
        clock: of this process.
        above: the highest epoch that is known from elsewhere; the new one is higher.

    Returns:
        None: the lease has changed.

    Raises:
        DatabaseError: it is unknown whether the lease was taken.
        SlowDatabaseError: it was not, because the database was slow.
    """
    begun_ms = clock.monotonic_ms()
    with transaction.atomic():
        if seen.epoch == 0:
            LeaderEpoch.objects.get_or_create(name=ROLE)
        unchanged = LeaderEpoch.objects.filter(name=ROLE, epoch=seen.epoch, beat=seen.beat, holder=seen.holder)
        epoch = max(seen.epoch, above) + 1
        taken = unchanged.update(epoch=epoch, beat=F("beat") + 1, holder=holder, address=address, since=clock.now_ms())
        if taken and clock.monotonic_ms() - begun_ms > SLOW_MS:
            raise SlowDatabaseError("the database was too slow for a take-over")
    return Leadership(epoch, HeldLease(begun_ms), clock) if taken else None
