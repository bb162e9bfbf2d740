"""Pinned metrics: further metrics of a job's tasks whose history is kept, because somebody has asked for it.

A chart of any metric of a vertex asks for its history; from then on the leader samples it with all others
(`metric_samples`), as the least, the average and the greatest value of the subtasks. Of a job so many are kept; then
the one that was asked for first goes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from django.db import transaction

from backend.cluster.metric_samples import LARGEST, Row
from backend.cluster.models import TERMINAL_STATES, Job
from backend.cluster.task_metrics import flink_metrics, metric_scopes
from runtime.jobmaster.status import TaskSnapshot

MAX_PINNED: Final = 64
"""Of a job. More: its samples become larger than those of all its vertices."""
STATISTICS: Final = ("least", "average", "greatest")
MAX_METRIC_CHARS: Final = 200
_SERIES: Final = re.compile(
    rf"p\.(?P<vertex>[0-9a-f]{{32}})\.(?P<metric>[^\s,:\x00]{{1,{MAX_METRIC_CHARS}}})\.(?:{'|'.join(STATISTICS)})"
)


class Pin(NamedTuple):
    """A metric of a vertex."""

    vertex: str
    metric: str
    """Flink's id, as `flink_metrics` has it."""


def pin_of_series(name: str) -> Pin | None:
    """Return the metric that a series is of, "p.<vertex id>.<metric>.<least, average or greatest>"; None: of none."""
    match = _SERIES.fullmatch(name)
    return None if match is None else Pin(match["vertex"], match["metric"])


def pin(job_id: str, wanted: Iterable[Pin]) -> None:
    """Have metrics of a job sampled from now on; nothing is written if they are already, or if the job has ended."""
    with transaction.atomic():
        job = Job.objects.select_for_update().filter(id=job_id).exclude(state__in=TERMINAL_STATES).first()
        if job is None:
            return
        known = [Pin(*each) for each in job.pinned_metrics]
        fresh = [each for each in dict.fromkeys(wanted) if each not in known]
        if fresh:
            job.pinned_metrics = [*known, *fresh][-MAX_PINNED:]
            job.save(update_fields=["pinned_metrics"])


def pins_of(job_ids: Collection[str]) -> dict[str, list[Pin]]:
    """Return the metrics that are pinned of jobs, by job."""
    rows = Job.objects.filter(id__in=job_ids).values_list("id", "pinned_metrics")
    return {job_id: [Pin(*each) for each in pinned] for job_id, pinned in rows}


def pinned_row(pins: Sequence[Pin], vertices: Iterable[Mapping[str, Any]], tasks: Iterable[TaskSnapshot]) -> Row:
    """Return the numbers of pinned metrics, by the names of their series; None: no subtask has told one.

    Args:
        pins: of the job.
        vertices: of its live document.
        tasks: with what they have reported.
    """
    wanted = {each.vertex for each in pins}
    scopes = {vertex["id"]: metric_scopes(vertex["operators"]) for vertex in vertices if vertex["id"] in wanted}
    values: dict[Pin, list[float]] = {each: [] for each in pins}
    for task in tasks:
        vertex = str(task.task.vertex_id)
        if vertex not in scopes:
            continue
        reported = {name: value for name, value in task.metrics.items() if isinstance(value, (int, float))}
        for metric, value in flink_metrics(reported, scopes[vertex]).items():
            number = _number(value)
            if number is not None and Pin(vertex, metric) in values:
                values[Pin(vertex, metric)].append(number)
    row: Row = {}
    for each, found in values.items():
        told = (min(found), sum(found) / len(found), max(found)) if found else (None, None, None)
        names = (f"p.{each.vertex}.{each.metric}.{statistic}" for statistic in STATISTICS)
        row |= dict(zip(names, told, strict=True))
    return row


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value) if abs(value) <= LARGEST else None
