"""Events for the leader, and their decoding: whatever arrives becomes an event or a MalformedEventError. Pure.

Senders may be of another release, or broken. Only what a leader can handle, and the database can store, gets through.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from runtime.core.well_formed import well_formed

#: limits of the database's columns
MAX_NAME_CHARS: Final = 255
MAX_INTEGER: Final = 2**31 - 1
#: time for which stacks may be sampled, ms
MAX_SAMPLED_MS: Final = 60_000
#: rows that a peek shows in a second, and subtasks that it names
MAX_PEEKED_ROWS: Final = 20
MAX_PEEKED_SUBTASKS: Final = 1_000
MAX_LONG: Final = 2**63 - 1


class MalformedEventError(Exception):
    """An event that cannot be handled; the message says why."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A TaskManager lives and runs these stages."""

    report: Mapping[str, Any]
    """Its description of itself: id, worker_name, host, pid, slots, spark_master, registered_at, hardware."""
    stages: tuple[tuple[str, int, int], ...]
    """(job, attempt, stage) of each."""


@dataclass(frozen=True, slots=True)
class StageEnded:
    """A stage has ended on its TaskManager."""

    job: str
    attempt: int
    stage: int
    error: str | None
    """None: normally."""


@dataclass(frozen=True, slots=True)
class TaskManagerGone:
    """A TaskManager has ended."""

    taskmanager: str
    cause: str


@dataclass(frozen=True, slots=True)
class RowsChanged:
    """Notice that a job or an operation is new, so that the leader need not wait for its next poll."""


@dataclass(frozen=True, slots=True)
class AutoscalerSwitched:
    """Notice that a user has switched a job's autoscaler, so that the leader looks at once."""


@dataclass(frozen=True, slots=True)
class StacksWanted:
    """A user wants to see what the subtasks of a vertex do."""

    job: str
    vertex: str
    duration_ms: int


@dataclass(frozen=True, slots=True)
class PeekWanted:
    """A user looks at the rows of an edge."""

    job: str
    peek: str
    edge: int | str
    """Id of an edge between chains, or of the operator that one within a chain leads to."""
    subtasks: tuple[int, ...]
    """Empty: all."""
    rows: int
    """A second."""
    of_late: bool = False
    """Whether `edge` is the operator whose dropped late records are looked at."""


@dataclass(frozen=True, slots=True)
class PeekEnded:
    """The user does not look any longer."""

    job: str
    peek: str


Event: TypeAlias = (
    Heartbeat | StageEnded | TaskManagerGone | RowsChanged | AutoscalerSwitched | StacksWanted | PeekWanted | PeekEnded
)


class ReceivedEvent(NamedTuple):
    """An event as the leader receives it."""

    event: Event
    age_ms: float
    """Time since it was queued, by the bus's clock alone."""


