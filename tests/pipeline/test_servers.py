"""Nodes that talk to servers, each in a job made from a pipeline: a real PostgreSQL, a real Redis, a real socket."""

from __future__ import annotations

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
from tests.cluster.redis_fixture import running_redis
from tests.connectors.postgres_fixture import running_postgres
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
