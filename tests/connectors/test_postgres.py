"""PostgreSQL as source, sink and for lookups, against a real server."""

from __future__ import annotations

import datetime
import pickle
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from runtime.common import Row, SecretRef, Types
from runtime.common.time import Instant, Time
from runtime.common.types import RowKind
from runtime.common.watermark_strategy import WatermarkStrategy
from runtime.connectors import postgres_source
from runtime.connectors.postgres_lookup import PostgresLookup
from runtime.connectors.postgres_sink import PostgresSink
from runtime.connectors.postgres_source import PostgresSource
from runtime.core.batch import RecordBatch
from runtime.datastream import AsyncDataStream
from runtime.datastream.connectors.base import DeliveryGuarantee
from runtime.execution.errors import JobExecutionError
from runtime.operators.sink import SinkError
from runtime.operators.source import NoSplit, SourceError
from runtime.pipeline import compile_pipeline, load_catalog, read_document
from tests.connectors.postgres_fixture import running_postgres
from tests.connectors.rigs import SinkRig, SourceRig
from tests.datastream.running import environment
from tests.job_runs import record_run
from tests.pipeline.pipelines import chain, node, orders
from tests.pipeline.programs import environment_of, executed
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

ITEM = Types.ROW_NAMED(["id", "name", "price"], [Types.INT(), Types.STRING(), Types.DOUBLE()])
#: an id, a name, a price
Item = tuple[int, str | None, float | None]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_postgres() as url:
        yield url


@pytest.fixture
def database(server: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database without tables."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        yield connection


def make_items(database: psycopg.Connection[Any], rows: int, key: bool = True) -> None:
    database.execute(f"CREATE TABLE items (id int {'PRIMARY KEY' if key else ''}, name text, price float8)")
    database.execute("INSERT INTO items SELECT i, 'n' || i, i / 4.0 FROM generate_series(0, %s) AS i", [rows - 1])


def items(database: psycopg.Connection[Any]) -> list[Item]:
    return database.execute("SELECT id, name, price FROM items ORDER BY id").fetchall()


# --- source -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [True, False], ids=["by key", "by page"])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_every_row_is_read_once(
    key: bool, parallelism: int, server: str, database: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_source, "CHUNK_ROWS", 70)
    monkeypatch.setattr(postgres_source, "CHUNK_PAGES", 2)
    make_items(database, 1000, key)
    source = PostgresSource.for_table(server, "items", splits=4)
    assert source.produced_type() == ITEM
    rig = SourceRig(source, parallelism).run_to_end(max_rows=64)
    assert sorted(rig.values, key=lambda row: row.id) == [Row(id=i, name=f"n{i}", price=i / 4) for i in range(1000)]
    if parallelism > 1:
        assert all(output.batches for output in rig.outputs)


@pytest.mark.parametrize("key", [True, False], ids=["by key", "by page"])
def test_a_restored_source_goes_on_behind_the_last_row(
    key: bool, server: str, database: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_source, "CHUNK_PAGES", 1)
    make_items(database, 1000, key)
    source = PostgresSource.for_table(server, "items", splits=3)
    ids: list[int] = []
    snapshots: Any = ()
    for parallelism, rows in ((1, 130), (2, 300), (1, None)):
        rig = SourceRig(source, parallelism, snapshots=snapshots)
        if rows is None:
            rig.run_to_end(max_rows=100)
        else:
            rig.run_until(lambda: len(rig.values) >= rows, "some rows", max_rows=37)  # noqa: B023
            snapshots = rig.snapshot()
            rig.close()
        ids += [row.id for row in rig.values]
    assert sorted(ids) == list(range(1000))


def test_a_source_can_be_restored_before_its_splits_are_known(server: str, database: psycopg.Connection[Any]) -> None:
    make_items(database, 10)
    source = PostgresSource.for_table(server, "items")
    enumerator = source.create_enumerator(1, None)
    state = None if enumerator.next_split(0) is NoSplit.LATER else enumerator.snapshot()
    wait_until(lambda: enumerator.discover() or enumerator.discovery_delay_ms() is None, 5, "the plan")
    enumerator.close()
    again = source.create_enumerator(1, state)
    wait_until(lambda: again.discover() or again.discovery_delay_ms() is None, 5, "the plan")
    assert not isinstance(again.next_split(0), NoSplit)
    assert again.next_split(0) is NoSplit.NEVER
    again.close()


