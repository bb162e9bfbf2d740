"""Responses about a job's checkpoints, from the checkpoints of its live document and their details.

Members missing in the document become null, or "NaN" where Flink has a number. Source: Flink, messages of
`runtime.rest.messages.checkpoints`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Document = Mapping[str, Any]

NEVER_MS = 2**63 - 1
"""The interval of a job without periodic checkpoints."""
SUMMARISED = ("checkpointed_size", "state_size", "end_to_end_duration", "processed_data", "persisted_data")
QUANTILES = ("p50", "p90", "p95", "p99", "p999")
COUNTS = ("restored", "total", "in_progress", "completed", "failed")
_SHARED = (
    "status",
    "latest_ack_timestamp",
    "checkpointed_size",
    "state_size",
    "end_to_end_duration",
    "processed_data",
    "persisted_data",
    "num_subtasks",
    "num_acknowledged_subtasks",
)
_BACKENDS = {"hashmap": "HashMapStateBackend", "rocksdb": "EmbeddedRocksDBStateBackend"}


def checkpoints(document: Document) -> dict[str, Any]:
    """Return the response of /jobs/:jobid/checkpoints; `document` is the live document's section, {} if it has none."""
    latest = document.get("latest", {})
    summary = document.get("summary", {})
    history = sorted(document.get("history", {}).values(), key=lambda entry: -int(entry["id"]))
    return {
        "counts": {name: document.get("counts", {}).get(name, 0) for name in COUNTS},
        "summary": {
            **{name: _summary(summary.get(name, {})) for name in SUMMARISED},
            "alignment_buffered": _nothing(),
        },
        "latest": {
            **{
                name: None if latest.get(name) is None else checkpoint(latest[name], {})
                for name in ("completed", "savepoint", "failed")
            },
            "restored": latest.get("restored"),
        },
        "history": [checkpoint(entry, {}) for entry in history],
    }


def checkpoint(entry: Document, vertices: Document) -> dict[str, Any]:
    """Return the response of /jobs/:jobid/checkpoints/details/:checkpointid; without vertices, a history entry."""
    kind = entry["status"]
    answer = {
        "className": {"COMPLETED": "completed", "FAILED": "failed"}.get(kind, "in_progress"),
        "id": entry["id"],
        "is_savepoint": entry["is_savepoint"],
        "savepointFormat": entry.get("format"),
        "trigger_timestamp": entry["trigger_timestamp"],
        "alignment_buffered": 0,
        "checkpoint_type": entry["type"],
        **{name: entry[name] for name in _SHARED},
        "tasks": {vertex_id: _task(vertex, entry["id"]) for vertex_id, vertex in vertices.items()},
    }
    if kind == "COMPLETED":
        return answer | {"external_path": entry["external_path"], "discarded": entry["discarded"]}
    if kind == "FAILED":
        return answer | {
            "failure_timestamp": entry.get("failure_timestamp"),
            "failure_message": entry.get("failure_message"),
        }
    return answer


def subtasks(entry: Document, vertex: Document) -> dict[str, Any]:
    """Return the response of /jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid."""
    known = {part["index"]: part for part in vertex["subtasks"]}
    return {
        **_task(vertex, entry["id"]),
        "summary": _subtask_summary(list(known.values())) if known else None,
        "subtasks": [_subtask(index, known.get(index)) for index in range(vertex["num_subtasks"])],
    }


def checkpoint_config(config: Document) -> dict[str, Any]:
    """Return the response of /jobs/:jobid/checkpoints/config."""
    interval = config.get("interval")
    retention = config.get("retention", "no_externalized_checkpoints")
    backend = config.get("state_backend", "hashmap")
    return {
        "mode": config.get("mode", "exactly_once"),
        "interval": NEVER_MS if interval is None else interval,
        "timeout": config.get("timeout", 0),
        "min_pause": config.get("min_pause", 0),
        "max_concurrent": config.get("max_concurrent", 1),
        "externalization": {
            "enabled": retention != "no_externalized_checkpoints",
            "delete_on_cancellation": retention != "retain_on_cancellation",
        },
        "state_backend": _BACKENDS.get(backend, backend),
        "checkpoint_storage": "FileSystemCheckpointStorage",
        "unaligned_checkpoints": config.get("unaligned", False),
        "tolerable_failed_checkpoints": config.get("tolerable_failures", 0),
        "aligned_checkpoint_timeout": config.get("aligned_timeout", 0),
        "checkpoints_after_tasks_finish": config.get("after_tasks_finish", True),
        "state_changelog_enabled": False,
        "changelog_periodic_materialization_interval": 0,
        "changelog_storage": "",
    }


def _task(vertex: Document, checkpoint_id: int) -> dict[str, Any]:
    return {"id": checkpoint_id, "alignment_buffered": 0, **{name: vertex[name] for name in _SHARED}}


def _subtask(index: int, part: Document | None) -> dict[str, Any]:
    if part is None:
        return {"className": "pending", "index": index, "status": "pending_or_failed"}
    return {
        "className": "completed",
        "index": index,
        "status": "completed",
        "ack_timestamp": part["ack_timestamp"],
        "end_to_end_duration": part["end_to_end_duration"],
        "checkpointed_size": part["checkpointed_size"],
        "state_size": part["state_size"],
        "checkpoint": {"sync": round(part["sync_duration"]), "async": round(part["async_duration"])},
        "alignment": {
            "buffered": 0,
            "processed": part["processed_data"],
            "persisted": part["persisted_data"],
            "duration": round(part["alignment_duration"]),
        },
        "start_delay": round(part["start_delay"]),
        "unaligned_checkpoint": part["is_unaligned"],
        "aborted": False,
    }


def _subtask_summary(parts: Sequence[Document]) -> dict[str, Any]:
    def over(name: str) -> dict[str, Any]:
        values = [round(part[name]) for part in parts]
        return _summary({"min": min(values), "max": max(values), "avg": sum(values) // len(values)})

    return {
        **{name: over(name) for name in ("checkpointed_size", "state_size", "end_to_end_duration", "start_delay")},
        "checkpoint_duration": {"sync": over("sync_duration"), "async": over("async_duration")},
        "alignment": {
            "buffered": _nothing(),
            "processed": over("processed_data"),
            "persisted": over("persisted_data"),
            "duration": over("alignment_duration"),
        },
    }


def _summary(summary: Document) -> dict[str, Any]:
    figure: Callable[[str], Any] = summary.get
    return {
        **{name: figure(name) or 0 for name in ("min", "max", "avg")},
        **{name: "NaN" if figure(name) is None else figure(name) for name in QUANTILES},
    }


def _nothing() -> dict[str, Any]:
    """Return the summary of no values."""
    return {"min": 0, "max": 0, "avg": 0} | dict.fromkeys(QUANTILES, 0.0)
