from __future__ import annotations

from backend.cluster.state_history import MAX_CHANGES, STATES, StateRecord
from backend.cluster.wall_dates import WallDates
from runtime.core.ids import Attempt
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.status import MAX_STATE_CHANGES, StateHistory


def test_every_change_is_noted_once_also_two_of_one_state_between_two_looks() -> None:
    history, record = StateHistory(), StateRecord(None, WallDates(1_000.0))
    history.add(JobState.RUNNING, Attempt(0), 10.0)
    record.note(history.changes())
    for at in (20.0, 40.0):
        history.add(JobState.RESTARTING, Attempt(0), at, "broke")
        history.add(JobState.RUNNING, Attempt(1), at + 10)
    record.note(history.changes())
    record.note(history.changes())
    assert [(c["state"], c["begin"]) for c in record.document()] == [
        ("RUNNING", 1_010),
        ("RESTARTING", 1_020),
        ("RUNNING", 1_030),
        ("RESTARTING", 1_040),
        ("RUNNING", 1_050),
    ]
    assert record.document()[1]["cause"] == "broke"


def test_changes_have_the_dates_of_their_leader_also_later_on() -> None:
    history, dates = StateHistory(), WallDates(15_000.0, 5_000.0)
    record = StateRecord({STATES: [{"state": "SUSPENDED", "attempt": 0, "begin": 900, "cause": ""}]}, dates)
    history.add(JobState.RUNNING, Attempt(1), 5_000.0)
    record.note(history.changes())
    assert [c["begin"] for c in record.document()] == [900, 15_000]
    history.add(JobState.RESTARTING, Attempt(1), 6_000.0)
    dates.look(8_000.0, 6_000.0)
    record.note(history.changes())
    assert [c["begin"] for c in record.document()] == [900, 7_000, 8_000], "the clock was set back"


def test_a_new_leader_goes_on_with_what_was_saved() -> None:
    history = StateHistory()
    history.add(JobState.RUNNING, Attempt(3), 5.0)
    saved = [{"state": "SUSPENDED", "attempt": 2, "begin": 900, "cause": ""}]
    record = StateRecord({STATES: saved}, WallDates(1_000.0))
    record.note(history.changes())
    assert [c["attempt"] for c in record.document()] == [2, 3]


def test_both_are_bounded() -> None:
    history, record = StateHistory(), StateRecord(None, WallDates())
    for number in range(3 * MAX_CHANGES):
        history.add(JobState.RUNNING, Attempt(number), float(number), "broke " * 2_000)
        record.note(history.changes())
    assert len(history.changes()) == MAX_STATE_CHANGES
    changes = record.document()
    # one more than is shown says that there were earlier ones
    assert (len(changes), changes[-1]["attempt"]) == (MAX_CHANGES + 1, 3 * MAX_CHANGES - 1)
    assert len(changes[0]["cause"]) == 300
    assert len(StateRecord({STATES: changes}, WallDates()).document()) == MAX_CHANGES + 1
