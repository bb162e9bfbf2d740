"""A job's checkpoints as documents: a section of the live document, and separate details and traces of checkpoints.

The section goes to every open page, so it omits subtasks. The details are in a Redis hash per job, one field per
checkpoint, and in the job's saved document once it has ended. The traces are kept likewise; they are smaller, and there
are more of them. Pure, except for the state of `CheckpointDetails`. Times are epoch ms, durations ms, sizes bytes.
Members without a value are omitted: in a merge patch null removes a member, so a null in a new entry would never reach
a page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from runtime.checkpoint.assignment import RestoredOperator, RestoreReport
from runtime.checkpoint.batch_trace import BatchTrace
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.statistics import (
    CheckpointsSnapshot,
    CheckpointStats,
    RestoredStats,
    SubtaskCheckpoint,
    Summary,
    VertexCheckpoint,
)
from runtime.checkpoint.trace import CheckpointTrace, SubtaskTrace
from runtime.core.checkpoint_options import SnapshotKind

Document = dict[str, Any]

DETAILS = "checkpoint_details"
"""Key of the details in a job's saved document."""
TRACES = "checkpoint_traces"
"""Key of the traces in a job's saved document."""
_TOTALS = {
    "checkpointed_size": "checkpointed_bytes",
    "state_size": "state_bytes",
    "processed_data": "processed_bytes",
    "persisted_data": "persisted_bytes",
}


def checkpoints_document(snapshot: CheckpointsSnapshot, report: RestoreReport | None = None) -> Document:
    """Return the checkpoints section of the live document.

    Args:
        snapshot: the statistics of the job's checkpoint coordinator.
        report: the restore of the job's state, operator by operator; None if there was none.
    """
    latest = {
        "completed": snapshot.latest_completed,
        "failed": snapshot.latest_failed,
        "savepoint": snapshot.latest_savepoint,
    }
    entries = {name: None if stats is None else checkpoint_entry(stats) for name, stats in latest.items()}
    return _present(
        {
            "config": _config(snapshot.settings),
            "counts": asdict(snapshot.counts),
            "summary": {name: _summary(summary) for name, summary in snapshot.summaries.items()},
            "latest": _present(entries | {"restored": _restored(snapshot.latest_restored)}),
            # by id, so that a patch carries only changed entries
            "history": {str(stats.checkpoint_id): checkpoint_entry(stats) for stats in snapshot.history},
            "failures_since": snapshot.failures_since_ms,
            "failures_in_a_row": snapshot.failures_in_a_row or None,
            "restore_report": None if report is None else _report(report),
        }
    )


def checkpoint_entry(stats: CheckpointStats) -> Document:
    """Return the entry of a checkpoint or savepoint, without vertices."""
    options, message = stats.options, stats.failure_message
    entry = {
        "id": stats.checkpoint_id,
        "status": stats.status.value,
        "type": stats.checkpoint_type,
        "is_savepoint": options.is_savepoint,
        "format": _format(options.kind) if options.is_savepoint else None,
        "trigger_timestamp": stats.trigger_timestamp_ms,
        "latest_ack_timestamp": stats.latest_ack_timestamp_ms,
        "end_to_end_duration": stats.end_to_end_ms,
        **{name: stats.total(field) for name, field in _TOTALS.items()},
        "metadata_size": stats.metadata_bytes,
        "num_subtasks": stats.num_subtasks,
        "num_acknowledged_subtasks": stats.num_acknowledged,
        "external_path": stats.external_path,
        "discarded": stats.is_discarded,
        "failure_timestamp": stats.failure_timestamp_ms,
        # PostgreSQL cannot store NUL
        "failure_message": None if message is None else message.replace("\0", "\ufffd"),
    }
    return _present(entry)


def details_document(stats: CheckpointStats) -> Document:
    """Return `checkpoint_entry` with its vertices and their subtasks."""
    vertices = {vertex_id: _vertex(vertex, stats) for vertex_id, vertex in stats.vertices.items()}
    return checkpoint_entry(stats) | {"vertices": vertices}


