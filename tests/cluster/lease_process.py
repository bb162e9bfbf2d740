"""A process that wants to lead and does nothing else: a line on stdout tells each change, with its monotonic time.

python -m tests.cluster.lease_process NAME

At SIGUSR1 it freezes itself in the midst of a write.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from contextlib import suppress

import django
from django.db import DatabaseError, connection


def main(name: str) -> None:
    """Stand by and lead in turn, until SIGTERM."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backend.config.settings")
    django.setup()
    # they read the settings on import
    from backend.cluster.candidate import Candidate
    from backend.cluster.leader_line import LeaderListener
    from backend.cluster.leadership import LeadershipLostError, LeaseKeeper
    from runtime.core.clock import SYSTEM_CLOCK

    logging.disable(logging.INFO)
    stop, freeze = threading.Event(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGUSR1, lambda *_: freeze.set())
    listener = LeaderListener("127.0.0.1")
    while not stop.is_set():
        _tell("standby", 0)
        leadership = Candidate(name, listener.address, SYSTEM_CLOCK).wait_to_lead(stop)
        if leadership is None:
            break
        keeper = LeaseKeeper(leadership, SYSTEM_CLOCK)
        keeper.start()
        acts = None
        try:
            while not stop.wait(0.01):
                leadership.stepped()
                if leadership.may_act() is not acts:
                    acts = not acts
                    _tell("leads" if acts else "lapsed", leadership.epoch)
                if freeze.is_set():
                    freeze.clear()
                    with suppress(DatabaseError), leadership.fenced():
                        os.kill(os.getpid(), signal.SIGSTOP)
                    connection.close()
            leadership.release()
        except LeadershipLostError:
            _tell("lost", leadership.epoch)
        keeper.stop()
        listener.accept()
    listener.close()


def _tell(state: str, epoch: int) -> None:
    print(state, epoch, time.monotonic(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
