"""REST routes of the history of a job's metrics, and of a TaskManager's memory."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.views import ProductView
from backend.cluster import services
from backend.cluster.metric_history import step_for
from backend.cluster.metric_samples import Curves, known_series
from backend.cluster.models import TaskManager
from backend.cluster.pinned_metrics import pin, pin_of_series
from backend.cluster.taskmanager_samples import SERIES, taskmanager_history
from backend.contract.operation import operation
from backend.live.answers import HistoryQuery, HistoryWindow, MetricHistory, TaskManagerHistory
from backend.live.api import check_job, query_number
from backend.live.job_events import events_of, failures_of
from backend.live.timeline import MAX_EVENTS, event_entry

DEFAULT_MS = 10 * 60_000
MAX_SERIES = 64
MAX_STEP_MS = 24 * 3_600_000
MAX_READS: Final = 2
"""At a time in this process: each has Redis cut columns out of up to 16 MB, while nobody else is served."""
MAX_WAIT_S: Final = 1.0
"""Wait for one of these places; then it is as if Redis did not answer."""
_MAX_MS = 2**50
_places = threading.BoundedSemaphore(MAX_READS)


class HistoryView(ProductView):
    """Series of the last hour every five seconds, and of the last 24 hours every minute, averaged over steps.

    Of any other metric of a vertex, which begins with "p.", they are kept from when they are asked for.
    """

    @operation(MetricHistory, query=HistoryQuery)
    def get(self, request: Request, job_id: str) -> Response:
        check_job(job_id)
        begin, end, step = _window(request)
        document, _ = services.read_job(job_id)
        names = _series(request, document)
        pins = [found for name in names if (found := pin_of_series(name)) is not None]
        if pins:
            pin(job_id, pins)
        curves = _read(job_id, names, begin, end, step)
        job = services.get_job(job_id)
        events = [*events_of(job, document), *failures_of(job, document)]
        within = sorted((event for event in events if event.is_within(begin, end)), key=lambda event: event.begun)
        told = [event_entry(event) for event in within[-MAX_EVENTS:]]
        return Response(_shown(names, curves, begin, end, step) | {"events": told})


class TaskManagerHistoryView(ProductView):
    """Memory and slots in use of a TaskManager: of the last hour every five seconds, of 24 hours every minute."""

    @operation(TaskManagerHistory, query=HistoryWindow)
    def get(self, request: Request, taskmanager_id: str) -> Response:
        if not TaskManager.objects.filter(id=taskmanager_id).exists():
            raise exceptions.NotFound(f"There is no TaskManager {taskmanager_id[:100]!r}.")
        begin, end, step = _window(request)
        curves = _read(taskmanager_history(taskmanager_id), SERIES, begin, end, step)
        return Response(_shown(SERIES, curves, begin, end, step))


def _window(request: Request) -> tuple[int, int, int]:
    """Return beginning, end and step that are asked for.

    Raises:
        ValidationError: they make no sense.
    """
    end = query_number(request, "to", services.now_ms(), 0, _MAX_MS)
    begin = query_number(request, "from", max(0, end - DEFAULT_MS), 0, _MAX_MS)
    if begin >= end:
        raise exceptions.ValidationError({"from": "Must be before the end (`to`)."})
    wanted = query_number(request, "step", 0, 1, MAX_STEP_MS)
    return begin, end, step_for(begin, end, wanted or None)


def _shown(names: Sequence[str], curves: Curves | None, begin: int, end: int, step: int) -> dict[str, Any]:
    return {
        "is_available": curves is not None,
        "begin": begin,
        "end": end,
        "step": step,
        "times": [] if curves is None else curves.times,
        "series": {name: [] for name in names} if curves is None else dict(zip(names, curves.series, strict=True)),
    }


def _read(job_id: str, names: Sequence[str], begin: int, end: int, step: int) -> Curves | None:
    if not _places.acquire(timeout=MAX_WAIT_S):
        return None
    try:
        return services.metric_history(job_id, names, begin, end, step)
    finally:
        _places.release()


def _series(request: Request, document: Mapping[str, Any]) -> list[str]:
    """Return the names that are asked for, each once.

    Raises:
        ValidationError: there are none or too many, or the job has no such series.
    """
    names = list(dict.fromkeys(filter(None, request.query_params.get("series", "").split(","))))
    if not 1 <= len(names) <= MAX_SERIES:
        raise exceptions.ValidationError({"series": f"Must name 1 to {MAX_SERIES} series, with commas between them."})
    known = known_series(document)
    vertices = {vertex["id"] for vertex in document["vertices"]}
    unknown = [name for name in names if name not in known and not _is_pinnable(name, vertices)]
    if unknown:
        raise exceptions.ValidationError({"series": f"The job has no series {unknown[0][:100]!r}."})
    return names


def _is_pinnable(name: str, vertices: Collection[str]) -> bool:
    found = pin_of_series(name)
    return found is not None and found.vertex in vertices
