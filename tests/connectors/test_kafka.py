"""Kafka as source and as sink at least once, on a real broker."""

from __future__ import annotations

import json
import random
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from backend.supervisor.checks import free_port
from runtime.common import Row, SimpleStringSchema, Types, WatermarkStrategy
from runtime.common.secrets import SecretRef
from runtime.common.time import Duration
from runtime.connectors import BadRecords, NdjsonFormat, NdjsonWriterFormat
from runtime.connectors.kafka import offsets as offsets_module
from runtime.connectors.kafka import subscription as subscription_module
from runtime.connectors.kafka.fetcher import ALL_QUEUED_BYTES, QUEUED_BYTES, Fetcher
from runtime.connectors.kafka.offsets import OffsetClient
from runtime.connectors.kafka.properties import PropertyError, admin_properties, client_properties
from runtime.connectors.kafka.splits import owner_of
from runtime.core.batch import NO_TIMESTAMP, RecordBatch
from runtime.core.elements import MAX_WATERMARK
from runtime.datastream.connectors.base import DeliveryGuarantee
from runtime.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaSink,
    KafkaSinkBuilder,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
    KafkaTopicSelector,
)
from runtime.operators.sink import SinkError
from runtime.operators.source import SourceError
from tests.connectors.kafka_broker import KafkaBroker, running_kafka
from tests.connectors.rigs import SinkRig, SourceRig
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)
LATEST = KafkaOffsetsInitializer.latest()
ROW = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with running_kafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture
def make_topic(broker: KafkaBroker) -> Callable[[int], str]:
    def make(partitions: int = 1) -> str:
        name = f"topic-{random.getrandbits(40):x}"
        broker.create_topic(name, partitions)
        return name

    return make


MakeTopic = Callable[[int], str]


def reading(broker: KafkaBroker, *topics: str) -> KafkaSourceBuilder:
    builder = (
        KafkaSource.builder().set_bootstrap_servers(broker.servers).set_value_only_deserializer(SimpleStringSchema())
    )
    return builder.set_topics(*topics) if topics else builder


def texts(*numbers: int) -> list[bytes | None]:
    return [b"%d" % number for number in numbers]


# --- the source -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_bounded_source_reads_all_partitions_to_their_ends(
    broker: KafkaBroker, make_topic: MakeTopic, parallelism: int
) -> None:
    topic = make_topic(3)
    for partition in range(3):
        broker.write(topic, texts(*range(partition * 1000, partition * 1000 + 700)), partition, time=1_700_000_000_000)
    rig = SourceRig(reading(broker, topic).set_bounded(LATEST).build(), parallelism).run_to_end()
    assert sorted(map(int, rig.values)) == [number for p in range(3) for number in range(p * 1000, p * 1000 + 700)]
    for partition in range(3):
        of_partition = [int(text) for text in rig.values if int(text) // 1000 == partition]
        assert of_partition == sorted(of_partition)
    times = {time for output in rig.outputs for batch, _ in output.batches for time in batch.timestamps() or ()}
    assert times == {1_700_000_000_000}


def test_an_empty_topic_ends_at_once(broker: KafkaBroker, make_topic: MakeTopic) -> None:
    assert SourceRig(reading(broker, make_topic(2)).set_bounded(LATEST).build()).run_to_end().values == []


def test_a_restored_source_goes_on_where_it_was_at_another_parallelism(
    broker: KafkaBroker, make_topic: MakeTopic
) -> None:
    topic = make_topic(4)
    for partition in range(4):
        broker.write(topic, texts(*range(partition * 100, partition * 100 + 50)), partition)
    source = reading(broker, topic).set_bounded(LATEST).build()
    rig = SourceRig(source, 1)
    rig.run_until(lambda: len(rig.values) >= 30, "the first records", max_rows=7)
    first, snapshots = rig.values, rig.snapshot()
    rig.close()
    # what comes after the ends were asked for is not read by this job
    broker.write(topic, texts(9999))
    second = SourceRig(source, 3, snapshots=snapshots).run_to_end()
    assert sorted(map(int, first + second.values)) == [n for p in range(4) for n in range(p * 100, p * 100 + 50)]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (KafkaOffsetsInitializer.earliest(), [0, 1, 2, 3, 4, 5]),
        (KafkaOffsetsInitializer.timestamp(4_000), [3, 4, 5]),
        (KafkaOffsetsInitializer.timestamp(9_000), []),
        (KafkaOffsetsInitializer.latest(), []),
        (KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST), [4, 5]),
    ],
)
def test_a_source_begins_where_it_is_told_to(
    broker: KafkaBroker, make_topic: MakeTopic, start: KafkaOffsetsInitializer, expected: list[int]
) -> None:
    topic, group = make_topic(1), f"group-{random.getrandbits(32)}"
    for number in range(6):
        broker.write(topic, texts(number), time=(number + 1) * 1_000)
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
    consumer.close()
    source = reading(broker, topic).set_group_id(group).set_starting_offsets(start).set_bounded(LATEST).build()
    assert list(map(int, SourceRig(source).run_to_end().values)) == expected


