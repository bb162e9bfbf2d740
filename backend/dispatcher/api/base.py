"""Common parts of the views of Flink's routes: parameters, jobs and vertices by id, error format."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, NoReturn

from django.conf import settings
from rest_framework import exceptions
from rest_framework.request import Request

from backend.accounts.answers import FlinkErrors
from backend.accounts.views import ClosedView, ErrorHandler
from backend.audit.redaction import redacted
from backend.cluster import services
from backend.cluster.models import Job
from backend.config import environment
from backend.dispatcher.errors import BadRequest, flink_errors
from backend.dispatcher.shapes.jobs import JobFacts
from backend.dispatcher.shapes.statistics import AGGREGATIONS

Document = dict[str, Any]

_ID = re.compile(r"[0-9a-f]{32}")
MAX_DIGITS = 18
"""Maximum number of digits of a number in a request."""
MAX_LISTED_IDS = 5000
"""Maximum number of metric or job ids in a query; no page asks for more."""


class FlinkView(ClosedView):
    """A route of Flink's API, with or without /v1."""

    errors = FlinkErrors

    def get_exception_handler(self) -> ErrorHandler:
        return flink_errors


class NoSuchRoute(FlinkView):
    """Answers 404 for all other paths and methods."""

    def _refuse(self, request: Request, path: str = "") -> NoReturn:
        raise exceptions.NotFound(f"Unable to load requested file {request.path}.")

    get = post = put = patch = delete = _refuse


class JobView(FlinkView):
    """A route under /jobs/:jobid: `job` is its row, `document` its live document."""

    job: Job
    document: Document

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self.check_parameters(**kwargs)
        self.job = find_job(kwargs["job_id"])
        self.document = document_of(self.job)

    def check_parameters(self, **kwargs: str) -> None:
        """Judge further parameters of the route, of a user who may call it.

        Raises:
            BadRequest: one cannot be.
        """

    @property
    def facts(self) -> JobFacts:
        return facts_of(self.job, self.document["now"])


class VertexView(JobView):
    """A route under /jobs/:jobid/vertices/:vertexid: `vertex` is its part of the live document."""

    vertex: Document

    def check_parameters(self, **kwargs: str) -> None:
        check_id("vertexid", kwargs["vertex_id"])

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        vertex_id = kwargs["vertex_id"]
        vertex = next((v for v in self.document["vertices"] if v["id"] == vertex_id), None)
        if vertex is None:
            raise exceptions.NotFound(f"No vertex with ID {vertex_id} exists in job {self.job.id}.")
        self.vertex = vertex

    def subtask(self, index: str) -> Document:
        """Return the subtask with an index.

        Raises:
            BadRequest: the index is not a number.
            NotFound: the vertex has fewer subtasks.
        """
        number = path_number("subtaskindex", index)
        found = next((s for s in self.vertex["subtasks"] if s["index"] == number), None)
        if found is None:
            raise exceptions.NotFound(f"Vertex {self.vertex['id']} has no subtask {number}.")
        return dict(found)


def bad_parameter(name: str, value: str) -> BadRequest:
    """Return the error for an unreadable path parameter."""
    return BadRequest(
        f'Bad request, could not parse parameters: Cannot resolve path parameter ({name}) from value "{value[:100]}".'
    )


def path_number(name: str, value: str) -> int:
    """Parse a path parameter that is a number.

    Raises:
        BadRequest: it is not one, or has too many digits.
    """
    if not is_number(value):
        raise bad_parameter(name, value)
    return int(value)


def is_number(text: str) -> bool:
    """Return whether a text is a whole number that `int` takes: it fails on thousands of digits."""
    return text.isdecimal() and len(text) <= MAX_DIGITS


def check_id(name: str, value: str) -> None:
    """Refuse what is not 32 lower-case hex digits."""
    if not _ID.fullmatch(value):
        raise bad_parameter(name, value)


def find_job(job_id: str, parameter: str = "jobid") -> Job:
    """Return a job's row without its graph.

    Raises:
        BadRequest: the id is malformed.
        NotFound: no job has this id.
    """
    check_id(parameter, job_id)
    try:
        return services.get_job(job_id)
    except services.JobUnknownError as error:
        raise exceptions.NotFound(str(error)) from error


def document_of(job: Job) -> Document:
    """Return a job's live document."""
    return services.job_document(job.id)


def facts_of(job: Job, now: int) -> JobFacts:
    """Return the part of a row that the shapes need."""
    return JobFacts(
        id=job.id,
        name=job.name,
        state=job.state,
        state_times=job.state_times,
        created_at=job.created_at,
        ended_at=job.ended_at,
        parallelism=job.parallelism,
        restarts=job.restarts,
        configuration=job.configuration,
        plan=job.plan,
        now=now,
    )


def names(request: Request, parameter: str) -> list[str]:
    """Return the names in a comma-separated query parameter, which may also be repeated."""
    # a NUL, which PostgreSQL fails on, is in no name
    texts = [text.replace("\0", "\ufffd") for text in request.query_params.getlist(parameter)]
    values = [name for text in texts for name in text.split(",") if name]
    if len(values) > MAX_LISTED_IDS:
        raise BadRequest(f"Query parameter {parameter} has more than {MAX_LISTED_IDS} values.")
    return values


def aggregations(request: Request, allowed: Collection[str] = AGGREGATIONS[:-1]) -> Collection[str]:
    """Return the aggregations in the `agg` parameter; all if it is absent."""
    wanted = names(request, "agg")
    for name in wanted:
        if name not in allowed:
            raise BadRequest(f"Query parameter agg: {name} is not one of {', '.join(allowed)}.")
    return wanted or allowed


def whole_number(name: str, value: Any, low: int, high: int) -> int:
    """Parse a whole number given as a number or as text.

    Raises:
        BadRequest: it is not a number, or outside of [low, high].
    """
    text = str(value)
    if isinstance(value, bool) or not is_number(text) or not low <= int(text) <= high:
        raise BadRequest(f"{name} must be a whole number from {low} to {high}, not {text[:40]!r}.")
    return int(text)


def cluster_options() -> dict[str, str]:
    """Return the cluster's own configuration, under Flink's keys where they exist."""
    return redacted(
        {
            "spark.master": environment.spark_master(),
            "taskmanager.numberOfTaskSlots": environment.slots(),
            "web.submit.enable": str(settings.TIDEMARK_SUBMIT).lower(),
            "web.cancel.enable": "true",
            "web.upload.max-bytes": settings.TIDEMARK_MAX_UPLOAD_BYTES,
        }
    )
