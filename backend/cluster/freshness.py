"""How old a document is, and what to say of one that is old: the one rule for page, command line and REST. Pure.

Ages are measured with one clock, Redis's between writer and reader and the reader's monotonic one from then on: wall
clocks of two machines are never compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

STALE_AFTER_MS: Final = 3_000
"""The jobmanager's beat is twice a second. Shorter: a busy machine looks like a dead one; longer: with the second
between two looks, people see rates of a jobmanager that is gone for more than 5 s."""


class Source(StrEnum):
    """Where a document comes from."""

    LIVE = "live"
    """The jobmanager's own, by way of Redis."""
    KEPT = "kept"
    """The last live one that this process has read."""
    DATABASE = "database"
    """The one of the last change of state."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """Of one document, at the moment it is read.

    Args:
        source: where it comes from.
        age_ms: since the jobmanager vouched for it; None: it has not since this process began.
        redis_answers: whether Redis could be read.
        is_final: it is of a job that has ended, and stays true for ever.
    """

    source: Source
    age_ms: int | None = None
    redis_answers: bool = True
    is_final: bool = False

    @property
    def reason(self) -> str:
        """Why it may not be true any more; "" while it is."""
        if self.is_final:
            return ""
        silence = "" if self.age_ms is None else f"The jobmanager has not been heard of for {self.age_ms // 1000} s."
        if not self.redis_answers:
            return f"Redis does not answer. {silence}".strip()
        if self.age_ms is None:
            return "No jobmanager has been heard of."
        return silence if self.age_ms > STALE_AFTER_MS else ""

    def after(self, elapsed_ms: int) -> Freshness:
        """The same document so much later."""
        return self if self.age_ms is None else replace(self, age_ms=self.age_ms + elapsed_ms)

    def to_json(self) -> dict[str, Any]:
        """As REST and the WebSocket give it."""
        reason = self.reason
        return {"age_ms": self.age_ms, "source": self.source.value, "is_stale": bool(reason), "reason": reason}