def test_columns_conditions_and_other_keys(server: str, database: psycopg.Connection[Any]) -> None:
    make_items(database, 100)
    database.execute('CREATE SCHEMA "My Shop"')
    database.execute('CREATE TABLE "My Shop"."Things" ("Key" bigint UNIQUE NOT NULL, "100%" text)')
    database.execute("INSERT INTO \"My Shop\".\"Things\" VALUES (-5, 'a'), (70000000000, 'b%')")
    source = PostgresSource.for_table(server, "items", columns=["name"], where="id % 40 = 0 AND name LIKE 'n%'")
    assert [row.name for row in SourceRig(source).run_to_end().values] == ["n0", "n40", "n80"]
    things = PostgresSource.for_table(server, "My Shop.Things", split_column="Key", splits=7)
    assert SourceRig(things).run_to_end().values == [
        Row(**{"Key": -5, "100%": "a"}),
        Row(**{"Key": 7 * 10**10, "100%": "b%"}),
    ]


@pytest.mark.parametrize("key", [True, False])
def test_an_empty_table_ends_at_once(key: bool, server: str, database: psycopg.Connection[Any]) -> None:
    make_items(database, 0, key)
    assert SourceRig(PostgresSource.for_table(server, "items"), 2).run_to_end().values == []


def test_values_of_every_type(server: str, database: psycopg.Connection[Any]) -> None:
    database.execute("CREATE TYPE mood AS ENUM ('fine')")
    database.execute(
        "CREATE TABLE t (a int2, b int8, c float4, d bool, e numeric, f date, g time, h timestamp, i timestamptz, "
        "j bytea, k varchar(5), l jsonb, m uuid, n int[], o mood, p timestamptz[], q mood[])"
    )
    database.execute(
        "INSERT INTO t VALUES (1, 2, 0.5, true, 1.25, '2020-01-02', '03:04:05.678901', '2020-01-02 03:04:05.000006', "
        "'1969-12-31 23:59:59.5Z', '\\x00ff', 'k', '{\"x\": 1}', '00000000-0000-0000-0000-00000000000a', "
        "'{1,NULL}', 'fine', '{1970-01-01 00:00:01Z}', '{fine}')"
    )
    database.execute("INSERT INTO t DEFAULT VALUES")
    source = PostgresSource.for_table(server, "t")
    rows = SourceRig(source).run_to_end().values
    assert list(rows[0]) == [
        1,
        2,
        0.5,
        True,
        Decimal("1.25"),
        datetime.date(2020, 1, 2),
        datetime.time(3, 4, 5, 679000),
        datetime.datetime(2020, 1, 2, 3, 4, 5, 6),
        Instant(-1, 500_000_000),
        b"\x00\xff",
        "k",
        '{"x": 1}',
        "00000000-0000-0000-0000-00000000000a",
        [1, None],
        "fine",
        [Instant(1, 0)],
        ["fine"],
    ]
    assert list(rows[1]) == [None] * 17
    # the rows fit their type's columns
    assert RecordBatch.of_values(rows, type_info=source.produced_type()).arrow().num_rows == 2


def test_what_cannot_be_read_is_refused(server: str, database: psycopg.Connection[Any]) -> None:
    make_items(database, 1)
    database.execute("CREATE VIEW v AS SELECT * FROM items")
    for options, message in (
        ({"table": "none"}, "no table 'none'"),
        ({"table": "items", "columns": ["id", "x"]}, "no column 'x'"),
        ({"table": "items", "split_column": "name"}, "must hold whole numbers, be unique"),
        ({"table": "v"}, "not a plain table"),
        ({"url": "postgresql://127.0.0.1:1/x", "table": "items"}, "PostgreSQL: "),
    ):
        with pytest.raises(SourceError, match=message):
            PostgresSource.for_table(**{"url": server, **options})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="number of splits"):
        PostgresSource.for_table(server, "items", splits=0)


def test_a_table_that_has_gone_fails_the_source(server: str, database: psycopg.Connection[Any]) -> None:
    make_items(database, 1)
    source = PostgresSource.for_table(server, "items")
    database.execute("DROP TABLE items")
    rig = SourceRig(source)
    with pytest.raises(SourceError, match="PostgreSQL: there is no table 'items'"):
        rig.run_until(lambda: False, "the error")
    rig.close()


# --- sink -------------------------------------------------------------------------------------------------------------


