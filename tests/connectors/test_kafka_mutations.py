"""Faults planted in Kafka's transactions, each of which the crash schedules must find.

A schedule finds one if the records that are visible at the end are not each there once, or if the job does not come to
its end.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from runtime.connectors.kafka import transactions
from runtime.connectors.kafka.coordinator import TransactionCoordinator
from runtime.connectors.kafka.transactions import TransactionalWriter, TransactionCommitter, TransactionSweeper
from runtime.operators.sink import CommitTally, SinkError
from tests.connectors.crash_model import TYPE, SinkJob, random_steps
from tests.connectors.kafka_broker import KafkaBroker, running_kafka
from tests.connectors.kafka_sinks import abort_of_frozen, committables, exactly_once, ids, kill, rows
from tests.connectors.rigs import SinkRig

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SEEDS = range(6)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with running_kafka(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


def is_found(server: KafkaBroker, **given: str) -> bool:
    """Return whether a schedule ends otherwise than it must; with further properties."""
    for seed in SEEDS:
        topic = f"numbers-{random.getrandbits(40):x}"
        server.create_topic(topic, 2)
        job = SinkJob(exactly_once(server, topic, given=given), kill)
        try:
            job.run(random_steps(seed, 40))
            abort_of_frozen(server, job)
        except AssertionError:
            for rig in (*job.rigs, *job._zombies):
                kill(rig)
            return True
        if ids(server, topic) != list(range(40)):
            return True
    return False


def commits_unknown(self: TransactionCommitter, committed: Sequence[Any]) -> CommitTally:
    return CommitTally()


def test_without_a_fault_nothing_is_found(server: KafkaBroker) -> None:
    assert not is_found(server)


def test_a_writer_that_does_not_wait_for_acknowledgements(server: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    # the client holds records back, unless it is told to send them
    assert not is_found(server, linger_ms="1500")
    monkeypatch.setattr("runtime.connectors.kafka.producer.RecordProducer.flush", lambda self, _: None)
    assert is_found(server, linger_ms="1500")


def test_ids_that_are_used_again_before_the_commit(server: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = TransactionalWriter.prepare_commit

    def prepare_and_free(self: TransactionalWriter) -> Sequence[Any]:
        prepared = prepare(self)
        self.committed(prepared)
        return prepared

    monkeypatch.setattr(TransactionalWriter, "prepare_commit", prepare_and_free)
    assert is_found(server)


def test_a_sweep_that_spares_nothing(server: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = TransactionSweeper.sweep
    monkeypatch.setattr(TransactionSweeper, "sweep", lambda self, held: sweep(self, ()))
    # before the commit, as a sweep of another operator's order would be
    monkeypatch.setattr(TransactionCommitter, "check", lambda self, held: None)
    commit = TransactionCommitter.commit

    def late(self: TransactionCommitter, items: Sequence[Any]) -> CommitTally:
        for item in items:
            self._connected().end(item["id"], item["producer_id"], item["epoch"], commit=False)
        return commit(self, items)

    monkeypatch.setattr(TransactionCommitter, "commit", late)
    assert is_found(server)


def test_a_committer_that_forgets(server: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TransactionCommitter, "commit", commits_unknown)
    assert is_found(server)


def test_no_sweeps_at_all(server: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TransactionSweeper, "sweep", lambda self, held: None)
    assert is_found(server)


def test_an_abort_that_is_taken_for_a_commit(server: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    server.create_topic("aborted")
    sink = exactly_once(server, "aborted")
    rig = SinkRig(sink, TYPE)
    rig.write(*rows(1))
    snapshot = rig.snapshot(1)
    kill(rig)
    [item] = committables(snapshot)
    asked = TransactionCoordinator({"bootstrap_servers": [server.servers]})
    assert asked.end(item["id"], item["producer_id"], item["epoch"], commit=False)
    asked.close()

    def is_lost_in_silence() -> bool:
        try:
            restored = SinkRig(sink, TYPE, snapshot=snapshot, attempt=1)
        except SinkError:
            return False
        restored.finish()
        return ids(server, "aborted") == []

    assert not is_lost_in_silence()
    monkeypatch.setattr(transactions, "was_aborted", lambda found, item: False)
    assert is_lost_in_silence()
