"""`manage.py jobmanager`: stand by, lead the cluster once no other jobmanager does, until SIGTERM.

A jobmanager that was replaced ends; its supervisor starts it again as a standby.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from backend.audit import trail
from backend.cluster.candidate import Candidate
from backend.cluster.database_clock import CLOCK, keep_looking
from backend.cluster.jobmanager import JobManager
from backend.cluster.leader_bus import RedisLeaderBus
from backend.cluster.leader_line import LeaderListener
from backend.cluster.leadership import LeadershipLostError, LeaseKeeper
from backend.cluster.open_files import raise_open_files
from backend.cluster.presence import Presence
from backend.cluster.process_report import ProcessReporter
from backend.cluster.storage_traces import leave_epoch
from runtime.network.tls import TlsError, Transport


class Command(BaseCommand):
    help = "Run a JobManager: the leading one takes jobs, gives them slots and runs their JobMasters; others stand by."

    def handle(self, *args: Any, **options: Any) -> None:
        raise_open_files()
        stopped = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stopped.set())
        name = f"{socket.gethostname()}:{os.getpid()}"
        host = os.environ.get("TIDEMARK_JOBMANAGER_HOST") or "127.0.0.1"
        try:
            Transport.of_environment()
            listener = LeaderListener(host)
        except TlsError as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"the JobManager cannot listen on TIDEMARK_JOBMANAGER_HOST={host}: {error}") from error
        presence = Presence(name, listener)
        presence.start()
        reporter = ProcessReporter(name, "jobmanager")
        reporter.start()
        keep_looking(stopped)
        try:
            candidate = Candidate(name, listener.address, CLOCK)
            leadership = candidate.wait_to_lead(stopped)
            if leadership is not None:
                LeaseKeeper(leadership, CLOCK).start()
                trail.record("leader.elected", object=f"epoch={leadership.epoch}", detail={"jobmanager": name})
                leave_epoch(leadership.epoch)
                leader_bus = RedisLeaderBus(leadership.epoch)
                JobManager(leadership, leader_bus, host, stopped, CLOCK, attempts=candidate.traces.attempts).run()
        except LeadershipLostError as error:
            raise CommandError(str(error)) from error
        finally:
            reporter.stop()
            presence.stop()
