"""A job's timeline: its states and attempts, and what else happened to it. Pure. Times are epoch ms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backend.cluster.state_history import MAX_CHANGES
from backend.live.failure_groups import Event

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

    Once earlier changes of the state are no longer kept, it begins with the oldest one that is: what was before would
    be shown in a wrong state. Things that ended before it are left out.

    Args:
        document: the job's live document.
        changes: of its state, oldest first: those that its leaders' state machines made.
        state_times: when each state was last entered, also without a state machine.
        events: its operations, the decisions of its autoscaler and its failures, in any order.
        now: the server's time.
    """
    end = document["end_time"] if document["end_time"] >= 0 else max(now, document["now"])
    is_cut = len(changes) > MAX_CHANGES
    states = _spans(changes[-MAX_CHANGES:], state_times, document, is_cut=is_cut)
    begin = min(([] if is_cut else [document["start_time"]]) + [span["begin"] for span in states[:1]])
    within = (e for e in events if not is_cut or e.ended is None or e.ended >= begin)
    told = sorted(within, key=lambda event: event.begun)[-MAX_EVENTS:]
    return {
        "begin": begin,
        "is_cut": is_cut,
        "now": end,
        "states": states,
        "events": [event_entry(event) for event in told],
    }


def event_entry(event: Event) -> Document:
    """Return an event in the form shown by the page and REST."""
    return {
        "kind": event.kind,
        "begin": event.begun,
        "end": event.ended,
        "text": event.text,
        "is_failed": event.is_failed,
    }


def _spans(
    changes: Sequence[Mapping[str, Any]], state_times: Mapping[str, int], document: Mapping[str, Any], *, is_cut: bool
) -> list[Document]:
    known: list[Document] = [dict(change) for change in changes]
    # what came before the first one is known for the states that were not entered again only
    oldest = min(change["begin"] for change in changes) if is_cut else None
    for state, begin in state_times.items():
        # INITIALIZING and SUSPENDED, and the end of a job that no state machine ran
        is_known = any(c["state"] == state and c["begin"] > begin - SAME_MS for c in changes)
        is_before = oldest is not None and begin < oldest
        if not is_known and not is_before and not (changes and changes[-1]["state"] == state):
            known.append({"state": state, "attempt": None, "begin": begin, "cause": ""})
    known.sort(key=lambda change: change["begin"])
    if is_cut:
        del known[:-MAX_CHANGES]
    ends = [change["begin"] for change in known[1:]]
    is_over = document["end_time"] >= 0
    last_end = document["end_time"] if is_over else None
    return [change | {"end": end} for change, end in zip(known, [*ends, last_end][: len(known)], strict=True)]
