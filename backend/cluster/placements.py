"""Placements: where regions of running jobs are, as rows; what a new leader adopts.

A row is written when all slots of a region have registered, and deleted in the transaction that records the region's
next attempt, or the end of the job: a region whose row exists has no other attempt.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from backend.cluster.models import TERMINAL_STATES, Placement
from backend.cluster.slot_pool import Stage, StageKey
from runtime.core.ids import Attempt, SlotId, VertexId
from runtime.jobmaster.placement import PlacedRegion, PlacedSlot

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterPlacement:
    """A region, and the stages that host its slots."""

    region: PlacedRegion
    stages: Sequence[Stage]


def placements_of(job_id: str) -> list[ClusterPlacement]:
    """Read the placements of a job, by region."""
    return [_read(row) for row in Placement.objects.filter(job_id=job_id).order_by("region")]


def placed_stages() -> list[Stage]:
    """Read the stages of all jobs that have not ended, except those of malformed rows: such a job fails when run."""
    stages: list[Stage] = []
    for row in Placement.objects.exclude(job__state__in=TERMINAL_STATES):
        try:
            stages += _read(row).stages
        except (AttributeError, TypeError, ValueError) as error:
            logger.warning("the placement of job %s cannot be read: %r", row.job_id, error)
    return stages


def write_placements(job_id: str, placements: Iterable[ClusterPlacement]) -> None:
    """Write placements; the caller holds the leader's epoch."""
    for placed in placements:
        region = placed.region
        values = {
            "attempt": region.attempt,
            "leader_epoch": region.epoch,
            "protocol": region.protocol,
            "parallelism": dict(region.parallelism),
            "slots": [[of.slot, of.pid, of.host, of.data_address] for of in region.slots],
            "stages": [[stage.key.stage, stage.taskmanager, list(stage.slots)] for stage in placed.stages],
        }
        Placement.objects.update_or_create(job_id=job_id, region=region.region, defaults=values)


def _read(row: Placement) -> ClusterPlacement:
    attempt = Attempt(row.attempt)
    slots = [PlacedSlot(SlotId(slot), pid, host, address) for slot, pid, host, address in row.slots]
    parallelism = {VertexId(vertex): count for vertex, count in row.parallelism.items()}
    region = PlacedRegion(row.region, attempt, slots, parallelism, row.leader_epoch, row.protocol)
    stages = [
        Stage(StageKey(row.job_id, attempt, stage), row.region, taskmanager, [SlotId(slot) for slot in of])
        for stage, taskmanager, of in row.stages
    ]
    return ClusterPlacement(region, stages)
