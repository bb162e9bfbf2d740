"""LedExpiry: the leading jobmanager deletes sessions, login links and tokens that have expired.

They have let nobody in since they expired. They are deleted a day later, should a clock have been wrong, and tokens a
month later, because the page says of one that has expired that it has. Part of the leader's poll.
"""

from __future__ import annotations

import datetime
import logging
from typing import ClassVar, Final

from django.contrib.sessions.models import Session

from backend.accounts.models import ApiToken, LoginLink
from backend.accounts.services import DAY_MS
from backend.cluster.further_work import Upkeep

logger = logging.getLogger(__name__)

LOOK_MS: Final = 3_600_000.0
"""Interval of looks. Shorter: a write for nothing; longer: more expired rows for the lookup of valid ones."""
KEPT_MS: Final = DAY_MS
KEPT_TOKENS_MS: Final = 30 * DAY_MS


class LedExpiry(Upkeep):
    """The expired rows of one cluster."""

    look_ms: ClassVar[float] = LOOK_MS

    def delete(self) -> bool:
        now_ms = self._clock.now_ms()
        ended = datetime.datetime.fromtimestamp((now_ms - KEPT_MS) / 1000, datetime.UTC)
        with self._leadership.fenced():
            sessions, _ = Session.objects.filter(expire_date__lt=ended).delete()
            LoginLink.objects.filter(expires_at__lt=now_ms - KEPT_MS).delete()
            tokens, _ = ApiToken.objects.filter(expires_at__lt=now_ms - KEPT_TOKENS_MS).delete()
        if sessions or tokens:
            logger.info("deleted %d sessions and %d tokens that have expired", sessions, tokens)
        return True
