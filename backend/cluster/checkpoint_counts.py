"""Counts of a job's checkpoints in SQL: a new leader goes on with those of the one before."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from backend.cluster.models import CheckpointStatistics
from runtime.checkpoint.statistics import RecordedDistribution, StatisticsRecord


def write_statistics(job_id: str, record: StatisticsRecord) -> None:
    """Write the counts, unless newer ones are there; in a transaction that holds the leader's epoch."""
    values = {"ended": record.ended, "record": asdict(record)}
    row, is_new = CheckpointStatistics.objects.get_or_create(job_id=job_id, defaults=values)
    if not is_new and row.ended <= record.ended:
        row.ended, row.record = record.ended, values["record"]
        row.save()


def read_statistics(job_id: str) -> StatisticsRecord | None:
    """Return the recorded counts of a job; None: none of its checkpoints has ended."""
    row = CheckpointStatistics.objects.filter(job_id=job_id).first()
    return None if row is None else _decoded(row.record)


def _decoded(record: dict[str, Any]) -> StatisticsRecord:
    distributions = {
        name: RecordedDistribution(**{**values, "recent": tuple(values["recent"])})
        for name, values in record["distributions"].items()
    }
    # earlier releases did not tell savepoints from other checkpoints
    savepoints = record.get("savepoints", 0)
    return StatisticsRecord(record["restored"], record["completed"], record["failed"], distributions, savepoints)
