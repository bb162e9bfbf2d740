"""LedSwitches: switches of the execution, for the leading jobmanager's poll; see `led_replacements`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from backend.cluster.led_replacements import LedReplacements
from backend.cluster.planned_jobs import PlannedJob
from backend.cluster.replacement_machine import OPEN_STATES
from backend.dispatcher.models import ExecutionSwitch
from backend.dispatcher.switches import planned_job


class LedSwitches(LedReplacements[ExecutionSwitch]):
    """The open switches of one leader."""

    what: ClassVar[str] = "switch"

    def needed_jobs(self) -> Collection[str]:
        """Return the jobs of switches that are under way, old and new ones."""
        rows = ExecutionSwitch.objects.filter(state__in=OPEN_STATES)
        return {job_id for ids in rows.values_list("old_job_id", "job_id", "rollback_job_id") for job_id in ids}

    def open_rows(self) -> Sequence[ExecutionSwitch]:
        found = ExecutionSwitch.objects.filter(state__in=OPEN_STATES).select_related("created_by")
        return list(found.defer("planned").order_by("created_at"))

    def replaced_job(self, row: ExecutionSwitch) -> str:
        return row.old_job_id

    def savepoint_of(self, row: ExecutionSwitch) -> str:
        return row.savepoint

    def with_savepoint(self, row: ExecutionSwitch, location: str) -> Mapping[str, Any]:
        return {"savepoint": location}

    def new_job(self, row: ExecutionSwitch, savepoint: str) -> PlannedJob:
        return planned_job(row, savepoint)
