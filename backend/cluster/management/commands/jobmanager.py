"""`manage.py jobmanager`: lead the cluster until SIGTERM."""

from __future__ import annotations

import os
import signal
import socket
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from backend.cluster.jobmanager import JobManager
from backend.cluster.leader_bus import RedisLeaderBus
from backend.cluster.leadership import LeadershipLostError, take_leadership
from runtime.core.clock import SYSTEM_CLOCK


class Command(BaseCommand):
    help = "Run the jobmanager: it takes jobs, gives them slots and runs their JobMasters."

    def handle(self, *args: Any, **options: Any) -> None:
        leadership = take_leadership(f"{socket.gethostname()}:{os.getpid()}", SYSTEM_CLOCK.now_ms())
        host = os.environ.get("TIDEMARK_JOBMANAGER_HOST") or "127.0.0.1"
        manager = JobManager(leadership, RedisLeaderBus(leadership.epoch), settings.TIDEMARK_HOME, host)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: manager.stop())
        try:
            manager.run()
        except LeadershipLostError as error:
            raise CommandError(str(error)) from error
