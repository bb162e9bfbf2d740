"""Responses about one vertex of a job: its subtasks, their TaskManagers, watermarks, back-pressure.

The engine times a task as a whole, not its states: the current state gets the task's duration, the others 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from backend.dispatcher.shapes.statistics import NOT_A_NUMBER, summary

Vertex = Mapping[str, Any]
Subtask = Mapping[str, Any]

TASK_STATES = (
    "CREATED",
    "SCHEDULED",
    "DEPLOYING",
    "INITIALIZING",
    "RUNNING",
    "FINISHED",
    "CANCELING",
    "CANCELED",
    "FAILED",
    "RECONCILING",
)
_TIMED_STATES = ("CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING")
NO_WATERMARK = -(2**63)
MAX_WATERMARK = 2**63 - 1
UNASSIGNED = "(unassigned)"
#: upper limits of the back-pressured part of a second. Source: Flink, JobVertexBackPressureHandler
OK_RATIO = 0.10
LOW_RATIO = 0.50


def state_counts(states: Iterable[str]) -> dict[str, int]:
    """Return the number of tasks in each of the ten states."""
    counts = dict.fromkeys(TASK_STATES, 0)
    for state in states:
        counts[state] = counts.get(state, 0) + 1
    return counts


def io_metrics(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the eleven figures that Flink shows for a vertex or subtask."""
    figures: dict[str, Any] = {}
    for name, key in (("read", "in"), ("write", "out")):
        for unit in ("bytes", "records"):
            figures[f"{name}-{unit}"] = int(metrics.get(f"{unit}_{key}") or 0)
            figures[f"{name}-{unit}-complete"] = True
    figures["accumulated-backpressured-time"] = int(metrics.get("accumulated_back_pressured") or 0)
    figures["accumulated-idle-time"] = int(metrics.get("accumulated_idle") or 0)
    figures["accumulated-busy-time"] = metrics.get("accumulated_busy", NOT_A_NUMBER)
    return figures


def job_vertex(vertex: Vertex, now: int) -> dict[str, Any]:
    """Return an entry of "vertices" in /jobs/:jobid."""
    return {
        "id": vertex["id"],
        "slotSharingGroupId": vertex["slot_sharing_group"],
        "name": vertex["name"],
        "maxParallelism": vertex["max_parallelism"],
        "parallelism": vertex["parallelism"],
        "status": vertex["state"],
        **_times(vertex, now),
        "tasks": state_counts(subtask["state"] for subtask in vertex["subtasks"]),
        "metrics": io_metrics(vertex["metrics"]),
    }


def vertex_detail(vertex: Vertex, now: int) -> dict[str, Any]:
    """Return the response of /jobs/:jobid/vertices/:vertexid."""
    subtasks = [subtask_detail(vertex, subtask, now) for subtask in vertex["subtasks"]]
    return {
        "id": vertex["id"],
        "name": vertex["name"],
        "parallelism": vertex["parallelism"],
        "maxParallelism": vertex["max_parallelism"],
        "now": now,
        "subtasks": subtasks,
        "aggregated": _aggregated(subtasks),
    }


def subtask_detail(vertex: Vertex, subtask: Subtask, now: int) -> dict[str, Any]:
    """Return an entry of "subtasks", the response of /jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex."""
    times = _times(subtask, now)
    return {
        "subtask": subtask["index"],
        "status": subtask["state"],
        "attempt": subtask["attempt"],
        "endpoint": endpoint(subtask),
        **times,
        "metrics": io_metrics(subtask["metrics"]),
        "taskmanager-id": subtask.get("taskmanager") or UNASSIGNED,
        "status-duration": {
            state: max(0, times["duration"]) if state == subtask["state"] else 0 for state in _TIMED_STATES
        },
        "start_time": times["start-time"],
    }


def by_taskmanager(vertex: Vertex, now: int) -> dict[str, Any]:
    """Return the response of /jobs/:jobid/vertices/:vertexid/taskmanagers."""
    groups: dict[str, list[Subtask]] = {}
    for subtask in vertex["subtasks"]:
        groups.setdefault(subtask.get("taskmanager") or UNASSIGNED, []).append(subtask)
    return {
        "id": vertex["id"],
        "name": vertex["name"],
        "now": now,
        "taskmanagers": [_taskmanager(vertex, name, subtasks, now) for name, subtasks in groups.items()],
    }


