"""Publisher over a bus that records: what is sent, and what is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from backend.cluster import bus
from backend.cluster.bus import Document
from backend.cluster.cluster_document import MAX_ENDED_JOBS
from backend.cluster.events import ReceivedEvent
from backend.cluster.metric_history import StoredSample
from backend.cluster.publisher import Publisher
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.statistics import CheckpointsSnapshot
from runtime.testing.clock import ManualClock
from tests.cluster.snapshots import statistics


class RecordingBus:
    """Implements LeaderBus; keeps what is written to it."""

    def __init__(self) -> None:
        self.written: list[str] = []
        #: the newest document of each topic
        self.documents: dict[str, Document] = {}
        self.hashes: dict[str, dict[str, Document]] = {}

    @property
    def is_behind(self) -> bool:
        return False

    def take_events(self, wait_s: float) -> list[ReceivedEvent]:
        return []

    def beat(self) -> bool:
        self.written.append("beat")
        return True

    def publish(self, topic: str, document: Document) -> None:
        self.written.append(topic)
        self.documents[topic] = document

    def put_fields(
        self, key: str, fields: Mapping[str, Document], expiry_s: int, dropped: Sequence[str] | None
    ) -> None:
        self.written.append(key)
        known = self.hashes.get(key, {}) if dropped is not None else {}
        kept = {name: value for name, value in known.items() if name not in (dropped or ())}
        self.hashes[key] = kept | dict(fields)

    def add_sample(self, sample: StoredSample) -> None:
        self.written.append(sample.key)

    def close(self) -> None:
        pass


def ended(job_id: str, start_time: int = 1) -> Document:
    """The final document of a job."""
    fields = dict.fromkeys(("name", "end_time", "duration", "parallelism", "restarts"))
    return fields | {
        "id": job_id,
        "state": "FINISHED",
        "waiting_for": "",
        "vertices": [],
        "start_time": start_time,
    }


def test_a_leader_without_a_valid_lease_publishes_nothing() -> None:
    """A bus that was emptied does not know whom to refuse."""
    leader_bus, lease = RecordingBus(), [False]
    publisher = Publisher(leader_bus, ManualClock(1_000), lambda: lease[0])
    publisher.job_ended(ended("j"))
    publisher.cluster([])
    assert leader_bus.written == []
    lease[0] = True
    publisher.cluster([])
    assert leader_bus.written == ["job:j", "cluster", "beat"]


def test_of_the_jobs_that_have_ended_the_newest_are_listed_and_the_others_forgotten() -> None:
    """A leader lives for months: what it keeps of jobs that are over is bounded."""
    leader_bus = RecordingBus()
    publisher = Publisher(leader_bus, ManualClock(1_000), lambda: True)
    publisher.job_ended(ended("runs", 0) | {"state": "RUNNING"})
    # the oldest job is not the one that ended first
    for start_time in (*range(2, MAX_ENDED_JOBS + 2), 1):
        publisher.job_ended(ended(f"job {start_time}", start_time))
    publisher.cluster([])
    listed = {entry["id"] for entry in leader_bus.documents["cluster"]["jobs"]}
    assert listed == {"runs", *(f"job {start_time}" for start_time in range(2, MAX_ENDED_JOBS + 2))}
    assert publisher._entries.keys() == listed


def test_figures_that_move_are_published_every_two_seconds_and_news_at_once() -> None:
    """All pages get the cluster's document, whatever they show."""
    leader_bus, clock = RecordingBus(), ManualClock(1_000)
    publisher = Publisher(leader_bus, clock, lambda: True)

    def turns(rates: Sequence[float], state: str = "RUNNING") -> int:
        before = leader_bus.written.count("cluster")
        for rate in rates:
            clock.advance(500)
            publisher.job_waits(running("j", rate) | {"state": state})
            publisher.cluster([])
        return leader_bus.written.count("cluster") - before

    assert turns([1.0]) == 1
    assert turns([2.0, 3.0, 4.0]) == 0
    assert turns([5.0]) == 1 and leader_bus.documents["cluster"]["jobs"][0]["records_in_per_second"] == 5.0
    assert turns([5.0] * 8) == 0
    assert turns([5.0], "RESTARTING") == 1


def running(job_id: str, rate: float) -> Document:
    """The document of a running job that reads so many records a second."""
    metrics = {"records_in_per_second": rate, "watermark": None}
    source = {"id": "v", "is_source": True, "subtasks": [], "metrics": metrics}
    return ended(job_id) | {"state": "RUNNING", "version": round(rate), "vertices": [source]}


def runner_of(checkpoints: CheckpointsSnapshot, version: int = 1) -> Any:
    """The part of a JobRunner that is published, of a running job."""
    document = ended("j") | {"state": "RUNNING", "version": version}
    job = SimpleNamespace(id="j", is_terminal=False)
    return SimpleNamespace(job=job, document=lambda: document, checkpoints=lambda: checkpoints)


def test_a_checkpoint_that_was_in_progress_when_its_leader_was_killed_is_published_no_longer() -> None:
    """Nobody would ever tell its end, and each failure to come would be told that it was under way."""
    leader_bus = RecordingBus()
    Publisher(leader_bus, ManualClock(1_000), lambda: True).job(runner_of(statistics()))
    keys = [key.format("j") for key in (bus.CHECKPOINTS_KEY, bus.TRACES_KEY)]
    assert [leader_bus.hashes[key]["4"]["status"] for key in keys] == ["IN_PROGRESS"] * 2
    new = runner_of(CheckpointsSnapshot(CheckpointSettings()), 2)
    for publish in (Publisher.job, lambda publisher, runner: publisher.job_saved(runner, runner.document())):
        Publisher(leader_bus, ManualClock(2_000), lambda: True).job(runner_of(statistics()))
        publish(Publisher(leader_bus, ManualClock(2_000), lambda: True), new)
        assert [leader_bus.hashes[key] for key in keys] == [{}, {}]


def test_checkpoints_that_have_not_changed_are_published_once() -> None:
    leader_bus = RecordingBus()
    publisher = Publisher(leader_bus, ManualClock(1_000), lambda: True)
    nothing = CheckpointsSnapshot(CheckpointSettings())
    for version, checkpoints in enumerate([nothing, nothing, statistics(), statistics()]):
        publisher.job(runner_of(checkpoints, version))
    key = bus.TRACES_KEY.format("j")
    assert leader_bus.written.count(key) == 2
    # in doubt, everything is told, and nothing else remains
    leader_bus.hashes[key]["lost"] = {}
    publisher.bus_is_back()
    publisher.job(runner_of(statistics(), 9))
    assert leader_bus.hashes[key].keys() == {"1", "2", "3", "4"}
