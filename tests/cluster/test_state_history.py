from __future__ import annotations

from backend.cluster.state_history import MAX_CHANGES, STATES, StateRecord
from runtime.core.ids import Attempt
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.status import MAX_STATE_CHANGES, StateHistory


def test_every_change_is_noted_once_also_two_of_one_state_between_two_looks() -> None:
    history, record = StateHistory(), StateRecord(None)
    history.add(JobState.RUNNING, Attempt(0), 10.0)
    record.note(history.changes(), 1_000.0)
    for at in (20.0, 40.0):
        history.add(JobState.RESTARTING, Attempt(0), at, "broke")
        history.add(JobState.RUNNING, Attempt(1), at + 10)
    record.note(history.changes(), 1_000.4)
    record.note(history.changes(), 1_000.4)
    assert [(c["state"], c["begin"]) for c in record.document()] == [
        ("RUNNING", 1_010),
        ("RESTARTING", 1_020),
        ("RUNNING", 1_030),
        ("RESTARTING", 1_040),
        ("RUNNING", 1_050),
    ]
    assert record.document()[1]["cause"] == "broke"


def test_a_clock_that_is_set_moves_all_changes_of_the_leader_alike() -> None:
    """Else a later change might come before an earlier one."""
    history = StateHistory()
    record = StateRecord({STATES: [{"state": "SUSPENDED", "attempt": 0, "begin": 900, "cause": ""}]})
    history.add(JobState.RUNNING, Attempt(1), 5_000.0)
    record.note(history.changes(), 10_000.0)
    assert [c["begin"] for c in record.document()] == [900, 15_000]
    history.add(JobState.RESTARTING, Attempt(1), 6_000.0)
    record.note(history.changes(), 2_000.0)
    assert [c["begin"] for c in record.document()] == [900, 7_000, 8_000]


def test_a_new_leader_goes_on_with_what_was_saved() -> None:
    history = StateHistory()
    history.add(JobState.RUNNING, Attempt(3), 5.0)
    saved = [{"state": "SUSPENDED", "attempt": 2, "begin": 900, "cause": ""}]
    record = StateRecord({STATES: saved})
    record.note(history.changes(), 1_000.0)
    assert [c["attempt"] for c in record.document()] == [2, 3]


def test_both_are_bounded() -> None:
    history, record = StateHistory(), StateRecord(None)
    for number in range(3 * MAX_CHANGES):
        history.add(JobState.RUNNING, Attempt(number), float(number), "broke " * 2_000)
        record.note(history.changes(), 0.0)
    assert len(history.changes()) == MAX_STATE_CHANGES
    changes = record.document()
    assert (len(changes), changes[-1]["attempt"], len(changes[0]["cause"])) == (MAX_CHANGES, 3 * MAX_CHANGES - 1, 300)
