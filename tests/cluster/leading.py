"""Jobmanagers as the process makes them, without the process."""

from __future__ import annotations

from pathlib import Path

from backend.cluster.commands import SendCommand
from backend.cluster.jobmanager import JobManager
from backend.cluster.leader_bus import RedisLeaderBus
from backend.cluster.leadership import take_leadership


def new_leader(home: Path, send: SendCommand) -> JobManager:
    """Take the leadership, over the Redis of the settings."""
    leadership = take_leadership("leader", 1)
    return JobManager(leadership, RedisLeaderBus(leadership.epoch), home, "127.0.0.1", send=send)
