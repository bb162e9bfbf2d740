"""`manage.py jobmanager`: lead the cluster until SIGTERM."""

from __future__ import annotations

import os
import signal
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from backend.cluster.jobmanager import JobManager
from backend.cluster.leadership import LeadershipLostError


class Command(BaseCommand):
    help = "Run the jobmanager: it takes jobs, gives them slots and runs their JobMasters."

    def handle(self, *args: Any, **options: Any) -> None:
        manager = JobManager(settings.TIDEMARK_HOME, os.environ.get("TIDEMARK_JOBMANAGER_HOST") or "127.0.0.1")
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: manager.stop())
        try:
            manager.run()
        except LeadershipLostError as error:
            raise CommandError(str(error)) from error
