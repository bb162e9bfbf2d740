"""Nodes that talk to servers, each in a job made from a pipeline: a real PostgreSQL, Redis, Kafka and socket."""

from __future__ import annotations

import copy
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from runtime.common.options import EXECUTION_TARGET, RESTART_STRATEGY
from runtime.pipeline import compile_pipeline, load_catalog, read_document
from runtime.pipeline.templates import templates
from tests.cluster.redis_fixture import running_redis
from tests.connectors.kafka_broker import KafkaBroker, running_kafka
from tests.connectors.postgres_fixture import running_postgres
from tests.connectors.schema_registry import running_registry
from tests.job_runs import record_run
from tests.pipeline.pipelines import chain, node, orders, pipeline
from tests.pipeline.programs import environment_of, executed

pytestmark = pytest.mark.slow
CATALOG = load_catalog([])
BID = [["id", "long"], ["seller", "long"], ["cents", "long"]]


def run(value: dict[str, Any]) -> None:
    """Run a pipeline on a MiniCluster to its end."""
    program = compile_pipeline(read_document(value), CATALOG)
    assert program.is_deployable, program.problems
    env = environment_of(executed(program))
    env.get_configuration().set_string(EXECUTION_TARGET.key, "mini-cluster")
    env.get_configuration().set_string(RESTART_STRATEGY.key, "none")
    record_run("mini-cluster")
    env.execute("with servers")


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """URL of a server that takes part in transactions of two phases."""
    with running_postgres(max_prepared_transactions=10) as url:
        yield url


