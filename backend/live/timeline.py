"""A job's timeline: its states and attempts, and what else happened to it. Pure. Times are epoch ms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backend.live.failure_groups import Event, class_of

Document = dict[str, Any]

MAX_EVENTS = 200
SAME_MS = 1_000
"""The row and the state machine note one change by clocks that are read one after the other."""


def timeline(
    document: Mapping[str, Any],
    changes: Sequence[Mapping[str, Any]],
    state_times: Mapping[str, int],
    events: Sequence[Event],
    now: int,
) -> Document:
    """Return the timeline.

    Args:
        document: the job's live document.
        changes: of its state, oldest first: those that its leaders' state machines made.
        state_times: when each state was last entered, also without a state machine.
        events: its operations and the decisions of its autoscaler, in any order.
        now: the server's time.
    """
    end = document["end_time"] if document["end_time"] >= 0 else max(now, document["now"])
    states = _spans(changes, state_times, document)
    failures = [
        Event("failure", e["timestamp"], e["timestamp"], _failure_text(e), is_failed=True)
        for e in document.get("exceptions", ())
    ]
    begin = min([document["start_time"], *(span["begin"] for span in states[:1])])
    told = sorted((*events, *failures), key=lambda event: event.begun)[-MAX_EVENTS:]
    return {
        "begin": begin,
        "now": end,
        "states": states,
        "events": [
            {"kind": e.kind, "begin": e.begun, "end": e.ended, "text": e.text, "is_failed": e.is_failed} for e in told
        ],
    }


def _failure_text(failure: Mapping[str, Any]) -> str:
    task = f" in {failure['task_name']}" if failure["task_name"] else ""
    return f"attempt {failure['attempt']} failed: {class_of(failure)}{task}"


def _spans(
    changes: Sequence[Mapping[str, Any]], state_times: Mapping[str, int], document: Mapping[str, Any]
) -> list[Document]:
    known: list[Document] = [dict(change) for change in changes]
    for state, begin in state_times.items():
        # INITIALIZING and SUSPENDED, and the end of a job that no state machine ran
        is_known = any(c["state"] == state and c["begin"] > begin - SAME_MS for c in changes)
        if not is_known and not (changes and changes[-1]["state"] == state):
            known.append({"state": state, "attempt": None, "begin": begin, "cause": ""})
    known.sort(key=lambda change: change["begin"])
    ends = [change["begin"] for change in known[1:]]
    is_over = document["end_time"] >= 0
    last_end = document["end_time"] if is_over else None
    return [change | {"end": end} for change, end in zip(known, [*ends, last_end][: len(known)], strict=True)]