class CheckpointDetails:
    """Tracks which checkpoint details, and which traces, have changed since they were last published."""

    def __init__(self) -> None:
        #: by checkpoint; None: what is published is unknown, or an earlier leader's
        self._told: dict[int, tuple[str, int, bool]] | None = None
        self._told_traces: dict[int, tuple[object, ...]] | None = None

    def changed(self, snapshot: CheckpointsSnapshot) -> tuple[dict[str, Document], list[str] | None]:
        """Return field → details of changed checkpoints, and the fields of those that the statistics have dropped.

        None for the latter: every other field is to be dropped.
        """
        known = _all(snapshot)
        marks = {i: (s.status.value, s.num_acknowledged, s.is_discarded) for i, s in known.items()}
        changed = {
            details_field(i): details_document(known[i])
            for i, mark in marks.items()
            if self._told is None or self._told.get(i) != mark
        }
        gone = _gone(self._told, marks)
        self._told = marks
        return changed, gone

    def changed_traces(self, snapshot: CheckpointsSnapshot) -> tuple[dict[str, Document], list[str] | None]:
        """Return the same of the traces."""
        known = {trace.checkpoint_id: trace for trace in snapshot.traces}
        marks: dict[int, tuple[object, ...]] = {
            i: (t.num_acknowledged, t.duration_ms, *(bool(batch.spark_ms) for batch in t.batches))
            for i, t in known.items()
        }
        changed = {
            details_field(i): trace_document(trace)
            for i, trace in known.items()
            if self._told_traces is None or self._told_traces.get(i) != marks[i]
        }
        gone = _gone(self._told_traces, marks)
        self._told_traces = marks
        return changed, gone

    def forget(self) -> None:
        """Forget what was published: it has been lost, or it is unknown whether it arrived."""
        self._told = self._told_traces = None


def _gone(told: Mapping[int, object] | None, known: Mapping[int, object]) -> list[str] | None:
    return None if told is None else [details_field(i) for i in told.keys() - known.keys()]


def all_traces(snapshot: CheckpointsSnapshot) -> dict[str, Document]:
    """Return field → trace of every checkpoint that has one."""
    return {details_field(trace.checkpoint_id): trace_document(trace) for trace in snapshot.traces}


def ended_traces(saved: Mapping[str, Document]) -> dict[str, Document]:
    """Return the saved traces of checkpoints that have ended: of the others nobody will ever tell the end."""
    return {name: trace for name, trace in saved.items() if trace["status"] != "IN_PROGRESS"}


def ended_details(saved: Mapping[str, Document]) -> dict[str, Document]:
    """Return the saved details of checkpoints that have ended, likewise."""
    return {name: details for name, details in saved.items() if details["status"] != "IN_PROGRESS"}


def ended_checkpoints(section: Document) -> Document:
    """Return the checkpoints section of a job that ends without a JobMaster: what was in progress has failed."""
    counts = section["counts"]
    return section | {
        "counts": counts | {"in_progress": 0, "failed": counts["failed"] + counts["in_progress"]},
        "history": ended_details(section["history"]),
    }


def trace_document(trace: CheckpointTrace) -> Document:
    """Return where the time of a checkpoint went, in the form shown by REST, but for the names of vertices."""
    status = "FAILED" if trace.failure_timestamp_ms is not None else "COMPLETED"
    lost_in = trace.lost_in
    document = {
        "id": trace.checkpoint_id,
        "status": "IN_PROGRESS" if trace.duration_ms is None else status,
        "type": trace.checkpoint_type,
        "trigger_timestamp": trace.trigger_timestamp_ms,
        "duration": trace.duration_ms,
        "num_subtasks": trace.num_subtasks,
        "num_acknowledged_subtasks": trace.num_acknowledged,
        "commit_duration": trace.commit_ms,
        "lost_in": None if lost_in is None else {"phase": lost_in[0].value, "duration": round(lost_in[1], 1)},
        "failure_message": trace.cause.replace("\0", "\ufffd") or None,
    }
    return _present(document) | {
        "subtasks": [_traced(subtask) for subtask in trace.stragglers],
        "batches": [_batch(batch) for batch in trace.batches],
    }


def _batch(batch: BatchTrace) -> Document:
    phases = {"plan": batch.plan_ms, "run": batch.run_ms, "store": batch.store_ms, "commit": batch.commit_ms}
    document = {
        "region": batch.region,
        "number": batch.number,
        "kind": batch.kind,
        "time": batch.time_ms,
        "read_records": batch.num_read,
        "write_records": batch.num_written,
        "splits": batch.num_splits,
        "caught_up": batch.has_caught_up,
    }
    return _present(document) | {
        "phases": {phase: round(duration, 1) for phase, duration in phases.items()},
        "spark_phases": {phase: round(duration, 1) for phase, duration in batch.spark_ms.items()},
        "positions": [
            {"vertex": p.task.vertex_id, "index": p.task.subtask_index, "split": p.split, "position": p.position}
            for p in batch.positions
        ],
    }


