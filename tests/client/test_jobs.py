"""Jobs are found by what users type, and shown in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.client.jobs import (
    FailureNews,
    JobNotFoundError,
    absolute_location,
    bytes_text,
    cause_text,
    count_text,
    duration_text,
    failure_text,
    progress_text,
    resolve_job,
    slots_of,
    stall_lines,
    time_text,
)
from tests.client.fake_cluster import document, overview

JOBS = [
    overview("aa" + "0" * 30, "old and new", "FINISHED"),
    overview("ab" + "0" * 30, "old and new", "RUNNING"),
    overview("cd" + "0" * 30, "twice", "FINISHED"),
    overview("ce" + "0" * 30, "twice", "CANCELED"),
    overview("ef" + "0" * 30, "cd", "RUNNING"),
]


@pytest.mark.parametrize(
    ("typed", "jid"),
    [("ce", "ce"), ("CE", "ce"), ("aa" + "0" * 30, "aa"), ("old and new", "ab"), ("cd", "ef"), ("cd0", "cd")],
)
def test_a_job_is_found_by_id_prefix_and_name(typed: str, jid: str) -> None:
    assert resolve_job(typed, JOBS)["jid"].startswith(jid)


@pytest.mark.parametrize(("typed", "message"), [("a", "2 jobs"), ("twice", "2 jobs"), ("zz", "no job"), ("", "no job")])
def test_what_means_no_job_or_several_is_refused(typed: str, message: str) -> None:
    with pytest.raises(JobNotFoundError, match=message):
        resolve_job(typed, JOBS)


def test_a_slot_that_hosts_several_tasks_is_listed_once() -> None:
    live = document()
    live["vertices"] *= 2
    assert [slot["slot"] for slot in slots_of(live)] == [0]


def test_progress_says_what_a_job_waits_for_and_how_often_it_was_restarted() -> None:
    assert progress_text(document("CREATED", waiting_for="needs 4 slots")) == "CREATED: needs 4 slots"
    assert progress_text(document("SUSPENDED", waiting_for="no JobManager leads")) == "SUSPENDED: no JobManager leads"
    assert progress_text(document(restarts=2)).endswith("2 restarts")
    assert progress_text(document("FINISHED", waiting_for="no JobManager leads")).startswith("FINISHED")


FAILURE = {"timestamp": 7, "name": "ValueError", "message": "bad\n record", "task_name": "map (1/2)", "attempt": 1}


def test_a_restarting_job_says_why_how_often_and_when_it_goes_on() -> None:
    waits = document("RESTARTING", failure=FAILURE, restarts=1, next_attempt_at=9_000, now=1_000)
    assert cause_text(waits) == "attempt 1 failed: map (1/2): bad record; 1 restart, next attempt in 8 s"
    assert progress_text(waits).endswith("1 restart   next attempt in 8 s")
    delayed = waits | {"waiting_for": "the delay of its restart strategy"}
    assert progress_text(delayed) == "RESTARTING: the delay of its restart strategy, 1 restart, next attempt in 8 s"
    lacks_slots = document("RESTARTING", failure=FAILURE, restarts=1, next_attempt_at=-1, waiting_for="needs 2 slots")
    assert progress_text(lacks_slots) == "RESTARTING: needs 2 slots, 1 restart"
    assert cause_text(document()) == ""


def test_a_failure_is_news_once() -> None:
    news = FailureNews()
    again = document("RESTARTING", failure=FAILURE | {"timestamp": 8, "attempt": 2}, restarts=2)
    told = [news.text(d) for d in (document(), document("RESTARTING", failure=FAILURE), document(failure=FAILURE))]
    assert told == ["", "attempt 1 failed: map (1/2): bad record; 0 restarts", ""]
    assert news.text(again).startswith("attempt 2 failed")
    assert FailureNews().text(document("FAILED", failure=FAILURE)) == ""


def test_a_call_that_does_not_return_is_told_with_its_lines() -> None:
    stall = {
        "task_name": "map (1/2)",
        "slot": 0,
        "since": 1_000,
        "stack": '  File "job.py", line 3, in ask\n    get(url)',
    }
    assert stall_lines(document(stalls=[stall], now=10_500)) == [
        "map (1/2): user code has not returned for 9 s",
        '    File "job.py", line 3, in ask',
        "    get(url)",
        "A job restarts for such a call only if task.stall.timeout is set.",
    ]
    [own, *_] = stall_lines(document(stalls=[stall | {"in_user_code": False}], now=10_500))
    assert own == "map (1/2): the runtime has not returned for 9 s"
    assert stall_lines(document()) == []


def test_numbers_read_well() -> None:
    assert [count_text(n) for n in (None, 0, 1234567.4)] == ["–", "0", "1,234,567"]
    assert [bytes_text(n) for n in (None, 12, 1536, 1 << 50)] == ["–", "12 B", "1.5 KiB", "1048576.0 GiB"]
    assert [duration_text(ms) for ms in (-5, 65_000, 3_723_000)] == ["00:00", "01:05", "1:02:03"]


def test_a_record_in_a_message_does_not_control_the_terminal() -> None:
    bad = FAILURE | {"message": "no number: \x1b[2J\x07\n\tthe record"}
    shown = document("RESTARTING", failure=bad, restarts=1), document("FAILED", exceptions=[bad])
    assert cause_text(shown[0]) == "attempt 1 failed: map (1/2): no number:  [2J  the record; 1 restart"
    assert failure_text(shown[1]) == "map (1/2): no number:  [2J\n        the record"


def test_a_failure_without_a_cause_is_told_so() -> None:
    assert failure_text(document("FAILED")) == "the cause is not known"


def test_an_error_of_user_code_names_its_place_once() -> None:
    message = "operator 'parse' (subtask 1/2) failed on record 7: KeyError: 'dep'"
    failure = {"timestamp": 1, "message": message, "task_name": "parse -> print (1/2)"}
    of_user = failure | {"name": "runtime.operators.errors.UserFunctionError"}
    assert failure_text(document("FAILED", exceptions=[of_user])) == message
    other = failure | {"name": "KeyError"}
    assert failure_text(document("FAILED", exceptions=[other])) == f"parse -> print (1/2): {message}"


def test_a_failure_keeps_the_lines_of_its_report() -> None:
    report = "state of operators that the job lacks:\n  dropped  count (uid count)\n  new      sum: starts empty\n"
    failure = {"timestamp": 1, "message": report, "task_name": ""}
    assert failure_text(document("FAILED", exceptions=[failure])) == report.rstrip()


def test_paths_are_meant_from_where_the_user_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_location("savepoints/../sp") == str(tmp_path / "sp")
    for same in (None, "", "/sp", "s3://bucket/sp", "file:/sp"):
        assert absolute_location(same) == same


@pytest.mark.parametrize(
    "ms", [1_700_000_000_000_000, 1_700_000_000_000_000_000, -70_000_000_000_000, -(1 << 63), 1e300]
)
def test_what_is_no_date_is_told_as_a_number(ms: float) -> None:
    assert time_text(ms) == f"{ms:.0f} ms"
    assert len(time_text(1_700_000_000_000)) == len("2023-11-14 22:13:20")
