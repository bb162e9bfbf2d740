"""Samples of the memory of TaskManagers: of the machine, and of the processes of their slots. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from backend.cluster.metric_samples import Row
from runtime.jobmaster.status import TaskSnapshot
from runtime.jobmaster.task_figures import number_of
from runtime.task.memory import RESIDENT

MEMORY_USED: Final = "memory_used"
SLOTS_MEMORY: Final = "slots_memory"
SLOTS_USED: Final = "slots_used"
SERIES: Final = (MEMORY_USED, SLOTS_MEMORY, SLOTS_USED)
"""Bytes of the machine in use, resident bytes of the processes of slots, and number of slots in use."""


def taskmanager_history(name: str) -> str:
    """Return the id under which the history of a TaskManager is kept beside those of jobs."""
    return f"taskmanager:{name}"


def memory_of_slots(document: Mapping[str, Any], tasks: Iterable[TaskSnapshot]) -> dict[tuple[str, int], float]:
    """Return the memory of the slots of a job, by TaskManager and slot; bytes.

    Args:
        document: the job's live document, which says where its tasks are.
        tasks: with what they have reported; tasks of a slot report the same process.
    """
    places = {
        (vertex["id"], subtask["index"]): subtask["taskmanager"]
        for vertex in document["vertices"]
        for subtask in vertex["subtasks"]
    }
    found = {}
    for task in tasks:
        place = places.get((task.task.vertex_id, task.task.subtask_index))
        resident = number_of(task.metrics.get(RESIDENT))
        if place and resident is not None and task.ended_ms is None:
            found[place, int(task.slot)] = resident
    return found


def taskmanager_rows(
    taskmanagers: Iterable[Mapping[str, Any]], memory: Iterable[Mapping[tuple[str, int], float]]
) -> dict[str, Row]:
    """Return the numbers of each TaskManager, by its id.

    Args:
        taskmanagers: their entries in the cluster's document.
        memory: of the slots of each job.
    """
    of_slots: defaultdict[str, float] = defaultdict(float)
    for of_job in memory:
        for (name, _), resident in of_job.items():
            of_slots[name] += resident
    return {
        entry["id"]: {
            MEMORY_USED: float(entry["physical_memory"] - entry["free_memory"]) if entry["physical_memory"] else None,
            SLOTS_MEMORY: of_slots[entry["id"]],
            SLOTS_USED: float(entry["slots"] - entry["free_slots"]),
        }
        for entry in taskmanagers
    }
