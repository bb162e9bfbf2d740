"""State of one connection's subscription to one topic, from which the next message is computed. Pure.

The first message is a snapshot. Changes follow, each computed from the document sent last and carrying its old and new
version, so that a reader notices a gap. If the version goes back (because the jobmanager's clock did), a new snapshot
is sent. Every message, and every tick in between, reports the document's age.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from backend.cluster.freshness import Freshness
from backend.live.merge_patch import merge_patch

Document = dict[str, Any]
Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Encoded:
    """A part of a message as JSON text, which many connections send."""

    text: str


class Contents(Protocol):
    """Makes the contents of messages: as they are, or encoded once for all connections."""

    def whole(self, document: Document) -> Any:
        """Return the content of a snapshot."""

    def patch(self, before: Document, after: Document) -> Any:
        """Return the content of a change."""


class Plain:
    """Implements Contents: as they are."""

    def whole(self, document: Document) -> Document:
        return document

    def patch(self, before: Document, after: Document) -> Document:
        return merge_patch(before, after)


PLAIN = Plain()


def frame_text(message: Mapping[str, Any]) -> str:
    """Return the text of a message; what is encoded comes last."""
    text = json.dumps({k: v for k, v in message.items() if not isinstance(v, Encoded)}, separators=(",", ":"))
    for name, value in message.items():
        if isinstance(value, Encoded):
            text = f'{text[:-1]},"{name}":{value.text}}}'
    return text


@dataclass(slots=True)
class Feed:
    """The state of one subscription."""

    topic: str
    sent: Document | None = None
    """The document that the client has."""
    freshness: Freshness | None = None
    """Freshness of the document when it was last read."""
    hinted_version: int = 0
    """The newest version that a hint has announced."""
    is_due: bool = False
    """True: there may be something to send."""

    def hint(self, version: int) -> None:
        """Record a hint that the document has changed; late hints about versions already sent are ignored."""
        if self.sent is None or version > self.sent["version"]:
            self.is_due = True
            self.hinted_version = max(self.hinted_version, version)

    def next_message(self, document: Document, freshness: Freshness, contents: Contents = PLAIN) -> Message | None:
        """Return the message that turns the client's document into this one; None if the client has it already."""
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
                "data": contents.whole(document),
            }
        if version == sent["version"]:
            return None
        return {
            "type": "change",
            "topic": self.topic,
            "from": sent["version"],
            "version": version,
            "freshness": freshness.to_json(),
            "patch": contents.patch(sent, document),
        }


def tick_message(feeds: Iterable[Feed], now_ms: int) -> Message:
    """Return a tick, the connection's heartbeat, with the age of each topic's document."""
    ages = {feed.topic: feed.freshness.to_json() for feed in feeds if feed.freshness is not None}
    return {"type": "tick", "now": now_ms, "freshness": ages}
