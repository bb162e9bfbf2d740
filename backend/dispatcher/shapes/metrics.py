"""Metrics by Flink's names: lists of ids, values as text, and aggregates over subtasks, jobs or TaskManagers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from backend.cluster.process_report import ProcessReport
from backend.cluster.task_metrics import Value
from backend.dispatcher.shapes.jobs import JobFacts
from backend.dispatcher.shapes.processes import memory_pool_metrics, process_metrics
from backend.dispatcher.shapes.statistics import aggregate
from backend.dispatcher.shapes.vertices import watermark_value

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
#: Flink's name → key of the newest completed checkpoint's entry
_CHECKPOINT_METRICS = {
    "lastCompletedCheckpointId": "id",
    "lastCheckpointCompletedTimestamp": "latest_ack_timestamp",
    "lastCheckpointDuration": "end_to_end_duration",
    "lastCheckpointSize": "checkpointed_size",
    "lastCheckpointFullSize": "state_size",
    "lastCheckpointMetadataSize": "metadata_size",
    "lastCheckpointProcessedData": "processed_data",
    "lastCheckpointPersistedData": "persisted_data",
}
#: job states for which Flink reports the time in the state, such as "runningTime"
_TIMED_STATES = ("INITIALIZING", "CREATED", "RUNNING", "RESTARTING", "FAILING", "CANCELLING")


def subtask_metrics(subtask: Mapping[str, Any], reported: Values, is_source: bool) -> dict[str, Value]:
    """Return a subtask's metrics by Flink's ids, without those that it does not measure.

    Args:
        subtask: its entry of the live document, which is newer than `reported`.
        reported: its reported metrics by Flink's ids.
        is_source: whether the live document's watermark is the output watermark.
    """
    metrics = subtask["metrics"]
    values = dict(reported)
    values.update({name: metrics[key] for name, key in _TASK_METRICS.items() if metrics.get(key) is not None})
    if "watermark" in metrics:
        name = "currentOutputWatermark" if is_source else "currentInputWatermark"
        values[name] = watermark_value(metrics["watermark"])
    return values


def vertex_metrics(subtasks: Mapping[int, Values]) -> dict[str, Value]:
    """Return all subtasks' metrics as "<subtask>.<id>"."""
    return {f"{index}.{name}": value for index, values in subtasks.items() for name, value in values.items()}


def job_metrics(job: JobFacts, document: Mapping[str, Any], num_rescales: int) -> dict[str, Value]:
    """Return the metrics of a job as a whole; times in milliseconds.

    Args:
        job: from its row.
        document: its live document.
        num_rescales: how often it was rescaled, as far as that is kept.
    """
    since_running = job.state_times.get("RUNNING", 0)
    end = job.now if job.ended_at is None else job.ended_at
    is_running = job.state == "RUNNING" and since_running > 0
    times: dict[str, Value] = {
        f"{state.lower()}Time": end - job.state_times.get(state, end) if job.state == state else 0
        for state in _TIMED_STATES
    }
    return {
        **times,
        **checkpoint_metrics(document.get("checkpoints", {})),
        **deployment_metrics(document),
        "numRescales": num_rescales,
        "numRestarts": job.restarts,
        "fullRestarts": job.restarts,
        "uptime": end - since_running if is_running else 0,
        "downtime": 0
        if is_running or job.ended_at is not None
        else end - max([job.created_at, *job.state_times.values()]),
    }


def checkpoint_metrics(section: Mapping[str, Any]) -> dict[str, Value]:
    """Return the metrics of a job's checkpoints from the section of its live document; -1: there was none yet."""
    counts = section.get("counts", {})
    latest = section.get("latest", {})
    completed: Mapping[str, Any] = latest.get("completed") or {}
    restored: Mapping[str, Any] = latest.get("restored") or {}
    return {
        "totalNumberOfCheckpoints": counts.get("total", 0),
        "numberOfInProgressCheckpoints": counts.get("in_progress", 0),
        "numberOfCompletedCheckpoints": counts.get("completed", 0),
        "numberOfFailedCheckpoints": counts.get("failed", 0),
        "lastCheckpointRestoreTimestamp": restored.get("restore_timestamp", -1),
        **{name: completed.get(key, -1) for name, key in _CHECKPOINT_METRICS.items()},
        "lastCheckpointExternalPath": completed.get("external_path", "n/a"),
    }


def deployment_metrics(document: Mapping[str, Any]) -> dict[str, Value]:
    """Return since when a job's tasks come up, and since when all of them are up; ms, 0: they do not, or are not.

    Source: Flink, DeploymentStateTimeMetrics and AllSubTasksRunningOrFinishedStateTimeMetrics.
    """
    subtasks = [subtask for vertex in document["vertices"] for subtask in vertex["subtasks"]]
    deploying = [s["start_time"] for s in subtasks if s["state"] in ("DEPLOYING", "INITIALIZING")]
    is_up = bool(subtasks) and all(s["state"] in ("RUNNING", "FINISHED") for s in subtasks)
    started = [s["start_time"] for s in subtasks]
    now: int = document["now"]
    return {
        "deployingTime": max(0, now - min(deploying)) if deploying and min(deploying) > 0 else 0,
        "allSubTasksRunningOrFinishedTime": max(0, now - max(started)) if is_up else 0,
    }


def taskmanager_metrics(taskmanager: Mapping[str, Any], report: ProcessReport | None) -> dict[str, Value]:
    """Return the known metrics of a TaskManager; memory in bytes."""
    values = {
        "taskSlotsTotal": taskmanager.get("slots"),
        "taskSlotsAvailable": taskmanager.get("free_slots"),
        "Status.Host.CPU.Cores": taskmanager.get("cpu_cores"),
        "Status.Host.Memory.Total": taskmanager.get("physical_memory"),
        "Status.Host.Memory.Free": taskmanager.get("free_memory"),
    }
    known = {name: value for name, value in values.items() if value is not None}
    jvm = process_metrics(report, int(taskmanager.get("physical_memory") or 0))
    return known | jvm | (memory_pool_metrics() if jvm else {})


def listed(values: Values, wanted: Sequence[str]) -> list[dict[str, str]]:
    """Return all ids without values if `wanted` is empty, else the values of the wanted existing metrics as text."""
    if not wanted:
        return [{"id": name} for name in values]
    return [{"id": name, "value": text(values[name])} for name in wanted if name in values]


def aggregated(sources: Iterable[Values], wanted: Sequence[str], figures: Collection[str]) -> list[dict[str, Any]]:
    """Return all ids if `wanted` is empty, else each wanted metric aggregated over the sources that have it."""
    rows = list(sources)
    if not wanted:
        return [{"id": name} for name in dict.fromkeys(name for row in rows for name in row)]
    answers = []
    for name in wanted:
        values = _numbers([row[name] for row in rows if name in row])
        if values:
            answers.append(aggregate(name, values, figures))
    return answers


def _numbers(values: Sequence[Value]) -> list[float]:
    """Return the values as numbers; none at all if one of them is not a number, as in Flink."""
    try:
        return [] if any(isinstance(value, bool) for value in values) else [float(value) for value in values]
    except ValueError:
        return []


def text(value: Value) -> str:
    """Return a value as Flink prints it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
