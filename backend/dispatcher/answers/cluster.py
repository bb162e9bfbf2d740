"""Types of the routes of the cluster and its TaskManagers."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from runtime.execution.executor_figures import SparkExecutor

Overview = TypedDict(
    "Overview",
    {
        "taskmanagers": int,
        "slots-total": int,
        "slots-available": int,
        "jobs-running": int,
        "jobs-finished": int,
        "jobs-cancelled": int,
        "jobs-failed": int,
        "flink-version": str,
        "flink-commit": str,
        "tidemark-version": str,
    },
)
Features = TypedDict("Features", {"web-submit": bool, "web-cancel": bool, "web-rescale": bool, "web-history": bool})
FlinkConfig = TypedDict(
    "FlinkConfig",
    {
        "refresh-interval": int,
        "timezone-name": str,
        "timezone-offset": int,
        "flink-version": str,
        "flink-revision": str,
        "tidemark-version": str,
        "features": Features,
    },
)


class ConfigOption(TypedDict):
    key: str
    value: str


class Resource(TypedDict):
    cpuCores: float
    taskHeapMemory: int
    taskOffHeapMemory: int
    managedMemory: int
    networkMemory: int
    extendedResources: dict[str, Any]


class Hardware(TypedDict):
    cpuCores: int
    physicalMemory: int
    freeMemory: int
    managedMemory: int


class TaskManagerInfo(TypedDict):
    id: str
    path: str
    dataPort: int
    jmxPort: int
    timeSinceLastHeartbeat: int
    """Time of the heartbeat, under Flink's name."""
    slotsNumber: int
    freeSlots: int
    assignedTasks: int
    totalResource: Resource
    freeResource: Resource
    hardware: Hardware
    memoryConfiguration: dict[str, int]
    blocked: NotRequired[bool]
    """Missing unless it is true."""


class TaskManagers(TypedDict):
    taskmanagers: list[TaskManagerInfo]


class SlotMemory(TypedDict):
    """Of a slot's process, in bytes."""

    resident: int | None
    """null: not known."""
    peak: int | None
    """The most that it has had; null: not known."""
    limit: int | None
    """null: it has none, or it is not known."""


class AllocatedSlot(TypedDict):
    jobId: str
    resource: Resource
    assignedTasks: int
    slot: int | str
    """This and the rest are Tidemark's."""
    pid: int | None
    memory: SlotMemory


class TaskManagerDetail(TaskManagerInfo):
    allocatedSlots: list[AllocatedSlot]
    metrics: dict[str, Any]
    """The JVM's; there is none."""
    sparkExecutors: list[SparkExecutor]
    """Of its Spark session, as of some seconds ago. Tidemark's."""


class ProcessLog(TypedDict):
    name: str
    size: int
    mtime: int
    """Epoch ms."""


class ProcessLogs(TypedDict):
    logs: list[ProcessLog]


class ThreadInfo(TypedDict):
    threadName: str
    stringifiedThreadInfo: str
    """As in a traceback, innermost line first."""


class ThreadDumps(TypedDict):
    threadInfos: list[ThreadInfo]


class JvmInfo(TypedDict):
    """Python's, under Flink's name."""

    version: str
    arch: str
    options: list[str]
    """The arguments of the process."""


class ProcessEnvironment(TypedDict):
    jvm: JvmInfo
    classpath: list[str]
    """sys.path."""


class DataSet(TypedDict):
    id: str
    isComplete: bool


class DataSets(TypedDict):
    dataSets: list[DataSet]
