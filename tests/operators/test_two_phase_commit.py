"""TwoPhaseCommitSink against a system with transactions in memory: each record is visible once, whatever crashes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Duration, Row
from runtime.core.batch import RecordBatch
from runtime.core.ids import operator_id_of
from runtime.operators.sink import SinkError, SinkSetupError, WriterContext
from runtime.operators.sink_operator import COMMITTABLES_STATE
from runtime.operators.two_phase_commit import TransactionId, TwoPhaseCommitFunction, TwoPhaseCommitSink
from runtime.task.failures import describe_failure
from tests.connectors.crash_model import STEPS, TYPE, SinkJob
from tests.connectors.rigs import SinkRig


@dataclass
class Ledger:
    """A system with transactions, which outlives the processes that use it."""

    unfinished: dict[str, list[Any]] = field(default_factory=dict)
    prepared: set[str] = field(default_factory=set)
    visible: dict[str, list[Any]] = field(default_factory=dict)
    #: calls that fail, each once: before they have done anything, or when all is done
    faults: list[tuple[str, str]] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    recovered: list[str] = field(default_factory=list)

    def call(self, name: str, when: str) -> None:
        if (name, when) in self.faults:
            self.faults.remove((name, when))
            raise ConnectionError(f"{when} {name}")

    @property
    def values(self) -> list[int]:
        return sorted(row.id for rows in self.visible.values() for row in rows)


#: by name, for functions travel to their slot as bytes
LEDGERS: dict[str, Ledger] = {}


class LedgerFunction(TwoPhaseCommitFunction[dict[str, Any]]):
    """A transaction is {"id"} and, once it is pre-committed, {"rows"}."""

    def __init__(self, ledger: str) -> None:
        self._name = ledger

    def open(self, context: WriterContext) -> None:
        self._ledger = LEDGERS[self._name]

    def begin(self, transaction_id: str) -> dict[str, Any]:
        self._ledger.unfinished[transaction_id] = []
        return {"id": transaction_id}

    def write(self, transaction: dict[str, Any], batch: RecordBatch) -> None:
        if transaction["id"] not in self._ledger.unfinished:
            raise ConnectionError("no such transaction")
        self._ledger.unfinished[transaction["id"]] += batch.values()

    def pre_commit(self, transaction: dict[str, Any]) -> None:
        self._ledger.call("pre_commit", "before")
        if transaction["id"] not in self._ledger.unfinished:
            raise ConnectionError("no such transaction")
        self._ledger.prepared.add(transaction["id"])
        transaction["rows"] = len(self._ledger.unfinished[transaction["id"]])
        self._ledger.call("pre_commit", "after")

    def commit(self, transaction: dict[str, Any]) -> None:
        ledger, transaction_id = self._ledger, transaction["id"]
        ledger.call("commit", "before")
        if transaction_id not in ledger.visible:
            assert transaction_id in ledger.prepared, "what is committed was pre-committed"
            ledger.visible[transaction_id] = ledger.unfinished.pop(transaction_id)
            assert len(ledger.visible[transaction_id]) == transaction["rows"]
        ledger.call("commit", "after")

    def recover_and_commit(self, transaction: dict[str, Any]) -> None:
        self._ledger.recovered.append(transaction["id"])
        self.commit(transaction)

    def abort(self, transaction: dict[str, Any]) -> None:
        self._ledger.unfinished.pop(transaction["id"], None)
        self._ledger.aborted.append(transaction["id"])

    def list_unfinished(self, prefix: str) -> Mapping[str, dict[str, Any]]:
        return {name: {"id": name} for name in self._ledger.unfinished if name.startswith(prefix)}


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    LEDGERS["test"] = Ledger()
    yield LEDGERS["test"]
    LEDGERS.clear()


SINK = TwoPhaseCommitSink(LedgerFunction("test"))


def let_die(rig: SinkRig) -> None:
    """The process is gone, and nothing of it could be cleaned up."""


# --- every order of events --------------------------------------------------------------------------------------------

FAULTS = st.sampled_from([(call, when) for call in ("pre_commit", "commit") for when in ("before", "after")])
STEP = st.tuples(st.sampled_from(STEPS), st.integers(0, 3))


@settings(max_examples=150, deadline=None)
@given(steps=st.lists(STEP, max_size=25), faults=st.lists(FAULTS, max_size=4))
def test_every_record_is_visible_once_whatever_crashes(
    steps: list[tuple[str, int]], faults: list[tuple[str, str]]
) -> None:
    ledger = LEDGERS["test"] = Ledger(faults=faults)
    SinkJob(SINK, let_die).run(steps)
    assert ledger.values == list(range(40))
    # a process that was never ended may do as it likes behind the last look at it, but nothing else is left
    assert not ledger.unfinished


# --- the five of them that matter, one by one -------------------------------------------------------------------------


def test_a_failed_pre_commit_leaves_nothing_and_is_repeated(ledger: Ledger) -> None:
    ledger.faults = [("pre_commit", "before")]
    SinkJob(SINK, let_die).run([("write", 3), ("checkpoint", 0)])
    assert (ledger.values, ledger.unfinished) == (list(range(40)), {})


def test_what_was_pre_committed_for_a_checkpoint_that_never_completed_is_aborted(ledger: Ledger) -> None:
    job = SinkJob(SINK, let_die)
    for step in ("write", "crash before the checkpoint is complete"):
        job.do(step, 0)
    assert (ledger.values, ledger.unfinished) == ([], {})
    job.run([])
    assert ledger.values == list(range(40))


def test_what_a_completed_checkpoint_holds_is_committed_by_the_next_attempt(ledger: Ledger) -> None:
    job = SinkJob(SINK, let_die)
    for step in ("write", "crash before the commit"):
        job.do(step, 0)
    assert (ledger.values, len(ledger.recovered)) == ([0], 1)
    job.run([])
    assert ledger.values == list(range(40))


def test_a_commit_that_was_applied_though_its_answer_was_lost_counts_once(ledger: Ledger) -> None:
    ledger.faults = [("commit", "after")]
    job = SinkJob(SINK, let_die)
    for step in ("write", "checkpoint"):
        job.do(step, 0)
    assert (ledger.values, len(ledger.recovered)) == ([0], 1)
    job.run([])
    assert ledger.values == list(range(40))


def test_committing_twice_changes_nothing(ledger: Ledger) -> None:
    SinkJob(SINK, let_die).run([("write", 3), ("commit again", 0), ("crash before the commit", 0), ("crash", 1)])
    assert (ledger.values, ledger.unfinished) == (list(range(40)), {})


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_transactions_of_an_aborted_checkpoint_enter_the_next_one(ledger: Ledger) -> None:
    rig = SinkRig(SINK, TYPE)
    rig.write(Row(id=0))
    rig.snapshot(1)
    rig.write(Row(id=1))
    held = [json.loads(item) for item in rig.snapshot(2).operator_states[COMMITTABLES_STATE].items]
    assert [item["checkpoint"] for item in held] == [1, 2]
    rig.write(Row(id=2))
    rig.snapshot(3)
    rig.complete(2)
    assert (ledger.values, len(rig.operator.pending_committables)) == ([0, 1], 1)
    metrics = rig.metrics.snapshot()
    assert (metrics["totalCommittables"], metrics["successfulCommittables"], metrics["pendingCommittables"]) == (
        3,
        2,
        1,
    )
    rig.operator.close()
    assert len(ledger.prepared - set(ledger.visible)) == 1, "a snapshot holds it, so closing does not abort it"


def test_without_checkpoints_everything_is_visible_at_the_end_or_not_at_all(ledger: Ledger) -> None:
    for commit in (False, True):
        rig = SinkRig(SINK, TYPE)
        rig.write(Row(id=0))
        rig.write(Row(id=1))
        rig.operator.finish()
        assert ledger.values == []
        if commit:
            rig.operator.commit_finished()
        rig.operator.close()
        assert ledger.unfinished == {}
    assert ledger.values == [0, 1]


def test_a_subtask_without_records_begins_nothing(ledger: Ledger) -> None:
    rig = SinkRig(SINK, TYPE)
    rig.write()
    assert rig.snapshot(1).operator_states[COMMITTABLES_STATE].items == []
    rig.finish()
    assert (ledger.visible, ledger.aborted) == ({}, [])


def test_a_later_attempt_aborts_what_this_sink_left_and_nothing_else(ledger: Ledger) -> None:
    operator = operator_id_of("test")
    strangers = [
        str(TransactionId("job", "0" * 32, "job", 0, 0, 1)),
        str(TransactionId("other", operator, "other", 0, 0, 1)),
        str(TransactionId("other", operator, "job", 0, 0, 1)),
        str(TransactionId("job", operator, "job", 5, 0, 1)),
        "somebody's",
    ]
    ledger.unfinished = {name: [] for name in (*strangers, str(TransactionId("job", operator, "job", 4, 9, 1)))}
    rig = SinkRig(SINK, TYPE, attempt=5)
    assert sorted(ledger.unfinished) == sorted(strangers)
    rig.operator.close()


def test_what_is_restored_is_committed_once_all_tasks_have_restored(ledger: Ledger) -> None:
    rig = SinkRig(SINK, TYPE)
    rig.write(Row(id=0))
    snapshot = rig.snapshot(1)
    mails: list[Callable[[], None]] = []
    restored = SinkRig(SINK, TYPE, snapshot=snapshot, attempt=1, mailbox=mails.append)
    assert ledger.values == []
    for mail in mails:
        mail()
    assert ledger.values == [0]
    restored.operator.close()


def test_a_savepoint_of_another_job_is_committed_and_its_job_left_alone(ledger: Ledger) -> None:
    old = SinkRig(SINK, TYPE)
    old.write(Row(id=0))
    snapshot = old.snapshot(1)
    old.write(Row(id=1))
    old.snapshot(2)
    new = SinkRig(SINK, TYPE, snapshot=snapshot, attempt=3, job_id="new")
    assert (ledger.values, len(ledger.unfinished)) == ([0], 1)
    new.operator.close()


def test_one_that_claims_it_takes_over_what_that_job_left(ledger: Ledger) -> None:
    old = SinkRig(SINK, TYPE, attempt=7)
    old.write(Row(id=0))
    snapshot = old.snapshot(1)
    old.write(Row(id=1))
    old.snapshot(2)
    claims = {"execution.state-recovery.claim-mode": "CLAIM"}
    new = SinkRig(SINK, TYPE, snapshot=snapshot, job_id="new", configuration=claims)
    assert (ledger.values, ledger.unfinished) == ([0], {})
    new.write(Row(id=1))
    snapshot = new.snapshot(1)
    # the next attempt goes on from a snapshot of its own, and is of the same origin still
    again = SinkRig(SINK, TYPE, snapshot=snapshot, job_id="new", attempt=1, configuration=claims)
    ledger.unfinished[str(TransactionId("job", operator_id_of("test"), "job", 9, 0, 1))] = []
    again.complete(1)
    assert ledger.unfinished == {}, "a later attempt knows as well whose snapshot the job has claimed"
    SinkRig(SINK, TYPE, snapshot=snapshot, job_id="new", attempt=2, configuration=claims).finish()
    assert (ledger.values, ledger.unfinished) == ([0, 1], {})
    for rig in (new, again):
        rig.operator.close()


def test_ids_are_texts_and_back() -> None:
    name = TransactionId("a" * 32, "b" * 32, "c" * 32, 10**6, 10**4, 10**9)
    assert TransactionId.parse(str(name)) == name
    assert len(str(name)) <= 160
    for text in ("", "tidemark-a-b-c-1-2", "tidemark-a-b-c-1-2-x", "other-a-b-c-1-2-3", "tidemark-a-b-c-1-2-3-4"):
        assert TransactionId.parse(text) is None


@pytest.mark.parametrize("interval", [None, "10 s"])
def test_a_timeout_that_downtime_may_exceed_is_refused_for_good(interval: str | None, ledger: Ledger) -> None:
    configuration = {} if interval is None else {"execution.checkpointing.interval": interval}
    too_short, enough = (Duration.of_millis(seconds * 1000 - 1 + fits) for seconds, fits in ((70, 0), (70, 1)))
    if interval is None:
        too_short, enough = Duration.of_millis(59_999), Duration.of_minutes(1)
    downtime = Duration.of_minutes(1)
    sink = TwoPhaseCommitSink(LedgerFunction("test"), too_short, downtime)
    with pytest.raises(SinkError, match="make transaction_timeout longer or allowed_downtime shorter") as caught:
        SinkRig(sink, TYPE, configuration=configuration)
    assert isinstance(caught.value.__cause__, SinkSetupError)
    assert describe_failure(caught.value).is_fatal
    for timeout in (None, enough):
        sink = TwoPhaseCommitSink(LedgerFunction("test"), timeout, downtime)
        SinkRig(sink, TYPE, configuration=configuration).finish()
