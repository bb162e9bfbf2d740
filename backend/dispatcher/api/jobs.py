"""/jobs, /jobs/:jobid and its subroutes, and Flink 2.3's /applications."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.answers import Nothing
from backend.accounts.errors import Conflict
from backend.accounts.roles import Role
from backend.audit.middleware import audited
from backend.audit.redaction import redacted
from backend.cluster import services
from backend.cluster.models import Job, JobException
from backend.cluster.scaling_history import numbers_of_rescales
from backend.config.base_path import page_route
from backend.contract.operation import operation
from backend.dispatcher.answers import jobs as answers
from backend.dispatcher.answers.cluster import ConfigOption
from backend.dispatcher.answers.metrics import AggregatedMetric, JobAccumulators, JobsMetricsQuery, Metric, MetricQuery
from backend.dispatcher.api.base import (
    FlinkView,
    JobView,
    aggregations,
    cluster_options,
    document_of,
    facts_of,
    find_job,
    names,
    whole_number,
)
from backend.dispatcher.errors import BadRequest
from backend.dispatcher.shapes import accumulators
from backend.dispatcher.shapes import jobs as shapes
from backend.dispatcher.shapes.metrics import aggregated, job_metrics, listed
from backend.dispatcher.uploads import NO_JOB_GRAPHS
from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration
from runtime.jobmaster.restart_strategy import describe_restart_strategy

MAX_OVERVIEW_JOBS = 1000
"""Number of jobs in an overview, newest first; each requires reading its live document."""


class JobsView(FlinkView):
    @operation(answers.Jobs)
    def get(self, request: Request) -> Response:
        rows = Job.objects.order_by("-created_at").values_list("id", "state")
        return Response({"jobs": [{"id": job_id, "status": state} for job_id, state in rows]})

    @operation(None)
    def post(self, request: Request) -> Response:
        raise exceptions.MethodNotAllowed("POST", NO_JOB_GRAPHS)


class JobsOverviewView(FlinkView):
    @operation(answers.JobsOverview)
    def get(self, request: Request) -> Response:
        rows = services.list_jobs()[:MAX_OVERVIEW_JOBS]
        entries = ((job, _settled(job)) for job in rows)
        # each as of its own document, which is as old as the jobmanager's last heartbeat
        return Response({"jobs": [shapes.job_overview(facts_of(job, d.get("now", 0)), d) for job, d in entries]})


class JobsMetricsView(FlinkView):
    @operation(list[AggregatedMetric], query=JobsMetricsQuery)
    def get(self, request: Request) -> Response:
        wanted = names(request, "jobs")
        now = services.vouched_ms()
        rows = services.list_jobs().filter(id__in=wanted) if wanted else services.list_jobs()
        rescales = numbers_of_rescales()
        values = [job_metrics(facts_of(job, now), _settled(job), rescales.get(job.id, 0)) for job in rows]
        return Response(aggregated(values, names(request, "get"), aggregations(request)))


class JobDetailView(JobView):
    roles = {"PATCH": Role.OPERATOR}  # noqa: RUF012

    @operation(answers.JobDetail)
    def get(self, request: Request, job_id: str) -> Response:
        return Response(shapes.job_detail(self.facts, self.document))

    @operation(Nothing, query=answers.CancelQuery, status=202)
    def patch(self, request: Request, job_id: str) -> Response:
        mode = request.query_params.get("mode", "cancel")
        if mode != "cancel":
            raise BadRequest(f"The termination mode {mode!r} is not supported; cancel is.")
        return cancel(request, self.job)


@audited
class CancelByGetView(JobView):
    """`yarn-cancel`: the GET by which Flink's page cancels jobs."""

    roles = {"GET": Role.OPERATOR}  # noqa: RUF012
    instead_of_get = "PATCH"

    @operation(Nothing, status=202)
    def get(self, request: Request, job_id: str) -> Response:
        return cancel(request, self.job)


class JobStatusView(JobView):
    @operation(answers.JobStatus)
    def get(self, request: Request, job_id: str) -> Response:
        return Response({"status": self.job.state})


class JobPlanView(JobView):
    @operation(answers.JobPlan)
    def get(self, request: Request, job_id: str) -> Response:
        return Response({"plan": shapes.plan(self.facts)})


class JobConfigView(JobView):
    @operation(answers.JobConfig)
    def get(self, request: Request, job_id: str) -> Response:
        configuration = self.job.configuration
        return Response(
            shapes.job_config(
                self.facts, redacted(configuration), _restart_strategy(configuration), self.job.submitted_by
            )
        )