def decode_event(text: str) -> Event:
    """Decode an event.

    Raises:
        MalformedEventError: it cannot be handled.
    """
    try:
        return _decode(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise MalformedEventError(f"it is not valid JSON: {error}") from None


def _decode(document: object) -> Event:
    if not isinstance(document, dict):
        raise MalformedEventError("it is not a JSON object")
    kind = document.get("type")
    decode = _DECODERS.get(kind) if isinstance(kind, str) else None
    if decode is None:
        raise MalformedEventError(f"its type is {kind!r:.50}")
    return decode(document)


def _heartbeat(document: Mapping[str, Any]) -> Heartbeat:
    report, stages = document.get("taskmanager"), document.get("stages")
    if not isinstance(report, dict) or not isinstance(stages, list):
        raise MalformedEventError("a heartbeat has a taskmanager and stages")
    known: dict[str, Any] = {name: _name(report, name) for name in ("id", "worker_name", "host", "spark_master")}
    known |= {name: _integer(report, name, MAX_INTEGER) for name in ("pid", "slots")}
    known["registered_at"] = _integer(report, "registered_at", MAX_LONG)
    known["hardware"] = _hardware(report.get("hardware", {}))
    if "evicts_in_ms" in report:
        known["evicts_in_ms"] = _integer(report, "evicts_in_ms", MAX_INTEGER)
    if "number" in report:
        known["number"] = _integer(report, "number", MAX_LONG)
    return Heartbeat(known, tuple(_stage(stage) for stage in stages))


def _stage_ended(document: Mapping[str, Any]) -> StageEnded:
    job, attempt, stage = _stage([document.get(name) for name in ("job", "attempt", "stage")])
    error = document.get("error")
    return StageEnded(job, attempt, stage, None if error is None else _text(document, "error"))


def _gone(document: Mapping[str, Any]) -> TaskManagerGone:
    cause = _text(document, "cause") if "cause" in document else "it ended"
    return TaskManagerGone(_name(document, "taskmanager"), cause)


def _rows_changed(document: Mapping[str, Any]) -> RowsChanged:
    return RowsChanged()


def _autoscaler_switched(document: Mapping[str, Any]) -> AutoscalerSwitched:
    return AutoscalerSwitched()


def _stacks_wanted(document: Mapping[str, Any]) -> StacksWanted:
    duration_ms = _integer(document, "duration", MAX_SAMPLED_MS)
    return StacksWanted(_name(document, "job"), _name(document, "vertex"), duration_ms)


def _peek_wanted(document: Mapping[str, Any]) -> PeekWanted:
    edge, subtasks = document.get("edge"), document.get("subtasks", [])
    if not isinstance(subtasks, list) or len(subtasks) > MAX_PEEKED_SUBTASKS:
        raise MalformedEventError(f"subtasks is {subtasks!r:.100}")
    return PeekWanted(
        _name(document, "job"),
        _name(document, "peek"),
        _name(document, "edge") if isinstance(edge, str) else _integer(document, "edge", MAX_INTEGER),
        tuple(_integer({"subtask": subtask}, "subtask", MAX_INTEGER) for subtask in subtasks),
        _integer(document, "rows", MAX_PEEKED_ROWS),
        document.get("late") is True,
    )


def _peek_ended(document: Mapping[str, Any]) -> PeekEnded:
    return PeekEnded(_name(document, "job"), _name(document, "peek"))


_DECODERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Event]]] = {
    "heartbeat": _heartbeat,
    "stage_ended": _stage_ended,
    "gone": _gone,
    "job_submitted": _rows_changed,
    "operation": _rows_changed,
    "autoscaler": _autoscaler_switched,
    "stacks": _stacks_wanted,
    "peek": _peek_wanted,
    "peek_ended": _peek_ended,
}


def _stage(parts: object) -> tuple[str, int, int]:
    if not isinstance(parts, list) or len(parts) != 3:
        raise MalformedEventError(f"a stage is a job, an attempt and a number, not {parts!r:.100}")
    named = dict(zip(("job", "attempt", "stage"), parts, strict=True))
    return _name(named, "job"), _integer(named, "attempt", MAX_INTEGER), _integer(named, "stage", MAX_INTEGER)


def _hardware(hardware: object) -> dict[str, int]:
    if not isinstance(hardware, dict) or not all(isinstance(name, str) for name in hardware):
        raise MalformedEventError(f"hardware is {hardware!r:.100}")
    return {name: _integer(hardware, name, MAX_LONG) for name in map(well_formed, hardware)}


def _name(document: Mapping[str, Any], name: str) -> str:
    value = _text(document, name)
    if not 0 < len(value) <= MAX_NAME_CHARS:
        raise MalformedEventError(f"{name} has {len(value)} characters")
    return value


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str):
        raise MalformedEventError(f"{name} is {value!r:.100}")
    return well_formed(value)


def _integer(document: Mapping[str, Any], name: str, most: int) -> int:
    value = document.get(name)
    # True is an int, too
    if type(value) is not int or not 0 <= value <= most:
        raise MalformedEventError(f"{name} is {value!r:.100}")
    return value