def _traced(subtask: SubtaskTrace) -> Document:
    phases = {phase.value: round(duration, 1) for phase, duration in subtask.phases_ms.items()}
    document = {
        "vertex": subtask.task.vertex_id,
        "index": subtask.task.subtask_index,
        "end_to_end_duration": subtask.end_to_end_ms,
        "is_unaligned": subtask.is_unaligned,
    }
    return _present(document) | {"phases": phases}


def all_details(snapshot: CheckpointsSnapshot) -> dict[str, Document]:
    """Return field → details of every checkpoint in the statistics."""
    return {details_field(i): details_document(stats) for i, stats in _all(snapshot).items()}


def details_field(checkpoint_id: int) -> str:
    """Return the hash field of a checkpoint."""
    return str(checkpoint_id)


def _all(snapshot: CheckpointsSnapshot) -> dict[int, CheckpointStats]:
    latest = (snapshot.latest_completed, snapshot.latest_failed, snapshot.latest_savepoint)
    # the history comes last: its entries are newer than a "latest" frozen at completion
    return {s.checkpoint_id: s for s in (*latest, *snapshot.history) if s is not None}


def _vertex(vertex: VertexCheckpoint, stats: CheckpointStats) -> Document:
    acknowledged = vertex.subtasks
    latest = vertex.latest_ack_timestamp_ms
    return {
        "status": "COMPLETED" if len(acknowledged) == vertex.parallelism else stats.status.value,
        "num_subtasks": vertex.parallelism,
        "num_acknowledged_subtasks": len(acknowledged),
        "latest_ack_timestamp": latest,
        "end_to_end_duration": max(0, latest - stats.trigger_timestamp_ms) if latest >= 0 else 0,
        **{name: vertex.total(field) for name, field in _TOTALS.items()},
        "subtasks": [_subtask(acknowledged[index]) for index in sorted(acknowledged)],
    }


def _subtask(subtask: SubtaskCheckpoint) -> Document:
    metrics = subtask.metrics
    return {
        "index": subtask.index,
        "ack_timestamp": subtask.ack_timestamp_ms,
        "end_to_end_duration": subtask.end_to_end_ms,
        **{name: getattr(metrics, field) for name, field in _TOTALS.items()},
        "sync_duration": round(metrics.sync_ms, 1),
        "async_duration": round(metrics.async_ms, 1),
        "alignment_duration": round(metrics.alignment_ms, 1),
        "start_delay": round(metrics.start_delay_ms, 1),
        "is_unaligned": metrics.is_unaligned,
    }


def _restored(restored: RestoredStats | None) -> Document | None:
    if restored is None:
        return None
    return {
        "id": restored.checkpoint_id,
        "restore_timestamp": restored.restore_timestamp_ms,
        "is_savepoint": restored.is_savepoint,
        "external_path": restored.external_path,
    }


def _report(report: RestoreReport) -> Document:
    def lines(operators: Any) -> list[Document]:
        return [_operator(operator) for operator in operators]

    return {
        "location": report.location,
        "checkpoint_id": report.checkpoint_id,
        "is_savepoint": report.is_savepoint,
        "matched": lines(report.matched),
        "dropped": lines(report.dropped),
        "new": lines(report.new),
    }


def _operator(operator: RestoredOperator) -> Document:
    return {
        "uid": operator.uid,
        "name": operator.name,
        "saved_parallelism": operator.saved_parallelism,
        "parallelism": operator.parallelism,
    }


def _config(settings: CheckpointSettings) -> Document:
    config = {
        "interval": settings.interval_ms,
        "mode": "exactly_once" if settings.is_exactly_once else "at_least_once",
        "timeout": settings.timeout_ms,
        "min_pause": settings.min_pause_ms,
        "max_concurrent": settings.max_concurrent,
        "tolerable_failures": settings.tolerable_failures,
        "num_retained": settings.num_retained,
        "retention": settings.retention.value,
        "unaligned": settings.is_unaligned,
        "aligned_timeout": settings.aligned_timeout_ms,
        "incremental": settings.is_incremental,
        "after_tasks_finish": settings.after_tasks_finish,
        "micro_batches": settings.is_micro_batch,
        "state_backend": settings.state_backend,
        "directory": settings.directory,
        "savepoint_directory": settings.savepoint_directory,
    }
    return _present(config)


def _summary(summary: Summary) -> Mapping[str, float]:
    return {name: value for name, value in asdict(summary).items() if not math.isnan(value)}


def _present(values: Mapping[str, Any]) -> Document:
    return {name: value for name, value in values.items() if value is not None}


def _format(kind: SnapshotKind) -> str:
    return "CANONICAL" if kind is SnapshotKind.CANONICAL else "NATIVE"
