"""LedExpiry: the leading jobmanager deletes sessions, login links and tokens that have expired.

They have let nobody in since they expired. They are deleted later, because machines' clocks differ, and tokens later
still, because the page says of one that has expired that it has. Part of the leader's poll.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Collection
from typing import Final

from django.contrib.sessions.models import Session

from backend.accounts.models import ApiToken, LoginLink
from backend.accounts.services import DAY_MS
from backend.cluster.containment import Containment
from backend.cluster.leadership import Leadership
from backend.cluster.location_checks import CheckLocation
from runtime.core.clock import Clock

logger = logging.getLogger(__name__)

LOOK_MS: Final = 3_600_000.0
"""Interval of looks. Shorter: a write for nothing; longer: more expired rows for the lookup of valid ones."""
KEPT_MS: Final = DAY_MS
KEPT_TOKENS_MS: Final = 30 * DAY_MS


class LedExpiry:
    """The expired rows of one cluster; see `backend.cluster.jobmanager.FurtherWork` for the arguments."""

    def __init__(
        self, leadership: Leadership, clock: Clock, containment: Containment, check: CheckLocation | None = None
    ) -> None:
        self._leadership = leadership
        self._clock = clock
        self._look_due_ms = 0.0

    def poll(self) -> None:
        """Delete what expired long ago; at most once in `LOOK_MS`."""
        if self._clock.monotonic_ms() < self._look_due_ms:
            return
        now_ms = self._clock.now_ms()
        ended = datetime.datetime.fromtimestamp((now_ms - KEPT_MS) / 1000, datetime.UTC)
        with self._leadership.fenced():
            sessions, _ = Session.objects.filter(expire_date__lt=ended).delete()
            LoginLink.objects.filter(expires_at__lt=now_ms - KEPT_MS).delete()
            tokens, _ = ApiToken.objects.filter(expires_at__lt=now_ms - KEPT_TOKENS_MS).delete()
        if sessions or tokens:
            logger.info("deleted %d sessions and %d tokens that have expired", sessions, tokens)
        self._look_due_ms = self._clock.monotonic_ms() + LOOK_MS

    def needed_jobs(self) -> Collection[str]:
        """Return no job: none of these rows refers to one."""
        return ()