def item(i: int, name: str | None = None, kind: RowKind = RowKind.INSERT) -> Row:
    return Row.of_kind(kind, id=i, name=name, price=None)


def test_rows_are_appended(server: str, database: psycopg.Connection[Any]) -> None:
    make_items(database, 0)
    rig = SinkRig(PostgresSink(server, "items"), ITEM)
    names = ["", None, 'q"uote', "line\nend, ü \\", "\\N", "NULL"]
    rig.write(*[Row(id=i, name=name, price=i / 3) for i, name in enumerate(names)])
    rig.operator.snapshot_state()
    assert items(database) == [(i, name, i / 3) for i, name in enumerate(names)]
    rig.write(Row(id=9, name="last", price=float("inf")))
    rig.finish()
    assert items(database)[-1] == (9, "last", float("inf"))


def test_rows_of_every_type_are_written(server: str, database: psycopg.Connection[Any]) -> None:
    database.execute("CREATE TABLE t (a bytea, b int[], c timestamp, d numeric, e bool)")
    row_type = Types.ROW_NAMED(
        ["a", "b", "c", "d", "e"],
        [
            Types.PRIMITIVE_ARRAY(Types.BYTE()),
            Types.LIST(Types.INT()),
            Types.SQL_TIMESTAMP(),
            Types.BIG_DEC(),
            Types.BOOLEAN(),
        ],
    )
    row = Row(a=b"\x00\\", b=[1, None], c=datetime.datetime(2020, 1, 2, 3, 4, 5, 6), d=Decimal("1.5"), e=False)
    rig = SinkRig(PostgresSink(server, "t"), row_type)
    rig.write(row, Row(a=None, b=None, c=None, d=None, e=None))
    rig.finish()
    assert database.execute("SELECT * FROM t WHERE a IS NOT NULL").fetchall() == [tuple(row)]


def test_rows_replace_those_of_their_key(server: str, database: psycopg.Connection[Any]) -> None:
    make_items(database, 3)
    rig = SinkRig(PostgresSink(server, "items", key_columns=["id"]), ITEM)
    rig.write(item(1, "old"), item(7, "new"), item(1, "newer"))
    rig.operator.snapshot_state()
    assert items(database) == [(0, "n0", 0.0), (1, "newer", None), (2, "n2", 0.5), (7, "new", None)]
    # what a restart writes again changes nothing
    rig.write(item(1, "old"), item(7, "new"), item(1, "newer"))
    rig.finish()
    assert items(database) == [(0, "n0", 0.0), (1, "newer", None), (2, "n2", 0.5), (7, "new", None)]


def test_a_changelog_is_applied_in_order(server: str, database: psycopg.Connection[Any]) -> None:
    make_items(database, 2)
    rig = SinkRig(PostgresSink(server, "items", key_columns=["id"]), ITEM)
    rig.write(
        item(0, "n0", RowKind.UPDATE_BEFORE),
        item(0, "changed", RowKind.UPDATE_AFTER),
        item(1, "n1", RowKind.DELETE),
        item(5, "five"),
        item(5, "five", RowKind.DELETE),
        item(6, "six", RowKind.DELETE),
        item(6, "six again"),
    )
    rig.finish()
    assert items(database) == [(0, "changed", None), (6, "six again", None)]


def test_an_update_whose_new_row_was_dropped_deletes_the_old_one(
    server: str, database: psycopg.Connection[Any]
) -> None:
    """Totals below 100: 50 is written, and then the total is 120."""
    database.execute("CREATE TABLE totals (name text PRIMARY KEY, total bigint)")
    env = environment()
    amounts = Types.ROW_NAMED(["name", "amount"], [Types.STRING(), Types.LONG()])
    rows = [Row(name=name, amount=amount) for name, amount in (("a", 50), ("b", 10), ("a", 70), ("b", 20))]
    totals = env.from_collection(rows, amounts).key_by_columns("name").aggregate_columns(total="sum(amount)")
    totals.where("total < 100").sink_to(PostgresSink(server, "totals", key_columns=["name"]))
    record_run("mini-cluster")
    env.execute()
    assert database.execute("SELECT name, total FROM totals").fetchall() == [("b", 30)]