def test_single_partitions_begin_at_given_offsets_and_stop_at_others(
    broker: KafkaBroker, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    for partition in range(2):
        broker.write(topic, texts(*range(partition * 10, partition * 10 + 8)), partition)
    first, second = KafkaTopicPartition(topic, 0), KafkaTopicPartition(topic, 1)
    source = (
        reading(broker)
        .set_partitions({first, second})
        .set_starting_offsets(KafkaOffsetsInitializer.offsets({first: 3}))
        .set_bounded(KafkaOffsetsInitializer.offsets({first: 6, second: 2}))
        .build()
    )
    assert sorted(map(int, SourceRig(source, 2).run_to_end().values)) == [3, 4, 5, 10, 11]


def test_committed_offsets_that_there_are_none_of_fail_the_job(broker: KafkaBroker, make_topic: MakeTopic) -> None:
    start = KafkaOffsetsInitializer.committed_offsets()
    source = reading(broker, make_topic(1)).set_group_id("nobody").set_starting_offsets(start).build()
    with pytest.raises(SourceError, match="no committed offset of the group 'nobody'"):
        SourceRig(source).run_to_end()


def test_records_of_aborted_transactions_are_not_read_and_do_not_hide_the_end(
    broker: KafkaBroker, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    broker.write(topic, texts(1))
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": f"aborts-{topic}"})
    producer.init_transactions(30)
    for number, is_committed in ((2, True), (3, False), (4, False)):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=0)
        producer.flush(30)
        producer.commit_transaction(30) if is_committed else producer.abort_transaction(30)
    # markers are the last that there is
    rig = SourceRig(reading(broker, topic).set_bounded(LATEST).build()).run_to_end()
    assert rig.values == ["1", "2"]
    every = reading(broker, topic).set_property("isolation.level", "read_uncommitted").set_bounded(LATEST).build()
    assert SourceRig(every).run_to_end().values == ["1", "2", "3", "4"]


def test_values_become_columns_tombstones_are_left_out_and_bad_ones_are_set_aside(
    broker: KafkaBroker, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    good = [json.dumps({"id": number, "name": f"n{number}"}).encode() for number in range(4)]
    broker.write(topic, [good[0], None, good[1], b"{", good[2], None, None, good[3], None], time=5)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(broker.servers)
        .set_topics(topic)
        .set_value_format(NdjsonFormat(ROW))
        .set_bad_records(BadRecords.to_side_output())
        .set_bounded(LATEST)
        .build()
    )
    rig = SourceRig(source).run_to_end(max_rows=2)
    assert rig.values == [Row(id=number, name=f"n{number}") for number in range(4)]
    [letter] = rig.dead_letters
    assert "offset 3" in str(letter) and f"topic {topic}, partition 0" in str(letter)


def test_records_are_read_as_they_are(broker: KafkaBroker, make_topic: MakeTopic) -> None:
    topic = make_topic(1)
    producer = Producer({"bootstrap.servers": broker.servers})
    producer.produce(topic, b"v", b"k", 0, timestamp=7, headers=[("a", b"1"), ("b", None)])
    producer.produce(topic, None, None, 0, timestamp=8)
    producer.flush(30)
    builder = KafkaSource.builder().set_bootstrap_servers(broker.servers).set_topics(topic).set_raw_records()
    rows = SourceRig(builder.set_bounded(LATEST).build()).run_to_end().values
    assert [tuple(row)[1:5] for row in rows] == [(0, 0, 7, b"k"), (0, 1, 8, None)]
    assert [row.value for row in rows] == [b"v", None]
    assert [list(map(tuple, row.headers)) for row in rows] == [[("a", b"1"), ("b", None)], []]


def test_topics_and_partitions_that_come_later_are_read_from_their_beginning(
    broker: KafkaBroker, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    broker.write(topic, texts(1))
    source = (
        reading(broker)
        .set_topic_pattern(f"{topic}.*")
        .set_starting_offsets(LATEST)
        .set_property("partition.discovery.interval.ms", "200")
        .build()
    )
    rig = SourceRig(source, 2)
    rig.run_until(lambda: any(operator._open for operator in rig.operators), "the first partition")
    broker.create_topic(f"{topic}-b", 2)
    broker.write(f"{topic}-b", texts(2), 0)
    broker.write(f"{topic}-b", texts(3), 1)
    broker.write(topic, texts(4))
    rig.run_until(lambda: len(rig.values) == 3, "three records")
    rig.close()
    assert sorted(rig.values) == ["2", "3", "4"]


@pytest.mark.parametrize("code", [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE])
def test_a_look_for_partitions_waits_for_the_election_of_a_leader(
    broker: KafkaBroker, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    topic = make_topic(1)
    broker.write(topic, texts(1, 2))
    listed, refusals = OffsetClient.listed, [KafkaException(KafkaError(code))] * 2

    def refused_twice(*args: Any, **options: Any) -> dict[KafkaTopicPartition, int]:
        if refusals:
            raise refusals.pop()
        return listed(*args, **options)

    monkeypatch.setattr(OffsetClient, "listed", refused_twice)
    rig = SourceRig(reading(broker, topic).set_bounded(LATEST).build())
    rig.run_to_end()
    assert sorted(rig.values) == ["1", "2"]


def test_a_topic_that_there_is_not_fails_the_job(broker: KafkaBroker) -> None:
    with pytest.raises(SourceError, match="Kafka nowhere: there is no topic 'nowhere'"):
        SourceRig(reading(broker, "nowhere").build()).run_to_end()


def test_a_partition_that_there_is_not_fails_the_job(broker: KafkaBroker, make_topic: MakeTopic) -> None:
    topic = make_topic(1)
    with pytest.raises(SourceError, match="has no partition 7"):
        SourceRig(reading(broker).set_partitions({KafkaTopicPartition(topic, 7)}).build()).run_to_end()


def test_a_read_that_begins_beyond_the_end_fails_the_job(broker: KafkaBroker, make_topic: MakeTopic) -> None:
    topic = make_topic(1)
    broker.write(topic, texts(1, 2, 3))
    beyond = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(topic, 0): 50})
    with pytest.raises(SourceError, match="offset 50, beyond its end, 3"):
        SourceRig(reading(broker, topic).set_starting_offsets(beyond).set_bounded(LATEST).build()).run_to_end()


def test_an_offset_that_is_gone_fails_the_job(broker: KafkaBroker, make_topic: MakeTopic) -> None:
    topic = make_topic(1)
    broker.write(topic, texts(*range(10)))
    broker.delete_records(topic, 5)
    gone = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(topic, 0): 2})
    rig = SourceRig(reading(broker, topic).set_starting_offsets(gone).build())
    told = f"split {topic}-0.*offset 2 is not there any more: 3 records were deleted .* begins at offset 5"
    with pytest.raises(SourceError, match=told):
        rig.run_until(lambda: bool(rig.values), "a record")
    rig.close()


