"""LedEnvironments: the leading JobManager deletes Python environments that no row of a job names any more.

One that was asked for within a day stays: its job may not have a row yet. What killed web processes have left in the
storage is deleted when it was there at two looks. Part of the leader's poll, which waits for no storage.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Final

from backend.cluster.background import BackgroundWork
from backend.cluster.environment_files import environment_files
from backend.cluster.further_work import Upkeep
from backend.cluster.models import ClusterIdentity, Job, PythonEnvironment
from backend.cluster.program_files import owner_of
from runtime.common.options import PYTHON_ENVIRONMENT

logger = logging.getLogger(__name__)

LOOK_MS: Final = 3_600_000.0
"""Interval of looks. Shorter: lists the storage for nothing; longer: leftovers stay longer."""
KEPT_MS: Final = 24 * 3_600_000
"""Since it was asked for last. Shorter: a deployment may still wait for the savepoint of the job that it replaces."""
DELETE_MS: Final = 10_000.0
"""For which `delete` says that there is more. Longer: a storage that hangs keeps `manage.py sweep`."""


class LedEnvironments(Upkeep):
    """The unused environments of one cluster."""

    look_ms: ClassVar[float] = LOOK_MS

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._work = BackgroundWork("environments")
        self._since_ms: float | None = None
        #: entries without a row at the last look
        self._seen: set[str] = set()

    def delete(self) -> bool:
        now_ms = self._clock.monotonic_ms()
        if self._since_ms is None:
            self._since_ms = now_ms
            paths = self._delete_rows()
            cluster_id = ClusterIdentity.get_id()
            self._work.submit(partial(self._delete_files, paths, cluster_id, self._known()))
        if not self._work.is_idle and now_ms - self._since_ms < DELETE_MS:
            return False
        self._since_ms = None
        return True

    def _delete_rows(self) -> Sequence[str]:
        before_ms = self._clock.now_ms() - KEPT_MS
        with self._leadership.fenced():
            old = PythonEnvironment.objects.filter(used_at__lt=before_ms)
            named = Job.objects.filter(configuration__has_key=PYTHON_ENVIRONMENT.key) if old.exists() else ()
            used = {job.configuration[PYTHON_ENVIRONMENT.key] for job in (named and named.only("configuration"))}
            unused = [row for row in old if row.path not in used]
            # not if somebody has asked for it in this moment
            return [row.path for row in unused if old.filter(id=row.id).delete()[0]]

    def _known(self) -> set[str]:
        return {path.partition("/")[0] for path in PythonEnvironment.objects.values_list("path", flat=True)}

    def _delete_files(self, paths: Sequence[str], cluster_id: str, known: set[str]) -> None:
        """Delete archives, and what has no row; `known` was read before the storage is listed."""
        try:
            files = environment_files()
            for path in paths:
                files.delete(path)
                logger.info("deleted the Python environment %s, which no job names", path)
            unknown = {name for name in files.entries() if name not in known and owner_of(name) == cluster_id}
            for name in unknown & self._seen:
                files.delete_entry(name)
                logger.info("deleted %s, which an interrupted submission left behind", name)
            self._seen = unknown - self._seen
        except OSError as error:
            logger.warning("unused Python environments could not be deleted: %s", error)
