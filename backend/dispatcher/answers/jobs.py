"""Types of the routes of jobs, and of the applications that consist of one."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from backend.cluster.document_types import JobState
from backend.dispatcher.answers.operations import Progress, Throwable
from backend.dispatcher.answers.vertices import JobVertex, StateCounts

ApplicationState = Literal["CREATED", "RUNNING", "FAILING", "FAILED", "CANCELING", "CANCELED", "FINISHED"]


class JobIdAndStatus(TypedDict):
    id: str
    status: JobState


class Jobs(TypedDict):
    jobs: list[JobIdAndStatus]


JobOverview = TypedDict(
    "JobOverview",
    {
        "jid": str,
        "name": str,
        "jobType": Literal["STREAMING", "BATCH"],
        "schedulerType": Literal["Adaptive", "Default"],
        "start-time": int,
        "end-time": int,
        "duration": int,
        "state": JobState,
        "last-modification": int,
        "tasks": dict[str, int],
        "pending-operators": int,
    },
)


class JobsOverview(TypedDict):
    jobs: list[JobOverview]


class PlanInput(TypedDict):
    id: str
    num: int
    ship_strategy: str
    exchange: str


class PlanNode(TypedDict):
    id: str
    parallelism: int
    operator: str
    operator_strategy: str
    description: str
    inputs: NotRequired[list[PlanInput]]
    optimizer_properties: NotRequired[dict[str, Any]]


class Plan(TypedDict):
    jid: str
    name: str
    type: str
    nodes: list[PlanNode]


class JobPlan(TypedDict):
    plan: Plan


JobDetail = TypedDict(
    "JobDetail",
    {
        "jid": str,
        "application-id": str,
        "name": str,
        "isStoppable": bool,
        "state": JobState,
        "job-type": Literal["STREAMING", "BATCH"],
        "schedulerType": Literal["Adaptive", "Default"],
        "start-time": int,
        "end-time": int,
        "duration": int,
        "maxParallelism": int,
        "now": int,
        "timestamps": dict[JobState, int],
        "vertices": list[JobVertex],
        "status-counts": StateCounts,
        "plan": Plan,
        "pending-operators": int,
        "waiting-for": str,
    },
)


class CancelQuery(TypedDict, total=False):
    mode: Literal["cancel"]


class JobStatus(TypedDict):
    status: JobState


ExecutionConfig = TypedDict(
    "ExecutionConfig",
    {
        "restart-strategy": str,
        "job-parallelism": int,
        "object-reuse-mode": bool,
        "user-config": dict[str, str],
    },
)
JobConfig = TypedDict("JobConfig", {"jid": str, "name": str, "execution-config": ExecutionConfig, "owner": str | None})


class ExceptionsQuery(TypedDict, total=False):
    maxExceptions: int


class ExceptionInfo(TypedDict):
    exceptionName: str
    stacktrace: str
    timestamp: int
    failureLabels: dict[str, str]
    taskName: str | None
    endpoint: str | None
    taskManagerId: str | None


class ExceptionEntry(ExceptionInfo):
    concurrentExceptions: list[ExceptionInfo]


class ExceptionHistory(TypedDict):
    entries: list[ExceptionEntry]
    truncated: bool


class JobExceptions(TypedDict):
    exceptionHistory: ExceptionHistory


ExecutionResult = TypedDict(
    "ExecutionResult",
    {
        "id": str,
        "application-id": str,
        "name": str,
        "application-status": Literal["SUCCEEDED", "FAILED", "CANCELED"],
        "accumulator-results": dict[str, Any],
        "net-runtime": int,
        "start-time": int,
        "end-time": int,
        "failure-cause": NotRequired[Throwable],
    },
)
JobResult = TypedDict("JobResult", {"status": Progress, "job-execution-result": NotRequired[ExecutionResult]})

ApplicationOverview = TypedDict(
    "ApplicationOverview",
    {
        "id": str,
        "name": str,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "status": ApplicationState,
        "jobs": dict[JobState, int],
    },
)


class ApplicationsOverview(TypedDict):
    applications: list[ApplicationOverview]


Application = TypedDict(
    "Application",
    {
        "id": str,
        "name": str,
        "status": ApplicationState,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "timestamps": dict[ApplicationState, int],
        "jobs": list[JobOverview],
    },
)


class ApplicationException(TypedDict):
    exceptionName: str
    stacktrace: str
    timestamp: int
    jobId: str


class ApplicationExceptionHistory(TypedDict):
    entries: list[ApplicationException]


class ApplicationExceptions(TypedDict):
    exceptionHistory: ApplicationExceptionHistory


class LogUrl(TypedDict):
    url: str
