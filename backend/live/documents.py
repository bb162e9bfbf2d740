"""Live documents for many connections of one process: read once, used by all. Event loop only."""

from __future__ import annotations

import time
from typing import Any

from channels.db import database_sync_to_async

from backend.cluster import services
from backend.live.feed import job_of_topic

Document = dict[str, Any]

MAX_AGE_S = 0.2
"""Longer: changes come late; shorter: every connection reads for itself."""
MAX_KEPT = 256

_kept: dict[str, tuple[float, Document]] = {}


async def read_document(topic: str, version: int = 0) -> Document:
    """A topic's document, not older than 0.2 s.

    Args:
        topic: "cluster" or "job:<id>".
        version: that must be in it, if anybody has it.

    Raises:
        backend.cluster.services.JobUnknownError: there is no such job.
    """
    known = _kept.get(topic)
    if known is not None and time.monotonic() - known[0] < MAX_AGE_S and known[1]["version"] >= version:
        return known[1]
    document: Document = await database_sync_to_async(_read)(topic)
    if len(_kept) >= MAX_KEPT:
        _kept.clear()
    _kept[topic] = (time.monotonic(), document)
    return document


def _read(topic: str) -> Document:
    job_id = job_of_topic(topic)
    return services.cluster_document() if job_id is None else services.job_document(job_id)
