"""Tidemark's own REST routes: live documents, vertex metrics and job logs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.views import ProductView, is_clean_text
from backend.cluster import services
from backend.cluster.document_types import ClusterDocument, JobDocument, JobManagers
from backend.cluster.jobmanager_list import list_jobmanagers
from backend.cluster.models import Job
from backend.cluster.program_files import storage_problems
from backend.cluster.storage_calls import LOGS, ask
from backend.cluster.task_metrics import Value, flink_metrics, metric_scopes
from backend.contract.operation import operation
from backend.live import answers, topics
from backend.live.answers import LogFiles, LogQuery, LogSearch, LogSearchParameters, VertexMetrics
from backend.live.log_lines import DEFAULT_MATCHES, MAX_MATCHES, MAX_QUERY_CHARS, Found, search
from backend.live.log_text import LogText
from backend.live.logs import DEFAULT_LIMIT_BYTES, MAX_LIMIT_BYTES, LogFile, Page, find_log, list_logs, read_page
from backend.live.topic_types import LiveCluster, LiveJob, LiveOperators, LiveVertex

_ID = re.compile(r"[0-9a-f]{32}")
MAX_SAFE_INTEGER = 2**53 - 1
_NUMBER = re.compile(r"-?\d{1,18}")


class ClusterView(ProductView):
    @operation(ClusterDocument)
    def get(self, request: Request) -> Response:
        document, freshness = services.read_cluster()
        return Response(document | {"freshness": freshness.to_json()})


class ClusterTopicView(ProductView):
    """The document of the topic "cluster"; the page reads it while its WebSocket is down."""

    @operation(LiveCluster)
    def get(self, request: Request) -> Response:
        document, freshness = services.read_cluster()
        return Response(topics.cluster_topic(document) | {"freshness": freshness.to_json()})


class JobManagersView(ProductView):
    @operation(JobManagers)
    def get(self, request: Request) -> Response:
        return Response(list_jobmanagers())


class LiveJobView(ProductView):
    @operation(JobDocument)
    def get(self, request: Request, job_id: str) -> Response:
        check_job(job_id)
        document, freshness = services.read_job(job_id)
        return Response(document | {"freshness": freshness.to_json()})


class JobTopicView(ProductView):
    """The document of the topic "job:<id>"; the page reads it while its WebSocket is down."""

    @operation(LiveJob)
    def get(self, request: Request, job_id: str) -> Response:
        check_job(job_id)
        document, freshness = services.read_job(job_id)
        return Response(topics.job_document(document) | {"freshness": freshness.to_json()})


class VertexTopicView(ProductView):
    """The document of the topic "job:<id>/vertex:<id>"."""

    @operation(LiveVertex)
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        check_job(job_id)
        document, freshness = services.read_job(job_id)
        try:
            subtasks = topics.vertex_document(document, vertex_id)
        except topics.VertexUnknownError as error:
            raise exceptions.NotFound(str(error)) from error
        return Response(subtasks | {"freshness": freshness.to_json()})


class OperatorsTopicView(ProductView):
    """The document of the topic "job:<id>/operators"."""

    @operation(LiveOperators)
    def get(self, request: Request, job_id: str) -> Response:
        check_job(job_id)
        document, freshness = services.read_job(job_id)
        return Response(topics.operators_document(document) | {"freshness": freshness.to_json()})


class VertexMetricsView(ProductView):
    """All metrics of a vertex at once, by Flink's ids; Flink's own route needs every id in the URL."""

    @operation(VertexMetrics)
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        check_job(job_id)
        document = services.job_document(job_id)
        vertex = next((v for v in document["vertices"] if v["id"] == vertex_id), None)
        if vertex is None:
            raise exceptions.NotFound(f"Job {job_id} has no vertex {vertex_id[:100]!r}.")
        subtasks = [subtask["index"] for subtask in vertex["subtasks"]]
        scopes = metric_scopes(vertex["operators"])
        values: dict[str, dict[str, Value]] = {}
        for index, reported in zip(subtasks, services.task_metrics(job_id, vertex_id, subtasks), strict=True):
            for name, value in flink_metrics(reported, scopes).items():
                values.setdefault(name, {})[str(index)] = _for_javascript(value)
        metrics = [{"id": name, "values": values[name]} for name in sorted(values)]
        operators = [
            {"id": operator_id, "name": operator["name"], "scope": scope}
            for (operator_id, scope), operator in zip(scopes.items(), vertex["operators"], strict=True)
        ]
        return Response({"subtasks": subtasks, "operators": operators, "metrics": metrics})


def _for_javascript(value: Value) -> Value:
    """Return integers that JavaScript's numbers cannot represent as text."""
    return str(value) if isinstance(value, int) and abs(value) > MAX_SAFE_INTEGER else value


