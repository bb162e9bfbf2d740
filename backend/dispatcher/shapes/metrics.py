"""Metrics by Flink's names: lists of ids, values as text, and aggregates over subtasks, jobs or TaskManagers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from backend.dispatcher.shapes.jobs import JobFacts
from backend.dispatcher.shapes.statistics import aggregate
from backend.dispatcher.shapes.vertices import watermark_value

Value = int | float
Values = Mapping[str, Value]

#: Flink's name → key of the live document's metrics
_TASK_METRICS = {
    "numRecordsIn": "records_in",
    "numRecordsOut": "records_out",
    "numBytesIn": "bytes_in",
    "numBytesOut": "bytes_out",
    "numRecordsInPerSecond": "records_in_per_second",
    "numRecordsOutPerSecond": "records_out_per_second",
    "numBytesInPerSecond": "bytes_in_per_second",
    "numBytesOutPerSecond": "bytes_out_per_second",
    "busyTimeMsPerSecond": "busy",
    "idleTimeMsPerSecond": "idle",
    "backPressuredTimeMsPerSecond": "back_pressured",
}
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_\[\]()<>.-]")


def subtask_metrics(subtask: Mapping[str, Any]) -> dict[str, Value]:
    """What one subtask measures, by Flink's names; what it does not measure is absent."""
    metrics = subtask["metrics"]
    values: dict[str, Value] = {
        name: metrics[key] for name, key in _TASK_METRICS.items() if metrics.get(key) is not None
    }
    if "watermark" in metrics:
        values["currentInputWatermark"] = watermark_value(metrics["watermark"])
    if metrics.get("watermark_lag") is not None:
        values["watermarkLag"] = metrics["watermark_lag"]
    return values


def vertex_metrics(vertex: Mapping[str, Any]) -> dict[str, Value]:
    """Every subtask's metrics as "<subtask>.<metric>", and what the chain's ends count under their operators' names."""
    values: dict[str, Value] = {}
    operators = [_NOT_IN_NAMES.sub("_", operator["name"]) for operator in vertex["operators"]]
    for subtask in vertex["subtasks"]:
        index = subtask["index"]
        own = subtask_metrics(subtask)
        values.update({f"{index}.{name}": value for name, value in own.items()})
        if operators:
            for operator, names in ((operators[0], ("numRecordsIn",)), (operators[-1], ("numRecordsOut",))):
                values.update({f"{index}.{operator}.{name}": own[name] for name in names if name in own})
                rates = tuple(f"{name}PerSecond" for name in names)
                values.update({f"{index}.{operator}.{name}": own[name] for name in rates if name in own})
    return values


def job_metrics(job: JobFacts) -> dict[str, Value]:
    """Metrics of a job as a whole; times in milliseconds."""
    since_running = job.state_times.get("RUNNING", 0)
    end = job.now if job.ended_at is None else job.ended_at
    is_running = job.state == "RUNNING" and since_running > 0
    return {
        "numRestarts": job.restarts,
        "fullRestarts": job.restarts,
        "uptime": end - since_running if is_running else 0,
        "downtime": 0
        if is_running or job.ended_at is not None
        else end - max([job.created_at, *job.state_times.values()]),
    }


def taskmanager_metrics(taskmanager: Mapping[str, Any]) -> dict[str, Value]:
    """What is known of a TaskManager; memory in bytes."""
    values = {
        "taskSlotsTotal": taskmanager.get("slots"),
        "taskSlotsAvailable": taskmanager.get("free_slots"),
        "Status.Host.CPU.Cores": taskmanager.get("cpu_cores"),
        "Status.Host.Memory.Total": taskmanager.get("physical_memory"),
        "Status.Host.Memory.Free": taskmanager.get("free_memory"),
    }
    return {name: value for name, value in values.items() if value is not None}


def listed(values: Values, wanted: Sequence[str]) -> list[dict[str, str]]:
    """Ids without values if nothing is asked for, else the values of what there is, as text."""
    if not wanted:
        return [{"id": name} for name in values]
    return [{"id": name, "value": text(values[name])} for name in wanted if name in values]


def aggregated(sources: Iterable[Values], wanted: Sequence[str], figures: Collection[str]) -> list[dict[str, Any]]:
    """Ids if nothing is asked for, else each metric over all sources that have it."""
    rows = list(sources)
    if not wanted:
        return [{"id": name} for name in dict.fromkeys(name for row in rows for name in row)]
    answers = []
    for name in wanted:
        values = [row[name] for row in rows if name in row]
        if values:
            answers.append(aggregate(name, values, figures))
    return answers


def text(value: Value) -> str:
    """A value as Flink prints it."""
    return str(value)
