"""The live document of a job for REST, WebSocket and page. The jobmanager builds it from the JobMaster's status.

Pure, except that a `LiveDocument` keeps the previous document and watches the job for what holds it up. Times are epoch
ms. `version` grows with every change of anything but the clock, also from one jobmanager to the next (it starts at the
wall-clock time).
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from backend.audit.redaction import for_users
from backend.cluster.checkpoint_document import (
    DETAILS,
    TRACES,
    checkpoints_document,
    ended_checkpoints,
    ended_details,
    ended_traces,
)
from backend.cluster.models import Job
from backend.cluster.state_history import STATES
from backend.cluster.task_metrics import ACCUMULATORS
from backend.cluster.vertex_runs import RUNS
from backend.cluster.wall_dates import WallDates
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.statistics import CheckpointsSnapshot
from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration
from runtime.core.elements import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.ids import OperatorId, SlotId, TaskId, VertexId
from runtime.graph.job_graph import JobGraph, JobVertex
from runtime.jobmaster.bottleneck import SAMPLE_MS, BottleneckWatch
from runtime.jobmaster.event_time import EventTime, EventTimeWatch, IdleInput, hold_of
from runtime.jobmaster.findings import Finding, Topic, text_of
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.requirements import Requirements
from runtime.jobmaster.skew import SkewWatch, Spread, VertexSkew
from runtime.jobmaster.status import ExceptionEntry, JobStatusSnapshot, Stall, TaskSnapshot
from runtime.jobmaster.task_figures import FigureReader, JobFigures, number_of
from runtime.task.io_metrics import EDGE
from runtime.task.messages import FailureInfo, TaskState
from runtime.task.task_metrics import LATE_RECORDS

logger = logging.getLogger(__name__)
Document = dict[str, Any]

_UNDATED = WallDates()
"""Without a JobMaster there is nothing to date."""

TOTALS = {
    "records_in": "numRecordsIn",
    "records_out": "numRecordsOut",
    "bytes_in": "numBytesIn",
    "bytes_out": "numBytesOut",
}
#: Shares of a task's last second, ms; they add up to 1000.
TIMES = {
    "busy": "busyTimeMsPerSecond",
    "idle": "idleTimeMsPerSecond",
    "back_pressured": "backPressuredTimeMsPerSecond",
}
#: The same since the task's start, ms.
ACCUMULATED_TIMES = {
    "accumulated_busy": "accumulateBusyTimeMs",
    "accumulated_idle": "accumulateIdleTimeMs",
    "accumulated_back_pressured": "accumulateBackPressuredTimeMs",
}
#: a service that does not answer stalls every slot in the same way
MAX_STALLS = 8
_ERROR_NAME = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)")


@dataclass(frozen=True, slots=True)
class Placement:
    """The location of a slot of the current attempt."""

    taskmanager: str
    host: str
    pid: int | None


class LiveDocument:
    """Builds one job's documents.

    Args:
        job: its row.
        graph: its graph.
        exceptions: the latest entries of earlier leaders, newest first.
        failures: number of failures under earlier leaders; None = the length of `exceptions`.
    """

    def __init__(
        self, job: Job, graph: JobGraph, exceptions: Sequence[Document] = (), failures: int | None = None
    ) -> None:
        self._job = job
        self._graph = graph
        self._earlier = list(exceptions)
        self._earlier_failures = len(exceptions) if failures is None else failures
        #: the document that was built last; {}: none was
        self.last: Document = {}
        #: what its diagnosis rests on; None: nothing was measured
        self.figures: JobFigures | None = None
        self._inputs = {v.vertex_id: graph.in_edges(v.vertex_id) for v in graph.vertices}
        self._vertices = {v.vertex_id: v for v in graph.vertices}
        self._feeding = {edge.source for edge in graph.edges}
        self._names = {v.vertex_id: v.name for v in graph.vertices}
        self._reader = FigureReader(graph)
        self._bottlenecks, self._event_time, self._skew = BottleneckWatch(), EventTimeWatch(), SkewWatch()
        self._has_failed_to_diagnose = False
        #: what was found last, and when, monotonic ms
        self._found: Document = {}
        self._found_ms = 0.0

    def build(
        self,
        snapshot: JobStatusSnapshot | None,
        placements: Mapping[SlotId, Placement],
        now: int,
        exceptions: Sequence[Document] = (),
        dates: WallDates = _UNDATED,
        scaling: str = "",
        autoscaler: Mapping[str, Any] = MappingProxyType({}),
        room: Requirements | None = None,
        operations: Sequence[Document] = (),
    ) -> Document:
        """Build the current document.

        Args:
            snapshot: status of the job's JobMaster; None before it has one.
            placements: locations of the current attempt's slots.
            now: wall-clock time, epoch ms.
            exceptions: entries of this leader, newest first.
            dates: of the snapshot's monotonic times.
            scaling: why the job runs with less than its upper bounds; empty: it does not.
            autoscaler: its part of the document; empty: nothing is known of it.
            room: bounds of an autoscaler, in place of those that no user has given; None: there are none.
            operations: those that are not completed, oldest first.
        """
        room = None if self._job.requirements else room
        tasks = {t.task: t for t in snapshot.tasks} if snapshot is not None else {}
        by_vertex: dict[VertexId, list[TaskSnapshot]] = {}
        for task in tasks.values():
            by_vertex.setdefault(task.task.vertex_id, []).append(task)
        parallelism = snapshot.parallelism if snapshot is not None else {}
        sizes = {} if snapshot is None else state_sizes(snapshot.checkpoints)
        job = self._job
        end = -1 if job.ended_at is None else job.ended_at
        known = [*exceptions, *self._earlier]
        document: Document = {
            "id": job.id,
            "name": job.name,
            "state": job.state,
            "attempt": job.attempt,
            "restarts": job.restarts,
            "start_time": job.created_at,
            "end_time": end,
            "waiting_for": job.waiting_for,
            "parallelism": job.parallelism,
            "max_parallelism": max(v.max_parallelism for v in self._graph.vertices),
            "scaling": scaling,
            "autoscaler": dict(autoscaler),
            "has_autoscaler_bounds": room is not None,
            "operations": [*operations],
            "vertices": [
                self._vertex(
                    v,
                    parallelism.get(v.vertex_id, v.parallelism),
                    tasks,
                    placements,
                    room,
                    sizes.get(v.vertex_id, {}),
                    now,
                    dates,
                )
                for v in self._graph.vertices
            ],
            "edges": self._edges(by_vertex),
            "operators": self._operators(by_vertex),
            **self._late_records(by_vertex),
            **self._diagnosis(snapshot, now, dates),
            "failure": newest_failure(known),
            "failures": self._earlier_failures + (0 if snapshot is None else snapshot.failures),
            "next_attempt_at": _epoch(None if snapshot is None else snapshot.next_attempt_ms, dates),
            "stalls": [] if snapshot is None else stall_documents(snapshot.stalls, dates),
            "exceptions": known,
            "checkpoints": (
                checkpoints_document(CheckpointsSnapshot(settings_of(self._graph)))
                if snapshot is None
                else checkpoints_document(snapshot.checkpoints, snapshot.restored_from)
            ),
        }
        before = {k: v for k, v in self.last.items() if k not in ("now", "duration", "version")}
        version = self.last.get("version", now - 1) + (document != before)
        clock = {"duration": (now if end < 0 else end) - job.created_at, "now": now, "version": version}
        self.last = document | clock
        return self.last

    def _diagnosis(self, snapshot: JobStatusSnapshot | None, now: int, dates: WallDates) -> Document:
        if snapshot is None:
            self.figures = None
            return {"event_time": event_time_document(EventTime())}
        now_ms = now - dates.offset_ms
        if self._found and snapshot.state is JobState.RUNNING and 0.0 <= now_ms - self._found_ms < SAMPLE_MS:
            # documents are built twice a second, and a job of 400 tasks costs 14 ms
            return self._found
        self._found_ms = now_ms
        # those of before are not to be taken for the current ones if the reader fails
        self.figures = None
        try:
            self.figures = self._reader.read(snapshot, now_ms, now)
            self._found = self._diagnosed(self.figures)
        except Exception:
            # what is only shown must not end a job
            if not self._has_failed_to_diagnose:
                logger.exception("job %s cannot be diagnosed; it runs on", self._job.id)
            self._has_failed_to_diagnose = True
            self._bottlenecks, self._event_time, self._skew = BottleneckWatch(), EventTimeWatch(), SkewWatch()
            self._found = {"event_time": event_time_document(EventTime())}
        return self._found

    def _diagnosed(self, figures: JobFigures) -> Document:
        time = self._event_time.observe(figures)
        hold = hold_of(time)
        findings = [*self._bottlenecks.observe(figures), *([] if hold is None else [hold])]
        order = list(Topic)
        findings.sort(key=lambda finding: order.index(finding.topic))
        found: Document = {"event_time": event_time_document(time)}
        skews = self._skew.observe(figures)
        if skews:
            found["skew"] = {skew.vertex_id: skew_document(skew) for skew in skews}
        if findings or (self._bottlenecks.has_judged and time.is_judged):
            # without them nobody knows yet whether something is wrong
            found["causes"] = {f.topic.value: cause_document(f, self._names) for f in findings}
        return found

    def _edges(self, by_vertex: Mapping[VertexId, Sequence[TaskSnapshot]]) -> Document:
        return {
            str(edge.edge_id): edge_metrics(
                edge.edge_id, by_vertex.get(edge.source, ()), by_vertex.get(edge.target, ())
            )
            for edge in self._graph.edges
        }

    def _operators(self, by_vertex: Mapping[VertexId, Sequence[TaskSnapshot]]) -> Document:
        return {
            operator.uid: operator_metrics(
                operator.operator_id,
                by_vertex.get(vertex.vertex_id, ()),
                is_source=not index and not self._inputs[vertex.vertex_id],
            )
            for vertex in self._graph.vertices
            for index, operator in enumerate(vertex.operators)
        }

    def _late_records(self, by_vertex: Mapping[VertexId, Sequence[TaskSnapshot]]) -> Document:
        found = {
            operator.uid: sum(
                _whole(task.metrics.get(f"{operator.operator_id}{LATE_RECORDS}"))
                for task in by_vertex.get(vertex.vertex_id, ())
            )
            for vertex in self._graph.vertices
            for operator in vertex.operators
        }
        dropped = {uid: count for uid, count in found.items() if count > 0}
        return {"late_records": dropped} if dropped else {}

    def _vertex(
        self,
        vertex: JobVertex,
        parallelism: int,
        tasks: Mapping[TaskId, TaskSnapshot],
        placements: Mapping[SlotId, Placement],
        room: Requirements | None,
        sizes: Mapping[int, int],
        now: int,
        dates: WallDates,
    ) -> Document:
        inputs = self._inputs[vertex.vertex_id]
        ids = [TaskId(vertex.vertex_id, index) for index in range(parallelism)]
        subtasks = [self._subtask(task, tasks.get(task), placements, not inputs, now, dates) for task in ids]
        for subtask in subtasks:
            subtask["metrics"]["state_size"] = sizes.get(subtask["index"])
        ends = [subtask["end_time"] for subtask in subtasks]
        lower, upper = self._job.requirements.get(vertex.vertex_id, (parallelism, parallelism))
        if room is not None:
            lower, upper = room[vertex.vertex_id].lower, room[vertex.vertex_id].upper
        finished = sum(subtask["state"] == "FINISHED" for subtask in subtasks)
        progress = {"finished": finished} if 0 < finished < parallelism else {}
        return progress | {
            "id": vertex.vertex_id,
            "name": vertex.name,
            "description": " -> ".join(operator.description or operator.name for operator in vertex.operators),
            "parallelism": parallelism,
            "max_parallelism": vertex.max_parallelism,
            "lower_bound": lower,
            "upper_bound": upper,
            "slot_sharing_group": vertex.slot_sharing_group,
            "state": vertex_state([subtask["state"] for subtask in subtasks]),
            "inputs": [
                {
                    "id": edge.source,
                    "edge": str(edge.edge_id),
                    "ship_strategy": edge.partitioning.value,
                    "side_output": edge.side_output_tag or "",
                    "operator": self._vertices[edge.source].operators[edge.source_operator].uid,
                }
                for edge in inputs
            ],
            "is_source": not inputs,
            "is_sink": vertex.vertex_id not in self._feeding,
            "operators": operators_document(vertex),
            "start_time": min((s["start_time"] for s in subtasks if s["start_time"] >= 0), default=-1),
            "end_time": -1 if -1 in ends else max(ends),
            "metrics": vertex_metrics([subtask["metrics"] for subtask in subtasks], now)
            # of all subtasks that it had then
            | {"state_size": sum(sizes.values()) if sizes else None},
            "subtasks": subtasks,
        }

    def _subtask(
        self,
        task: TaskId,
        snapshot: TaskSnapshot | None,
        placements: Mapping[SlotId, Placement],
        is_source: bool,
        now: int,
        dates: WallDates,
    ) -> Document:
        place = None if snapshot is None else placements.get(snapshot.slot)
        return {
            "index": task.subtask_index,
            "state": TaskState.CREATED.value if snapshot is None else snapshot.state.value,
            "attempt": self._job.attempt if snapshot is None else snapshot.attempt,
            "slot": None if snapshot is None else snapshot.slot,
            "taskmanager": "" if place is None else place.taskmanager,
            "host": "" if place is None else place.host,
            "pid": None if place is None else place.pid,
            "start_time": _epoch(None if snapshot is None else snapshot.started_ms, dates),
            "end_time": _epoch(None if snapshot is None else snapshot.ended_ms, dates),
            "metrics": task_metrics(snapshot, is_source, now),
        }


def planned_document(job: Job, graph: JobGraph, now: int) -> Document:
    """Return the document of a job that no jobmanager has taken yet."""
    return LiveDocument(job, graph).build(None, {}, now)


def ended_document(
    last: Mapping[str, Any], state: str, failures: Sequence[Document], created_at: int, now: int
) -> Document:
    """Return the final document of a job that ends without a JobMaster.

    Args:
        last: its latest document.
        state: the state in which it ends.
        failures: failures that end it, newest first; the document has the earlier ones.
        created_at: its submission, epoch ms.
        now: its end, epoch ms.
    """
    known = [*failures, *last.get("exceptions", [])]
    # nothing holds up a job that has ended
    return {name: part for name, part in last.items() if name not in ("causes", "skew")} | {
        "vertices": [
            _ended_part(vertex) | {"subtasks": [_ended_part(subtask) for subtask in vertex["subtasks"]]}
            for vertex in last["vertices"]
        ],
        "state": state,
        "end_time": now,
        "duration": now - created_at,
        "waiting_for": "",
        "operations": [],
        "failure": newest_failure(known),
        "failures": last.get("failures", 0) + len(failures),
        "next_attempt_at": -1,
        "stalls": [],
        "event_time": event_time_document(EventTime()),
        "exceptions": known,
        TRACES: ended_traces(last.get(TRACES, {})),
        DETAILS: ended_details(last.get(DETAILS, {})),
        **({"checkpoints": ended_checkpoints(last["checkpoints"])} if "checkpoints" in last else {}),
        "version": max(now, last.get("version", 0) + 1),
    }


def _ended_part(part: Document) -> Document:
    return part | {"state": part["state"] if part["state"] in ("FINISHED", "FAILED") else "CANCELED"}


_ONLY_SAVED = (ACCUMULATORS, DETAILS, RUNS, STATES, TRACES)


def told_document(saved: Mapping[str, Any]) -> Document:
    """Return a job's saved document without the parts that only REST reads, separately."""
    return {name: value for name, value in saved.items() if name not in _ONLY_SAVED}