def test_an_update_may_be_cut_between_batches_and_between_transactions(
    server: str, database: psycopg.Connection[Any]
) -> None:
    make_items(database, 1)
    rig = SinkRig(PostgresSink(server, "items", key_columns=["id"]), ITEM)
    rig.write(item(0, "n0", RowKind.UPDATE_BEFORE))
    rig.write(item(0, "changed", RowKind.UPDATE_AFTER))
    rig.operator.snapshot_state()
    assert items(database) == [(0, "changed", None)]
    rig.write(item(0, "changed", RowKind.UPDATE_BEFORE))
    rig.operator.snapshot_state()
    assert items(database) == []
    rig.write(item(0, "again", RowKind.UPDATE_AFTER))
    rig.finish()
    assert items(database) == [(0, "again", None)]


def test_a_restart_between_the_rows_of_an_update_changes_nothing_in_the_end(
    server: str, database: psycopg.Connection[Any]
) -> None:
    make_items(database, 1)
    changes = [
        item(0, "n0", RowKind.UPDATE_BEFORE),
        item(0, "changed", RowKind.UPDATE_AFTER),
        item(7, "seven"),
        item(7, "seven", RowKind.UPDATE_BEFORE),
    ]
    for written in range(1, 5):
        rig = SinkRig(PostgresSink(server, "items", key_columns=["id"]), ITEM)
        rig.write(*changes[:written])
        rig.operator.snapshot_state()
        rig.operator.close()
    rig = SinkRig(PostgresSink(server, "items", key_columns=["id"]), ITEM)
    rig.write(*changes)
    rig.finish()
    assert items(database) == [(0, "changed", None)]


def test_an_update_in_one_batch_deletes_nothing(server: str, database: psycopg.Connection[Any]) -> None:
    make_items(database, 1)
    database.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'a row is deleted'; END$$"
    )
    database.execute("CREATE TRIGGER refused BEFORE DELETE ON items FOR EACH ROW EXECUTE FUNCTION refuse()")
    rig = SinkRig(PostgresSink(server, "items", key_columns=["id"]), ITEM)
    rig.write(item(0, "n0", RowKind.UPDATE_BEFORE), item(0, "changed", RowKind.UPDATE_AFTER))
    rig.finish()
    assert items(database) == [(0, "changed", None)]


def test_a_unique_value_may_go_from_a_key_to_another(server: str, database: psycopg.Connection[Any]) -> None:
    make_items(database, 1)
    database.execute("ALTER TABLE items ADD UNIQUE (name)")
    rig = SinkRig(PostgresSink(server, "items", key_columns=["id"]), ITEM)
    rig.write(item(5, "n0"), item(0, "n0", RowKind.UPDATE_BEFORE))
    rig.finish()
    assert items(database) == [(5, "n0", None)]


def test_rows_that_are_no_csv_are_deleted_too(server: str, database: psycopg.Connection[Any]) -> None:
    database.execute("CREATE TABLE lists (id int PRIMARY KEY, b int[])")
    row_type = Types.ROW_NAMED(["id", "b"], [Types.INT(), Types.LIST(Types.INT())])
    rig = SinkRig(PostgresSink(server, "lists", key_columns=["id"]), row_type)
    rig.write(Row(id=1, b=[1]), Row(id=2, b=[2, None]))
    rig.operator.snapshot_state()
    rig.write(Row.of_kind(RowKind.UPDATE_BEFORE, id=1, b=[1]), Row(id=3, b=None))
    rig.finish()
    assert database.execute("SELECT id, b FROM lists ORDER BY id").fetchall() == [(2, [2, None]), (3, None)]


def in_columns(*rows: Row) -> RecordBatch:
    return RecordBatch.of_arrow(RecordBatch.of_values(list(rows), type_info=ITEM).arrow(), ITEM)


@pytest.mark.parametrize("seed", range(5))
def test_the_table_is_what_the_changelog_amounts_to_wherever_it_is_cut(
    seed: int, server: str, database: psycopg.Connection[Any]
) -> None:
    make_items(database, 0)
    draw = random.Random(seed)
    rig = SinkRig(PostgresSink(server, "items", key_columns=["id"]), ITEM)
    held: dict[int, str] = {}
    batch: list[Row] = []
    for number in range(400):
        key, name = draw.randrange(12), f"n{number}"
        if key in held:
            batch.append(item(key, held.pop(key), draw.choice([RowKind.UPDATE_BEFORE, RowKind.DELETE])))
            if draw.random() < 0.3:
                batch.append(item(key, name, RowKind.UPDATE_AFTER))
                held[key] = name
        else:
            batch.append(item(key, name))
            held[key] = name
        if draw.random() < 0.2:
            has_inserts_only = all(row.get_row_kind() is RowKind.INSERT for row in batch)
            made = in_columns(*batch) if has_inserts_only else RecordBatch.of_values(batch, type_info=ITEM)
            rig.operator.process_batch(made)
            batch = []
        if draw.random() < 0.02:
            rig.operator.snapshot_state()
    rig.write(*batch)
    rig.finish()
    assert items(database) == [(key, name, None) for key, name in sorted(held.items())]


