"""Responses about TaskManagers. A slot is a Python process of its own: the TaskManager's memory is not the tasks'."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from backend.cluster.cluster_document import DRAINING
from backend.cluster.process_report import ProcessReport
from backend.dispatcher.shapes.processes import jvm_figures

TaskManager = Mapping[str, Any]


@dataclass(slots=True)
class UsedSlot:
    """A slot in use."""

    job_id: str
    slot: int
    tasks: list[tuple[str, int]]
    """(vertex id, subtask)."""
    attempt: int = 0
    """Of the job."""
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class SlotMemory:
    """Memory of a slot's process, in bytes; None: not known, or no limit."""

    resident: int | None
    peak: int | None
    limit: int | None


_JVM_FIGURES = (
    "heapUsed",
    "heapCommitted",
    "heapMax",
    "nonHeapUsed",
    "nonHeapCommitted",
    "nonHeapMax",
    "directCount",
    "directUsed",
    "directMax",
    "mappedCount",
    "mappedUsed",
    "mappedMax",
    "nettyShuffleMemorySegmentsAvailable",
    "nettyShuffleMemorySegmentsUsed",
    "nettyShuffleMemorySegmentsTotal",
    "nettyShuffleMemoryAvailable",
    "nettyShuffleMemoryUsed",
    "nettyShuffleMemoryTotal",
)
_MEMORY_CONFIGURATION = (
    "frameworkHeap",
    "taskHeap",
    "frameworkOffHeap",
    "taskOffHeap",
    "networkMemory",
    "managedMemory",
    "jvmMetaspace",
    "jvmOverhead",
    "totalFlinkMemory",
    "totalProcessMemory",
)


def taskmanager_overview(taskmanager: TaskManager, assigned_tasks: int) -> dict[str, Any]:
    """Return an entry of /taskmanagers. Memory pools that do not exist here are 0: Java clients need the fields."""
    slots, free = int(taskmanager["slots"]), int(taskmanager["free_slots"])
    # Flink leaves "blocked" out unless it is true
    blocked = {"blocked": True} if taskmanager["state"] == DRAINING else {}
    return {
        "id": taskmanager["id"],
        "path": f"{taskmanager.get('spark_master', '')} on {taskmanager.get('host', '')}",
        "dataPort": 0,
        "jmxPort": -1,
        # under this name, Flink sends the time of the heartbeat
        "timeSinceLastHeartbeat": int(taskmanager["last_heartbeat"] or 0),
        "slotsNumber": slots,
        "freeSlots": free,
        "assignedTasks": assigned_tasks,
        "totalResource": resource(slots),
        "freeResource": resource(free),
        "hardware": {
            "cpuCores": int(taskmanager.get("cpu_cores") or 0),
            "physicalMemory": int(taskmanager.get("physical_memory") or 0),
            "freeMemory": int(taskmanager.get("free_memory") or 0),
            "managedMemory": 0,
        },
        "memoryConfiguration": dict.fromkeys(_MEMORY_CONFIGURATION, 0),
        **blocked,
    }


def taskmanager_detail(
    taskmanager: TaskManager,
    slots: Sequence[UsedSlot],
    memory_of: Callable[[UsedSlot], SlotMemory],
    report: ProcessReport | None,
) -> dict[str, Any]:
    """Return the response of /taskmanagers/:taskmanagerid. It has fields besides Flink's, and so do slots in use."""
    return {
        **taskmanager_overview(taskmanager, sum(len(slot.tasks) for slot in slots)),
        "allocatedSlots": [
            {
                "jobId": slot.job_id,
                "resource": resource(1),
                "assignedTasks": len(slot.tasks),
                "slot": slot.slot,
                "pid": slot.pid,
                "memory": asdict(memory_of(slot)),
            }
            for slot in slots
        ],
        "metrics": dict.fromkeys(_JVM_FIGURES, 0) | jvm_figures(report, int(taskmanager.get("physical_memory") or 0)),
        "sparkExecutors": [] if report is None else report.get("executors", []),
    }


def resource(slots: int) -> dict[str, Any]:
    """Return a resource profile, in which a slot is one core."""
    return {
        "cpuCores": float(slots),
        "taskHeapMemory": 0,
        "taskOffHeapMemory": 0,
        "managedMemory": 0,
        "networkMemory": 0,
        "extendedResources": {},
    }
