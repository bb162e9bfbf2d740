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
        earlier: list[Document] = list((saved or {}).get(STATES, ()))[-MAX_CHANGES:]
        #: monotonic time and change; None: an earlier leader has dated it
        self._changes: list[tuple[float | None, Document]] = [(None, change) for change in earlier]
        #: number of the last one that was added
        self._noted = 0
        self._offset_ms = 0.0

    def note(self, changes: Sequence[StateChange], offset_ms: float) -> None:
        """Add those that are new, and date all of this leader's.

        Args:
            changes: of this leader's JobMaster, oldest first.
            offset_ms: wall-clock time minus the changes' monotonic time; also of those that were added before, so that
                a clock that is set does not move some of them past others.
        """
        self._offset_ms = offset_ms
        for change in changes:
            if change.number > self._noted:
                self._noted = change.number
                noted = {
                    "state": change.state.value,
                    "attempt": int(change.attempt),
                    "cause": redacted_text(well_formed(change.cause))[:MAX_CAUSE_CHARS],
                }
                self._changes.append((change.at_ms, noted))
        del self._changes[:-MAX_CHANGES]

    def document(self) -> list[Document]:
        """Return the changes, oldest first."""
        return [
            change if at_ms is None else change | {"begin": round(at_ms + self._offset_ms)}
            for at_ms, change in self._changes
        ]
