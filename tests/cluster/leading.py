"""Jobmanagers as the process makes them, without the process."""

from __future__ import annotations

import math
import threading
from pathlib import Path

from backend.cluster.commands import SendCommand
from backend.cluster.jobmanager import JobManager
from backend.cluster.leader_bus import RedisLeaderBus
from backend.cluster.leadership import Leadership, read_lease, take_over
from backend.cluster.lease import HeldLease
from runtime.core.clock import SYSTEM_CLOCK


def take_leadership(holder: str) -> Leadership:
    """Take the leadership from whoever has it; its lease never lapses."""
    taken = take_over(read_lease(), holder, "", SYSTEM_CLOCK)
    assert taken is not None
    return Leadership(taken.epoch, HeldLease(math.inf), SYSTEM_CLOCK)


def new_leader(home: Path, send: SendCommand, stopped: threading.Event | None = None) -> JobManager:
    """Take the leadership, over the Redis of the settings, until `stopped`."""
    leadership = take_leadership("leader")
    stopped = threading.Event() if stopped is None else stopped
    return JobManager(leadership, RedisLeaderBus(leadership.epoch), "127.0.0.1", stopped, send=send)