def test_a_table_of_keys_only(server: str, database: psycopg.Connection[Any]) -> None:
    database.execute("CREATE TABLE pairs (a int, b text, PRIMARY KEY (a, b))")
    rig = SinkRig(
        PostgresSink(server, "pairs", key_columns=["b", "a"]),
        Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]),
    )
    rig.write(Row(a=1, b="x"), Row(a=1, b="x"), Row(a=2, b="x"), Row.of_kind(RowKind.DELETE, a=2, b="x"))
    rig.finish()
    assert database.execute("SELECT * FROM pairs").fetchall() == [(1, "x")]


def test_a_broken_connection_is_made_again(server: str, database: psycopg.Connection[Any]) -> None:
    make_items(database, 0)
    rig = SinkRig(PostgresSink(server, "items", key_columns=["id"], retry_interval_ms=1), ITEM)
    for i in range(3):
        rig.write(item(i))
        rig.operator.snapshot_state()
        database.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    rig.finish()
    assert [row[0] for row in items(database)] == [0, 1, 2]


def test_what_the_table_does_not_take_fails_the_sink(server: str, database: psycopg.Connection[Any]) -> None:
    make_items(database, 1)
    rig = SinkRig(PostgresSink(server, "items"), ITEM)
    rig.write(item(5), item(0))
    with pytest.raises(SinkError, match="PostgreSQL table items: duplicate key"):
        rig.operator.finish()
    rig.operator.close()
    assert len(items(database)) == 1
    rig = SinkRig(PostgresSink(server, "items"), ITEM)
    with pytest.raises(SinkError, match="needs key_columns"):
        rig.write(item(7, kind=RowKind.DELETE))
    rig.operator.close()
    with pytest.raises(SinkError, match="rows of a known type"):
        SinkRig(PostgresSink(server, "items"), None)
    with pytest.raises(SinkError, match="no field 'key'"):
        SinkRig(PostgresSink(server, "items", key_columns=["key"]), ITEM)
    with pytest.raises(ValueError, match="must not be negative"):
        PostgresSink(server, "items", max_retries=-1)


def test_a_server_that_keeps_no_prepared_transactions_is_refused(
    server: str, database: psycopg.Connection[Any]
) -> None:
    make_items(database, 0)
    sink = PostgresSink(server, "items", delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE)
    with pytest.raises(SinkError, match="keeps 0 prepared transactions, and 1 subtasks need 3 "):
        SinkRig(sink, ITEM)


def test_a_server_that_is_not_there_fails_the_sink() -> None:
    rig = SinkRig(PostgresSink("postgresql://127.0.0.1:1/x", "items", max_retries=1, retry_interval_ms=1), ITEM)
    rig.write(item(1))
    with pytest.raises(SinkError, match="PostgreSQL table items: "):
        rig.operator.finish()
    rig.operator.close()


# --- lookup -----------------------------------------------------------------------------------------------------------


def look_up(lookup: PostgresLookup, keys: list[Any]) -> list[Any]:
    """Results of a job that looks up each key."""
    env = environment()
    stream = AsyncDataStream.unordered_wait(env.from_collection(keys), lookup, Time.seconds(20), 50)
    record_run("mini-cluster")
    with stream.execute_and_collect() as records:
        return list(records)


def test_records_are_joined_with_the_rows_of_their_key(server: str, database: psycopg.Connection[Any]) -> None:
    make_items(database, 100)
    database.execute("INSERT INTO items SELECT id + 1000, name, price FROM items WHERE id = 7")
    found = look_up(
        PostgresLookup(server, "items", ["id"], int, join=pair_of, batch_keys=7), [3, 99, 3, 500, None or 0]
    )
    assert sorted(found) == [(0, "n0"), (3, "n3"), (3, "n3"), (99, "n99")]
    by_name = PostgresLookup(server, "items", ["name"], str, join=pair_of, columns=["id", "name"])
    assert by_name.row_type == Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
    assert sorted(look_up(by_name, ["n7", "n8"])) == [("n7", "n7"), ("n7", "n7"), ("n8", "n8")]


