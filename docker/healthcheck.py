"""Checks this container's process: exit code 0 if it works, else 1 and the reason.

python docker/healthcheck.py web | jobmanager | taskmanager
"""

from __future__ import annotations

import os
import socket
import sys
import urllib.request

import django

STALE_MS = 15_000
"""TaskManagers report every second, and the leader tells of that within ten; on a loaded machine both may be late."""


def check_web() -> None:
    """Check that the web process answers, and that it reaches its database and Redis."""
    port = os.environ.get("TIDEMARK_PORT") or "8000"
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
        pass


def check_jobmanager() -> None:
    """Check that a jobmanager of this host shows itself, whether it leads or stands by.

    Raises:
        LookupError: none does.
    """
    # reads the settings on import
    from backend.cluster import bus

    if not any(name.startswith(f"{socket.gethostname()}:") for name in bus.jobmanagers()):
        raise LookupError("no jobmanager of this host has reported lately")


def check_taskmanager() -> None:
    """Check that a leader keeps the cluster's document, and that a TaskManager of this host is in it.

    Raises:
        LookupError: one of these is not the case.
    """
    from backend.cluster import bus

    document, age_ms, _ = bus.read_document(bus.CLUSTER_KEY)
    if document is None or age_ms is None or age_ms > STALE_MS:
        raise LookupError("no leader has reported lately")
    here = [t for t in document["taskmanagers"] if t["host"] == socket.gethostname()]
    # both times are the leader's
    if not any(t["state"] == "REGISTERED" and document["now"] - t["last_heartbeat"] < STALE_MS for t in here):
        raise LookupError("no TaskManager of this host is registered")


def main() -> None:
    checks = {"web": check_web, "jobmanager": check_jobmanager, "taskmanager": check_taskmanager}
    role = sys.argv[1] if len(sys.argv) == 2 else ""
    if role not in checks:
        sys.exit("usage: healthcheck.py web | jobmanager | taskmanager")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backend.config.settings")
    django.setup()
    try:
        checks[role]()
    except Exception as error:
        sys.exit(f"{role}: {error}")


if __name__ == "__main__":
    main()
