"""What the subtasks of a vertex were seen to do: the document that the leader writes, and trees for flame graphs. Pure.

Source: Flink, VertexFlameGraphFactory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from backend.audit.redaction import for_users
from runtime.jobmaster.stack_reports import StackReport

Document = dict[str, Any]
MAX_DEPTH = 100


class ThreadStack(TypedDict):
    slot: str
    name: str
    stack: str
    """As in a traceback, innermost line last."""


class SampledStack(NamedTuple):
    subtask: int
    frames: list[int]
    """Indices into the document's frames, outermost first."""
    on_cpu: int
    """Number of samples."""
    off_cpu: int


class VertexStacks(TypedDict):
    """Samples of the stacks of a vertex's subtasks."""

    number: int
    """Grows with each report of the job."""
    ended_at: int
    """Epoch ms."""
    duration: int
    """ms; 0: only the threads were asked for."""
    count: int
    """Number of samples of all slots, also those in which another task, or none, was stepped."""
    subtasks: list[int]
    """Those whose slots have answered."""
    frames: list[str]
    """"function (file:line)", with the line at which the function begins."""
    stacks: list[SampledStack]
    threads: list[ThreadStack]


def vertex_stacks(report: StackReport, now: int) -> VertexStacks:
    """Return the document of a report.

    Args:
        report: the report.
        now: epoch ms.
    """
    frames: dict[str, int] = {}
    stacks: list[SampledStack] = []
    for sampled in report.slots.values():
        names = [_shown(name) for name in sampled.frames]
        for task, counts in sampled.stacks.items():
            if task.vertex_id == report.vertex_id:
                stacks += [
                    SampledStack(
                        task.subtask_index,
                        [frames.setdefault(names[index], len(frames)) for index in each.frames],
                        each.on_cpu,
                        each.off_cpu,
                    )
                    for each in counts
                ]
    return {
        "number": report.number,
        "ended_at": now,
        "duration": report.duration_ms,
        "count": sum(sampled.count for sampled in report.slots.values()),
        "subtasks": sorted(index for index, slot in report.subtasks.items() if slot in report.slots),
        "frames": list(frames),
        "stacks": stacks,
        "threads": [
            {"slot": str(slot), "name": name, "stack": for_users(stack)}
            for slot, sampled in report.slots.items()
            for name, stack in sampled.threads.items()
        ],
    }


def flame_tree(document: Mapping[str, Any], kind: str, subtask: int | None) -> Document:
    """Return a tree of name, value and children, as Flink's.

    Args:
        document: `VertexStacks`.
        kind: "full", "on_cpu" or "off_cpu": which samples count.
        subtask: index of the only one that counts; None: all count.
    """
    root: Document = {"name": "root", "value": 0, "children": {}}
    frames: Sequence[str] = document["frames"]
    for index, stack, on_cpu, off_cpu in document["stacks"]:
        value = {"full": on_cpu + off_cpu, "on_cpu": on_cpu, "off_cpu": off_cpu}[kind]
        if value == 0 or subtask not in (None, index):
            continue
        node = root
        node["value"] += value
        for frame in stack[:MAX_DEPTH]:
            node = node["children"].setdefault(frames[frame], {"name": frames[frame], "value": 0, "children": {}})
            node["value"] += value
    return _listed([root])[0]


def _shown(frame: str) -> str:
    """Return a frame with the file as users know it."""
    function, bracket, place = frame.rpartition(" (")
    return function + bracket + for_users(place)


def _listed(nodes: Iterable[Document]) -> list[Document]:
    ordered = sorted(nodes, key=lambda node: (-node["value"], node["name"]))
    return [node | {"children": _listed(node["children"].values())} for node in ordered]
