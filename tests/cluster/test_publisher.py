"""Publisher over a bus that records: what is sent, and what is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from backend.cluster.bus import Document
from backend.cluster.events import ReceivedEvent
from backend.cluster.publisher import Publisher
from runtime.testing.clock import ManualClock


class RecordingBus:
    """Implements LeaderBus; keeps what is written to it."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def take_events(self, wait_s: float) -> list[ReceivedEvent]:
        return []

    def beat(self) -> bool:
        self.written.append("beat")
        return True

    def publish(self, topic: str, document: Document) -> None:
        self.written.append(topic)

    def put_fields(self, key: str, fields: Mapping[str, Document], expiry_s: int, dropped: Sequence[str]) -> None:
        self.written.append(key)

    def close(self) -> None:
        pass


def test_a_leader_without_a_valid_lease_publishes_nothing() -> None:
    """A bus that was emptied does not know whom to refuse."""
    leader_bus, lease = RecordingBus(), [False]
    publisher = Publisher(leader_bus, ManualClock(1_000), lambda: lease[0])
    ended = dict.fromkeys(("name", "start_time", "end_time", "duration", "parallelism", "restarts"))
    publisher.job_ended(ended | {"id": "j", "state": "FINISHED", "waiting_for": "", "vertices": [], "start_time": 1})
    publisher.cluster([])
    assert leader_bus.written == []
    lease[0] = True
    publisher.cluster([])
    assert leader_bus.written == ["job:j", "cluster", "beat"]
