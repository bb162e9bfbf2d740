"""Jobs, checkpoints, savepoints, operations and TaskManagers in the admin.

The leader owns these rows. Nothing here writes one: acts ask for operations as the REST API does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, reverse
from django.utils.html import format_html

from backend.administration.acts import JOB_ACTS, SAVEPOINT_ACTS, Act
from backend.administration.confirmations import Confirmation
from backend.administration.models import Savepoint
from backend.administration.tables import Table, block, duration, moment, shown, size
from backend.audit import trail
from backend.audit.redaction import redacted, redacted_arguments
from backend.cluster import services
from backend.cluster.models import Checkpoint, Job, Operation, TaskManager
from backend.config.base_path import page_route

MAX_FAILURES_SHOWN = 10
LARGE_FIELDS = ("graph", "document", "plan")
"""Of a job."""


class ActingTable(Table):
    """A table for whose rows something can be asked: an action leads to a page that says what will happen."""

    acts: ClassVar[tuple[Act, ...]] = ()

    def get_urls(self) -> list[URLPattern]:
        confirmations = [
            self.route(f"ask/{act.name}/", Confirmation(act, self), f"ask_{act.name}") for act in self.acts
        ]
        return [*super().get_urls(), *confirmations]

    def get_actions(self, request: HttpRequest) -> Any:
        return {act.name: (_chooser(act), act.name, act.label) for act in self.acts}

    def ask_url(self, act: Act, ids: Sequence[str]) -> str:
        """Return the path of an act's confirmation page."""
        meta = self.model._meta
        path = reverse(f"admin:{meta.app_label}_{meta.model_name}_ask_{act.name}")
        return f"{path}?{urlencode([('id', key) for key in ids])}"

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Mapping[str, Any] | None = None
    ) -> HttpResponse:
        row = self.get_object(request, object_id)
        tools = [] if row is None else self.tools(row)
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), "tools": tools})

    def tools(self, row: Any) -> list[dict[str, str]]:
        """Return the links above a row's page."""
        possible = [act for act in self.acts if act.obstacle(row) is None]
        return [{"url": self.ask_url(act, [row.pk]), "label": act.label} for act in possible]