def pair_of(value: Any, row: Row | None) -> Any:
    return value, None if row is None else row.name


def key_pair(value: Any) -> Any:
    return value


def test_keys_of_several_columns_and_records_without_a_row(server: str, database: psycopg.Connection[Any]) -> None:
    make_items(database, 10)
    lookup = PostgresLookup(server, "items", ["id", "name"], key_pair, join=pair_of, is_left=True)
    keys = [(1, "n1"), (1, "n2"), (2, None)]
    assert sorted(look_up(pickle.loads(pickle.dumps(lookup)), keys), key=repr) == [
        ((1, "n1"), "n1"),
        ((1, "n2"), None),
        ((2, None), None),
    ]


def test_what_is_no_lookup_is_refused(server: str, database: psycopg.Connection[Any]) -> None:
    make_items(database, 1)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"key_columns": []}, "at least one key column"),
        ({"key_columns": ["id"], "columns": ["name"], "row_type": ITEM}, "leave out one of the two"),
        ({"key_columns": ["id"], "batch_keys": 0}, "batch_keys must be at least 1"),
    ]
    for options, reason in wrong:
        with pytest.raises(ValueError, match=reason):
            PostgresLookup(server, "items", key=int, **options)
    with pytest.raises(ValueError, match="no column 'x'"):
        _ = PostgresLookup(server, "items", ["id"], int, columns=["x"]).row_type
    for options, reason in (
        ({"key_columns": ["x"]}, "table items: table 'items' has no column 'x'"),
        ({"key_columns": ["id"], "row_type": TEXTS}, "'price' of table 'items' is declared Long, but"),
    ):
        with pytest.raises(JobExecutionError, match=reason):
            look_up(PostgresLookup(server, "items", key=int, **options), [1])


# --- declared types ---------------------------------------------------------------------------------------------------

WIDE = Types.ROW_NAMED(["price", "id"], [Types.DOUBLE(), Types.LONG()])
TEXTS = Types.ROW_NAMED(["id", "price"], [Types.STRING(), Types.LONG()])
NOWHERE = "postgresql://127.0.0.1:1/nowhere"


def test_nothing_connects_while_a_program_with_declared_types_is_built() -> None:
    env = environment()
    source = PostgresSource.for_table(NOWHERE, "items", row_type=ITEM, split_column="id")
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "items")
    assert rows.get_type() == ITEM
    lookup = PostgresLookup(NOWHERE, "items", ["id"], id_of, row_type=ITEM)
    assert lookup.row_type == ITEM
    looked_up = AsyncDataStream.unordered_wait(rows, lookup, Time.seconds(20), 50)
    looked_up.sink_to(PostgresSink(NOWHERE, "items", key_columns=["id"]))
    assert len(env.create_job_graph("job").vertices) == 1
    with pytest.raises(SourceError, match="PostgreSQL: "):
        PostgresSource.for_table(NOWHERE, "items")


def id_of(row: Row) -> int:
    return int(row["id"])


@pytest.mark.parametrize("key", [True, False], ids=["by key", "by page"])
def test_a_declared_table_is_read_as_declared(key: bool, server: str, database: psycopg.Connection[Any]) -> None:
    make_items(database, 200, key)
    source = PostgresSource.for_table(server, "items", row_type=WIDE, splits=3, where="id < 150")
    rig = SourceRig(pickle.loads(pickle.dumps(source)), 2).run_to_end(max_rows=64)
    assert sorted(rig.values, key=id_of) == [Row(price=i / 4, id=i) for i in range(150)]


def test_every_column_may_be_declared_as_text(server: str, database: psycopg.Connection[Any]) -> None:
    database.execute("CREATE TABLE things (a int, b timestamptz, c int[], d uuid, e time)")
    database.execute(
        "INSERT INTO things VALUES (1, '2024-02-29 12:00Z', '{1,2}', "
        "'00000000-0000-0000-0000-000000000001', '12:30:00.123456')"
    )
    database.execute(f"ALTER DATABASE {database.info.dbname} SET timezone TO 'UTC'")
    source = PostgresSource.for_table(server, "things", row_type=Types.ROW_NAMED([*"abcde"], [Types.STRING()] * 5))
    [row] = SourceRig(source).run_to_end().values
    assert list(row) == [
        "1",
        "2024-02-29 12:00:00+00",
        "{1,2}",
        "00000000-0000-0000-0000-000000000001",
        "12:30:00.123456",
    ]


