"""Strangers: who sends events that this cluster has not sealed, and when to say so again. Pure; one thread.

A TaskManager with another key sends a heartbeat every second. Names in such events are whatever their senders write.
"""

from __future__ import annotations

from typing import Final

from backend.cluster.events import Heartbeat, MalformedEventError, StageEnded, TaskManagerGone, decode_event

REPEAT_MS: Final = 60_000
"""Time for which a sender is not named again."""
MAX_SENDERS: Final = 100
"""Names kept; those that come beyond are one sender, so that new names fill neither memory nor log."""
OTHERS: Final = "further senders"


class Strangers:
    """Whom the log has named, and when."""

    def __init__(self) -> None:
        #: sender → when it was named last, ms by Redis's clock
        self._named_ms: dict[str, int] = {}

    def name(self, text: str, now_ms: int) -> str | None:
        """Return who has sent an event; None if the log has named that sender within a minute.

        Args:
            text: the event as it came.
            now_ms: by Redis's clock, which may be set back.
        """
        self._named_ms = {name: at for name, at in self._named_ms.items() if abs(now_ms - at) < REPEAT_MS}
        sender = _sender_of(text)
        if sender not in self._named_ms and len(self._named_ms) >= MAX_SENDERS:
            sender = OTHERS
        if sender in self._named_ms:
            return None
        self._named_ms[sender] = now_ms
        return sender


def _sender_of(text: str) -> str:
    try:
        event = decode_event(text)
    except MalformedEventError:
        return "an unknown process"
    match event:
        case Heartbeat():
            return f"TaskManager {_printable(event.report['id'])} on {_printable(event.report['host'])}"
        case TaskManagerGone():
            return f"TaskManager {_printable(event.taskmanager)}"
        case StageEnded():
            return "a TaskManager"
        case _:
            return "a web process"


def _printable(name: str) -> str:
    return name if name.isprintable() else repr(name)
