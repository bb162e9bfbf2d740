"""VertexRuns: the runs of a job's vertices, attempt by attempt, over all its leaders, for the lanes of its timeline.

They are in its saved document. Pure. Times are epoch ms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

Document = dict[str, Any]

RUNS: Final = "vertex_runs"
"""Key of the runs in a job's saved document."""
MAX_RUNS: Final = 300
"""Of all vertices together, the newest; more make each save of a job's row larger."""
_ENDED: Final = ("FINISHED", "CANCELED", "FAILED")


class VertexRuns:
    """The runs of the vertices of one job.

    Args:
        saved: its saved document; of a job that earlier leaders ran it has their runs.
    """

    def __init__(self, saved: Mapping[str, Any] | None) -> None:
        #: those that are over, oldest first
        self._over: deque[Document] = deque(maxlen=MAX_RUNS)
        #: vertex → its newest run
        self._newest: dict[str, Document] = {}
        for run in (saved or {}).get(RUNS, ()):
            self._begin(dict(run))

    def note(self, document: Mapping[str, Any]) -> None:
        """Note how the vertices run now.

        Args:
            document: the job's live document.
        """
        for vertex in document["vertices"]:
            attempt = attempt_of(vertex)
            known = self._newest.get(vertex["id"])
            if known is not None and attempt > known["attempt"]:
                # between two documents it may have ended unseen
                if known["end"] is None:
                    known["end"] = document["now"]
                if known["state"] not in _ENDED:
                    known["state"] = "CANCELED"
            if vertex["start_time"] >= 0:
                ended = vertex["end_time"]
                self._begin(
                    {
                        "vertex": vertex["id"],
                        "attempt": attempt,
                        "state": vertex["state"],
                        "begin": vertex["start_time"],
                        "end": None if ended < 0 else ended,
                    }
                )

    def document(self) -> list[Document]:
        """Return the runs, those of a vertex oldest first."""
        return [dict(run) for run in (*self._over, *self._newest.values())]

    def _begin(self, run: Document) -> None:
        known = self._newest.get(run["vertex"])
        if known is not None and known["attempt"] != run["attempt"]:
            self._over.append(known)
        self._newest[run["vertex"]] = run


def attempt_of(vertex: Mapping[str, Any]) -> int:
    """Return the newest attempt of a vertex of a live document."""
    return max((int(subtask["attempt"]) for subtask in vertex["subtasks"]), default=0)


def earlier_runs(saved: Mapping[str, Any] | None, document: Mapping[str, Any]) -> list[Document]:
    """Return the runs of attempts before those that a live document has, the oldest first.

    Args:
        saved: the job's saved document.
        document: its live one.
    """
    newest = {vertex["id"]: attempt_of(vertex) for vertex in document["vertices"]}
    runs = [run for run in (saved or {}).get(RUNS, ()) if run["attempt"] < newest.get(run["vertex"], 0)]
    return sorted(runs, key=lambda run: (run["begin"], run["attempt"]))