def settings_of(graph: JobGraph) -> CheckpointSettings:
    """Return the job's checkpoint settings; the defaults if they are malformed, which its JobMaster reports."""
    try:
        return CheckpointSettings.from_configuration(Configuration.from_dict(dict(graph.configuration)))
    except ConfigurationError:
        return CheckpointSettings()


def vertex_state(states: Sequence[str]) -> str:
    """Return the state of a vertex whose subtasks have these states. Source: Flink, getAggregateJobVertexState."""
    counts = Counter(states)
    for state in ("FAILED", "CANCELING", "CANCELED", "INITIALIZING", "DEPLOYING", "SCHEDULED"):
        if counts[state]:
            return state
    if counts["FINISHED"] == len(states):
        return "FINISHED"
    return "RUNNING" if counts["RUNNING"] or counts["FINISHED"] else "CREATED"


def task_metrics(task: TaskSnapshot | None, is_source: bool, now: int) -> Document:
    """Return the metrics of a subtask from its slot's last report; rates are 0 once it has ended."""
    values = {} if task is None else task.metrics
    running = task is not None and task.state is TaskState.RUNNING
    metrics: Document = {ours: _whole(values.get(flink)) for ours, flink in TOTALS.items()}
    for ours, flink in TOTALS.items():
        metrics[f"{ours}_per_second"] = round(_number(values.get(f"{flink}PerSecond")), 1) if running else 0.0
    # all three are measured, so that their sum shows whether the measurement is right
    metrics |= {ours: _whole(values.get(flink)) if running else 0 for ours, flink in TIMES.items()}
    if not running or "idleTimeMsPerSecond" not in values:
        metrics["idle"] = 1000
    metrics |= {ours: _whole(values.get(flink)) for ours, flink in ACCUMULATED_TIMES.items()}
    watermark = values.get("currentOutputWatermark" if is_source else "currentInputWatermark")
    return metrics | _watermark(watermark if isinstance(watermark, int) else MIN_WATERMARK, now)


