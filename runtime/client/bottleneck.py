"""Finds the vertex that holds up a job. Pure functions over the vertices of a live document.

A vertex that cannot send is back-pressured, and so, soon, is everything above it; the one that they all wait for works
without being back-pressured itself. Source: Flink's web page, which leaves the search to the reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Vertex = Mapping[str, Any]

#: ms of a second; up to this much waiting for room is no back-pressure. Source: Flink, JobVertexBackPressureHandler
BACK_PRESSURED_MS = 100


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The vertex that limits a job, or the one that works most."""

    vertex_id: str
    name: str
    busy_ms: int
    """Per second, of its busiest subtask."""
    held_ms: int
    """Per second, for which it waited for room itself: above `BACK_PRESSURED_MS` if what limits the job is outside of
    it.
    """
    waiting: tuple[str, ...]
    """Names of the back-pressured vertices above it, sources first."""


def find_bottleneck(vertices: Sequence[Vertex]) -> Bottleneck | None:
    """Return the running vertex that others wait for; the busiest one if nobody waits; None if nothing works.

    Of several that are waited for (a stream may part), the busiest. A vertex without consumers that is back-pressured
    itself waits for something outside, an async call perhaps, and counts as what it waits for.

    Args:
        vertices: of a live document, sources first.
    """
    running = {v["id"]: v for v in vertices if v["state"] == "RUNNING"}
    inputs = {vertex_id: [i["id"] for i in v["inputs"] if i["id"] in running] for vertex_id, v in running.items()}
    waiting = {vertex_id for vertex_id, v in running.items() if _held_ms(v) > BACK_PRESSURED_MS}
    feeding = {source for sources in inputs.values() for source in sources}
    limits = [
        v
        for vertex_id, v in running.items()
        if (vertex_id not in waiting and waiting & set(inputs[vertex_id]))
        or (vertex_id in waiting and vertex_id not in feeding)
    ]
    busiest = max(limits or running.values(), key=_load_ms, default=None)
    if busiest is None or _load_ms(busiest) <= 0:
        return None
    above = _above(busiest["id"], inputs)
    return Bottleneck(
        busiest["id"],
        busiest["name"],
        _busy_ms(busiest),
        _held_ms(busiest),
        tuple(v["name"] for vertex_id, v in running.items() if vertex_id in above & waiting),
    )


def bottleneck_text(found: Bottleneck) -> str:
    """Describe a bottleneck in one line."""
    load = f"busy {percent(found.busy_ms)}"
    if found.held_ms > BACK_PRESSURED_MS:
        load += f", waits for something outside the job {percent(found.held_ms)}"
    count = len(found.waiting)
    if count == 0:
        above = "nothing is back-pressured" if found.held_ms <= BACK_PRESSURED_MS else "nothing upstream of it waits"
    elif count == 1:
        above = f"{found.waiting[0]}, upstream of it, is back-pressured"
    else:
        above = f"{count} vertices upstream of it are back-pressured"
    return f"Busiest: {found.name} ({load}); {above}"


def percent(ms_per_second: float | None) -> str:
    """Format milliseconds per second as a share."""
    return "–" if ms_per_second is None else f"{round(ms_per_second / 10)} %"


def _busy_ms(vertex: Vertex) -> int:
    return round(vertex["metrics"].get("busy") or 0)


def _held_ms(vertex: Vertex) -> int:
    return round(vertex["metrics"].get("back_pressured") or 0)


def _load_ms(vertex: Vertex) -> int:
    return _busy_ms(vertex) + _held_ms(vertex)


def _above(vertex_id: str, inputs: Mapping[str, Iterable[str]]) -> set[str]:
    above: set[str] = set()
    left = [vertex_id]
    while left:
        for source in inputs[left.pop()]:
            if source not in above:
                above.add(source)
                left.append(source)
    return above