class LogsView(ProductView):
    @operation(LogFiles)
    def get(self, request: Request, job_id: str) -> Response:
        check_job(job_id)
        kept = ("name", "attempt", "slot", "kind", "size", "mtime")
        with storage_problems(LOGS):
            files = ask(LOGS, lambda: list_logs(job_id))
        return Response({"files": [{name: getattr(file, name) for name in kept} for file in files]})


class LogView(ProductView):
    @operation(answers.LogText, query=LogQuery)
    def get(self, request: Request, job_id: str, name: str) -> Response:
        check_job(job_id)
        offset = query_number(request, "offset", 0, -(2**50), 2**50)
        limit = query_number(request, "limit", DEFAULT_LIMIT_BYTES, 4, MAX_LIMIT_BYTES)
        file = _file(job_id, name)
        with _unless_rotated(file):
            page = ask(LOGS, lambda: read_page(file, offset, limit))
        return Response(
            {
                "name": name,
                "offset": page.offset,
                "next_offset": page.next_offset,
                "begin": page.begin,
                "size": page.size,
                "first_line": page.first_line,
                "lines": page.lines,
                "text": page.text,
            }
        )


class LogSearchView(ProductView):
    """Search of a whole log file, of which the page has loaded only the end."""

    @operation(LogSearch, query=LogSearchParameters)
    def get(self, request: Request, job_id: str) -> Response:
        check_job(job_id)
        query = request.query_params.get("query", "")
        if not 0 < len(query) <= MAX_QUERY_CHARS or not is_clean_text(query) or "\n" in query:
            raise exceptions.ValidationError(
                {"query": f"Must be one line of text, up to {MAX_QUERY_CHARS} characters."}
            )
        start = query_number(request, "from", 0, 0, 2**50)
        limit = query_number(request, "limit", DEFAULT_MATCHES, 1, MAX_MATCHES)
        file = _file(job_id, request.query_params.get("name", ""))
        is_case_sensitive = request.query_params.get("case") == "true"

        def look() -> tuple[Found, Page]:
            with LogText(file.segments) as log:
                found = search(log, query, is_case_sensitive=is_case_sensitive, start=start, limit=limit)
            return found, read_page(file, 0, 4)

        with _unless_rotated(file):
            found, whole = ask(LOGS, look)
        matches = [{"line": m.line, "offset": m.offset, "text": m.text} for m in found.matches]
        return Response(
            {
                "name": file.name,
                "query": query,
                "size": whole.size,
                "lines": whole.lines,
                "matches": matches,
                "searched_to": found.searched_to,
                "is_complete": found.is_complete,
            }
        )


def _file(job_id: str, name: str) -> LogFile:
    with storage_problems(LOGS):
        file = ask(LOGS, lambda: find_log(job_id, name))
    if file is None:
        raise exceptions.NotFound(f"Job {job_id} has no log file {name[:100]!r}.")
    return file


@contextmanager
def _unless_rotated(file: LogFile) -> Iterator[None]:
    with storage_problems(LOGS):
        try:
            yield
        except FileNotFoundError as error:
            raise exceptions.NotFound(f"{file.name} was deleted by log rotation.") from error


class NoSuchRoute(ProductView):
    """Answers 404 for all other paths under /api/."""

    def _refuse(self, request: Request, path: str = "") -> Response:
        raise exceptions.NotFound(f"{request.path} does not exist.")

    get = post = put = patch = delete = _refuse


def check_job(job_id: str) -> Job:
    """Return the job with an id.

    Raises:
        ValidationError: it is malformed.
        NotFound: no job has this id.
    """
    if not _ID.fullmatch(job_id):
        raise exceptions.ValidationError({"job_id": "A job's id is 32 lower-case hex digits."})
    try:
        return services.get_job(job_id)
    except services.JobUnknownError as error:
        raise exceptions.NotFound(str(error)) from error


def query_number(request: Request, name: str, default: int, low: int, high: int) -> int:
    """Return a whole number of the query.

    Raises:
        ValidationError: it is none, or out of bounds.
    """
    return number_of(request.query_params, name, default, low, high)


def number_of(query: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    """Return a whole number of a query's parameters, as `query_number` does."""
    text = query.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text) or not low <= int(text) <= high:
        raise exceptions.ValidationError({name: f"Must be a whole number from {low} to {high}."})
    return int(text)