def vertex_metrics(subtasks: Sequence[Document], now: int) -> Document:
    """Return the metrics of a vertex: sums; the times of the most busy, most back-pressured and least idle subtask; the
    lowest watermark."""
    metrics: Document = {name: sum(m[name] for m in subtasks) for name in TOTALS}
    metrics |= {f"{name}_per_second": round(sum(m[f"{name}_per_second"] for m in subtasks), 1) for name in TOTALS}
    metrics |= {
        "busy": max(m["busy"] for m in subtasks),
        "idle": min(m["idle"] for m in subtasks),
        "back_pressured": max(m["back_pressured"] for m in subtasks),
    }
    metrics |= {name: sum(m[name] for m in subtasks) for name in ACCUMULATED_TIMES}
    special: dict[Any, int] = {"max": MAX_WATERMARK, None: MIN_WATERMARK}
    watermarks: list[Any] = [m["watermark"] for m in subtasks]
    return metrics | _watermark(min(int(special.get(w, w)) for w in watermarks), now)


def state_sizes(checkpoints: CheckpointsSnapshot) -> dict[VertexId, dict[int, int]]:
    """Return bytes of state in the latest completed checkpoint or savepoint, by vertex and index of the subtask."""
    completed = checkpoints.latest_completed
    vertices = {} if completed is None else completed.vertices
    return {
        vertex_id: {index: subtask.metrics.state_bytes for index, subtask in vertex.subtasks.items()}
        for vertex_id, vertex in vertices.items()
    }