def _chooser(act: Act) -> Any:
    def chosen(table: Any, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse:
        ids = [str(key) for key in rows.values_list("pk", flat=True)[:1000]]
        trail.note(request, chosen=act.name, rows=len(ids))
        return HttpResponseRedirect(table.ask_url(act, ids))

    return chosen


class Jobs(ActingTable):
    acts = JOB_ACTS
    list_display = ("name", "state", "owner", "started", "lasted", "restarts", "parallelism", "waiting_for", "id")
    list_filter = ("state",)
    list_select_related = ("submitted_by",)
    search_fields = ("name", "id")
    ordering = ("-created_at",)
    facts = (
        "name",
        "id",
        "state",
        "waiting_for",
        "owner",
        "program",
        "arguments",
        "started",
        "ended",
        "lasted",
        "parallelism",
        "slots_required",
        "attempt",
        "restarts",
        "num_failures",
        "options",
        "cause",
        "failures",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        # large, and of no use here
        return super().get_queryset(request).defer(*LARGE_FIELDS)

    def tools(self, row: Any) -> list[dict[str, str]]:
        page = {"url": f"{page_route()}jobs/{row.pk}", "label": "Show in the dashboard"}
        operations = f"{reverse('admin:cluster_operation_changelist')}?job__id={row.pk}"
        return [*super().tools(row), {"url": operations, "label": "Operations"}, page]

    @shown("owner", "submitted_by__username")
    def owner(self, job: Any) -> str | None:
        return None if job.submitted_by is None else str(job.submitted_by.get_username())

    @shown("program")
    def program(self, job: Any) -> str | None:
        return None if job.artifact is None else str(job.artifact.file_name)

    @shown("arguments")
    def arguments(self, job: Any) -> Any:
        return block("\n".join(redacted_arguments(job.program_args)))

    @shown("started", "created_at")
    def started(self, job: Any) -> str | None:
        return moment(job.created_at)

    @shown("ended", "ended_at")
    def ended(self, job: Any) -> str | None:
        return moment(job.ended_at)

    @shown("duration")
    def lasted(self, job: Any) -> str:
        return duration((job.ended_at or services.now_ms()) - job.created_at)

    @shown("configuration")
    def options(self, job: Any) -> Any:
        return block("\n".join(f"{key}: {value}" for key, value in sorted(redacted(job.configuration).items())))

    @shown("cause of the failure")
    def cause(self, job: Any) -> Any:
        failure = job.failure or {}
        return block("\n".join(text for text in (failure.get("message"), failure.get("stacktrace")) if text))

    @shown("latest failures")
    def failures(self, job: Any) -> Any:
        rows = services.list_exceptions(job)[:MAX_FAILURES_SHOWN]
        return block("\n".join(f"{moment(row.timestamp)}  {row.task_name or '–'}  {row.message}" for row in rows))


class TableOfJobs(Table):
    """A table whose rows belong to jobs."""

    list_select_related: ClassVar[Any] = ("job",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # large, and of no use here
        return super().get_queryset(request).defer(*(f"job__{name}" for name in LARGE_FIELDS))

    @shown("job", "job__name")
    def of(self, row: Any) -> Any:
        return _link_to_job(row)


class Checkpoints(TableOfJobs):
    list_display = ("checkpoint_id", "of", "location", "completed", "bytes", "is_savepoint")
    list_filter = ("is_savepoint",)
    search_fields = ("job__id", "job__name", "location")
    ordering = ("-completed_at",)
    facts = (
        "checkpoint_id",
        "of",
        "location",
        "is_savepoint",
        "is_owned",
        "triggered",
        "completed",
        "bytes",
        "attempt",
        "leader_epoch",
    )

    @shown("triggered", "triggered_at")
    def triggered(self, row: Any) -> str | None:
        return moment(row.triggered_at)

    @shown("completed", "completed_at")
    def completed(self, row: Any) -> str | None:
        return moment(row.completed_at)

    @shown("size", "size")
    def bytes(self, row: Any) -> str | None:
        return size(row.size)


class Operations(TableOfJobs):
    list_display = ("trigger_id", "kind", "of", "state", "asked", "lasted", "asked_by", "outcome")
    list_filter = ("kind", "state")
    list_select_related = ("job", "requested_by")
    search_fields = ("trigger_id", "job__id", "job__name")
    ordering = ("-created_at",)
    facts = ("trigger_id", "kind", "of", "state", "asked", "finished", "asked_by", "given", "going_on", "answer")

    def lookup_allowed(self, lookup: str, value: Any, request: Any = None) -> bool:
        return lookup == "job__id" or super().lookup_allowed(lookup, value, request)

    @shown("asked", "created_at")
    def asked(self, row: Any) -> str | None:
        return moment(row.created_at)

    @shown("finished", "finished_at")
    def finished(self, row: Any) -> str | None:
        return moment(row.finished_at)

    @shown("duration")
    def lasted(self, row: Any) -> str:
        return duration((row.finished_at or services.now_ms()) - row.created_at)

    @shown("by", "requested_by__username")
    def asked_by(self, row: Any) -> str | None:
        return None if row.requested_by is None else str(row.requested_by.get_username())

    @shown("result")
    def outcome(self, row: Any) -> str | None:
        if row.result is None:
            return None
        if "error" not in row.result:
            return "done"
        text = str(row.result["error"])
        return f"failed: {text[:120]}{'…' if len(text) > 120 else ''}"

    @shown("parameters")
    def given(self, row: Any) -> Any:
        return block(row.parameters)

    @shown("progress")
    def going_on(self, row: Any) -> Any:
        return block(row.progress)

    @shown("result")
    def answer(self, row: Any) -> Any:
        return block(row.result)


class Savepoints(TableOfJobs, ActingTable):
    acts = SAVEPOINT_ACTS
    list_display = ("location", "of", "taken", "kind", "taken_as", "asked_by")
    list_filter = ("kind",)
    list_select_related = ("job", "requested_by")
    search_fields = ("job__id", "job__name")
    ordering = ("-finished_at",)
    facts = ("location", "of", "taken", "kind", "taken_as", "asked_by")

    @shown("taken", "finished_at")
    def taken(self, row: Any) -> str | None:
        return moment(row.finished_at)

    @shown("format")
    def taken_as(self, row: Any) -> str:
        return str(row.parameters.get("format", "CANONICAL")).capitalize()

    @shown("by", "requested_by__username")
    def asked_by(self, row: Any) -> str | None:
        return None if row.requested_by is None else str(row.requested_by.get_username())


class TaskManagers(Table):
    list_display = ("id", "state", "host", "slots", "registered", "spark_master")
    list_filter = ("state",)
    search_fields = ("id", "host")
    ordering = ("-registered_at",)
    facts = (
        "id",
        "state",
        "host",
        "pid",
        "slots",
        "spark_master",
        "worker_name",
        "registered",
        "heard",
        "resources",
        "epoch",
    )

    @shown("registered", "registered_at")
    def registered(self, row: Any) -> str | None:
        return moment(row.registered_at)

    @shown("last heartbeat at a change", "last_heartbeat")
    def heard(self, row: Any) -> str | None:
        return moment(row.last_heartbeat)

    @shown("hardware")
    def resources(self, row: Any) -> Any:
        return block(json.dumps(row.hardware, indent=2, sort_keys=True)) if row.hardware else None


def register(site: admin.AdminSite) -> None:
    """Add the tables to the site."""
    site.register(Job, Jobs)
    site.register(Savepoint, Savepoints)
    site.register(Checkpoint, Checkpoints)
    site.register(Operation, Operations)
    site.register(TaskManager, TaskManagers)


def _link_to_job(row: Any) -> Any:
    if row.job is None:
        return None
    return format_html('<a href="{}">{}</a>', reverse("admin:cluster_job_change", args=[row.job_id]), row.job.name)
