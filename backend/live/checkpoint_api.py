"""REST route that tells where the time of a job's checkpoints went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.views import ProductView
from backend.cluster import services
from backend.contract.operation import operation
from backend.live.answers import CheckpointGantt, CheckpointGanttQuery
from backend.live.api import check_job, query_number
from runtime.checkpoint.trace import TRACES

Document = dict[str, Any]

_WENT = {
    "start-delay": "until the barrier reached it",
    "alignment": "until the barriers of all its inputs were there",
    "sync": "in the synchronous part of its snapshot",
    "async": "in the asynchronous part of its snapshot",
    "rest": "until its acknowledgement arrived, which is measured in no phase",
}


class CheckpointGanttView(ProductView):
    """Traces of the last checkpoints, newest first: their phases, and those of their slowest subtasks."""

    @operation(CheckpointGantt, query=CheckpointGanttQuery)
    def get(self, request: Request, job_id: str) -> Response:
        check_job(job_id)
        last = query_number(request, "last", TRACES, 1, TRACES)
        job = services.get_job(job_id)
        names = {vertex["id"]: vertex["name"] for vertex in (job.document or {}).get("vertices", ())}
        return Response({"checkpoints": [_named(trace, names) for trace in services.checkpoint_traces(job)[:last]]})


def _named(trace: Document, names: Mapping[str, str]) -> Document:
    # a vertex of the trace is one of the job's; but the document may be that of a job without any
    subtasks = [each | {"name": names.get(each["vertex"], each["vertex"])} for each in trace["subtasks"]]
    named = trace | {"subtasks": subtasks, "text": text_of(trace, subtasks)}
    named.pop("batches", None)
    return named


def text_of(trace: Document, subtasks: list[Document]) -> str:
    """Return where a checkpoint lost its time, a sentence; empty if there is nothing to say.

    Args:
        trace: a `trace_document`.
        subtasks: those in it, with names.
    """
    if not subtasks:
        return ""
    slowest = f"subtask {subtasks[0]['index']} of {subtasks[0]['name']}"
    missing = trace["num_subtasks"] - trace["num_acknowledged_subtasks"]
    is_running = trace["status"] == "IN_PROGRESS"
    if missing:
        others = "" if missing == 1 else f" and {missing - 1} more"
        late = ("has" if missing == 1 else "have") if is_running else "had"
        return f"{slowest}{others} {late} not acknowledged{' yet' if is_running else ''}"
    if "lost_in" not in trace or trace["status"] != "COMPLETED":
        so_far = "have acknowledged; it is being" if is_running else "had acknowledged; it was not"
        return f"all subtasks {so_far} recorded"
    phase, duration, all_of_it = trace["lost_in"]["phase"], trace["lost_in"]["duration"], trace["duration"]
    took = f"{duration_text(duration)} of {duration_text(all_of_it)}"
    if phase == "commit":
        return f"{took} after the last acknowledgement, until it was recorded"
    return f"{took} in {slowest}, {_WENT[phase]}"


def duration_text(duration_ms: float) -> str:
    """Return a duration, "850 ms" or "4.2 s"."""
    return f"{duration_ms / 1000:.1f} s" if duration_ms >= 1000 else f"{duration_ms:.0f} ms"