def operators_document(vertex: JobVertex) -> list[Document]:
    """Return the operators of a vertex, each but the head with the operator of the chain whose records it takes."""
    operators = vertex.operators
    documents: list[Document] = [{"name": o.name, "uid": o.uid, "defined_at": o.defined_at} for o in operators]
    for edge in vertex.chain_edges:
        # an operator of several inputs is never chained
        documents[edge.target]["input"] = {
            "operator": operators[edge.source].uid,
            "side_output": edge.side_output_tag or "",
        }
    return documents


def operator_metrics(operator_id: OperatorId, tasks: Sequence[TaskSnapshot], is_source: bool) -> Document:
    """Return the figures of an operator, summed up from the last reports of its vertex's tasks; rates are 0 once they
    have ended.
    """
    received, sent = f"{operator_id}.numRecordsIn", f"{operator_id}.numRecordsOut"
    reached = f"{operator_id}.currentOutputWatermark" if is_source else f"{operator_id}.currentInputWatermark"
    running = [task for task in tasks if task.state is TaskState.RUNNING]

    def rate(name: str) -> float:
        return round(sum(_number(task.metrics.get(f"{name}PerSecond")) for task in running), 1)

    watermarks = [task.metrics.get(reached) for task in tasks]
    lowest = min((w if isinstance(w, int) else MIN_WATERMARK for w in watermarks), default=MIN_WATERMARK)
    return {
        "records_in": sum(_whole(task.metrics.get(received)) for task in tasks),
        "records_out": sum(_whole(task.metrics.get(sent)) for task in tasks),
        "records_in_per_second": rate(received),
        "records_out_per_second": rate(sent),
        "watermark": _shown_watermark(lowest),
    }