@pytest.fixture
def database(postgres: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database with bids and sellers, which jobs know as pg-main."""
    monkeypatch.setenv("TIDEMARK_SECRET_PG_MAIN_URL", postgres)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        connection.execute("CREATE TABLE bids (id int8 PRIMARY KEY, seller int8, cents int8)")
        connection.execute("INSERT INTO bids SELECT i, i % 4, 100 * i FROM generate_series(1, 40) AS i")
        connection.execute("CREATE TABLE sellers (id int8, name text)")
        connection.execute("INSERT INTO sellers VALUES (0, 'zoe'), (1, 'ann'), (2, 'bob')")
        yield connection


def table(kind: str, name: str, **params: Any) -> dict[str, Any]:
    return node(kind, name, connection="pg-main", table=name.lower(), **params)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_rows_of_a_table_are_looked_up_summed_and_written(parallelism: int, database: psycopg.Connection[Any]) -> None:
    database.execute("CREATE TABLE named (id int8, seller int8, cents int8, name text)")
    database.execute("CREATE TABLE totals (name text PRIMARY KEY, n int8, cents int8)")
    database.execute("INSERT INTO totals VALUES ('ann', 99, 99), ('old', 1, 1)")
    value = pipeline(
        {
            "b": table("source.postgres", "Bids", type=BID, where="id <= 20", split_column="id"),
            "l": table("join.lookup", "Sellers", on=[["seller", "id"]], type=[["name", "string"]]),
            "n": table("sink.postgres", "Named"),
            "a": node("aggregate", "Sums", keys=["name"], aggregates=[["n", "count(*)"], ["cents", "sum(cents)"]]),
            "t": table("sink.postgres", "Totals", mode={"kind": "upsert", "keys": ["name"]}),
        },
        *("b -> l", "l -> n", "l -> a", "a -> t"),
        settings={"parallelism": parallelism},
    )
    run(value)
    names = {0: "zoe", 1: "ann", 2: "bob"}
    # seller 3 is in no table
    named = [(i, i % 4, 100 * i, names[i % 4]) for i in range(1, 21) if i % 4 in names]
    assert database.execute("SELECT * FROM named ORDER BY id").fetchall() == named
    sums = {name: [row[2] for row in named if row[3] == name] for name in names.values()}
    totals = [*((name, len(cents), sum(cents)) for name, cents in sums.items()), ("old", 1, 1)]
    assert database.execute("SELECT * FROM totals ORDER BY name").fetchall() == sorted(totals)


def test_rows_are_written_exactly_once_with_the_checkpoints(database: psycopg.Connection[Any]) -> None:
    database.execute("CREATE TABLE copies (id int8, item text, cents int8, at int8)")
    exactly_once = table("sink.postgres", "Copies", mode={"kind": "exactly_once"})
    run(chain(orders(), exactly_once, settings={"parallelism": 1, "checkpointing": {"interval": "10 s"}}))
    rows = [(1, "pen", 150, 1_000), (1, "pen", 155, 3_000), (2, "ink", 900, 2_000)]
    assert sorted(database.execute("SELECT * FROM copies").fetchall()) == rows
    assert database.execute("SELECT * FROM pg_prepared_xacts").fetchall() == []


def test_entries_of_one_stream_become_those_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_redis(tmp_path) as url, redis.Redis.from_url(url, protocol=2) as client:
        monkeypatch.setenv("TIDEMARK_SECRET_REDIS_MAIN_URL", url)
        for index in range(6):
            client.xadd("bids", {"json": json.dumps({"id": index, "seller": index % 2, "cents": 10 * index})})
        client.xadd("bids", {"json": "no bid"})
        entries = node(
            "source.redis_streams",
            "Entries",
            connection="redis-main",
            streams=["bids"],
            format={"kind": "ndjson"},
            type=BID,
            value_field="json",
            bounded=True,
            bad="skip",
        )
        dear = node("filter", "Dear", condition="cents >= 30")
        run(chain(entries, dear, node("sink.redis_streams", "Out", connection="redis-main", streams=["dear"])))
        written = [json.loads(fields[b"value"]) for _, fields in client.xrange("dear")]
        assert written == [{"id": i, "seller": i % 2, "cents": 10 * i} for i in (3, 4, 5)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with running_kafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture
def kafka(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> KafkaBroker:
    """A broker that jobs know as kafka-main."""
    monkeypatch.setenv("TIDEMARK_SECRET_KAFKA_MAIN_URL", f"kafka://{broker.servers}")
    return broker


def records(topic: str, **params: Any) -> dict[str, Any]:
    """A source of a topic, up to its end."""
    topics, end = {"kind": "names", "names": [topic]}, {"kind": "latest"}
    return node("source.kafka", "Records", connection="kafka-main", topics=topics, end=end, **params)


def topic_of(name: str, **params: Any) -> dict[str, Any]:
    return node("sink.kafka", "Topic", connection="kafka-main", topic=name, **params)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_records_of_a_topic_become_those_of_another_exactly_once(parallelism: int, kafka: KafkaBroker) -> None:
    topic, dear = f"bids-{parallelism}", f"dear-{parallelism}"
    kafka.create_topic(topic, 2)
    kafka.create_topic(dear, 2)
    for partition in (0, 1):
        bids = [json.dumps({"id": index, "seller": index % 2, "cents": 10 * index}) for index in range(partition, 8, 2)]
        kafka.write(topic, [bid.encode() for bid in bids], partition, time=1_000)
    kafka.write(topic, [b"no bid"])
    value = chain(
        records(topic, type=BID, bad="skip", time={"kind": "own"}, group="tests", start={"kind": "group"}),
        node("filter", "Dear", condition="cents >= 30"),
        topic_of(
            dear,
            key={"kind": "json", "columns": ["seller"]},
            guarantee={"kind": "exactly_once", "prefix": dear, "transaction_timeout": "14 min"},
        ),
        settings={"parallelism": parallelism, "checkpointing": {"interval": "1 s"}},
    )
    run(value)
    found = [(record.key(), json.loads(record.value() or b"null")) for record in kafka.records(dear)]
    assert sorted(value["id"] for _, value in found) == [3, 4, 5, 6, 7]
    assert all(key == b'{"seller":%d}' % value["seller"] for key, value in found)
    # a record of Kafka has the event time of the row
    assert {record.timestamp()[1] for record in kafka.records(dear)} == {1_000}
    # both of a seller are in one partition
    assert len({(key, record.partition()) for record, (key, _) in zip(kafka.records(dear), found, strict=True)}) == 2


@pytest.mark.parametrize("parallelism", [1, 2])
def test_the_template_writes_each_total_once(parallelism: int, kafka: KafkaBroker) -> None:
    value = copy.deepcopy(dict(templates()["13-kafka-totals"].value))
    value["settings"] |= {"parallelism": parallelism, "checkpointing": {"interval": "1 s"}}
    names = {"bids": f"bids-of-{parallelism}", "totals": f"totals-of-{parallelism}"}
    for name in names.values():
        kafka.create_topic(name, 2)
    value["nodes"]["out"]["params"] |= {"topic": names["totals"]}
    # it ends where a user's goes on
    value["nodes"]["bids"]["params"] |= {
        "topics": {"kind": "names", "names": [names["bids"]]},
        "end": {"kind": "latest"},
    }
    sums: dict[tuple[int, int], tuple[int, int]] = {}
    for partition in (0, 1):
        bids = [{"auction": n % 3, "price": n, "time": 250 * n} for n in range(partition, 400, 2)]
        kafka.write(names["bids"], [json.dumps(bid).encode() for bid in bids], partition)
        for bid in bids:
            key = (bid["auction"], bid["time"] // 10_000 * 10_000 + 10_000)
            count, total = sums.get(key, (0, 0))
            sums[key] = (count + 1, total + bid["price"])
    run(value)
    found = [json.loads(total or b"null") for total in kafka.values(names["totals"])]
    told = sorted((row["auction"], row["window_end"], row["bids"], row["total"]) for row in found)
    assert told == sorted((auction, end, *counted) for (auction, end), counted in sums.items())


def test_csv_becomes_avro_and_that_is_read_again(kafka: KafkaBroker, tmp_path: Path) -> None:
    for name in ("lines", "avro"):
        kafka.create_topic(name)
    kafka.write("lines", [b'1;"a;b"', b"2;c", b"x;d"])
    columns = [["id", "long"], ["name", "string"]]
    read = records("lines", format={"kind": "csv", "delimiter": ";"}, type=columns, bad="dead_letters")
    written = topic_of("avro", format={"kind": "avro"}, key={"kind": "text", "column": "name"})
    letters = node("sink.files", "Bad", path=str(tmp_path / "bad"), format={"kind": "ndjson"})
    run(pipeline({"r": read, "w": written, "l": letters}, "r -> w", "r.bad -> l"))
    assert [record.key() for record in kafka.records("avro")] == [b"a;b", b"c"]
    (file,) = (tmp_path / "bad").rglob("*.ndjson")
    [letter] = map(json.loads, file.read_text().splitlines())
    assert (letter["origin"], letter["position"]) == ("topic lines, partition 0", "offset 2")
    described = [{"name": "id", "type": ["null", "long"]}, {"name": "name", "type": ["null", "string"]}]
    schema = json.dumps({"type": "record", "name": "record", "fields": described})
    again = records("avro", format={"kind": "avro", "schema": schema})
    run(chain(again, node("sink.files", "Out", path=str(tmp_path / "out"), format={"kind": "ndjson"})))
    (file,) = (tmp_path / "out").rglob("*.ndjson")
    assert list(map(json.loads, file.read_text().splitlines())) == [{"id": 1, "name": "a;b"}, {"id": 2, "name": "c"}]


@pytest.mark.parametrize("format_of", ["avro_confluent", "json_confluent"])
def test_rows_go_through_a_topic_with_a_schema_registry(
    format_of: str, kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = format_of.replace("_", "-")
    kafka.create_topic(topic)
    with running_registry(tmp_path) as registry:
        monkeypatch.setenv("TIDEMARK_SECRET_SCHEMAS_URL", registry.url)
        run(chain(orders(), topic_of(topic, format={"kind": format_of, "registry": "schemas"})))
        assert registry.ask("/subjects") == [f"{topic}-value"]
        [first, *_] = kafka.values(topic)
        assert first is not None and first[:1] == b"\0"
        columns = [["id", "long"], ["item", "string"]]
        read = records(topic, format={"kind": format_of, "registry": "schemas"}, type=columns)
        run(chain(read, node("sink.files", "Out", path=str(tmp_path / "out"), format={"kind": "ndjson"})))
    (file,) = (tmp_path / "out").rglob("*.ndjson")
    found = sorted((row["id"], row["item"]) for row in map(json.loads, file.read_text().splitlines()))
    assert found == [(1, "pen"), (1, "pen"), (2, "ink")]


def test_records_as_they_are_have_the_columns_that_the_node_tells(kafka: KafkaBroker) -> None:
    kafka.create_topic("raw")
    kafka.write("raw", [b"v", None], key=b"k", time=7)
    kafka.create_topic("copy")
    pattern = {"kind": "pattern", "pattern": "ra."}
    source = node("source.kafka", "Raw", connection="kafka-main", topics=pattern, format={"kind": "record"})
    source["params"]["end"] = {"kind": "latest"}
    select = node("select", "Some", columns=[["topic", "topic"], ["at", "offset"], ["time", "timestamp"]])
    run(chain(source, select, topic_of("copy", guarantee={"kind": "none"})))
    copied = [json.loads(value or b"null") for value in kafka.values("copy")]
    assert copied == [{"topic": "raw", "at": 0, "time": 7}, {"topic": "raw", "at": 1, "time": 7}]


def test_lines_of_a_socket_become_rows_of_files(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)

        def serve() -> None:
            peer, _ = listening.accept()
            with peer:
                for index in range(5):
                    peer.sendall(json.dumps({"id": index, "seller": 0, "cents": index}).encode() + b";")

        server = threading.Thread(target=serve)
        server.start()
        lines = node(
            "source.socket",
            "Lines",
            host="127.0.0.1",
            port=listening.getsockname()[1],
            delimiter=";",
            format={"kind": "ndjson"},
            type=BID,
            retries=0,
        )
        files = node("sink.files", "Out", path=str(tmp_path / "out"), format={"kind": "ndjson"})
        run(chain(lines, node("filter", "Odd", condition="cents % 2 = 1"), files))
        server.join()
    (file,) = (tmp_path / "out").rglob("*.ndjson")
    assert [json.loads(line)["id"] for line in file.read_text().splitlines()] == [1, 3]