@pytest.mark.parametrize(
    ("name", "declared", "reason"),
    [
        ("id", Types.SHORT(), r"column 'id' of table 'items' is declared Short, but its values are Integer \(int4\)"),
        ("price", Types.LONG(), r"column 'price' of table 'items' is declared Long, but its values are Double"),
        ("name", Types.LONG(), r"column 'name' of table 'items' is declared Long, but its values are String"),
        ("size", Types.LONG(), r"table 'items' has no column 'size'"),
    ],
)
def test_a_declaration_that_the_table_does_not_fit_fails_the_job(
    name: str, declared: Any, reason: str, server: str, database: psycopg.Connection[Any]
) -> None:
    make_items(database, 10)
    source = PostgresSource.for_table(server, "items", row_type=Types.ROW_NAMED([name], [declared]))
    with pytest.raises(SourceError, match=reason):
        SourceRig(source).run_to_end()


def test_a_row_type_stands_for_the_columns(server: str) -> None:
    with pytest.raises(ValueError, match="leave out one of the two"):
        PostgresSource.for_table(server, "items", columns=["id"], row_type=ITEM)


def test_positions_of_earlier_versions_are_understood(server: str, database: psycopg.Connection[Any]) -> None:
    make_items(database, 100)
    source = PostgresSource.for_table(server, "items", row_type=ITEM)
    split = source.split_from_json([10, 20])
    assert source.split_to_json(split) == [10, 20, "id"]


def test_a_lookup_of_declared_columns_gives_them_as_declared(server: str, database: psycopg.Connection[Any]) -> None:
    make_items(database, 10)
    declared = Types.ROW_NAMED(["price", "id"], [Types.STRING(), Types.LONG()])
    lookup = PostgresLookup(server, "items", ["id"], int, row_type=declared)
    assert look_up(lookup, [6]) == [(6, Row(price="1.5", id=6))]


def test_a_server_that_is_not_there_fails_the_lookup_of_a_record() -> None:
    with pytest.raises(JobExecutionError, match="PostgreSQL table items: "):
        look_up(PostgresLookup(NOWHERE, "items", ["id"], int), [1])


# --- all together -----------------------------------------------------------------------------------------------------


def test_a_job_from_table_to_table(server: str, database: psycopg.Connection[Any]) -> None:
    make_items(database, 500)
    database.execute("CREATE TABLE copies (LIKE items INCLUDING ALL)")
    env = environment(parallelism=2)
    source = PostgresSource.for_table(server, "items", splits=5)
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "items")
    rows.sink_to(PostgresSink(server, "copies", key_columns=["id"]))
    record_run("mini-cluster")
    env.execute()
    assert database.execute("SELECT id, name, price FROM copies ORDER BY id").fetchall() == items(database)


def test_rows_are_looked_up_by_columns(server: str, database: psycopg.Connection[Any]) -> None:
    make_items(database, 5)
    env = environment(2)
    orders = Types.ROW_NAMED(["name", "item"], [Types.STRING(), Types.LONG()])
    rows = [Row(name="a", item=1), Row(name="b", item=3), Row(name="c", item=9), Row(name="d", item=None)]
    for is_left in (False, True):
        lookup = PostgresLookup.by_columns(server, "items", orders, {"item": "id"}, ITEM, suffix="_i", is_left=is_left)
        assert lookup.output_type == Types.ROW_NAMED(
            ["name", "item", "id", "name_i", "price"],
            [Types.STRING(), Types.LONG(), Types.INT(), Types.STRING(), Types.DOUBLE()],
        )
        stream = env.from_collection(rows, orders)
        joined = AsyncDataStream.ordered_wait(stream, lookup, Time.seconds(10), 5, lookup.output_type)
        record_run("mini-cluster")
        with joined.where("item IS NULL OR item > 0").execute_and_collect() as found:
            got = sorted(found, key=lambda row: row.name)
        expected = [("a", 1, 1, "n1", 0.25), ("b", 3, 3, "n3", 0.75)]
        if is_left:
            expected += [("c", 9, None, None, None), ("d", None, None, None, None)]  # type: ignore[list-item]
        assert [tuple(row) for row in got] == expected