def edge_metrics(edge_id: int, senders: Sequence[TaskSnapshot], readers: Sequence[TaskSnapshot]) -> Document:
    """Return the figures of an edge, summed up from the last reports of the tasks at its ends."""
    name = f"{EDGE}{edge_id}."

    def total(ends: Sequence[TaskSnapshot], metric: str) -> int:
        return sum(_whole(task.metrics.get(name + metric)) for task in ends)

    def rate(metric: str) -> float:
        running = (task for task in senders if task.state is TaskState.RUNNING)
        return round(sum(_number(task.metrics.get(name + metric)) for task in running), 1)

    watermarks = [task.metrics.get(f"{name}currentOutputWatermark") for task in senders]
    lowest = min((w for w in watermarks if isinstance(w, int)), default=MIN_WATERMARK)
    return {
        "records_sent": total(senders, "numRecordsOut"),
        "records_received": total(readers, "numRecordsIn"),
        "records_per_second": rate("numRecordsOutPerSecond"),
        "bytes_per_second": rate("numBytesOutPerSecond"),
        "queued_buffers": total(senders, "outputQueueLength") + total(readers, "inputQueueLength"),
        "queued_bytes": total(senders, "outputQueueSize") + total(readers, "inputQueueSize"),
        "watermark": _shown_watermark(lowest),
    }


