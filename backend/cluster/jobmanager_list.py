"""The jobmanagers of the cluster, for users: the lease in the database names the leader, Redis all that live."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

import redis

from backend.cluster import bus
from backend.cluster.leadership import ROLE
from backend.cluster.models import LeaderEpoch

logger = logging.getLogger(__name__)


def list_jobmanagers() -> dict[str, Any]:
    """Return {"jobmanagers": entries, "redis_answers": bool}; without Redis, only the leader is known."""
    try:
        seen: list[str] | None = bus.jobmanagers()
    except redis.RedisError as error:
        logger.warning("the JobManagers cannot be read: %s", error)
        seen = None
    entries = jobmanager_entries(LeaderEpoch.objects.filter(name=ROLE).first(), seen)
    return {"jobmanagers": entries, "redis_answers": seen is not None}


def leading_jobmanager() -> str:
    """Return the id of the JobManager that leads; "": none does."""
    lease = LeaderEpoch.objects.filter(name=ROLE).first()
    return "" if lease is None else lease.holder


def jobmanager_entries(lease: LeaderEpoch | None, seen: Collection[str] | None) -> list[dict[str, Any]]:
    """Build the entries, the leader first.

    Args:
        lease: its row; None: nobody has led yet.
        seen: ids of the jobmanagers that live; None: unknown.

    Returns:
        Entries of "id" (host:pid), "role" (LEADER or STANDBY), "epoch" and "leading_since" (epoch ms) of the leader,
        else null, and "is_alive", null if that is unknown.
    """
    entries = []
    leader = lease.holder if lease is not None else ""
    if lease is not None and leader:
        is_alive = None if seen is None else leader in seen
        entries.append(_entry(leader, "LEADER", lease.epoch, lease.since, is_alive))
    return entries + [_entry(name, "STANDBY", None, None, True) for name in sorted(seen or ()) if name != leader]


def _entry(name: str, role: str, epoch: int | None, since: int | None, is_alive: bool | None) -> dict[str, Any]:
    return {"id": name, "role": role, "epoch": epoch, "leading_since": since, "is_alive": is_alive}
