"""The changes of a job's state in its saved document, over all its leaders: the timeline is made of them. Pure.

Times are epoch ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backend.cluster.redaction import redacted_text
from runtime.core.well_formed import well_formed
from runtime.jobmaster.status import StateChange

Document = dict[str, Any]

STATES = "state_history"
"""Key of the changes in a job's saved document."""
MAX_CHANGES = 200
"""Kept of a job, the newest."""
MAX_CAUSE_CHARS = 300


class StateRecord:
    """The changes of one job.

    Args:
        saved: its saved document; of a job that earlier leaders ran it has their changes.
    """

    def __init__(self, saved: Document | None) -> None:
        self._changes: list[Document] = list((saved or {}).get(STATES, ()))[-MAX_CHANGES:]
        #: number of the last one that was added
        self._noted = 0

    def note(self, changes: Sequence[StateChange], offset_ms: float) -> None:
        """Add those that are new.

        Args:
            changes: of this leader's JobMaster, oldest first.
            offset_ms: wall-clock time minus the changes' monotonic time.
        """
        for change in changes:
            if change.number > self._noted:
                self._noted = change.number
                self._changes.append(
                    {
                        "state": change.state.value,
                        "attempt": int(change.attempt),
                        "begin": round(change.at_ms + offset_ms),
                        "cause": redacted_text(well_formed(change.cause))[:MAX_CAUSE_CHARS],
                    }
                )
        del self._changes[:-MAX_CHANGES]

    def document(self) -> list[Document]:
        """Return the changes, oldest first."""
        return list(self._changes)