def exception_document(entry: ExceptionEntry, timestamp: int, places: Mapping[SlotId, Placement]) -> Document:
    """Return a failure in the form shown by the page and REST.

    Args:
        entry: the failure.
        timestamp: epoch ms.
        places: locations of the slots of its attempt.
    """
    cause = entry.cause
    place = None if cause.slot is None else places.get(cause.slot)
    return {
        "timestamp": timestamp,
        "name": error_name(cause),
        "message": for_users(cause.message),
        "stacktrace": for_users(cause.traceback or cause.message),
        "task_name": cause.task_name,
        "vertex": "" if cause.task is None else cause.task.vertex_id,
        "location": "" if place is None else f"{place.host}:{place.pid}",
        "taskmanager": "" if place is None else place.taskmanager,
        "attempt": entry.attempt,
        "suppressed": [
            {"name": error_name(other), "message": for_users(other.message), "task_name": other.task_name}
            for other in entry.suppressed
        ],
    }


def stall_documents(stalls: Iterable[Stall], dates: WallDates) -> list[Document]:
    """Calls that do not return, those that last longest first; at most `MAX_STALLS` of them."""
    longest = sorted(stalls, key=lambda stall: (stall.since_ms, stall.slot))[:MAX_STALLS]
    return [stall_document(stall, dates) for stall in longest]


def stall_document(stall: Stall, dates: WallDates) -> Document:
    """Return a call that does not return, in the form shown by the page and REST."""
    return {
        "vertex": "" if stall.task is None else stall.task.vertex_id,
        "subtask": -1 if stall.task is None else stall.task.subtask_index,
        "task_name": stall.task_name,
        "slot": stall.slot,
        "since": _epoch(stall.since_ms, dates),
        "stack": for_users(stall.stack),
        "in_user_code": stall.in_user_code,
    }


