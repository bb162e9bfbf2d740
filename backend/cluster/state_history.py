"""The changes of a job's state in its saved document, over all its leaders: the timeline is made of them. Pure.

Times are epoch ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backend.audit.redaction import redacted_text
from backend.cluster.wall_dates import WallDates
from runtime.core.well_formed import well_formed
from runtime.jobmaster.status import StateChange

Document = dict[str, Any]

STATES = "state_history"
"""Key of the changes in a job's saved document."""
MAX_CHANGES = 200
"""Shown of a job, the newest. One more is kept: it tells that there were earlier ones."""
MAX_CAUSE_CHARS = 300
_KEPT = MAX_CHANGES + 1


class StateRecord:
    """The changes of one job.

    Args:
        saved: its saved document; of a job that earlier leaders ran it has their changes.
        dates: of this leader's changes.
    """

    def __init__(self, saved: Document | None, dates: WallDates) -> None:
        self._dates = dates
        earlier: list[Document] = list((saved or {}).get(STATES, ()))[-_KEPT:]
        #: monotonic time and change; None: an earlier leader has dated it
        self._changes: list[tuple[float | None, Document]] = [(None, change) for change in earlier]
        #: number of the last one that was added
        self._noted = 0

    def note(self, changes: Sequence[StateChange]) -> None:
        """Add those that are new, of this leader's JobMaster, oldest first."""
        for change in changes:
            if change.number > self._noted:
                self._noted = change.number
                noted = {
                    "state": change.state.value,
                    "attempt": int(change.attempt),
                    "cause": redacted_text(well_formed(change.cause))[:MAX_CAUSE_CHARS],
                }
                self._changes.append((change.at_ms, noted))
        del self._changes[:-_KEPT]

    def document(self) -> list[Document]:
        """Return the changes, oldest first."""
        return [
            change if at_ms is None else change | {"begin": self._dates.at(at_ms)} for at_ms, change in self._changes
        ]
