"""PlacementRecords: the placements of one job that SQL may lack, to be written until they are there.

What is kept is derived from what runs, so a write that fails, or goes unanswered, is made again at the next poll of the
leader. Any thread may call it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

from backend.cluster.job_store import JobStore
from backend.cluster.placements import ClusterPlacement


class PlacementRecords:
    """Placements of one job.

    Args:
        job_id: the job.
        store: writes them.
    """

    def __init__(self, job_id: str, store: JobStore) -> None:
        self._job_id = job_id
        self._store = store
        self._lock = threading.Lock()
        #: by region; guarded by the lock
        self._unrecorded: dict[int, ClusterPlacement] = {}

    def add(self, placements: Sequence[ClusterPlacement]) -> None:
        """Note where regions run; `write` records it."""
        with self._lock:
            self._unrecorded |= {placed.region.region: placed for placed in placements}

    def drop(self, regions: Collection[int]) -> None:
        """Forget where regions ran; to be called before their next attempt is recorded.

        All writes of a leader take turns: whatever is written after that record finds the placement gone, and whatever
        is written before it is deleted with it.
        """
        with self._lock:
            for region in regions:
                self._unrecorded.pop(region, None)

    def write(self) -> None:
        """Record what SQL may lack.

        Raises:
            DatabaseError: it is unknown whether it was recorded.
            LeadershipLostError: another jobmanager leads.
        """
        if not self._unrecorded:
            return
        written: list[ClusterPlacement] = []

        def current() -> Sequence[ClusterPlacement]:
            with self._lock:
                written.extend(self._unrecorded.values())
            return written

        self._store.record_placements(self._job_id, current)
        with self._lock:
            for placed in written:
                if self._unrecorded.get(placed.region.region) is placed:
                    del self._unrecorded[placed.region.region]
