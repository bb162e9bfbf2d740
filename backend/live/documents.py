"""Cache of live documents that all connections of one process share. Event loop only."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from channels.db import database_sync_to_async

from backend.cluster import services
from backend.cluster.freshness import Freshness, Source
from backend.live.feed import Encoded
from backend.live.merge_patch import merge_patch
from backend.live.topics import job_of_topic, preview_of_topic, source_of, topic_document

Document = dict[str, Any]

MAX_AGE_S = 0.2
"""Longer: changes arrive late; shorter: every connection reads for itself."""
MAX_KEPT = 256


@dataclass(frozen=True, slots=True)
class LiveDocument:
    """A document as the jobmanager has written it, and when it was read."""

    document: Document
    freshness: Freshness
    """At the time of reading."""
    read_at: float
    """Monotonic seconds."""
    by_topic: dict[str, Document] = field(default_factory=dict)
    """What was made of it so far."""
    encoded: dict[tuple[int, int], tuple[Document, Encoded]] = field(default_factory=dict)
    """By identity of the document that a connection has sent last, and of the one that it sends: the former, which is
    kept so that no other has its identity, and the text that leads from one to the other. Connections share documents.
    """

    @property
    def version(self) -> int:
        return int(self.document["version"])

    @property
    def freshness_now(self) -> Freshness:
        return self.freshness.after(round((time.monotonic() - self.read_at) * 1000))

    def of(self, topic: str) -> Document:
        """Return the document of a topic that is made of this one; made once for all connections.

        Raises:
            backend.live.topics.VertexUnknownError: the job has no such vertex.
        """
        if topic not in self.by_topic:
            self.by_topic[topic] = topic_document(topic, self.document)
        return self.by_topic[topic]

    def whole(self, document: Document) -> Encoded:
        """Return the text of a topic's document; made once for all connections."""
        return self._encoded(document, document, lambda: document)

    def patch(self, before: Document, after: Document) -> Encoded:
        """Return the text of the patch from another document of a topic to its present one; likewise."""
        return self._encoded(before, after, lambda: merge_patch(before, after))

    def _encoded(self, before: Document, after: Document, make: Callable[[], Document]) -> Encoded:
        key = id(before), id(after)
        found = self.encoded.get(key)
        if found is None:
            found = self.encoded[key] = before, Encoded(json.dumps(make(), separators=(",", ":")))
        return found[1]


_kept: dict[str, LiveDocument] = {}
#: reads that are under way, by their topic
_reading: dict[str, asyncio.Task[LiveDocument]] = {}


async def read_document(topic: str, version: int = 0) -> LiveDocument:
    """Return the document that a topic's is made of, read at most 0.2 s ago.

    While Redis does not answer, return the last live document as long as the database knows of no later change.

    Args:
        topic: "cluster", "job:<id>", "job:<id>/vertex:<id>", "job:<id>/operators" or "preview:<id>".
        version: the minimum version, if that is available.

    Raises:
        backend.cluster.services.JobUnknownError: no job has this id.
        backend.cluster.services.PreviewUnknownError: no preview has this id.
    """
    source = source_of(topic)
    if (known := _kept_of(source, version)) is not None:
        return known
    # a hint wakes all connections at once: one of them reads
    if (reading := _reading.get(source)) is not None:
        read = await asyncio.shield(reading)
        # what was under way may have begun before the document was written
        if read.version >= version:
            return read
    if (reading := _reading.get(source)) is None:
        reading = _reading[source] = asyncio.create_task(_read_anew(source))
        reading.add_done_callback(lambda done: _end(source, done))
    return await asyncio.shield(reading)


def _kept_of(source: str, version: int) -> LiveDocument | None:
    known = _kept.get(source)
    is_good = known is not None and time.monotonic() - known.read_at < MAX_AGE_S and known.version >= version
    return known if is_good else None


def _end(source: str, done: asyncio.Task[LiveDocument]) -> None:
    if _reading.get(source) is done:
        del _reading[source]
    if not done.cancelled():
        # those who asked may have left: nobody else looks at it
        done.exception()


async def _read_anew(source: str) -> LiveDocument:
    known = _kept.get(source)
    document, freshness = await database_sync_to_async(_read)(source)
    read = LiveDocument(document, freshness, time.monotonic())
    if not freshness.redis_answers and known is not None and known.version >= read.version:
        return replace(known, freshness=replace(known.freshness, source=Source.KEPT, redis_answers=False))
    if len(_kept) >= MAX_KEPT:
        _kept.clear()
    _kept[source] = read
    return read


def _read(source: str) -> tuple[Document, Freshness]:
    preview_id = preview_of_topic(source)
    if preview_id is not None:
        # whose it is, is in it: consumers show it to nobody else
        document = services.read_preview(preview_id)
        return document, Freshness(Source.LIVE, 0, is_final=document["state"] != "running")
    job_id = job_of_topic(source)
    return services.read_cluster() if job_id is None else services.read_job(job_id)
