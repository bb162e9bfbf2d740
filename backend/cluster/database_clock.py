"""DatabaseClock: the wall clock of the control plane, which is the database's.

Web processes and JobManagers write times into the same rows, and others sort by them, subtract them and ask whether
they have passed. So all of them take the time from one clock: each knows how far its own is from the database's, and
looks again once a minute. A database in a file has no clock of its own: whoever opens it is on one machine.

Deadlines and leases are measured by monotonic clocks as before. Any thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from django.db import Error, connection

from runtime.core.clock import SYSTEM_CLOCK, Clock

logger = logging.getLogger(__name__)

LOOK_MS: Final = 60_000.0
"""Shorter: queries for nothing; longer: a clock that was set is believed for so long."""
RETRY_MS: Final = 5_000.0
"""After a look without an answer, of a process that keeps looking."""
TOLERANCE_MS: Final = 100.0
"""Clocks that are no further apart are the same: else the time would jump to and fro with each look."""


class DatabaseClock:
    """Implements Clock.

    Args:
        read_ms: returns the database's clock, epoch ms; None: it has none.
        own: the process's clock.
    """

    def __init__(self, read_ms: Callable[[], float | None], own: Clock = SYSTEM_CLOCK) -> None:
        self._read_ms = read_ms
        self._own = own
        #: the database's clock minus this process's; any thread writes
        self._ahead_ms = 0.0
        self._due_ms = float("-inf")

    def now_ms(self) -> int:
        """Return the time as of the last look; asks nobody."""
        return self._own.now_ms() + round(self._ahead_ms)

    def monotonic_ms(self) -> float:
        return self._own.monotonic_ms()

    def look_if_due(self) -> None:
        """Compare the clocks, unless that was done within the last minute; waits for the database."""
        if self._own.monotonic_ms() >= self._due_ms:
            self.look()

    def look(self) -> bool:
        """Compare the clocks; waits for the database. Return False, and leave all as it is, if that does not answer."""
        begun_ms = self._own.monotonic_ms()
        # of many threads one looks
        self._due_ms = begun_ms + LOOK_MS
        try:
            read_ms = self._read_ms()
        except Error as error:
            logger.warning("the database's clock cannot be read: %s", error)
            return False
        if read_ms is None:
            return True
        waited_ms = self._own.monotonic_ms() - begun_ms
        # it was read some time within the wait
        ahead_ms = read_ms - (self._own.now_ms() - waited_ms / 2)
        if abs(ahead_ms - self._ahead_ms) > TOLERANCE_MS + waited_ms / 2:
            logger.warning("this machine's clock is %+.1f s from the database's", -ahead_ms / 1000.0)
            self._ahead_ms = ahead_ms
        return True


def read_database_ms() -> float | None:
    """Return the database's clock, epoch ms; None: it is a file.

    Raises:
        django.db.Error: the database does not answer.
    """
    if connection.vendor != "postgresql":
        return None
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp()) * 1000")
        return float(cursor.fetchone()[0])


CLOCK: Final = DatabaseClock(read_database_ms)
"""The clock of this process."""


def now_ms() -> int:
    """Return the time, epoch ms; may ask the database, so not for event loops."""
    CLOCK.look_if_due()
    return CLOCK.now_ms()


def keep_looking(stopped: threading.Event) -> None:
    """Compare the clocks now, and then on a thread of its own: for a process whose loop waits for nothing."""

    def look() -> float:
        has_answered = CLOCK.look()
        # the next one is a minute away, and a broken one is of no use
        connection.close()
        return LOOK_MS if has_answered else RETRY_MS

    def keep(wait_ms: float) -> None:
        while not stopped.wait(wait_ms / 1000.0):
            wait_ms = look()

    threading.Thread(target=keep, args=(look(),), name="database-clock", daemon=True).start()
