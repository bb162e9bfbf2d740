"""KafkaSink exactly once, on real brokers of both protocols: whatever crashes, each record is there once."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

from runtime.connectors import NdjsonWriterFormat
from runtime.connectors.kafka.coordinator import Described
from runtime.connectors.kafka.serialization import KafkaRecordSerialization
from runtime.connectors.kafka.sink import KafkaSink
from runtime.connectors.kafka.transactions import was_aborted
from runtime.datastream.connectors.base import DeliveryGuarantee
from runtime.operators.sink import CommitTally, SinkError, SinkSetupError, SnapshotUnusableError
from tests.connectors.crash_model import TYPE, SinkJob, random_steps
from tests.connectors.kafka_broker import KafkaBroker, running_kafka
from tests.connectors.kafka_sinks import (
    abort_of_frozen,
    committables,
    coordinator,
    exactly_once,
    ids,
    kill,
    open_ids,
    properties,
    rows,
)
from tests.connectors.rigs import SinkRig
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow
TOPIC = "numbers"


@pytest.fixture(scope="module", params=[1, 2], ids=["protocol 1", "protocol 2"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with running_kafka(tmp_path_factory.mktemp("kafka"), request.param) as broker:
        yield broker


@pytest.fixture
def topic(server: KafkaBroker) -> Iterator[str]:
    name = f"numbers-{random.getrandbits(32):x}"
    server.create_topic(name, 2)
    yield name
    assert open_ids(server) == []


@pytest.mark.parametrize("seed", range(8))
def test_each_record_is_there_once_whatever_crashes(server: KafkaBroker, topic: str, seed: int) -> None:
    job = SinkJob(exactly_once(server, topic), kill)
    job.run(random_steps(seed, 40))
    abort_of_frozen(server, job)
    assert ids(server, topic) == list(range(40))


def test_what_a_checkpoint_has_prepared_is_seen_when_it_is_complete(server: KafkaBroker, topic: str) -> None:
    rig = SinkRig(exactly_once(server, topic), TYPE)
    rig.write(*rows(1, 2))
    rig.snapshot(1)
    assert ids(server, topic) == []
    assert len(server.values(topic, committed=False)) == 2
    rig.complete(1)
    assert ids(server, topic) == [1, 2]
    rig.finish()


def test_a_checkpoint_without_records_prepares_nothing(server: KafkaBroker, topic: str) -> None:
    rig = SinkRig(exactly_once(server, topic), TYPE)
    assert committables(rig.snapshot(1)) == []
    rig.complete(1)
    rig.finish()


def test_ids_are_used_again_when_their_transactions_are_committed(server: KafkaBroker, topic: str) -> None:
    rig = SinkRig(exactly_once(server, topic), TYPE)
    used = []
    for number in range(12):
        rig.write(*rows(number))
        [item] = committables(rig.snapshot(number))
        rig.complete(number)
        used.append((item["id"], item["producer_id"], item["epoch"]))
    assert len(set(used)) == 12 and len({name for name, _, _ in used}) <= 3
    rig.finish()
    assert ids(server, topic) == list(range(12))


def test_a_snapshot_whose_id_was_used_again_and_aborted_can_still_be_restored(server: KafkaBroker, topic: str) -> None:
    rig = SinkRig(exactly_once(server, topic), TYPE)
    snapshots = []
    for number in range(6):
        rig.write(*rows(number))
        snapshots.append(rig.snapshot(number))
        rig.complete(number)
    of_first = committables(snapshots[0])[0]["id"]
    again = [number for number in range(1, 6) if committables(snapshots[number])[0]["id"] == of_first]
    assert again
    # what is written now is aborted: under every id there is a younger transaction, and some were aborted
    rig.write(*rows(99))
    kill(rig)
    for number, snapshot in enumerate(snapshots):
        job = f"other{number}"
        claim = {"execution.state-recovery.claim-mode": "CLAIM"}
        other = SinkRig(
            exactly_once(server, topic), TYPE, snapshot=snapshot, job_id=job, configuration=claim, attempt=1
        )
        other.finish()
    rig = SinkRig(exactly_once(server, topic), TYPE, snapshot=snapshots[-1], attempt=1)
    rig.finish()
    assert ids(server, topic) == list(range(6))


def test_a_transaction_that_timed_out_makes_its_snapshot_unusable(server: KafkaBroker, topic: str) -> None:
    sink = exactly_once(server, topic)
    rig = SinkRig(sink, TYPE)
    rig.write(*rows(1))
    snapshot = rig.snapshot(1)
    [item] = committables(snapshot)
    kill(rig)
    asked = coordinator(server)

    def time_out(name: str) -> None:
        # with a timeout of its own: a job's is minutes
        producer = Producer(
            {"bootstrap.servers": server.servers, "transactional.id": name, "transaction.timeout.ms": 1000}
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(topic, b"{}")
        producer.flush(30)

    assert asked.end(item["id"], item["producer_id"], item["epoch"], commit=False)
    time_out("tests-timing-out")
    began = asked.describe("tests-timing-out")
    assert began is not None and began.is_ongoing
    lost = {
        "id": "tests-timing-out",
        "producer_id": began.producer_id,
        "epoch": began.epoch,
        "start_ms": began.start_ms,
        "timeout_ms": 1000,
    }
    wait_until(lambda: getattr(asked.describe("tests-timing-out"), "state", "") == "CompleteAbort", 30, "the abort")
    committer = sink.create_committer()
    assert committer is not None
    for committable in (lost, item):
        with pytest.raises(SnapshotUnusableError, match="was aborted"):
            committer.check([committable])
        with pytest.raises(SnapshotUnusableError, match="its records are lost"):
            committer.commit([committable])
    committer.close()
    asked.close()
    with pytest.raises(SinkError, match="its records are lost"):
        SinkRig(sink, TYPE, snapshot=snapshot, attempt=1)


def test_a_transaction_that_is_aborted_while_it_is_written_is_not_taken_for_the_next_one(
    server: KafkaBroker, topic: str
) -> None:
    serialization = KafkaRecordSerialization(
        topic, NdjsonWriterFormat(), partitioner=lambda row, key, value, of, partitions: int(row["id"] >= 10)
    )
    sink = KafkaSink(properties(server), serialization, DeliveryGuarantee.EXACTLY_ONCE, "tests")
    rig = SinkRig(sink, TYPE)
    rig.write(*rows(1, 2, 3))
    wait_until(lambda: len(server.values(topic, committed=False)) == 3, 30, "the first records")
    with closing(coordinator(server)) as asked:
        [name] = asked.ids("tests-")
        found = asked.describe(name)
        assert found is not None and asked.end(name, found.producer_id, found.epoch, commit=False)
        # in another partition, with which the client begins the transaction anew
        with pytest.raises(SinkError, match=r"begun anew|not open any more|transaction"):
            rig.write(*rows(11, 12))
            rig.snapshot(1)
        kill(rig)
        for left in asked.ids("tests-"):
            found = asked.describe(left)
            assert found is not None and asked.end(left, found.producer_id, found.epoch, commit=False)


def test_records_behind_a_transaction_that_was_ended_are_refused_with_the_reason(
    server: KafkaBroker, topic: str
) -> None:
    rig = SinkRig(exactly_once(server, topic), TYPE)
    rig.write(*rows(1))
    wait_until(lambda: len(server.values(topic, committed=False)) == 1, 30, "the first record")
    with closing(coordinator(server)) as asked:
        [name] = asked.ids("tests-")
    # aborts it and raises its epoch, as a broker does when it has timed out
    Producer({"bootstrap.servers": server.servers, "transactional.id": name}).init_transactions(30)
    told: list[str] = []
    numbers = itertools.count(2)

    def is_refused() -> bool:
        try:
            rig.write(*rows(next(numbers)))
        except SinkError as error:
            told.append(str(error))
        return bool(told)

    wait_until(is_refused, 30, "an error")
    assert "its transaction may have timed out after" in told[0]
    kill(rig)


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_transaction_whose_id_somebody_has_taken_is_told_by_its_records(
    server: KafkaBroker, topic: str, is_committed: bool
) -> None:
    sink = exactly_once(server, topic)
    rig = SinkRig(sink, TYPE)
    rig.write(*rows(1, 2))
    snapshot = rig.snapshot(1)
    kill(rig)
    [item] = committables(snapshot)
    if is_committed:
        with closing(coordinator(server)) as asked:
            assert asked.end(item["id"], item["producer_id"], item["epoch"], commit=True)
    # aborts what is open, and leaves no trace of it
    Producer({"bootstrap.servers": server.servers, "transactional.id": item["id"]}).init_transactions(30)
    if is_committed:
        SinkRig(sink, TYPE, snapshot=snapshot, attempt=1).finish()
        assert ids(server, topic) == [1, 2]
    else:
        with pytest.raises(SinkError, match="its records are lost"):
            SinkRig(sink, TYPE, snapshot=snapshot, attempt=1)


def test_an_older_open_transaction_does_not_hold_up_who_asks_for_the_fate_of_another(server: KafkaBroker) -> None:
    topic = f"older-{random.getrandbits(32):x}"
    server.create_topic(topic, 1)
    older = Producer({"bootstrap.servers": server.servers, "transactional.id": f"older-{topic}"})
    older.init_transactions(30)
    older.begin_transaction()
    older.produce(topic, b'{"id":0}')
    assert older.flush(30) == 0
    sink = exactly_once(server, topic)
    rig = SinkRig(sink, TYPE)
    rig.write(*rows(1))
    snapshot = rig.snapshot(1)
    kill(rig)
    [item] = committables(snapshot)
    with closing(coordinator(server)) as asked:
        assert asked.end(item["id"], item["producer_id"], item["epoch"], commit=True)
    Producer({"bootstrap.servers": server.servers, "transactional.id": item["id"]}).init_transactions(30)
    # nobody can see its records yet
    SinkRig(sink, TYPE, snapshot=snapshot, attempt=1).finish()
    older.commit_transaction(30)
    assert ids(server, topic) == [0, 1]


def test_a_transaction_that_is_being_timed_out_is_not_taken_for_a_committed_one() -> None:
    item = {"id": "x", "producer_id": 1, "epoch": 0, "start_ms": 5, "timeout_ms": 1000}
    for state in ("Ongoing", "PrepareAbort", "PrepareEpochFence", "CompleteAbort", "Empty"):
        assert was_aborted(Described("x", state, 1, 1, 1000, 5, ()), item)
    for state, start_ms in (("CompleteCommit", 5), ("PrepareCommit", 5), ("CompleteAbort", 6), ("Ongoing", 6)):
        assert not was_aborted(Described("x", state, 1, 1, 1000, start_ms, ()), item)


def test_transactions_that_nobody_knows_any_more_are_refused_unless_they_are_trusted(
    server: KafkaBroker, topic: str
) -> None:
    forgotten = {"id": "tests-forgotten", "producer_id": 7, "epoch": 0, "start_ms": 1, "timeout_ms": 1000}
    refusing, trusting = (
        exactly_once(server, topic, trusts_expired=is_trusting).create_committer() for is_trusting in (False, True)
    )
    assert refusing is not None and trusting is not None
    with pytest.raises(SnapshotUnusableError, match="set_expired_transactions_committed"):
        refusing.check([forgotten])
    with pytest.raises(SnapshotUnusableError, match="set_expired_transactions_committed"):
        refusing.commit([forgotten])
    trusting.check([forgotten])
    assert trusting.commit([forgotten]) == CommitTally(already_committed=1)
    refusing.close()
    trusting.close()


@pytest.mark.parametrize("version", [1, 2])
def test_a_commit_whose_answer_was_lost_is_repeated_after_the_broker_was_killed(tmp_path: Path, version: int) -> None:
    with running_kafka(tmp_path, version) as server:
        server.create_topic("numbers")
        sink = exactly_once(server, "numbers")
        rig = SinkRig(sink, TYPE)
        rig.write(*rows(1, 2, 3))
        snapshot = rig.snapshot(1)
        committer = sink.create_committer()
        assert committer is not None
        committer.commit(committables(snapshot))
        server.kill()
        restarting = threading.Timer(1.0, server.start)
        restarting.start()
        # it waits until the coordinator is back
        assert committer.commit(committables(snapshot)) == CommitTally()
        restarting.join()
        committer.close()
        kill(rig)
        rig = SinkRig(sink, TYPE, snapshot=snapshot, attempt=1)
        rig.finish()
        assert ids(server, "numbers") == [1, 2, 3]


@pytest.mark.parametrize(
    ("given", "configuration", "why"),
    [
        ({"transaction_timeout_ms": "3600000"}, {}, "the brokers allow 900000 ms"),
        ({"transaction_timeout_ms": "60000"}, {}, "must be longer than the checkpoint interval"),
        ({}, {"execution.checkpointing.timeout": "15 min"}, r"the checkpoint timeout \(900 s\)"),
    ],
)
def test_a_timeout_that_cannot_be_is_refused_before_the_job_starts(
    server: KafkaBroker, topic: str, given: dict[str, str], configuration: dict[str, str], why: str
) -> None:
    with pytest.raises(SinkError, match=why) as raised:
        SinkRig(exactly_once(server, topic, given=given), TYPE, configuration=configuration)
    assert isinstance(raised.value.__cause__, SinkSetupError)


def test_a_topic_that_does_not_exist_fails_the_checkpoint(server: KafkaBroker) -> None:
    # brokers make topics by default
    sink = KafkaSink(
        properties(server, **{"message.timeout.ms": "1000"}),
        KafkaRecordSerialization("no/such topic", NdjsonWriterFormat()),
        DeliveryGuarantee.EXACTLY_ONCE,
        "tests",
    )
    rig = SinkRig(sink, TYPE)
    with pytest.raises(SinkError, match="Kafka topic no/such topic"):
        rig.write(*rows(1))
        rig.snapshot(1)
    rig.operator.close()