@pytest.mark.parametrize(
    ("offsets", "error"),
    [
        ({("bids", 0): 2}, "offsets are given by KafkaTopicPartition"),
        ({KafkaTopicPartition("bids", 0): "2"}, "an offset is a whole number, not '2'"),
        ({KafkaTopicPartition("bids", 0): True}, "an offset is a whole number, not True"),
        ({KafkaTopicPartition("bids", 0): -2}, "an offset is not negative: -2"),
    ],
)
def test_offsets_that_are_none_are_refused(offsets: Any, error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        KafkaOffsetsInitializer.offsets(offsets)


@pytest.mark.parametrize("is_stop", [False, True])
def test_an_offset_of_what_is_not_read_is_refused(broker: KafkaBroker, make_topic: MakeTopic, is_stop: bool) -> None:
    topic = make_topic(1)
    broker.write(topic, texts(1))
    offsets = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(topic, at): 0 for at in (0, 1)})
    builder = reading(broker, topic)
    source = builder.set_bounded(offsets) if is_stop else builder.set_starting_offsets(offsets).set_bounded(LATEST)
    with pytest.raises(SourceError, match=f"an offset is given for topic '{topic}', partition 1, which is not read"):
        SourceRig(source.build()).run_to_end()


def test_a_pattern_that_cannot_be_read_is_refused(broker: KafkaBroker) -> None:
    with pytest.raises(ValueError, match=r"the pattern of topics, '\*\.x', cannot be read: nothing to repeat"):
        reading(broker).set_topic_pattern("*.x").build()


def test_properties_that_the_engine_sets_are_warned_of(broker: KafkaBroker, caplog: pytest.LogCaptureFixture) -> None:
    reading(broker, "any").set_property("auto.offset.reset", "earliest").build()
    assert "the source does not use auto.offset.reset: its starting offsets say" in caplog.text


