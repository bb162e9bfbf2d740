"""Responses about TaskManagers. A slot is a Python process here, so there is no JVM heap to report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backend.cluster.cluster_document import DRAINING

TaskManager = Mapping[str, Any]

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


def taskmanager_detail(taskmanager: TaskManager, tasks_of_slots: Sequence[tuple[str, int]]) -> dict[str, Any]:
    """Return the response of /taskmanagers/:taskmanagerid. `tasks_of_slots`: (job id, task count) of each used slot."""
    return {
        **taskmanager_overview(taskmanager, sum(tasks for _, tasks in tasks_of_slots)),
        "allocatedSlots": [
            {"jobId": job_id, "resource": resource(1), "assignedTasks": tasks} for job_id, tasks in tasks_of_slots
        ],
        "metrics": {**dict.fromkeys(_JVM_FIGURES, 0), "garbageCollectors": []},
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
