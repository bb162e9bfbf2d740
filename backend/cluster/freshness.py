"""Age of documents and the message about stale ones: one rule for page, command line and REST. Pure.

Each part of an age is measured with one clock, Redis's between writer and reader and then the reader's monotonic clock;
wall clocks of two machines are never compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

STALE_AFTER_MS: Final = 3_000
"""The jobmanager's beat is twice a second. Shorter: a busy machine looks dead; longer: including the second between two
reads, users see rates of a jobmanager that has been gone for more than 5 s."""


class Source(StrEnum):
    """The source of a document."""

    LIVE = "live"
    """The jobmanager's document, read from Redis."""
    KEPT = "kept"
    """The last live document that this process has read."""
    DATABASE = "database"
    """The document saved at the last change of state."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """Freshness of a document at the moment it is read.

    Args:
        source: the source of the document.
        age_ms: time since the jobmanager last vouched for it; None: not since this process started.
        redis_answers: whether Redis could be read.
        is_final: the document is of an ended job and never gets stale.
    """

    source: Source
    age_ms: int | None = None
    redis_answers: bool = True
    is_final: bool = False

    @property
    def reason(self) -> str:
        """Why the document may be out of date; "" if it is not."""
        if self.is_final:
            return ""
        silence = "" if self.age_ms is None else f"The JobManager has sent no heartbeat for {self.age_ms // 1000} s."
        if not self.redis_answers:
            return f"Redis does not answer. {silence}".strip()
        if self.age_ms is None:
            return "No JobManager has sent a heartbeat."
        return silence if self.age_ms > STALE_AFTER_MS else ""

    def after(self, elapsed_ms: int) -> Freshness:
        """Return the freshness of the same document `elapsed_ms` later."""
        return self if self.age_ms is None else replace(self, age_ms=self.age_ms + elapsed_ms)

    def to_json(self) -> dict[str, Any]:
        """Return the form used by REST and the WebSocket."""
        reason = self.reason
        return {"age_ms": self.age_ms, "source": self.source.value, "is_stale": bool(reason), "reason": reason}


def as_of_the_beat(document: Mapping[str, Any], lasted_ms: int) -> dict[str, Any]:
    """Return a job's or the cluster's document with its clock moved on to the beat that vouches for it.

    The leader writes a document when something in it changes; a job that waits changes nothing, yet lasts longer.

    Args:
        document: of a job that has not ended, or of the cluster.
        lasted_ms: from its writing to the beat.
    """
    moved = {**document, "now": int(document.get("now", 0)) + lasted_ms}
    if "jobs" in document:
        moved["jobs"] = [job if job["end_time"] > 0 else _longer(job, lasted_ms) for job in document["jobs"]]
        return moved
    return _longer(moved, lasted_ms)


def _longer(job: Mapping[str, Any], lasted_ms: int) -> dict[str, Any]:
    return {**job, "duration": int(job.get("duration", 0)) + lasted_ms}