def test_offsets_of_the_group_are_committed_with_checkpoints(broker: KafkaBroker, make_topic: MakeTopic) -> None:
    topic, group = make_topic(1), f"group-{random.getrandbits(32)}"
    broker.write(topic, texts(*range(6)))
    rig = SourceRig(reading(broker, topic).set_group_id(group).build())
    rig.run_until(lambda: len(rig.values) == 6, "the records")
    [operator] = rig.operators
    rig.snapshot(1)
    broker.write(topic, texts(6))
    rig.run_until(lambda: len(rig.values) == 7, "one more record")
    operator.notify_checkpoint_complete(1)
    asking = Consumer({"bootstrap.servers": broker.servers, "group.id": group})
    wait_until(lambda: asking.committed([TopicPartition(topic, 0)], 10)[0].offset == 6, 10, "the commit")
    asking.close()
    rig.close()


def test_offsets_of_partitions_that_have_ended_are_committed_with_the_next_checkpoint(
    broker: KafkaBroker, make_topic: MakeTopic
) -> None:
    topic, group = make_topic(2), f"group-{random.getrandbits(32)}"
    broker.write(topic, texts(*range(4)), partition=0)
    broker.write(topic, texts(*range(4, 10)), partition=1)
    stops = {KafkaTopicPartition(topic, 0): 3, KafkaTopicPartition(topic, 1): 5}
    bounded = reading(broker, topic).set_group_id(group).set_bounded(KafkaOffsetsInitializer.offsets(stops))
    others = set(threading.enumerate())
    rig = SourceRig(bounded.build())
    rig.run_until(lambda: bool(rig.ended), "the end")
    assert sorted(map(int, rig.values)) == [0, 1, 2, 4, 5, 6, 7, 8]
    [operator] = rig.operators
    asking = Consumer({"bootstrap.servers": broker.servers, "group.id": group})
    both = [TopicPartition(topic, number) for number in range(2)]
    # one that was under way when the partitions ended does not have their ends
    operator.notify_checkpoint_complete(1)
    assert [each.offset for each in asking.committed(both, 10)] == [OFFSET_INVALID] * 2
    rig.snapshot(2)
    operator.notify_checkpoint_complete(2)
    wait_until(lambda: [each.offset for each in asking.committed(both, 10)] == [3, 5], 10, "the commit")
    asking.close()
    # nothing keeps its consumer any longer
    wait_until(lambda: not any(each.name == "kafka-0" for each in {*threading.enumerate()} - others), 30, "its end")
    rig.close()


@pytest.mark.parametrize("is_down", [True, False], ids=["while the job was down", "while it was read"])
def test_a_topic_that_was_made_anew_fails_the_job(broker: KafkaBroker, make_topic: MakeTopic, is_down: bool) -> None:
    topic = make_topic(1)
    broker.write(topic, texts(*range(10)))
    source = reading(broker, topic).build()
    rig = SourceRig(source)
    rig.run_until(lambda: len(rig.values) == 10, "the records")
    snapshots = rig.snapshot()
    if is_down:
        rig.close()
    broker.delete_topic(topic)
    broker.create_topic(topic)
    # so many that the offset is there again
    broker.write(topic, texts(*range(100, 125)))
    after = SourceRig(source, snapshots=snapshots) if is_down else rig
    with pytest.raises(SourceError, match=f"topic '{topic}' was deleted and made anew"):
        after.run_until(lambda: False, "a failure")
    after.close()


def test_a_topic_that_is_deleted_fails_the_job_though_new_partitions_are_not_looked_for(
    broker: KafkaBroker, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription_module, "_GONE_S", 0.5)
    topic = make_topic(1)
    broker.write(topic, texts(1))
    rig = SourceRig(reading(broker, topic).set_property("partition.discovery.interval.ms", "0").build())
    rig.run_until(lambda: len(rig.values) == 1, "the record")
    broker.delete_topic(topic)
    with pytest.raises(SourceError, match=f"topic '{topic}' was deleted while it was read"):
        rig.run_until(lambda: False, "a failure")
    rig.close()


