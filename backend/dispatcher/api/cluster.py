"""/overview, /config, /jobmanager/… and /taskmanagers/…"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from backend.cluster import services
from backend.cluster.cluster_document import DRAINING
from backend.cluster.jobmanager_list import leading_jobmanager
from backend.cluster.models import TERMINAL_STATES, Job, TaskManager
from backend.cluster.process_report import read_process
from backend.contract.operation import operation
from backend.dispatcher.answers import cluster as answers
from backend.dispatcher.answers.metrics import AggregatedMetric, Metric, MetricQuery, TaskManagersMetricsQuery
from backend.dispatcher.api.base import Document, FlinkView, aggregations, cluster_options, names
from backend.dispatcher.shapes.jobs import jobs_by_kind
from backend.dispatcher.shapes.metrics import aggregated, listed, taskmanager_metrics
from backend.dispatcher.shapes.processes import process_metrics
from backend.dispatcher.shapes.taskmanagers import SlotMemory, UsedSlot, taskmanager_detail, taskmanager_overview
from runtime import __version__
from runtime.task.memory import LIMIT, PEAK, RESIDENT

FLINK_VERSION = "2.3.0"
"""The Flink release whose API this is; Tidemark's own version is reported separately."""
REFRESH_INTERVAL_MS = 3000


class OverviewView(FlinkView):
    @operation(answers.Overview)
    def get(self, request: Request) -> Response:
        cluster = services.cluster_document()
        return Response(
            {
                "taskmanagers": len(registered(cluster)),
                "slots-total": cluster["slots_total"],
                "slots-available": cluster["slots_available"],
                **jobs_by_kind(Job.objects.values_list("state", flat=True)),
                "flink-version": FLINK_VERSION,
                "flink-commit": "tidemark",
                "tidemark-version": __version__,
            }
        )


class ConfigView(FlinkView):
    @operation(answers.FlinkConfig)
    def get(self, request: Request) -> Response:
        return Response(
            {
                "refresh-interval": REFRESH_INTERVAL_MS,
                "timezone-name": "Coordinated Universal Time",
                "timezone-offset": 0,
                "flink-version": FLINK_VERSION,
                "flink-revision": f"tidemark {__version__}",
                "tidemark-version": __version__,
                "features": {
                    "web-submit": settings.TIDEMARK_SUBMIT,
                    "web-cancel": True,
                    "web-rescale": False,
                    "web-history": False,
                },
            }
        )


class DataSetsView(FlinkView):
    """Cached results of batch jobs: there are none here."""

    @operation(answers.DataSets)
    def get(self, request: Request) -> Response:
        return Response({"dataSets": []})


class JobManagerConfigView(FlinkView):
    @operation(list[answers.ConfigOption])
    def get(self, request: Request) -> Response:
        return Response([{"key": key, "value": value} for key, value in cluster_options().items()])


class JobManagerMetricsView(FlinkView):
    @operation(list[Metric], query=MetricQuery)
    def get(self, request: Request) -> Response:
        cluster = services.cluster_document()
        values = {
            "taskSlotsTotal": cluster["slots_total"],
            "taskSlotsAvailable": cluster["slots_available"],
            "numRegisteredTaskManagers": len(registered(cluster)),
            "numRunningJobs": Job.objects.exclude(state__in=TERMINAL_STATES).count(),
            **process_metrics(read_process(leading_jobmanager())),
        }
        return Response(listed(values, names(request, "get")))


class TaskManagersView(FlinkView):
    @operation(answers.TaskManagers)
    def get(self, request: Request) -> Response:
        taskmanagers = registered(services.cluster_document())
        assigned = {t["id"]: sum(tasks for _, tasks in tasks_of_slots(t["id"])) for t in taskmanagers}
        return Response({"taskmanagers": [taskmanager_overview(t, assigned[t["id"]]) for t in taskmanagers]})


class TaskManagerView(FlinkView):
    @operation(answers.TaskManagerDetail)
    def get(self, request: Request, taskmanager_id: str) -> Response:
        found = find_taskmanager(taskmanager_id)
        report = read_process(taskmanager_id)
        return Response(taskmanager_detail(found, used_slots(taskmanager_id), slot_memory, report))


class TaskManagerMetricsView(FlinkView):
    @operation(list[Metric], query=MetricQuery)
    def get(self, request: Request, taskmanager_id: str) -> Response:
        values = taskmanager_metrics(find_taskmanager(taskmanager_id), read_process(taskmanager_id))
        return Response(listed(values, names(request, "get")))


class TaskManagersMetricsView(FlinkView):
    @operation(list[AggregatedMetric], query=TaskManagersMetricsQuery)
    def get(self, request: Request) -> Response:
        wanted = names(request, "taskmanagers")
        taskmanagers = [t for t in registered(services.cluster_document()) if not wanted or t["id"] in wanted]
        rows = [taskmanager_metrics(t, read_process(t["id"])) for t in taskmanagers]
        return Response(aggregated(rows, names(request, "get"), aggregations(request)))


def registered(cluster: Document) -> list[Document]:
    """Return the currently registered TaskManagers, also those that are draining."""
    return [t for t in cluster["taskmanagers"] if t["state"] in (TaskManager.State.REGISTERED, DRAINING)]


def find_taskmanager(taskmanager_id: str) -> Document:
    """Return a TaskManager's entry of the cluster document.

    Raises:
        NotFound: no registered TaskManager has this id.
    """
    found = next((t for t in registered(services.cluster_document()) if t["id"] == taskmanager_id), None)
    if found is None:
        raise exceptions.NotFound(f"TaskExecutor {taskmanager_id} not found.")
    return found


def tasks_of_slots(taskmanager_id: str) -> list[tuple[str, int]]:
    """Return (job id, number of tasks) for each slot of a TaskManager that is in use."""
    return [(slot.job_id, len(slot.tasks)) for slot in used_slots(taskmanager_id)]


def used_slots(taskmanager_id: str) -> list[UsedSlot]:
    """Return the slots of a TaskManager that are in use."""
    slots: dict[tuple[str, Any], UsedSlot] = {}
    for job_id in Job.objects.exclude(state__in=TERMINAL_STATES).values_list("id", flat=True):
        try:
            document = services.job_document(job_id)
        except services.JobUnknownError:
            # deleted since the ids were read
            continue
        for vertex in document["vertices"]:
            for subtask in vertex["subtasks"]:
                if subtask["taskmanager"] == taskmanager_id:
                    slot = slots.setdefault((job_id, subtask["slot"]), UsedSlot(job_id, subtask["slot"], []))
                    slot.attempt = document.get("attempt", 0)
                    slot.pid = subtask.get("pid")
                    slot.tasks.append((vertex["id"], subtask["index"]))
    return list(slots.values())


def slot_memory(slot: UsedSlot) -> SlotMemory:
    """Return the memory of a slot's process as one of its tasks has reported it; nothing if Redis does not answer."""
    vertex_id, index = slot.tasks[0]
    [reported] = services.task_metrics(slot.job_id, vertex_id, [index])
    sizes = (reported.get(name) for name in (RESIDENT, PEAK, LIMIT))
    return SlotMemory(*(size if isinstance(size, int) else None for size in sizes))