def _taskmanager(vertex: Vertex, name: str, subtasks: Sequence[Subtask], now: int) -> dict[str, Any]:
    details = [subtask_detail(vertex, subtask, now) for subtask in subtasks]
    totals: dict[str, Any] = {}
    for detail in details:
        for key, value in detail["metrics"].items():
            is_sum = isinstance(value, int | float) and not isinstance(value, bool)
            totals[key] = totals.get(key, 0) + value if is_sum else value
    states = {subtask["state"] for subtask in subtasks}
    return {
        "endpoint": endpoint(subtasks[0]),
        "status": states.pop() if len(states) == 1 else vertex["state"],
        **_times(vertex, now),
        "metrics": totals,
        "status-counts": state_counts(subtask["state"] for subtask in subtasks),
        "taskmanager-id": name,
        "aggregated": _aggregated(details),
    }


def subtask_times(vertex: Vertex, now: int) -> dict[str, Any]:
    """Return the response of /jobs/:jobid/vertices/:vertexid/subtasktimes."""
    return {
        "id": vertex["id"],
        "name": vertex["name"],
        "now": now,
        "subtasks": [
            {
                "subtask": subtask["index"],
                "endpoint": endpoint(subtask),
                "duration": _times(subtask, now)["duration"],
                "timestamps": _timestamps(subtask),
            }
            for subtask in vertex["subtasks"]
        ],
    }


def _timestamps(subtask: Subtask) -> dict[str, int]:
    times = dict.fromkeys(TASK_STATES, 0)
    started, ended = max(0, subtask["start_time"]), max(0, subtask["end_time"])
    times["SCHEDULED"] = started
    times[subtask["state"]] = ended or started
    return times


def watermarks(vertex: Vertex) -> list[dict[str, str]]:
    """Return the response of /jobs/:jobid/vertices/:vertexid/watermarks: its input watermarks; [] for a source."""
    if not vertex["inputs"]:
        return []
    return [
        {"id": f"{s['index']}.currentInputWatermark", "value": str(watermark_value(s["metrics"].get("watermark")))}
        for s in vertex["subtasks"]
    ]


def watermark_value(watermark: int | str | None) -> int:
    """Convert a watermark of the live document to Flink's long."""
    if watermark is None:
        return NO_WATERMARK
    return MAX_WATERMARK if isinstance(watermark, str) else int(watermark)


def back_pressure(vertex: Vertex, now: int) -> dict[str, Any]:
    """Return the response of /jobs/:jobid/vertices/:vertexid/backpressure."""
    subtasks = []
    for subtask in vertex["subtasks"]:
        metrics = subtask["metrics"]
        ratio = _ratio(metrics.get("back_pressured"))
        level = _level(ratio)
        subtasks.append(
            {
                "subtask": subtask["index"],
                "attempt-number": subtask["attempt"],
                "backpressureLevel": level,
                "backpressure-level": level,
                "ratio": 0.0 if ratio is None else ratio,
                "idleRatio": _or_nan(_ratio(metrics.get("idle"))),
                "busyRatio": _or_nan(_ratio(metrics.get("busy"))),
            }
        )
    worst = _level(max((subtask["ratio"] for subtask in subtasks), default=0.0))
    return {
        "status": "ok",
        "backpressureLevel": worst,
        "backpressure-level": worst,
        "end-timestamp": now,
        "subtasks": subtasks,
    }


def endpoint(subtask: Subtask) -> str:
    """Return the host on which a subtask runs, for users."""
    return subtask.get("host") or UNASSIGNED


def _ratio(ms_per_second: float | None) -> float | None:
    return None if ms_per_second is None else round(ms_per_second / 1000.0, 3)


def _or_nan(ratio: float | None) -> float | str:
    return NOT_A_NUMBER if ratio is None else ratio


def _level(ratio: float | None) -> str:
    if ratio is None or ratio <= OK_RATIO:
        return "ok"
    return "low" if ratio <= LOW_RATIO else "high"


def _times(item: Mapping[str, Any], now: int) -> dict[str, int]:
    """Return start time, end time and duration of a vertex or subtask."""
    started, ended = item["start_time"], item["end_time"]
    return {
        "start-time": started,
        "end-time": ended,
        "duration": -1 if started < 0 else max(0, (ended if ended > 0 else now) - started),
    }


def _aggregated(subtasks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = [name for name in (subtasks[0]["metrics"] if subtasks else ()) if not name.endswith("-complete")]
    return {
        "metrics": {name: summary([s["metrics"][name] for s in subtasks]) for name in names},
        "status-duration": {state: summary([s["status-duration"][state] for s in subtasks]) for state in _TIMED_STATES},
    }
