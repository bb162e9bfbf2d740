"""Candidate: a jobmanager that does not lead, and waits for the lease. `lease` decides when it takes over."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from django.db import Error as DatabaseFailure
from django.db import connection

from backend.cluster.leader_line import LeaderProbe
from backend.cluster.leadership import Leadership, read_lease, take_over
from backend.cluster.lease import LOOK_MS, StandbyWatch
from backend.cluster.storage_traces import Traces, find_traces
from runtime.core.clock import Clock

logger = logging.getLogger(__name__)


class Candidate:
    """A standby. Used by one thread.

    Args:
        holder: host and process, shown to users.
        address: host:port at which this process listens while it lives.
        clock: of this process.
        find_traces: asks the storage what earlier leaders have left there; must not wait for long.
    """

    def __init__(
        self, holder: str, address: str, clock: Clock, find_traces: Callable[[], Traces] = find_traces
    ) -> None:
        self._holder = holder
        self._address = address
        self._clock = clock
        self._find_traces = find_traces
        #: what was there when this one tried to take over last
        self.traces = Traces()
        self._watch = StandbyWatch()
        self._probe = LeaderProbe()
        self._leader = ""
        self._database_away = False

    def wait_to_lead(self, stop: threading.Event) -> Leadership | None:
        """Wait for the leadership; return None once `stop` is set."""
        try:
            while not stop.is_set():
                leadership = self._turn()
                if leadership is not None:
                    return leadership
                stop.wait(LOOK_MS / 1000)
        finally:
            self._probe.close()
        return None

    def _turn(self) -> Leadership | None:
        try:
            leadership = self._look()
        except DatabaseFailure as error:
            self._watch.interrupted()
            if not self._database_away:
                logger.warning("the lease cannot be read or taken: %s", error)
            self._database_away = True
            connection.close()
            return None
        self._database_away = False
        return leadership

    def _look(self) -> Leadership | None:
        begun_ms = self._clock.monotonic_ms()
        row = read_lease()
        ended_ms = self._clock.monotonic_ms()
        if self._probe.has_ended(row.address):
            self._watch.holder_ended(row.epoch)
        if not self._watch.looked(row, begun_ms, ended_ms):
            if row.holder != self._leader:
                self._leader = row.holder
                logger.info("standing by: %s leads with epoch %d", row.holder, row.epoch)
            return None
        self.traces = self._traces_left()
        logger.info("taking over from epoch %d", row.epoch)
        if self.traces.epoch > row.epoch:
            newest = self.traces.epoch
            logger.warning(
                "the database is older than the storage, which has seen epoch %d: leading with a higher one", newest
            )
        leadership = take_over(row, self._holder, self._address, self._clock, self.traces.epoch)
        if leadership is None:
            self._watch.interrupted()
        return leadership

    def _traces_left(self) -> Traces:
        try:
            return self._find_traces()
        except DatabaseFailure:
            raise
        except Exception:
            # every standby would end with it, and nobody would lead
            logger.exception("what earlier leaders left cannot be read: only the database counts")
            return Traces()
