"""Cache of live documents that all connections of one process share. Event loop only."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from channels.db import database_sync_to_async

from backend.cluster import services
from backend.cluster.freshness import Freshness, Source
from backend.live.feed import job_of_topic

Document = dict[str, Any]

MAX_AGE_S = 0.2
"""Longer: changes arrive late; shorter: every connection reads for itself."""
MAX_KEPT = 256


@dataclass(frozen=True, slots=True)
class LiveDocument:
    """A document and when it was read."""

    document: Document
    freshness: Freshness
    """At the time of reading."""
    read_at: float
    """Monotonic seconds."""

    @property
    def version(self) -> int:
        return int(self.document["version"])

    @property
    def freshness_now(self) -> Freshness:
        return self.freshness.after(round((time.monotonic() - self.read_at) * 1000))


_kept: dict[str, LiveDocument] = {}


async def read_document(topic: str, version: int = 0) -> LiveDocument:
    """Return a topic's document, read at most 0.2 s ago.

    While Redis does not answer, return the last live document as long as the database knows of no later change.

    Args:
        topic: "cluster" or "job:<id>".
        version: the minimum version, if that is available.

    Raises:
        backend.cluster.services.JobUnknownError: no job has this id.
    """
    known = _kept.get(topic)
    if known is not None and time.monotonic() - known.read_at < MAX_AGE_S and known.version >= version:
        return known
    document, freshness = await database_sync_to_async(_read)(topic)
    read = LiveDocument(document, freshness, time.monotonic())
    if not freshness.redis_answers and known is not None and known.version >= read.version:
        return replace(known, freshness=replace(known.freshness, source=Source.KEPT, redis_answers=False))
    if len(_kept) >= MAX_KEPT:
        _kept.clear()
    _kept[topic] = read
    return read


def _read(topic: str) -> tuple[Document, Freshness]:
    job_id = job_of_topic(topic)
    return services.read_cluster() if job_id is None else services.read_job(job_id)
