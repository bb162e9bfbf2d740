"""PostgresSink exactly once, on a real server: whatever crashes, each row is there once and nothing stays prepared."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from runtime.common import Row, Types
from runtime.common.types import RowKind
from runtime.connectors.postgres_sink import PostgresSink
from runtime.datastream.connectors.base import DeliveryGuarantee
from runtime.operators.sink import SinkError
from runtime.operators.sink_operator import COMMITTABLES_STATE
from runtime.state.snapshot import OperatorSnapshot
from runtime.task.failures import describe_failure
from tests.connectors.crash_model import TYPE, SinkJob, random_steps
from tests.connectors.postgres_fixture import running_postgres
from tests.connectors.rigs import SinkRig
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_postgres(max_prepared_transactions=64) as url:
        yield url


@pytest.fixture
def database(server: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server, autocommit=True) as connection:
        # what a failed test has left prepared fails the next one, and does not hold it up
        connection.execute("SET lock_timeout = '10s'")
        connection.execute("DROP TABLE IF EXISTS numbers")
        connection.execute("CREATE TABLE numbers (id bigint)")
        yield connection
        assert prepared(connection) == []


def exactly_once(server: str, **options: Any) -> PostgresSink:
    return PostgresSink(
        server, "numbers", retry_interval_ms=20, delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE, **options
    )


def prepared(database: psycopg.Connection[Any]) -> list[str]:
    return [gid for (gid,) in database.execute("SELECT gid FROM pg_prepared_xacts").fetchall()]


def ids(database: psycopg.Connection[Any]) -> list[int]:
    return [i for (i,) in database.execute("SELECT id FROM numbers ORDER BY id").fetchall()]


def rows(*numbers: int) -> list[Row]:
    return [Row(id=number) for number in numbers]


CLAIM = {"execution.state-recovery.claim-mode": "CLAIM"}


def gid_of(snapshot: OperatorSnapshot) -> str:
    (item,) = snapshot.operator_states[COMMITTABLES_STATE].items
    return str(json.loads(item)["committable"]["gid"])


def kill(rig: SinkRig) -> None:
    """Simulate the end of the process: the server sees its connections close."""
    writer: Any = rig.operator._writer
    if writer is not None:
        writer._writer.close()
    for part in (rig.operator._committer, rig.operator._sweeper):
        if part is not None:
            part.close()


def end_sessions(database: psycopg.Connection[Any]) -> None:
    database.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")


# --- the life of rows -------------------------------------------------------------------------------------------------


def test_rows_appear_when_the_checkpoint_behind_them_is_complete(
    server: str, database: psycopg.Connection[Any]
) -> None:
    rig = SinkRig(exactly_once(server), TYPE)
    rig.write(*rows(0, 1))
    rig.write(*rows(2))
    rig.snapshot(1)
    rig.write(*rows(3))
    assert (ids(database), len(prepared(database))) == ([], 1)
    rig.snapshot(2)
    rig.complete(1)
    assert ids(database) == [0, 1, 2]
    rig.complete(2)
    assert (ids(database), prepared(database)) == ([0, 1, 2, 3], [])
    rig.write(*rows(4))
    rig.finish()
    assert ids(database) == [0, 1, 2, 3, 4]
    metrics = rig.metrics.snapshot()
    assert (metrics["successfulCommittables"], metrics["alreadyCommittedCommittables"]) == (3, 0)


@pytest.mark.parametrize("seed", range(6))
def test_every_row_is_there_once_whatever_crashes(seed: int, server: str, database: psycopg.Connection[Any]) -> None:
    job = SinkJob(exactly_once(server), kill)
    job.run(random_steps(seed, 20))
    assert ids(database) == list(range(40))


# --- F20: the five ways in which a commit goes wrong ------------------------------------------------------------------


def test_a_connection_that_breaks_before_the_snapshot_fails_it_and_leaves_nothing(
    server: str, database: psycopg.Connection[Any]
) -> None:
    rig = SinkRig(exactly_once(server), TYPE)
    rig.write(*rows(0))
    rig.operator._writer._writer.drain()
    end_sessions(database)
    with pytest.raises(SinkError, match="PostgreSQL table numbers: "):
        rig.snapshot(1)
    rig.operator.close()
    assert (ids(database), prepared(database)) == ([], [])


def test_what_was_prepared_for_a_checkpoint_that_never_completed_is_rolled_back(
    server: str, database: psycopg.Connection[Any]
) -> None:
    rig = SinkRig(exactly_once(server), TYPE)
    rig.write(*rows(0))
    held = rig.snapshot(1)
    rig.complete(1)
    rig.write(*rows(1))
    rig.snapshot(2)
    kill(rig)
    assert len(prepared(database)) == 1
    again = SinkRig(exactly_once(server), TYPE, snapshot=held, attempt=1)
    assert (ids(database), prepared(database)) == ([0], [])
    again.write(*rows(1))
    again.finish()
    assert ids(database) == [0, 1]


def test_what_a_completed_checkpoint_holds_is_committed_by_the_next_attempt(
    server: str, database: psycopg.Connection[Any]
) -> None:
    rig = SinkRig(exactly_once(server), TYPE)
    rig.write(*rows(0, 1))
    held = rig.snapshot(1)
    kill(rig)
    SinkRig(exactly_once(server), TYPE, snapshot=held, attempt=1).finish()
    assert ids(database) == [0, 1]


@pytest.mark.parametrize("keys", [None, ["id"]])
def test_rows_that_were_written_exactly_once_are_committed_by_a_sink_that_writes_at_least_once(
    keys: list[str] | None, server: str, database: psycopg.Connection[Any]
) -> None:
    database.execute("CREATE UNIQUE INDEX ON numbers (id)")
    rig = SinkRig(exactly_once(server), TYPE)
    rig.write(*rows(0, 1))
    held = rig.snapshot(1)
    rig.write(*rows(2))
    rig.snapshot(2)
    kill(rig)
    assert len(prepared(database)) == 2
    again = SinkRig(PostgresSink(server, "numbers", keys), TYPE, snapshot=held, attempt=1)
    assert (ids(database), prepared(database)) == ([0, 1], [])
    again.write(*rows(2))
    assert again.snapshot(3).operator_states[COMMITTABLES_STATE].items == []
    again.finish()
    assert ids(database) == [0, 1, 2]


def test_a_savepoint_whose_rows_the_job_has_committed_since_is_restored_without_a_double(
    server: str, database: psycopg.Connection[Any]
) -> None:
    rig = SinkRig(exactly_once(server), TYPE)
    rig.write(*rows(0, 1))
    savepoint = rig.snapshot(1, is_savepoint=True)
    rig.snapshot(2)
    rig.complete(2)
    kill(rig)
    again = SinkRig(exactly_once(server), TYPE, snapshot=savepoint, job_id="next")
    again.write(*rows(2))
    again.finish()
    assert (ids(database), prepared(database)) == ([0, 1, 2], [])


def test_a_snapshot_whose_rows_were_rolled_back_is_of_no_use_and_nothing_of_it_is_committed(
    server: str, database: psycopg.Connection[Any]
) -> None:
    rig = SinkRig(exactly_once(server), TYPE)
    rig.write(*rows(0))
    first = rig.snapshot(1)
    rig.write(*rows(1))
    savepoint = rig.snapshot(2, is_savepoint=True)
    kill(rig)
    # goes back behind the savepoint
    SinkRig(exactly_once(server), TYPE, snapshot=first, attempt=1).finish()
    assert ids(database) == [0]
    with pytest.raises(SinkError, match="was rolled back, by hand or by a job that went back behind") as caught:
        SinkRig(exactly_once(server), TYPE, snapshot=savepoint, job_id="next")
    assert describe_failure(caught.value).is_damaged_snapshot


def test_a_commit_that_was_applied_though_its_answer_was_lost_counts_once(
    server: str, database: psycopg.Connection[Any]
) -> None:
    rig = SinkRig(exactly_once(server), TYPE)
    rig.write(*rows(0))
    held = rig.snapshot(1)
    database.execute(f"COMMIT PREPARED '{gid_of(held)}'")
    rig.complete(1)
    assert rig.metrics.snapshot()["alreadyCommittedCommittables"] == 1
    kill(rig)
    restored = SinkRig(exactly_once(server), TYPE, snapshot=held, attempt=1)
    assert restored.metrics.snapshot()["alreadyCommittedCommittables"] == 1
    restored.finish()
    assert ids(database) == [0]


def test_committing_again_changes_nothing(server: str, database: psycopg.Connection[Any]) -> None:
    rig = SinkRig(exactly_once(server), TYPE)
    rig.write(*rows(0))
    held = rig.snapshot(1)
    for attempt in (1, 2):
        SinkRig(exactly_once(server), TYPE, snapshot=held, attempt=attempt).finish()
    rig.complete(1)
    kill(rig)
    assert ids(database) == [0]


# --- answers that are lost --------------------------------------------------------------------------------------------


class LosingConnection:
    """A connection that breaks at a statement: before the server has it, or behind it, so that the answer is lost."""

    def __init__(self, connection: psycopg.Connection[Any], statement: str, is_applied: bool) -> None:
        self._connection = connection
        self._statement = statement
        self._is_applied = is_applied

    def execute(self, query: Any, *parameters: Any) -> Any:
        text = query if isinstance(query, str) else query.as_string(self._connection)
        if not text.startswith(self._statement):
            return self._connection.execute(query, *parameters)
        if self._is_applied:
            self._connection.execute(query, *parameters)
        self._connection.close()
        raise psycopg.OperationalError("the connection is lost")

    def close(self) -> None:
        self._connection.close()


def test_a_prepare_of_which_the_answer_is_lost_is_looked_up(server: str, database: psycopg.Connection[Any]) -> None:
    rig = SinkRig(exactly_once(server), TYPE)
    rig.write(*rows(0))
    writer = rig.operator._writer
    writer._writer.drain()
    writer._connection = LosingConnection(writer._connection, "PREPARE", is_applied=True)
    rig.snapshot(1)
    rig.write(*rows(1))
    rig.snapshot(2)
    rig.complete(2)
    assert ids(database) == [0, 1]
    rig.operator.close()


def test_a_prepare_that_was_lost_itself_fails_the_snapshot(server: str, database: psycopg.Connection[Any]) -> None:
    rig = SinkRig(exactly_once(server), TYPE)
    rig.write(*rows(0))
    writer = rig.operator._writer
    writer._writer.drain()
    writer._connection = LosingConnection(writer._connection, "PREPARE", is_applied=False)
    with pytest.raises(SinkError, match="the connection is lost"):
        rig.snapshot(1)
    rig.operator.close()
    assert (ids(database), prepared(database)) == ([], [])


@pytest.mark.parametrize("is_applied", [True, False])
def test_a_commit_is_tried_again_on_another_connection(
    is_applied: bool, server: str, database: psycopg.Connection[Any]
) -> None:
    rig = SinkRig(exactly_once(server), TYPE)
    rig.write(*rows(0))
    rig.snapshot(1)
    connection = psycopg.connect(server, autocommit=True)
    rig.operator._committer._session._connection = LosingConnection(connection, "COMMIT", is_applied)
    rig.complete(1)
    metrics = rig.metrics.snapshot()
    assert (metrics["retriedCommittables"], metrics["alreadyCommittedCommittables"]) == (1, int(is_applied))
    assert ids(database) == [0]
    rig.operator.close()


def test_rows_that_somebody_has_rolled_back_are_not_taken_for_committed(
    server: str, database: psycopg.Connection[Any]
) -> None:
    rig = SinkRig(exactly_once(server), TYPE)
    rig.write(*rows(0))
    held = rig.snapshot(1)
    database.execute(f"ROLLBACK PREPARED '{gid_of(held)}'")
    with pytest.raises(SinkError, match=r"was rolled back, by hand or by a job that .*; its rows are lost"):
        rig.complete(1)
    rig.operator.close()
    with pytest.raises(SinkError, match="was rolled back"):
        SinkRig(exactly_once(server), TYPE, snapshot=held, attempt=1)


def test_a_connection_that_breaks_before_the_first_row_is_made_again(
    server: str, database: psycopg.Connection[Any]
) -> None:
    rig = SinkRig(exactly_once(server), TYPE)
    for number in range(3):
        rig.write(*rows(number))
        rig.snapshot(number)
        end_sessions(database)
        rig.complete(number)
    rig.operator.close()
    assert ids(database) == [0, 1, 2]


# --- what older attempts do -------------------------------------------------------------------------------------------


def test_a_frozen_process_loses_its_session_and_what_it_prepares_later(
    server: str, database: psycopg.Connection[Any]
) -> None:
    frozen = [SinkRig(exactly_once(server), TYPE, subtask, 2) for subtask in range(2)]
    frozen[0].write(*rows(100))
    frozen[0].operator._writer._writer.drain()
    rig = SinkRig(exactly_once(server), TYPE, attempt=1)
    with pytest.raises(SinkError):
        frozen[0].snapshot(1)
    # this one had no session yet
    frozen[1].write(*rows(101))
    frozen[1].snapshot(1)
    assert len(prepared(database)) == 1
    rig.write(*rows(0))
    rig.snapshot(1)
    rig.complete(1)
    assert (ids(database), prepared(database)) == ([0], [])
    for each in (*frozen, rig):
        each.operator.close()


def test_sessions_are_spared_by_other_sinks_and_jobs(server: str, database: psycopg.Connection[Any]) -> None:
    other = SinkRig(exactly_once(server), TYPE, job_id="other")
    other.write(*rows(7))
    other.operator._writer._writer.drain()
    SinkRig(exactly_once(server), TYPE, attempt=9).finish()
    other.snapshot(1)
    SinkRig(exactly_once(server), TYPE, attempt=9).finish()
    other.complete(1)
    other.operator.close()
    assert ids(database) == [7]


def test_a_unique_value_that_another_transaction_holds_fails_the_sink_in_time(
    server: str, database: psycopg.Connection[Any]
) -> None:
    database.execute("ALTER TABLE numbers ADD UNIQUE (id)")
    first, second = (SinkRig(exactly_once(server, lock_timeout_ms=50), TYPE, subtask, 2) for subtask in range(2))
    first.write(*rows(1))
    first.snapshot(1)
    second.write(*rows(1))
    with pytest.raises(SinkError, match="rows of one key must come to one subtask"):
        second.snapshot(1)
    second.operator.close()
    first.complete(1)
    first.operator.close()
    assert ids(database) == [1]


# --- what other jobs have left ----------------------------------------------------------------------------------------


def killed_job(server: str, database: psycopg.Connection[Any]) -> OperatorSnapshot:
    """A job that died with something prepared for its second checkpoint; its first one."""
    database.execute("ALTER TABLE numbers ADD UNIQUE (id)")
    old = SinkRig(exactly_once(server), TYPE, job_id="old")
    old.write(*rows(0))
    held = old.snapshot(1)
    old.write(*rows(1))
    old.snapshot(2)
    kill(old)
    return held


def test_a_job_that_claims_a_snapshot_ends_what_its_job_left(server: str, database: psycopg.Connection[Any]) -> None:
    held = killed_job(server, database)
    new = SinkRig(exactly_once(server), TYPE, snapshot=held, job_id="new", configuration=CLAIM)
    assert (ids(database), prepared(database)) == ([0], [])
    new.write(*rows(1))
    held = new.snapshot(1)
    new.complete(1)
    new.write(*rows(2))
    new.snapshot(2)
    kill(new)
    newest = SinkRig(exactly_once(server), TYPE, snapshot=held, job_id="newest", configuration=CLAIM)
    newest.write(*rows(2))
    newest.finish()
    assert ids(database) == [0, 1, 2]


def test_so_does_the_next_one_that_claims_it_if_that_job_came_to_no_checkpoint(
    server: str, database: psycopg.Connection[Any]
) -> None:
    held = killed_job(server, database)
    for job_id in ("second", "third"):
        rig = SinkRig(exactly_once(server), TYPE, snapshot=held, job_id=job_id, configuration=CLAIM)
        rig.write(*rows(1))
        rig.snapshot(1)
        kill(rig)
    assert len(prepared(database)) == 1
    last = SinkRig(exactly_once(server), TYPE, snapshot=held, job_id="last", configuration=CLAIM)
    last.write(*rows(1))
    last.finish()
    assert ids(database) == [0, 1]


def test_what_that_job_prepares_afterwards_is_rolled_back_at_the_end(
    server: str, database: psycopg.Connection[Any]
) -> None:
    held = killed_job(server, database)
    frozen = SinkRig(exactly_once(server), TYPE, snapshot=held, job_id="old", attempt=1)
    new = SinkRig(exactly_once(server), TYPE, snapshot=held, job_id="new", configuration=CLAIM)
    frozen.write(*rows(7))
    frozen.snapshot(3)
    kill(frozen)
    assert len(prepared(database)) == 1
    new.write(*rows(1))
    new.finish()
    assert (ids(database), prepared(database)) == ([0, 1], [])


def test_a_later_attempt_still_knows_whose_snapshot_the_job_has_claimed(
    server: str, database: psycopg.Connection[Any]
) -> None:
    held = killed_job(server, database)
    first = SinkRig(exactly_once(server), TYPE, snapshot=held, job_id="new", configuration=CLAIM)
    own = first.snapshot(1)
    first.complete(1)
    kill(first)
    second = SinkRig(exactly_once(server), TYPE, snapshot=own, attempt=1, job_id="new", configuration=CLAIM)
    # a process of the claimed job thaws when nothing of that job is left
    thawed = SinkRig(exactly_once(server), TYPE, snapshot=held, job_id="old", attempt=1)
    thawed.write(*rows(7))
    thawed.snapshot(3)
    kill(thawed)
    assert len(prepared(database)) == 1
    second.write(*rows(1))
    second.finish()
    assert (ids(database), prepared(database)) == ([0, 1], [])


def test_a_frozen_process_of_a_job_whose_snapshot_is_claimed_loses_its_session(
    server: str, database: psycopg.Connection[Any]
) -> None:
    held = killed_job(server, database)
    frozen = SinkRig(exactly_once(server), TYPE, snapshot=held, job_id="old", attempt=1)
    frozen.write(*rows(1))
    frozen.operator._writer._writer.drain()
    new = SinkRig(exactly_once(server), TYPE, snapshot=held, job_id="new", configuration=CLAIM)
    new.write(*rows(1))
    new.finish()
    with pytest.raises(SinkError):
        frozen.snapshot(2)
    frozen.operator.close()
    assert ids(database) == [0, 1]


def test_a_job_that_was_taken_for_dead_ends_nothing_of_its_successor(
    server: str, database: psycopg.Connection[Any]
) -> None:
    held = killed_job(server, database)
    old = SinkRig(exactly_once(server), TYPE, snapshot=held, job_id="old", attempt=1)
    new = SinkRig(exactly_once(server), TYPE, snapshot=held, job_id="new", configuration=CLAIM)
    new.write(*rows(1))
    new.snapshot(1)
    old.snapshot(3)
    old.complete(3)
    new.complete(1)
    assert ids(database) == [0, 1]
    for rig in (old, new):
        rig.operator.close()


def test_without_a_claim_another_jobs_transactions_are_left_alone_and_named(
    server: str, database: psycopg.Connection[Any]
) -> None:
    held = killed_job(server, database)
    [left] = [gid for gid in prepared(database) if gid != gid_of(held)]
    for attempt in (0, 1):
        new = SinkRig(exactly_once(server, lock_timeout_ms=50), TYPE, snapshot=held, job_id="new", attempt=attempt)
        new.write(*rows(1))
        with pytest.raises(SinkError, match=f"other jobs have prepared in this table: {left};.*claim-mode: CLAIM"):
            new.snapshot(1)
        new.operator.close()
    assert (ids(database), prepared(database)) == ([0], [left])
    database.execute(f"ROLLBACK PREPARED '{left}'")


# --- what is refused --------------------------------------------------------------------------------------------------


def test_too_few_prepared_transactions_are_refused_for_good(server: str, database: psycopg.Connection[Any]) -> None:
    with pytest.raises(SinkError, match="the server keeps 64 prepared transactions, and 22 subtasks need 66") as caught:
        SinkRig(exactly_once(server), TYPE, parallelism=22)
    assert describe_failure(caught.value).is_fatal


@pytest.mark.parametrize(
    ("option", "value", "fitting", "needed"),
    [
        ("max-concurrent-checkpoints", 3, 12, 65),
        ("tolerable-failed-checkpoints", 2, 12, 65),
        ("tolerable-failed-checkpoints", 1_000_000, 8, 72),
    ],
)
def test_checkpoints_that_are_under_way_or_may_fail_keep_transactions(
    option: str, value: int, fitting: int, needed: int, server: str, database: psycopg.Connection[Any]
) -> None:
    options = {f"execution.checkpointing.{option}": str(value)}
    SinkRig(exactly_once(server), TYPE, parallelism=fitting, configuration=options).finish()
    with pytest.raises(SinkError, match=f"{fitting + 1} subtasks need {needed}"):
        SinkRig(exactly_once(server), TYPE, parallelism=fitting + 1, configuration=options)


def test_a_server_that_keeps_no_more_than_that_has_room_for_them(
    server: str, database: psycopg.Connection[Any]
) -> None:
    options = {"execution.checkpointing.tolerable-failed-checkpoints": "5"}
    rigs = [SinkRig(exactly_once(server), TYPE, subtask, 8, configuration=options) for subtask in range(8)]
    # one that is complete and not committed yet, five that fail, a savepoint, and one that is under way
    for checkpoint in range(8):
        for subtask, rig in enumerate(rigs):
            rig.write(*rows(8 * checkpoint + subtask))
            rig.snapshot(checkpoint)
    assert len(prepared(database)) == 64
    for rig in rigs:
        rig.complete(7)
        rig.operator.close()
    assert ids(database) == list(range(64))


def test_rows_by_key_are_no_matter_of_transactions(server: str, database: psycopg.Connection[Any]) -> None:
    with pytest.raises(ValueError, match="writing them again changes nothing"):
        exactly_once(server, key_columns=["id"])
    rig = SinkRig(exactly_once(server), TYPE)
    with pytest.raises(SinkError, match="needs key_columns"):
        rig.write(Row.of_kind(RowKind.DELETE, id=1))
    rig.operator.close()


def test_what_was_finished_and_in_no_checkpoint_is_rolled_back_at_the_close(
    server: str, database: psycopg.Connection[Any]
) -> None:
    rig = SinkRig(exactly_once(server), TYPE)
    rig.write(*rows(1))
    rig.operator.finish()
    assert len(prepared(database)) == 1
    rig.operator.close()
    assert (ids(database), prepared(database)) == ([], [])


def test_the_thread_writes_while_the_task_goes_on(server: str, database: psycopg.Connection[Any]) -> None:
    row_type = Types.ROW_NAMED(["id"], [Types.LONG()])
    rig = SinkRig(exactly_once(server), row_type)
    for start in range(0, 50_000, 10_000):
        rig.write(*rows(*range(start, start + 10_000)))
    wait_until(rig.operator.is_available, 10, "the writer")
    rig.snapshot(1)
    rig.complete(1)
    rig.operator.close()
    assert database.execute("SELECT count(*), count(DISTINCT id) FROM numbers").fetchone() == (50_000, 50_000)
    wait_until(lambda: not any(t.name == "postgres-numbers" for t in threading.enumerate()), 10, "the thread's end")
