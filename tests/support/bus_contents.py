"""Contents of the bus as a leader writes and finds them, for tests of the readers and writers on the other side."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from backend.cluster import bus
from backend.cluster.seals import event_seal


def put_document(key: str, document: Mapping[str, Any], age_ms: int = 0) -> None:
    """Replace a live document, that long ago, without an announcement."""
    bus.client().set(key, json.dumps(document), px=bus.EXPIRY_S * 1000 - age_ms)


def put_fields(key: str, fields: Mapping[str, Any], expiry_s: int | None = None) -> None:
    """Replace fields of a hash."""
    bus.client().hset(key, mapping={name: json.dumps(value) for name, value in fields.items()})
    if expiry_s is not None:
        bus.client().expire(key, expiry_s)


def beat(age_ms: int = 0) -> None:
    """Vouch for all documents, that long ago."""
    bus.client().set(bus.BEAT_KEY, "", px=bus.EXPIRY_S * 1000 - age_ms)


def stop_beating() -> None:
    """Remove the beat, as if no leader had ever written it."""
    bus.client().delete(bus.BEAT_KEY)


def take_events() -> list[dict[str, Any]]:
    """Take all events that wait for the leader."""
    entries: Any = bus.client().xrange(bus.EVENTS_KEY)
    bus.client().delete(bus.EVENTS_KEY)
    return [json.loads(fields[bus.EVENT_FIELD]) for _, fields in entries]


def sealed(text: str | bytes) -> Any:
    """Return the fields of an event as a process of the cluster writes them, whatever is in it."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return {bus.EVENT_FIELD: data, bus.SEAL_FIELD: event_seal(data.decode("utf-8", "replace"))}
