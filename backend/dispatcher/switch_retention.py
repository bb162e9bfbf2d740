"""SwitchRetention: the leading jobmanager deletes switches of the execution that nobody asks for any more.

Of one that has ended, what was planned goes at once: graphs are large. Its row stays as long as one of its jobs has a
row, whose page tells of it; of one job, the newest ones. Part of the leader's poll.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import ClassVar, Final

from backend.cluster.further_work import Upkeep
from backend.cluster.models import Job
from backend.cluster.replacement_machine import OPEN_STATES
from backend.dispatcher.models import ExecutionSwitch

logger = logging.getLogger(__name__)

LOOK_MS: Final = 60_000.0
"""Interval of looks. Shorter: queries for nothing; longer: graphs stay longer."""
KEPT: Final = 20
"""Of one old job: clients ask for the newest."""
MAX_AT_ONCE: Final = 500
"""Deleted by one transaction; they are small."""


class SwitchRetention(Upkeep):
    """The switches of one cluster; jobs of those that are under way are named by `LedSwitches`."""

    look_ms: ClassVar[float] = LOOK_MS

    def delete(self) -> bool:
        ended = ExecutionSwitch.objects.exclude(state__in=OPEN_STATES)
        planned = ended.exclude(planned="")
        due = _not_kept()
        batch = due[:MAX_AT_ONCE]
        if batch or planned.exists():
            with self._leadership.fenced():
                planned.update(planned="")
                ended.filter(id__in=batch).delete()
        if batch:
            logger.info("deleted %d old switches", len(batch))
        return len(due) <= MAX_AT_ONCE


def _not_kept() -> list[str]:
    """Return the switches that are to be deleted, oldest first."""
    rows = ExecutionSwitch.objects.exclude(state__in=OPEN_STATES).order_by("-created_at", "-id")
    found = list(rows.values_list("id", "old_job_id", "job_id", "rollback_job_id"))
    known = set(Job.objects.filter(id__in={job_id for _, *ids in found for job_id in ids}).values_list("id", flat=True))
    numbers: Counter[str] = Counter()
    due = []
    for row_id, old_job_id, *others in found:
        numbers[old_job_id] += 1
        if numbers[old_job_id] > KEPT or known.isdisjoint((old_job_id, *others)):
            due.append(row_id)
    return due[::-1]
