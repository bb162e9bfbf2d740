"""What one connection has been sent of one topic, and so what it must be sent next. Pure.

The first message is a snapshot; then come changes, each computed from what was sent last and numbered from version to
version, so that a reader sees a gap. A version that goes back (the jobmanager's clock did) starts over. Each says how
old the document is, and so does every tick in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from backend.cluster.freshness import Freshness
from backend.live.merge_patch import merge_patch

Document = dict[str, Any]
Message = dict[str, Any]

CLUSTER_TOPIC = "cluster"
_JOB_TOPIC = re.compile(r"job:([0-9a-f]{32})")


@dataclass(slots=True)
class Feed:
    """One subscription."""

    topic: str
    sent: Document | None = None
    """The document as the client has it."""
    freshness: Freshness | None = None
    """Of the document when it was last looked at."""
    hinted_version: int = 0
    """The newest version that somebody has heard of."""
    is_due: bool = False
    """There may be something to send."""

    def hint(self, version: int) -> None:
        """Take a hint that the document has changed. Old hints, which may come late, are no reason to look."""
        if self.sent is None or version > self.sent["version"]:
            self.is_due = True
            self.hinted_version = max(self.hinted_version, version)

    def next_message(self, document: Document, freshness: Freshness) -> Message | None:
        """The message that turns the client's document into this one; None if it is the same."""
        self.is_due = False
        sent, self.sent, self.freshness = self.sent, document, freshness
        version = document["version"]
        if sent is None or version < sent["version"]:
            self.hinted_version = 0
            return {
                "type": "snapshot",
                "topic": self.topic,
                "version": version,
                "freshness": freshness.to_json(),
                "data": document,
            }
        if version == sent["version"]:
            return None
        return {
            "type": "change",
            "topic": self.topic,
            "from": sent["version"],
            "version": version,
            "freshness": freshness.to_json(),
            "patch": merge_patch(sent, document),
        }


def tick_message(feeds: Iterable[Feed], now_ms: int) -> Message:
    """Sign of life of the connection, with how old each topic's document is."""
    ages = {feed.topic: feed.freshness.to_json() for feed in feeds if feed.freshness is not None}
    return {"type": "tick", "now": now_ms, "freshness": ages}


def job_of_topic(topic: str) -> str | None:
    """The job id of a topic "job:<id>"; None for other texts."""
    match = _JOB_TOPIC.fullmatch(topic)
    return None if match is None else match[1]


def is_topic(topic: object) -> bool:
    """Whether it can be subscribed to."""
    return isinstance(topic, str) and (topic == CLUSTER_TOPIC or job_of_topic(topic) is not None)


def group_of(topic: str) -> str:
    """The channel layer's group that gets a topic's hints; the layer takes no colon in names."""
    return topic.replace(":", ".")
