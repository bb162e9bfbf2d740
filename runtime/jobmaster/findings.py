"""Findings: what is wrong with a running job, where, and the figures that say so. Pure.

`bottleneck` and `event_time` make them; page, REST and command line show `text_of`, the same everywhere.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runtime.core.ids import VertexId


class Topic(enum.Enum):
    """Subject of a finding, in the order of weight; a job has at most one finding of each."""

    LIMIT = "limit"
    """The throughput is limited."""
    WATERMARK = "watermark"
    """Event time does not go on."""
    LATE = "late"
    PENDING = "pending"
    MEMORY = "memory"


class Cause(enum.Enum):
    BUSY = "busy"
    SKEW = "skew"
    """One subtask gets far more records than the others."""
    OUTSIDE = "outside"
    """It waits for something outside of the job."""
    SLOW_SINK = "slow-sink"
    STALL = "stall"
    """A call does not return."""
    ALIGNMENT = "alignment"
    """Inputs are blocked until the barriers of a checkpoint have come."""
    UNKNOWN = "unknown"
    """Somebody waits, and nobody that is waited for does anything."""
    PENDING_RECORDS = "pending-records"
    LATE_DATA = "late-data"
    MEMORY = "memory"
    IDLE_INPUT = "idle-input"
    """A source, or a split, has nothing to read, and holds the watermark."""
    STILL_WATERMARK = "still-watermark"
    """A source reads, and its watermark stands still all the same."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    topic: Topic
    cause: Cause
    vertex_id: VertexId
    subtask: int | None = None
    """None: the vertex as a whole."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """By name; times in ms or ms per second, rates per second."""
    waiting: Sequence[VertexId] = ()
    """Back-pressured vertices above it, sources first."""
    split: str | None = None
    """Id of a source's split."""

    @property
    def place(self) -> tuple[object, ...]:
        """Return what makes it another finding, however the figures move, and whoever of equal subtasks is ahead."""
        return self.topic, self.cause, self.vertex_id


def text_of(finding: Finding, names: Mapping[VertexId, str]) -> str:
    """Describe a finding in words that go on behind the name of its vertex, "map" + " " + "is busy 98 % …".

    Args:
        finding: what to describe.
        names: of the vertices.
    """
    text = _TEXTS[finding.cause](finding)
    if finding.subtask is not None:
        text = f"(subtask {finding.subtask}) {text}"
    if len(finding.waiting) == 1:
        text += f"; {names[finding.waiting[0]]}, upstream of it, is back-pressured"
    elif finding.waiting:
        text += f"; {len(finding.waiting)} vertices upstream of it are back-pressured"
    return text


def _busy(finding: Finding) -> str:
    busy, running = finding.figures["busy"], finding.figures["running"]
    turn = f", {_percent(busy - running)} of it waiting for its turn in the slot" if running < busy / 2 else ""
    return f"is busy {_percent(busy)} of the time{turn}"


def _skew(finding: Finding) -> str:
    times = finding.figures.get("times_the_others")
    share = "nearly all records" if times is None else f"{times:.1f} times the records of the other subtasks"
    return f"gets {share} and is busy {_percent(finding.figures['busy'])}"


def _outside(finding: Finding) -> str:
    share = _percent(finding.figures["outside"])
    return f"waits for something outside the job {share} of the time (a service or a target that does not keep up)"


def _still(finding: Finding) -> str:
    seconds = _seconds(finding.figures["still_ms"])
    return f"has not raised its watermark for {seconds} although it reads records; event time waits for it"


def _idle(finding: Finding) -> str:
    what = "has had nothing to read" if finding.split is None else f"has had nothing to read from split {finding.split}"
    held = "event time has not begun" if "behind_ms" not in finding.figures else "event time waits for it"
    return f"{what} for {_seconds(finding.figures['still_ms'])}, and {held} (with_idleness would let it go on)"


_TEXTS = {
    Cause.BUSY: _busy,
    Cause.SKEW: _skew,
    Cause.OUTSIDE: _outside,
    Cause.SLOW_SINK: lambda f: f"spends {_percent(f.figures['sending'])} of the time writing to its target",
    Cause.STALL: lambda f: f"is in a call that has not returned for {_seconds(f.figures['stalled_ms'])}",
    Cause.ALIGNMENT: lambda f: (
        f"has waited for barriers of checkpoint {f.figures['checkpoint']:.0f} for {_seconds(f.figures['waiting_ms'])}"
    ),
    Cause.UNKNOWN: lambda f: f"is back-pressured {_percent(f.figures['held'])} of the time; by what is not known",
    Cause.PENDING_RECORDS: lambda f: (
        f"falls behind: {f.figures['pending']:,.0f} records are pending, {f.figures['growth']:,.0f} more each second"
    ),
    Cause.LATE_DATA: lambda f: (
        f"drops {f.figures['late']:.1f} late records a second, {_percent(1000 * f.figures['share'])} of its input"
    ),
    Cause.MEMORY: lambda f: (
        f"is in a process of {_mebibytes(f.figures['resident'])}; {_mebibytes(f.figures['available'])} are left to it"
    ),
    Cause.IDLE_INPUT: _idle,
    Cause.STILL_WATERMARK: _still,
}


def _percent(ms_per_second: float) -> str:
    return f"{round(ms_per_second / 10)} %"


def _seconds(ms: float) -> str:
    return f"{ms / 1000:.0f} s"


def _mebibytes(count: float) -> str:
    return f"{count / (1 << 20):,.0f} MB"
