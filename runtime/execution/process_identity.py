"""Tells this process from all others, and whether another one on this machine has ended.

A process is named by the machine's boot, the namespace of its pids, its pid and its start: a pid alone is used again,
and says nothing in another container. Systems without /proc cannot tell; their processes are never known to have ended.
"""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path

from runtime.checkpoint.application_log import Holder

_ENDED_STATES = "ZX"


def this_process() -> Holder:
    """Return this process as a new holder."""
    pid = os.getpid()
    stat = _state_and_start(pid)
    machine = _machine()
    process = f"{machine}/{pid}/{stat[1]}" if machine and stat else ""
    return Holder(secrets.token_hex(16), socket.gethostname(), pid, process)


def has_ended(holder: Holder) -> bool:
    """Return whether the process certainly runs no more; one of another machine or container never does."""
    machine = _machine()
    if not machine or not holder.process.startswith(f"{machine}/"):
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    stat = _state_and_start(holder.pid)
    if stat is None:
        # hidden, as another user's
        return False
    state, start = stat
    return state in _ENDED_STATES or holder.process != f"{machine}/{holder.pid}/{start}"


def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _state_and_start(pid: int) -> tuple[str, str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # the name of the program, in brackets, may contain anything
    fields = text.rpartition(")")[2].split()
    return fields[0], fields[19]
