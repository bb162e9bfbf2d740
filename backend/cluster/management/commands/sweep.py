"""`manage.py sweep`: delete the rows that are not kept any more, while no JobManager runs.

The leading JobManager does the same every minute: this is for a database that is to be made smaller before it leads
again, or is to be copied. It leads for as long as it takes, as all deletions hold a leader's epoch, and starts no jobs.
"""

from __future__ import annotations

import argparse
import os
import socket
import threading
import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils.module_loading import import_string

from backend.cluster.candidate import Candidate
from backend.cluster.containment import Containment
from backend.cluster.database_clock import CLOCK, keep_looking
from backend.cluster.further_work import FurtherWork, Upkeep
from backend.cluster.leader_line import LeaderListener
from backend.cluster.leadership import Leadership, LeadershipLostError, LeaseKeeper
from backend.cluster.row_retention import RowRetention
from backend.cluster.storage_traces import leave_epoch

WAIT_S = 30.0
"""For the lease of a JobManager that was killed. Shorter: it has not run out; longer: one that lives is waited for."""
STORAGE_LOOK_S = 0.05
"""Between two looks whether a storage has deleted what it was told to."""


class Command(BaseCommand):
    help = "Delete jobs, operations, deployments, sessions and tokens that are not kept any more; without a JobManager."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--keep-jobs", type=int, default=settings.TIDEMARK_KEPT_JOBS, help="as TIDEMARK_KEPT_JOBS, but 0 or more"
        )
        parser.add_argument("--wait", type=float, default=WAIT_S, help="seconds to wait until nobody leads")

    def handle(self, *args: Any, **options: Any) -> None:
        stopped, swept = threading.Event(), threading.Event()
        limit = threading.Timer(options["wait"], stopped.set)
        limit.start()
        listener = LeaderListener("127.0.0.1")
        keep_looking(swept)
        try:
            name = f"{socket.gethostname()}:{os.getpid()} (sweep)"
            leadership = Candidate(name, listener.address, CLOCK).wait_to_lead(stopped)
            limit.cancel()
            if leadership is None:
                raise CommandError("a JobManager leads: it deletes by itself what is not kept, within minutes")
            keeper = LeaseKeeper(leadership, CLOCK)
            keeper.start()
            leave_epoch(leadership.epoch)
            rounds = _swept(leadership, options["keep_jobs"])
            keeper.stop()
            leadership.release()
        except LeadershipLostError as error:
            raise CommandError(str(error)) from error
        finally:
            swept.set()
            limit.cancel()
            listener.close()
        self.stdout.write(f"swept in {rounds} rounds")


def _swept(leadership: Leadership, kept_jobs: int) -> int:
    """Delete all that is due; return in how many rounds."""
    works: list[FurtherWork] = [
        import_string(name)(leadership, CLOCK, Containment(), None) for name in settings.TIDEMARK_LEADER_WORK
    ]
    rows = RowRetention(leadership, kept_jobs, lambda: [job for work in works for job in work.needed_jobs()], CLOCK)
    deletes = [work.delete for work in works if isinstance(work, Upkeep)]
    rounds = 0
    is_all = False
    while not is_all:
        leadership.stepped()
        rows_are_done = rows.delete()
        is_all = all([rows_are_done, *(delete() for delete in deletes)])
        rounds += 1
        if rows_are_done and not is_all:
            # what is left is up to a storage
            time.sleep(STORAGE_LOOK_S)
    return rounds
