"""Redis streams as source and sink, against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from runtime.common import Row, Types
from runtime.common.serialization import SimpleStringSchema
from runtime.common.typeinfo import RowTypeInfo
from runtime.common.watermark_strategy import WatermarkStrategy
from runtime.connectors import BadRecords, NdjsonFormat, TextWriterFormat
from runtime.connectors.redis_streams import RedisStreamSink, RedisStreamSource
from runtime.datastream import DataStream, StreamExecutionEnvironment
from runtime.operators.sink import SinkError
from runtime.operators.source import Boundedness, NoSplit, SourceError
from runtime.testing import MICRO_BATCH_ON_MINI_CLUSTER, run_job
from tests.cluster.redis_fixture import running_redis
from tests.connectors.rigs import SinkRig, SourceRig
from tests.datastream.running import environment
from tests.job_runs import record_run
from tests.support.waiting import wait_until

ROW = RowTypeInfo([Types.LONG(), Types.STRING()], ["id", "name"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_redis(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def client(server: str) -> Iterator[redis.Redis]:
    """To an empty server."""
    with redis.Redis.from_url(server, protocol=2) as connection:
        connection.flushall()
        yield connection


def add(client: redis.Redis, stream: str, *values: str, first_ms: int = 1000) -> None:
    for number, value in enumerate(values):
        client.xadd(stream, {"value": value}, id=f"{first_ms + number}-0")


def text_source(server: str, *streams: str, start: str = "earliest", bounded: bool = True) -> RedisStreamSource:
    return RedisStreamSource(server, streams, SimpleStringSchema(), start=start, bounded=bounded)


def test_a_bounded_source_ends_with_what_was_there(server: str, client: redis.Redis) -> None:
    add(client, "a", "1", "2", "3")
    add(client, "b", "4")
    source = text_source(server, "a", "b", "never")
    assert source.boundedness is Boundedness.BOUNDED
    rig = SourceRig(source, 2).run_to_end(max_rows=2)
    assert sorted(rig.values) == ["1", "2", "3", "4"]


def test_event_times_are_the_times_of_the_entries(server: str, client: redis.Redis) -> None:
    add(client, "a", "1", "2")
    rig = SourceRig(text_source(server, "a")).run_to_end()
    assert [batch.timestamps() for batch, _ in rig.outputs[0].batches] == [[1000, 1001]]


def test_entries_that_are_added_later_are_read(server: str, client: redis.Redis) -> None:
    rig = SourceRig(text_source(server, "a", bounded=False))
    rig.run_until(lambda: True, "a look")
    add(client, "a", "1")
    rig.run_until(lambda: rig.values == ["1"], "an entry of a new stream")
    add(client, "a", "2", first_ms=2000)
    rig.run_until(lambda: rig.values == ["1", "2"], "another entry")
    rig.close()


@pytest.mark.parametrize("parallelism", [1, 3])
def test_many_streams_without_end_are_read_side_by_side(server: str, client: redis.Redis, parallelism: int) -> None:
    names = [f"s{i}" for i in range(12)]
    for name in names:
        add(client, name, name)
    rig = SourceRig(text_source(server, *names, bounded=False), parallelism)
    rig.run_until(lambda: sorted(rig.values) == sorted(names), "an entry of each stream")
    rig.close()
    assert [len(output.batches) for output in rig.outputs] == [12 // parallelism] * parallelism


def test_latest_means_what_is_added_from_then_on(server: str, client: redis.Redis) -> None:
    add(client, "a", "1")
    rig = SourceRig(text_source(server, "a", start="latest", bounded=False))
    rig.run_until(lambda: rig.snapshot()[0] is not None and b"1000-0" in splits(rig), "the position")
    add(client, "a", "2", first_ms=2000)
    rig.run_until(lambda: rig.values == ["2"], "the new entry")
    rig.close()
    rig = SourceRig(text_source(server, "a", start="1000-0")).run_to_end()
    assert rig.values == ["2"]


def splits(rig: SourceRig) -> bytes:
    return b"".join(item for s in rig.snapshot() for item in s.operator_states["source-splits"].items)


@pytest.mark.parametrize("bounded", [True, False])
def test_a_restored_source_goes_on_behind_the_last_entry(server: str, client: redis.Redis, bounded: bool) -> None:
    values = [str(i) for i in range(10)]
    add(client, "a", *values)
    first = SourceRig(text_source(server, "a", bounded=bounded))
    first.run_until(lambda: len(first.values) == 3, "three entries", max_rows=1)
    snapshots = first.snapshot()
    first.close()
    add(client, "a", "late", first_ms=5000)
    second = SourceRig(text_source(server, "a", bounded=bounded), 2, snapshots=snapshots)
    expected = values[3:] if bounded else [*values[3:], "late"]
    if bounded:
        second.run_to_end(max_rows=2)
    else:
        second.run_until(lambda: len(second.values) == len(expected), "the rest", max_rows=2)
        second.close()
    assert second.values == expected


def test_streams_may_be_added_and_removed_at_a_restore(server: str, client: redis.Redis) -> None:
    for stream in ("a", "b", "c", "d"):
        add(client, stream, f"{stream}1")
    monotonous = WatermarkStrategy.for_monotonous_timestamps()
    first = SourceRig(text_source(server, "a", "b", "c", bounded=False), strategy=monotonous)
    first.run_until(lambda: len(first.values) == 3, "an entry of each")
    snapshots = first.snapshot()
    first.close()
    add(client, "a", "a2", first_ms=9000)
    add(client, "b", "b2", first_ms=9000)
    # one is new; two are gone, which would hold event time back for ever
    second = SourceRig(text_source(server, "a", "d", bounded=False), strategy=monotonous, snapshots=snapshots)
    second.run_until(lambda: len(second.values) == 2, "the new stream's entry too")
    assert sorted(second.values) == ["a2", "d1"]
    add(client, "d", "d2", first_ms=9000)
    second.run_until(lambda: second.watermarks()[-1] == 8999, "event time to go on")
    snapshots = second.snapshot()
    second.close()
    # what is taken up again is new
    third = SourceRig(text_source(server, "a", "b", bounded=False), 2, strategy=monotonous, snapshots=snapshots)
    third.run_until(lambda: len(third.values) == 2, "both entries of it")
    third.close()
    assert third.values == ["b1", "b2"]


def test_streams_of_snapshots_of_earlier_versions_go_on(server: str) -> None:
    source = text_source(server, "a", "b", "c")
    assert source.create_enumerator(1, []).next_split(0) is NoSplit.NEVER
    enumerator = source.create_enumerator(1, ["c"])
    assert enumerator.next_split(0) == source.split_from_json("c")
    assert enumerator.snapshot() == {"known": ["a", "b", "c"], "left": []}


def test_a_bounded_source_ends_though_its_last_entry_was_deleted(server: str, client: redis.Redis) -> None:
    add(client, "a", "1", "2")
    client.xdel("a", "1001-0")
    assert SourceRig(text_source(server, "a")).run_to_end().values == ["1"]


def test_entries_as_they_are(server: str, client: redis.Redis) -> None:
    client.xadd("a", {"x": "1", "y": "ü"}, id="7-1")
    rig = SourceRig(RedisStreamSource(server, ["a"], bounded=True)).run_to_end()
    assert rig.values == [Row(id="7-1", fields={"x": "1", "y": "ü"})]


def test_bad_entries(server: str, client: redis.Redis) -> None:
    add(client, "a", '{"id": 1}', "{", " ", '{"id": 4}')
    client.xadd("a", {"other": "x"}, id="2000-0")
    source = RedisStreamSource(server, ["a"], NdjsonFormat(ROW), bounded=True, bad_records=BadRecords.to_side_output())
    rig = SourceRig(source).run_to_end()
    assert [row.id for row in rig.values] == [1, 4]
    assert [batch.timestamps() for batch, tag in rig.outputs[0].batches if tag is None] == [[1000, 1003]]
    assert sorted((letter.position, letter.data) for letter in rig.dead_letters) == [
        ("1001-0", b"{"),
        ("2000-0", b"{b'other': b'x'}"),
    ]
    for message in ("stream a, 1001-0: .*'{'", "2000-0: the entry has no field 'value'"):
        rig = SourceRig(RedisStreamSource(server, ["a"], NdjsonFormat(ROW)))
        try:
            with pytest.raises(SourceError, match=message.replace("{", "\\{")):
                rig.run_until(lambda: False, "the error")
        finally:
            rig.close()
        client.xdel("a", "1001-0")


def test_a_server_that_is_not_there_fails_the_source_and_the_sink() -> None:
    url = "redis://127.0.0.1:1/0"
    rig = SourceRig(text_source(url, "a"))
    with pytest.raises(SourceError, match="Redis stream a: "):
        rig.run_until(lambda: False, "the error")
    rig.close()
    sink = SinkRig(RedisStreamSink(url, ["a"], TextWriterFormat()))
    sink.write("x")
    with pytest.raises(SinkError, match="Redis stream a: "):
        sink.operator.finish()
    sink.operator.close()


def test_a_sink_adds_records_in_order(server: str, client: redis.Redis) -> None:
    rig = SinkRig(RedisStreamSink(server, ["a"]), ROW)
    for start in range(0, 300, 100):
        rig.write(*[Row(id=i, name=f"n\n{i}") for i in range(start, start + 100)])
    rig.operator.snapshot_state()
    assert client.xlen("a") == 300
    rig.write(Row(id=300, name=None))
    rig.finish()
    source = RedisStreamSource(server, ["a"], NdjsonFormat(ROW), bounded=True)
    rows = SourceRig(source).run_to_end().values
    assert rows == [*[Row(id=i, name=f"n\n{i}") for i in range(300)], Row(id=300, name=None)]


def test_subtasks_write_to_streams_in_turn_and_streams_are_kept_short(server: str, client: redis.Redis) -> None:
    sink = RedisStreamSink(server, ["a", "b"], SimpleStringSchema(), value_field="text", max_length=1000)
    for subtask in range(3):
        rig = SinkRig(sink, subtask=subtask, parallelism=3)
        rig.write(*[str(i) for i in range(3000)])
        rig.finish()
    assert 1000 <= client.xlen("a") < 1200 and 1000 <= client.xlen("b") < 1200
    entries: Any = client.xrange("b", count=1)
    assert set(entries[0][1]) == {b"text"}


def test_text_with_line_ends_stays_one_message_each(server: str, client: redis.Redis) -> None:
    rig = SinkRig(RedisStreamSink(server, ["a"], TextWriterFormat()), Types.STRING())
    rig.write("a\nb", "c")
    rig.finish()
    assert SourceRig(text_source(server, "a")).run_to_end().values == ["a\nb", "c"]


def test_what_makes_no_sense_is_refused(server: str) -> None:
    for streams, start, reason in (
        ([], "earliest", "different names"),
        (["a", "a"], "earliest", "different names"),
        (["a"], "newest", "not an entry id"),
    ):
        with pytest.raises(ValueError, match=reason):
            RedisStreamSource(server, streams, start=start)
    with pytest.raises(ValueError, match="at least one stream"):
        RedisStreamSink(server, [])
    with pytest.raises(ValueError, match="length of a stream"):
        RedisStreamSink(server, ["a"], max_length=0)


def test_a_job_from_stream_to_stream(server: str, client: redis.Redis, tmp_path: Path) -> None:
    add(client, "in", *[str(i) for i in range(50)])
    env = environment(parallelism=2)
    numbers = env.from_source(text_source(server, "in"), WatermarkStrategy.no_watermarks(), "redis")
    doubled = numbers.map(lambda text: str(int(text) * 2), output_type=Types.STRING())
    doubled.sink_to(RedisStreamSink(server, ["out"], SimpleStringSchema()))
    record_run("mini-cluster")
    env.execute()
    found = SourceRig(text_source(server, "out")).run_to_end().values
    assert sorted(map(int, found)) == [i * 2 for i in range(50)]


def test_a_micro_batch_waits_until_it_is_known_what_there_is(server: str, client: redis.Redis, tmp_path: Path) -> None:
    add(client, "a", *map(str, range(50)))

    def build(env: StreamExecutionEnvironment) -> DataStream:
        source = text_source(server, "a", bounded=False)
        return env.from_source(source, WatermarkStrategy.no_watermarks(), "texts")

    # it ends with the first batch that has found nothing
    options = {
        "execution.micro-batch.trigger": "available-now",
        "execution.checkpointing.savepoint-dir": tmp_path.as_uri(),
    }
    record_run("mini-cluster")
    result = run_job(build, parallelism=1, mode=MICRO_BATCH_ON_MINI_CLUSTER, options=options, timeout_s=30)
    assert sorted(map(int, result.outputs[0])) == list(range(50))


def test_a_record_wakes_an_idle_job_in_micro_batches(server: str, client: redis.Redis) -> None:
    add(client, "a", "1")
    env = environment(1, {"execution.mode": "micro-batch", "execution.checkpointing.interval": "100 ms"})
    texts = env.from_source(text_source(server, "a", bounded=False), WatermarkStrategy.no_watermarks(), "texts")
    texts.sink_to(RedisStreamSink(server, ["out"], SimpleStringSchema()))
    record_run("mini-cluster")
    job = env.execute_async("idle")

    def completed() -> int:
        return job.get_status().checkpoints.counts.completed

    try:
        for number in range(1, 4):
            wait_until(partial(lambda least: completed() >= least, number), 60, f"batch {number}")
            add(client, "a", "more", first_ms=10_000 + number)
        wait_until(lambda: completed() >= 4, 60, "the last batch")
        # one for each record, and none in between
        assert completed() == client.xlen("out") == 4
    finally:
        job.cancel().result()