class JobClusterConfigView(JobView):
    """The cluster's options, which Flink's page shows beside the job's."""

    @operation(list[ConfigOption])
    def get(self, request: Request, job_id: str) -> Response:
        return Response([{"key": key, "value": value} for key, value in cluster_options().items()])


class JobLogUrlView(JobView):
    """The page that has the log of the JobManager, or of a TaskManager."""

    @operation(answers.LogUrl)
    def get(self, request: Request, job_id: str, taskmanager_id: str = "") -> Response:
        page = f"taskmanagers/{quote(taskmanager_id, safe='')}" if taskmanager_id else "jobmanagers"
        return Response({"url": request.build_absolute_uri(f"{page_route()}{page}")})


class JobExceptionsView(JobView):
    @operation(answers.JobExceptions, query=answers.ExceptionsQuery)
    def get(self, request: Request, job_id: str) -> Response:
        limit = whole_number(
            "maxExceptions", request.query_params.get("maxExceptions", shapes.DEFAULT_MAX_EXCEPTIONS), 0, 10_000
        )
        failures = [_failure(row) for row in services.list_exceptions(self.job)[: limit + 1]]
        return Response(shapes.exception_history(failures, limit, self.job.num_failures))


class JobMetricsView(JobView):
    @operation(list[Metric], query=MetricQuery)
    def get(self, request: Request, job_id: str) -> Response:
        num_rescales = numbers_of_rescales(self.job).get(self.job.id, 0)
        values = job_metrics(self.facts, self.document, num_rescales) | services.job_level_metrics(self.job.id)
        return Response(listed(values, names(request, "get")))


class JobResultView(JobView):
    @operation(answers.JobResult)
    def get(self, request: Request, job_id: str) -> Response:
        newest = services.list_exceptions(self.job).values_list("name", flat=True).first()
        return Response(shapes.execution_result(self.facts, self.job.failure, newest))


class JobAccumulatorsView(JobView):
    @operation(JobAccumulators)
    def get(self, request: Request, job_id: str) -> Response:
        vertex_ids = [vertex["id"] for vertex in self.document["vertices"]]
        return Response(accumulators.job_accumulators(services.job_accumulators(self.job), vertex_ids))


class ApplicationsOverviewView(FlinkView):
    @operation(answers.ApplicationsOverview)
    def get(self, request: Request) -> Response:
        now = services.vouched_ms()
        rows = services.list_jobs()[:MAX_OVERVIEW_JOBS]
        return Response({"applications": [shapes.application_overview(facts_of(job, now)) for job in rows]})


class ApplicationView(FlinkView):
    @operation(answers.Application)
    def get(self, request: Request, application_id: str) -> Response:
        job = find_job(application_id, "applicationid")
        document = document_of(job)
        return Response(shapes.application_detail(facts_of(job, document["now"]), document))


class ApplicationExceptionsView(FlinkView):
    @operation(answers.ApplicationExceptions)
    def get(self, request: Request, application_id: str) -> Response:
        job = find_job(application_id, "applicationid")
        entries = [
            {"exceptionName": f.name, "stacktrace": f.stacktrace, "timestamp": f.timestamp, "jobId": job.id}
            for f in map(_failure, services.list_exceptions(job)[: shapes.DEFAULT_MAX_EXCEPTIONS])
        ]
        return Response({"exceptionHistory": {"entries": entries}})


class ApplicationCancelView(FlinkView):
    roles = {"POST": Role.OPERATOR}  # noqa: RUF012

    @operation(Nothing, status=202)
    def post(self, request: Request, application_id: str) -> Response:
        return cancel(request, find_job(application_id, "applicationid"))


def cancel(request: Request, job: Job) -> Response:
    """Request a job's cancellation; answer 202 {}."""
    try:
        services.request_cancel(job, request.user)
    except services.JobEndedError as error:
        raise Conflict(
            f"Job cancellation failed because the job has already reached another terminal state ({error.job.state})."
        ) from error
    return Response({}, status=202)


def _settled(job: Job) -> dict[str, Any]:
    """Return a job's document for an overview: the saved one once the job has ended."""
    if job.is_terminal and job.document:
        return dict(job.document)
    return document_of(job)


def _failure(row: JobException) -> shapes.Failure:
    return shapes.Failure(
        timestamp=row.timestamp,
        name=row.name,
        message=row.message,
        stacktrace=row.stacktrace,
        task_name=row.task_name,
        location=row.location,
        taskmanager=row.taskmanager,
        suppressed=row.suppressed,
    )


def _restart_strategy(configuration: Mapping[str, str]) -> str:
    try:
        return describe_restart_strategy(Configuration.from_dict(dict(configuration)))
    except ConfigurationError as error:
        # written by an earlier release; the job itself reports the error
        return str(error)