def test_lookups_by_columns_that_cannot_be_are_refused_without_a_server() -> None:
    orders = Types.ROW_NAMED(["id", "name", "id_right"], [Types.LONG(), Types.STRING(), Types.LONG()])
    with pytest.raises(ValueError, match="no column 'nope'"):
        PostgresLookup.by_columns(NOWHERE, "items", orders, {"nope": "id"}, ITEM)
    with pytest.raises(ValueError, match="'id_right' already: choose another suffix"):
        PostgresLookup.by_columns(NOWHERE, "items", orders, {"id": "id"}, ITEM)
    with pytest.raises(ValueError, match="at least one key column"):
        PostgresLookup.by_columns(NOWHERE, "items", orders, {}, ITEM, suffix="_x")


@pytest.mark.parametrize("total", [1, 4])
def test_a_pipeline_updates_a_table_by_running_totals_at_any_parallelism(
    total: int, server: str, database: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute("CREATE TABLE totals (id bigint PRIMARY KEY, total bigint)")
    draw = random.Random(7)
    amounts = [(draw.randrange(30), draw.randrange(10)) for _ in range(2_000)]
    rows = [[key, "pen", cents, 0] for key, cents in amounts]
    expected: dict[int, int] = {}
    for key, cents in amounts:
        expected[key] = expected.get(key, 0) + cents
    limit = sorted(expected.values())[15]
    made = node("aggregate", "Total", keys=["id"], aggregates=[["total", "sum(cents)"]]) | {"parallelism": total}
    low = node("filter", "Low", condition=f"total < {limit}")
    table = node("sink.postgres", "T", connection="pg", table="totals", mode={"kind": "upsert", "keys": ["id"]})
    value = chain(orders(rows=rows), made, low, table, settings={"parallelism": 4})
    env = environment_of(executed(compile_pipeline(read_document(value), load_catalog([]))))
    env.get_configuration().set_string("execution.target", "mini-cluster")
    monkeypatch.setenv("TIDEMARK_SECRET_PG_URL", server)
    record_run("mini-cluster")
    env.execute("totals")
    found = database.execute("SELECT id, total FROM totals ORDER BY id").fetchall()
    assert found == [(key, amount) for key, amount in sorted(expected.items()) if amount < limit]


# --- secrets ----------------------------------------------------------------------------------------------------------

SHOP = SecretRef("shop", "url")


def test_the_address_of_source_lookup_and_sink_may_be_a_secret(
    server: str, database: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_items(database, 10)
    database.execute("CREATE TABLE copies (id int, name text, price float8)")
    env = environment()
    source = PostgresSource.for_table(SHOP, "items", row_type=ITEM)
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "items")
    lookup = PostgresLookup(SHOP, "items", ["id"], lambda row: row.id, lambda row, found: found, row_type=ITEM)
    looked_up = AsyncDataStream.unordered_wait(rows, lookup, Time.seconds(10), 5, ITEM)
    looked_up.sink_to(PostgresSink(SHOP, "copies"))
    monkeypatch.setenv("TIDEMARK_SECRET_SHOP_URL", server)
    record_run("mini-cluster")
    env.execute("copy")
    assert database.execute("SELECT * FROM copies ORDER BY id").fetchall() == items(database)


def test_a_table_behind_a_secret_needs_a_declared_type() -> None:
    with pytest.raises(
        ValueError, match=r"declare the row_type of 'items': .* no value for SecretRef\('shop', 'url'\)"
    ):
        PostgresSource.for_table(SHOP, "items")
    with pytest.raises(ValueError, match="declare the row_type of 'items'"):
        _ = PostgresLookup(SHOP, "items", ["id"], int).row_type


@pytest.mark.parametrize("value", ["canary", "postgresql://u:ca/nary@db", "postgresql://u:canary%zz@h/d"])
def test_a_value_that_is_no_connection_string_is_not_shown(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_SECRET_SHOP_URL", value)
    env = environment(options={"restart-strategy.type": "none"})
    rows = env.from_collection([(1, "a", 1.0)], ITEM)
    rows.sink_to(PostgresSink(SHOP, "items", max_retries=0))
    record_run("mini-cluster")
    with pytest.raises(JobExecutionError, match=r"SecretRef\('shop', 'url'\) is not a connection string") as caught:
        env.execute("nowhere")
    assert "nary" not in str(caught.value)