def test_a_restored_job_reads_partitions_that_were_added_though_it_does_not_look_for_them_later(
    broker: KafkaBroker, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    broker.write(topic, texts(1))
    source = reading(broker, topic).set_property("partition.discovery.interval.ms", "0").build()
    rig = SourceRig(source)
    rig.run_until(lambda: len(rig.values) == 1, "the record")
    snapshots = rig.snapshot()
    rig.close()
    broker.add_partitions(topic, 2)
    broker.write(topic, texts(2), partition=1)
    after = SourceRig(source, snapshots=snapshots)
    after.run_until(lambda: list(map(int, after.values)) == [2], "the record of the new partition")
    after.close()


def test_what_keeps_brokers_from_answering_is_told(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (subscription_module, offsets_module):
        monkeypatch.setattr(module, "ANSWER_S", 3.0)
    nobody = free_port()
    away = reading(broker, "any").set_bootstrap_servers(f"127.0.0.1:{nobody}").build()
    with pytest.raises(SourceError, match=f"no answer from 127.0.0.1:{nobody}: .*Connection refused"):
        away.subscription().find((), {}, is_first=True)
    builder = reading(broker, "any").set_property("security.protocol", "SASL_PLAINTEXT")
    refused = builder.set_property("sasl.mechanism", "PLAIN").set_property("sasl.username", "me")
    with pytest.raises(SourceError, match=r"no answer from .*SASL"):
        refused.set_property("sasl.password", "wrong").build().subscription().find((), {}, is_first=True)


@pytest.mark.parametrize("text", ["False", "false", " FALSE "])
def test_switches_are_read_as_java_reads_them(broker: KafkaBroker, text: str) -> None:
    builder = reading(broker, "any").set_group_id("g")
    assert builder.build().commits_offsets
    assert builder.set_property("commit.offsets.on.checkpoint", "True").build().commits_offsets
    assert not builder.set_property("commit.offsets.on.checkpoint", text).build().commits_offsets
    with pytest.raises(PropertyError, match=r"commit.offsets.on.checkpoint is true or false, not 'yes'"):
        builder.set_property("commit.offsets.on.checkpoint", "yes").build()


def test_a_partition_that_waits_for_alignment_holds_up_no_other(
    broker: KafkaBroker, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.connectors.kafka.fetcher.QUEUED_RECORDS", 100)
    topic = make_topic(2)
    hour = 3_600_000
    # the first partition is far ahead in event time
    for number in range(40):
        broker.write(topic, texts(*range(number * 50, number * 50 + 50)), 0, time=(number + 1) * hour)
        broker.write(topic, texts(*range(number * 50, number * 50 + 50)), 1, time=(number + 1) * 60_000)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment(
        "group", _minutes(5), _minutes(0.001)
    )
    rig = SourceRig(reading(broker, topic).set_bounded(LATEST).build(), 1, strategy)
    rig.run_to_end(max_rows=50)
    assert len(rig.values) == 4_000


def test_a_queue_that_is_full_has_nothing_fetched_twice(
    broker: KafkaBroker, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.connectors.kafka.fetcher.QUEUED_RECORDS", 500)
    monkeypatch.setattr("runtime.connectors.kafka.fetcher.FETCH_RECORDS", 100)
    topic, count = make_topic(1), 20_000
    broker.write(topic, texts(*range(count)), 0)
    received = [0]

    def note(statistics: str) -> None:
        of_topic = json.loads(statistics)["topics"].get(topic)
        received[0] = of_topic["partitions"]["0"]["rxmsgs"] if of_topic else 0

    properties = {"bootstrap.servers": broker.servers, "statistics.interval.ms": 20, "stats_cb": note}
    fetcher = Fetcher("fetcher", properties)
    opened, taken = fetcher.open(KafkaTopicPartition(topic, 0), 0), 0
    while taken < count:
        chunk = opened.take()
        if chunk is not None:
            taken += len(chunk.values)
    wait_until(lambda: received[0] >= count, 10, "statistics that count all records")
    fetcher.close()
    assert received[0] == count


def test_many_partitions_share_the_memory_of_their_queues(broker: KafkaBroker, make_topic: MakeTopic) -> None:
    partitions, size = 16, 100_000
    topic = make_topic(partitions)
    fetcher = Fetcher("fetcher", {"bootstrap.servers": broker.servers})
    opened = [fetcher.open(KafkaTopicPartition(topic, number), 0) for number in range(partitions)]
    wait_until(lambda: {each.most_bytes for each in opened} == {ALL_QUEUED_BYTES // partitions}, 30, "the shares")
    for other in opened[4:]:
        fetcher.release(other)
    wait_until(lambda: {each.most_bytes for each in opened[:4]} == {QUEUED_BYTES}, 30, "what is left is shared")
    opened[0].most_bytes = 10 * size
    broker.write(topic, [bytes(size)] * 20)
    wait_until(lambda: opened[0].is_full, 30, "a full queue")
    assert not any(each.is_full for each in opened[1:4])
    fetcher.close()


def _minutes(minutes: float) -> Any:
    return Duration.of_millis(int(minutes * 60_000))


def test_partitions_are_owned_as_in_flink() -> None:
    # KafkaSourceEnumerator.getSplitOwner, of Java's "orders".hashCode() = -1008770331 and "ä€😀".hashCode() = 1917505
    start = ((-1008770331 * 31) & 0x7FFFFFFF) % 3
    assert [owner_of(KafkaTopicPartition("orders", number), 3) for number in range(4)] == [
        (start + number) % 3 for number in range(4)
    ]


def test_a_negative_timestamp_is_none() -> None:
    # brokers take them for names of other offsets
    with pytest.raises(ValueError, match="not negative"):
        KafkaOffsetsInitializer.timestamp(-1)


def test_what_a_builder_lacks_is_said() -> None:
    builder = KafkaSource.builder().set_bootstrap_servers("localhost:9092")
    with pytest.raises(ValueError, match="set_value_only_deserializer"):
        builder.build()
    builder.set_value_only_deserializer(SimpleStringSchema())
    with pytest.raises(ValueError, match="topics, or a pattern"):
        builder.build()
    builder.set_topics("t")
    with pytest.raises(ValueError, match=r"set group\.id"):
        builder.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets()).build()
    with pytest.raises(PropertyError, match=r'No such configuration property: "no\.such"'):
        builder.set_group_id("g").set_property("no.such", "x").build()
    with pytest.raises(ValueError, match="set_record_serializer"):
        KafkaSink.builder().set_bootstrap_servers("localhost:9092").build()
    with pytest.raises(ValueError, match="set_topic"):
        KafkaRecordSerializationSchema.builder().build()
    serializer = to("t").build()
    with pytest.raises(ValueError, match="set_transactional_id_prefix"):
        sink = KafkaSink.builder().set_bootstrap_servers("localhost:9092").set_record_serializer(serializer)
        sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build()
    with pytest.raises(PropertyError, match=r"bootstrap\.servers is missing"):
        KafkaSink.builder().set_record_serializer(serializer).build()


# --- the sink at least once -------------------------------------------------------------------------------------------


def to(topic: str) -> KafkaRecordSerializationSchemaBuilder:
    builder = KafkaRecordSerializationSchema.builder()
    return builder.set_topic(topic).set_value_serialization_schema(SimpleStringSchema())


def writing(broker: KafkaBroker, serializer: KafkaRecordSerializationSchemaBuilder, **properties: str) -> KafkaSink:
    builder = KafkaSink.builder().set_bootstrap_servers(broker.servers).set_record_serializer(serializer.build())
    for name, value in properties.items():
        builder.set_property(name.replace("_", "."), value)
    return builder.set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE).build()


def test_a_checkpoint_waits_for_all_records(broker: KafkaBroker, make_topic: MakeTopic) -> None:
    topic = make_topic(1)
    rig = SinkRig(writing(broker, to(topic), linger_ms="5000"), Types.STRING())
    rig.write(*[str(number) for number in range(3_000)])
    rig.snapshot(1)
    assert broker.values(topic) == texts(*range(3_000))
    rig.operator.close()


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_a_topic_for_small_records_takes_them(broker: KafkaBroker, guarantee: DeliveryGuarantee) -> None:
    """librdkafka sends 1 MB at once, and does not part what is refused."""
    topic = f"topic-{random.getrandbits(40):x}"
    broker.create_topic(topic, max_message_bytes="10000")
    builder = KafkaSink.builder().set_bootstrap_servers(broker.servers).set_record_serializer(to(topic).build())
    sink = builder.set_delivery_guarantee(guarantee).set_transactional_id_prefix(topic).build()
    rig = SinkRig(sink, Types.STRING())
    values = [f"{number:0100}" for number in range(5_000)]
    rig.write(*values)
    rig.finish()
    assert broker.values(topic) == [value.encode() for value in values]


class ByLength(KafkaTopicSelector):
    def __init__(self, topics: list[str]) -> None:
        self._topics = topics

    def apply(self, data: Any) -> str:
        return self._topics[len(data.name) % 2]


def test_keys_headers_partitions_and_topics_are_the_records(broker: KafkaBroker, make_topic: MakeTopic) -> None:
    topics = [make_topic(3), make_topic(3)]
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic_selector(ByLength(topics))
        .set_value_format(NdjsonWriterFormat())
        .set_key_serialization_schema(_Name())
        .set_headers(lambda row: [("id", b"%d" % row.id), ("none", None)] if row.id else None)
        .set_partitioner(lambda row, key, value, topic, partitions: row.id % partitions)
    )
    rig = SinkRig(writing(broker, serializer), ROW)
    rig.write(*[Row(id=number, name="x" * number) for number in range(6)])
    rig.finish()
    for rest, topic in enumerate(topics):
        records = {json.loads(record.value() or b"")["id"]: record for record in broker.records(topic)}
        assert sorted(records) == [number for number in range(6) if number % 2 == rest]
        for number, record in records.items():
            assert (record.partition(), record.key()) == (number % 3, b"x" * number)
            assert record.headers() == ([("id", b"%d" % number), ("none", None)] if number else None)


class _Name(SimpleStringSchema):
    def serialize(self, value: Any) -> bytes:
        return super().serialize(value.name)


def test_keys_are_in_the_partitions_in_which_javas_client_has_them(broker: KafkaBroker, make_topic: MakeTopic) -> None:
    topic = make_topic(7)
    serializer = to(topic).set_key_serialization_schema(SimpleStringSchema())
    rig = SinkRig(writing(broker, serializer), Types.STRING())
    keys = ["a", "key", "orders-17", "Zürich"]
    rig.write(*keys)
    rig.finish()
    found = {record.key(): record.partition() for record in broker.records(topic)}
    assert found == {key.encode(): murmur2(key.encode()) % 7 for key in keys}


def murmur2(data: bytes) -> int:
    """Kafka's Utils.toPositive(Utils.murmur2(data))."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(data)) & mask
    for at in range(0, len(data) // 4 * 4, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    if rest := data[len(data) // 4 * 4 :]:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return (h ^ h >> 15) & 0x7FFFFFFF


def test_records_that_cannot_be_written_fail_the_job(broker: KafkaBroker, make_topic: MakeTopic) -> None:
    topic = make_topic(1)
    wrong = to(topic).set_partitioner(lambda record, key, value, topic, partitions: 9)
    for serializer, values, why in (
        (wrong, ["x"], "the partitioner returned 9; there are 1 partitions"),
        (to(topic), ["x" * 2_000_000], r"too large \(2000000 bytes, .*\): max.request.size of the sink"),
        (to("no/topic"), ["x"], "Kafka topic no/topic"),
        (KafkaRecordSerializationSchema.builder().set_topic_selector(lambda text: "")
         .set_value_serialization_schema(SimpleStringSchema()), ["x"], "which is no topic"),
    ):  # fmt: skip
        rig = SinkRig(writing(broker, serializer, message_timeout_ms="3000"), Types.STRING())
        with pytest.raises(SinkError, match=why):
            rig.write(*values)
            rig.snapshot(1)
        rig.operator.close()


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_a_task_that_is_cancelled_does_not_wait_for_a_broker_that_is_frozen(
    tmp_path: Path, guarantee: DeliveryGuarantee
) -> None:
    with running_kafka(tmp_path) as broker:
        broker.create_topic("results")
        builder = KafkaSink.builder().set_bootstrap_servers(broker.servers).set_record_serializer(to("results").build())
        builder.set_delivery_guarantee(guarantee).set_transactional_id_prefix("p")
        rig = SinkRig(builder.build(), Types.STRING())
        rig.write("one")
        rig.snapshot(1)
        broker.signal(signal.SIGSTOP)
        failed: list[BaseException] = []

        def snapshot() -> None:
            try:
                rig.write("two")
                rig.snapshot(2)
            except SinkError as error:
                failed.append(error)

        waiting = threading.Thread(target=snapshot)
        waiting.start()
        waiting.join(2.0)
        assert waiting.is_alive() and not failed
        rig.operator.interrupt()
        waiting.join(20.0)
        assert not waiting.is_alive() and len(failed) == 1
        rig.operator.close()
        broker.signal(signal.SIGCONT)


# --- properties -------------------------------------------------------------------------------------------------------


def test_properties_of_java_are_translated() -> None:
    given = {
        "bootstrap.servers": "a:1,b:2",
        "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
        "max.request.size": "5000000",
        "buffer.memory": "67108864",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="tide" password="geheim;\'x";',
        "ssl.endpoint.identification.algorithm": "",
    }
    found = client_properties(given)
    assert (found["message.max.bytes"], found["queue.buffering.max.kbytes"]) == ("5000000", "65536")
    assert (found["sasl.username"], found["sasl.password"]) == ("tide", "geheim;'x")
    assert not {"key.serializer", "sasl.jaas.config", "buffer.memory"} & found.keys()
    assert admin_properties(given) == {
        "bootstrap_servers": ["a:1", "b:2"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "tide",
        "sasl_plain_password": "geheim;'x",
        "ssl_check_hostname": False,
    }


def test_an_url_has_all_that_it_takes_to_connect() -> None:
    url = "kafka://tide:g%2Fh%40eim@a,b:2,[::1]:3?sasl.mechanism=SCRAM-SHA-512&ssl.ca.pem=x%0A+y="
    found = client_properties({"bootstrap.servers": url, "group.id": "g", "security.protocol": "SASL_PLAINTEXT"})
    assert found == {
        "bootstrap.servers": "a:9092,b:2,[::1]:3",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "tide",
        "sasl.password": "g/h@eim",
        "ssl.ca.pem": "x\n+y=",
        "group.id": "g",
    }
    login = client_properties({"bootstrap.servers": "kafka://tide:geheim@a"})
    assert (login["security.protocol"], login["sasl.mechanism"]) == ("SASL_SSL", "PLAIN")
    assert client_properties({"bootstrap.servers": "kafka://a:1/"}) == {"bootstrap.servers": "a:1"}


@pytest.mark.parametrize(
    "url",
    [
        "kafka://",
        "kafka://u:can/ary@a",
        "kafka://canary@a",
        "kafka://a b",
        "kafka://a:1?canary",
        "kafka://a?acks=canary",
    ],
)
def test_an_url_that_cannot_be_read_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(PropertyError) as failure:
        client_properties({"bootstrap.servers": url})
    assert "canary" not in str(failure.value)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("ssl.truststore.location", "ssl.ca.location"),
        ("ssl.keystore.type", "files of PEM"),
        ("sasl.jaas.config", "login"),
    ],
)
def test_what_only_java_can_read_is_refused(name: str, why: str) -> None:
    with pytest.raises(PropertyError, match=why):
        client_properties({"bootstrap.servers": "a:1", name: "x"})


def test_classes_of_java_that_choose_are_refused_and_the_rest_of_its_properties_is_taken() -> None:
    given = {"bootstrap.servers": "a:1", "default.api.timeout.ms": "1", "interceptor.classes": "x", "max.block.ms": "1"}
    assert client_properties(given) == {"bootstrap.servers": "a:1"}
    with pytest.raises(PropertyError, match="set_partitioner"):
        client_properties({"bootstrap.servers": "a:1", "partitioner.class": "org.example.Mine"})


def test_a_producer_that_asks_for_less_is_not_idempotent_and_not_transactional() -> None:
    builder = KafkaSink.builder().set_bootstrap_servers("a:1").set_record_serializer(to("t").build())
    builder.set_property("acks", "1").build()
    with pytest.raises(PropertyError, match="acks=all"):
        builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("x").build()


def test_guarantees_that_cannot_be_kept_are_refused() -> None:
    def builder(**properties: str) -> KafkaSinkBuilder:
        built = KafkaSink.builder().set_bootstrap_servers("a:1").set_record_serializer(to("t").build())
        for name, value in properties.items():
            built.set_property(name.replace("_", "."), value)
        return built.set_transactional_id_prefix("x")

    guarantee: Any
    for guarantee in ("EXACTLY_ONCE", "exactly-once", None, 2):
        with pytest.raises(PropertyError, match="a delivery guarantee is one of DeliveryGuarantee's"):
            builder().set_delivery_guarantee(guarantee).build()
    with pytest.raises(PropertyError, match="acks=0"):
        builder(acks="0").set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE).build()
    assert builder(acks="0").build().delivery_guarantee is DeliveryGuarantee.NONE
    with pytest.raises(PropertyError, match="idempotently"):
        builder(enable_idempotence="false").set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build()
    with pytest.raises(PropertyError, match=r"buffer.memory is a whole number, not 'abc'"):
        builder(buffer_memory="abc").build()


def test_lists_in_place_of_texts_are_refused() -> None:
    servers: Any = ["a:1"]
    topics: Any = ["a", "b"]
    with pytest.raises(PropertyError, match=r"bootstrap.servers is one text"):
        KafkaSink.builder().set_bootstrap_servers(servers).set_record_serializer(to("t").build()).build()
    source = KafkaSource.builder().set_bootstrap_servers("a:1").set_value_only_deserializer(SimpleStringSchema())
    with pytest.raises(TypeError, match="topics of Kafka are named by texts"):
        source.set_topics(topics).build()


def test_results_of_windows_without_an_end_have_the_time_of_sending() -> None:
    batch = RecordBatch.of_values(["x", "y", "z"], [MAX_WATERMARK, 5, NO_TIMESTAMP])
    assert to("t").build().encoder(Types.STRING()).encode(batch).times == [0, 5, 0]


def test_a_secret_is_checked_in_the_slot_alone() -> None:
    sink = (
        KafkaSink.builder().set_bootstrap_servers(SecretRef("kafka", "servers")).set_record_serializer(to("t").build())
    )
    assert isinstance(sink.build().properties["bootstrap.servers"], SecretRef)
