"""Samples of the memory of TaskManagers, made of their entries and of what tasks report of their processes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from backend.cluster.taskmanager_samples import memory_of_slots, taskmanager_rows
from runtime.core.ids import SlotId, TaskId
from runtime.jobmaster.status import TaskSnapshot
from runtime.task.memory import RESIDENT
from runtime.task.messages import TaskState
from tests.dispatcher import rows

DOCUMENT = {
    "vertices": [
        {"id": rows.SOURCE, "subtasks": [{"index": 0, "taskmanager": "one"}, {"index": 1, "taskmanager": "two"}]},
        {"id": rows.SINK, "subtasks": [{"index": 0, "taskmanager": "one"}, {"index": 1, "taskmanager": ""}]},
    ]
}


def task(vertex: str, index: int, slot: int, resident: Any) -> TaskSnapshot:
    task_id = TaskId(rows.SOURCE if vertex == "source" else rows.SINK, index)
    return TaskSnapshot(task_id, vertex, SlotId(slot), TaskState.RUNNING, {RESIDENT: resident})


def test_tasks_of_a_slot_count_its_process_once() -> None:
    tasks = [task("source", 0, 0, 100), task("sink", 0, 0, 100), task("source", 1, 1, 70)]
    assert memory_of_slots(DOCUMENT, tasks) == {("one", 0): 100.0, ("two", 1): 70.0}


def test_what_is_nowhere_has_ended_or_has_reported_nothing_is_left_out() -> None:
    gone = replace(task("source", 0, 0, 100), ended_ms=5.0)
    assert memory_of_slots(DOCUMENT, [gone, task("source", 1, 1, None), task("sink", 1, 2, 9)]) == {}


def test_a_machine_that_does_not_tell_its_memory_has_none() -> None:
    entry = {"id": "one", "slots": 4, "free_slots": 4, "physical_memory": 0, "free_memory": 0}
    assert taskmanager_rows([entry], []) == {"one": {"memory_used": None, "slots_memory": 0.0, "slots_used": 0.0}}
