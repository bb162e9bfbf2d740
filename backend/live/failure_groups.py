"""A job's failures, those with the same cause as one group, with what else went on in the attempt of each. Pure.

Failures are the same if they have the error's class, the vertex, and the line of the program in common. They are those
of the job's document, the newest; what ran beside them is taken from its operations, autoscaler and checkpoints, as far
as these are kept. Times are epoch ms.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.core.places import users_place

Document = dict[str, Any]

MAX_OCCURRENCES = 20
"""Listed of a group, the newest."""
MAX_BESIDE = 8
"""Listed of what ran beside a failure, the newest."""
MAX_MESSAGE_CHARS = 500
END_JITTER_MS = 1_000
"""An attempt's failure is noted by one clock, what it ends by another one."""
_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')
_DEFINED = re.compile(r"is defined at (\S+):(\d+)")
_ERROR_NAME = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)", re.MULTILINE)
_TASK = re.compile(r"(?P<vertex>.*) \(\d+/\d+\)", re.DOTALL)
_WRAPPER = "UserFunctionError"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that went on for some time."""

    kind: str
    begun: int
    ended: int | None
    """None: it goes on."""
    text: str
    is_failed: bool = False

    def is_within(self, begin: int, end: int) -> bool:
        """Return whether it went on at some time between two others, or was ended by what happened at the second."""
        return self.begun <= end and (self.ended is None or self.ended >= begin)


def failure_groups(document: Mapping[str, Any], events: Sequence[Event]) -> list[Document]:
    """Return the groups, the one that failed last first.

    Args:
        document: a job's live document.
        events: what went on in the job, in any order; checkpoints are told only where one was under way.
    """
    vertices = document.get("vertices", ())
    known = {vertex["id"]: vertex["name"] for vertex in vertices}
    counts = Counter(known.values())
    by_name = {name: vertex_id for vertex_id, name in known.items() if counts[name] == 1}
    failures = sorted(document.get("exceptions", ()), key=lambda failure: -failure["timestamp"])
    begins = _begins(failures, document)
    groups: dict[tuple[str, str, str], Document] = {}
    for failure in failures:
        vertex = failure.get("vertex", "") or _vertex_of(failure["task_name"], by_name)
        place = place_of(failure)
        name = class_of(failure)
        key = (name, vertex or failure["task_name"], place)
        group = groups.get(key)
        if group is None:
            group = groups[key] = {
                "name": name,
                "message": failure["message"].split("\n", 1)[0][:MAX_MESSAGE_CHARS],
                "vertex": vertex,
                "vertex_name": known.get(vertex, failure["task_name"]),
                "place": place,
                "count": 0,
                "first": failure["timestamp"],
                "last": failure["timestamp"],
                "occurrences": [],
            }
        group["count"] += 1
        group["first"] = failure["timestamp"]
        if len(group["occurrences"]) < MAX_OCCURRENCES:
            group["occurrences"].append(_occurrence(failure, begins[id(failure)], events))
    return list(groups.values())


def class_of(failure: Mapping[str, Any]) -> str:
    """Return the class of the user's error, also where the engine has wrapped it."""
    name = str(failure["name"])
    if name.rsplit(".", 1)[-1] != _WRAPPER:
        return name
    # a traceback begins with the original error
    match = _ERROR_NAME.search(failure["stacktrace"])
    return name if match is None else match[1]


def place_of(failure: Mapping[str, Any]) -> str:
    """Return the line of the program at which it failed, "file:line", else that of its operator; "" if unknown."""
    text = failure["stacktrace"] or failure["message"]
    frames = [(file, int(line)) for file, line in _FRAME.findall(text)]
    place = users_place(reversed(frames))
    if place is None:
        match = _DEFINED.search(text)
        return "" if match is None else f"{match[1]}:{match[2]}"
    return f"{place[0]}:{place[1]}"


def _vertex_of(task_name: str, by_name: Mapping[str, str]) -> str:
    match = _TASK.fullmatch(task_name)
    return "" if match is None else by_name.get(match["vertex"], "")


def _begins(failures: Sequence[Document], document: Mapping[str, Any]) -> dict[int, int]:
    """Return when the attempt of each failure began at the earliest: at the failure before it.

    Args:
        failures: newest first.
        document: the job's.
    """
    begins: dict[int, int] = {}
    # what was before the oldest that is kept is not known
    is_complete = len(failures) >= document.get("failures", len(failures))
    for number, failure in enumerate(failures, 1):
        if number < len(failures):
            begins[id(failure)] = failures[number]["timestamp"]
        else:
            begins[id(failure)] = document["start_time"] if is_complete else failure["timestamp"]
    return begins


def _occurrence(failure: Document, begin: int, events: Iterable[Event]) -> Document:
    end = failure["timestamp"]
    beside = [
        _beside(event.kind, event.begun, event.text)
        for event in events
        if event.is_within(end - END_JITTER_MS if event.kind == "checkpoint" else begin, end)
    ]
    beside += [
        _beside("slot-lost", end, other["message"][:MAX_MESSAGE_CHARS])
        for other in failure["suppressed"]
        if other["name"] == "SlotLost"
    ]
    beside.sort(key=lambda each: -each["timestamp"])
    return {
        "timestamp": end,
        "attempt": failure["attempt"],
        "task_name": failure["task_name"],
        "location": failure["location"],
        "message": failure["message"].split("\n", 1)[0][:MAX_MESSAGE_CHARS],
        "others": len(failure["suppressed"]),
        "beside": beside[:MAX_BESIDE],
    }


def _beside(kind: str, timestamp: int, text: str) -> Document:
    return {"kind": kind, "timestamp": timestamp, "text": text}