def cause_document(finding: Finding, names: Mapping[VertexId, str]) -> Document:
    """Return what holds a job up, in the form shown by the page, REST and the command line; no member is null."""
    document: Document = {
        "cause": finding.cause.value,
        "vertex": finding.vertex_id,
        "text": text_of(finding, names),
        "figures": {name: round(value, 3) for name, value in finding.figures.items()},
        "waiting": list(finding.waiting),
    }
    place = {"subtask": finding.subtask, "split": finding.split}
    return document | {name: value for name, value in place.items() if value is not None}


def event_time_document(time: EventTime) -> Document:
    """Return how far the event time of a job is; no member is null."""
    document: Document = {"is_live": time.is_live, "held_by": dict(time.held_by)}
    if time.newest is not None:
        document["newest"] = time.newest
    if time.speed is not None:
        # of a slow one the first figures count
        document["speed"] = float(f"{time.speed:.3g}")
    if time.newest_of:
        document["newest_of"] = dict(time.newest_of)
    if time.live:
        document["live"] = dict.fromkeys(sorted(time.live), True)
    if time.idle:
        document["idle"] = [_idle_document(idle) for idle in time.idle]
        document["num_idle"] = time.num_idle
    holder = time.holder
    if holder is not None:
        known = {"watermark": holder.watermark, "behind": holder.behind_ms, "split": holder.split}
        document["holder"] = {
            "vertex": holder.vertex_id,
            "subtask": holder.subtask,
            "why": holder.why.value,
            # whole seconds: a document that only waits must not change twice a second
            "still": int(holder.still_ms // 1000) * 1000,
            **{name: value for name, value in known.items() if value is not None},
        }
    return document


def _idle_document(idle: IdleInput) -> Document:
    document: Document = {"vertex": idle.vertex_id, "subtask": idle.subtask}
    return document if idle.split is None else {**document, "split": idle.split}


def skew_document(skew: VertexSkew) -> list[float | int | None]:
    """Return the skew of a vertex as the numbers of `SkewFigures`, rounded: the document is not to change each time."""

    def numbers(spread: Spread | None) -> list[float | int | None]:
        if spread is None:
            return [None, None, None]
        return [round(spread.cv, 2), round(spread.max_to_average, 2), spread.subtask]

    return [*numbers(skew.total), *numbers(skew.live)]


def newest_failure(exceptions: Sequence[Document]) -> Document | None:
    """Return a summary of the job's latest failure; None if it never failed.

    Args:
        exceptions: its failures, newest first.
    """
    names = ("timestamp", "name", "message", "task_name", "attempt")
    return {name: exceptions[0][name] for name in names} if exceptions else None


def error_name(failure: FailureInfo) -> str:
    """Return the error's class, taken from the end of the traceback; failures without exception get a fixed name."""
    for line in reversed(failure.traceback.strip().splitlines()):
        match = _ERROR_NAME.match(line)
        if match:
            return match[1]
    return "SlotLost" if "was lost" in failure.message else "JobFailure"


def _number(value: object) -> float:
    return number_of(value) or 0.0


def _whole(value: object) -> int:
    return round(_number(value))


def _epoch(monotonic_ms: float | None, dates: WallDates) -> int:
    """Convert a monotonic time to epoch ms; -1 for None."""
    return -1 if monotonic_ms is None else dates.at(monotonic_ms)


def _shown_watermark(watermark: int) -> int | str | None:
    """Return a watermark; None: there is none yet, "max": the input has ended."""
    if watermark <= MIN_WATERMARK:
        return None
    return "max" if watermark >= MAX_WATERMARK else watermark


def _watermark(watermark: int, now: int) -> Document:
    shown = _shown_watermark(watermark)
    return {"watermark": shown, "watermark_lag": now - shown if isinstance(shown, int) else None}
