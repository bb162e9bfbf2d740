"""The last lines of a job's logs, and what follows them."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from runtime.client import logs
from runtime.client.logs import LogChoice, LogFollower
from runtime.client.rest import RestClient
from runtime.client.terminal import Terminal
from tests.client.fake_cluster import JOB_ID, FakeCluster, document

Tidemark = Callable[..., int]
Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize("chunk", [4, 1 << 18])
@pytest.mark.parametrize(
    ("text", "n", "lines"),
    [
        ("one\ntwo\nthree\n", 2, ["two", "three"]),
        ("one\ntwo\nthr", 2, ["two", "thr"]),
        ("one\n\n\n", 2, ["", ""]),
        ("one", 5, ["one"]),
        ("one\n", 0, []),
        ("", 3, []),
        ("früh\nspät\n", 1, ["spät"]),
    ],
)
def test_tail_shows_the_last_lines_however_the_file_is_read(
    tidemark: Tidemark,
    cluster: FakeCluster,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
    chunk: int,
    text: str,
    n: int,
    lines: list[str],
) -> None:
    monkeypatch.setattr(logs, "CHUNK_BYTES", chunk)
    cluster.logs = {"attempt-0/slot-0.out": text}
    assert tidemark("logs", JOB_ID, "--tail", str(n)) == 0
    assert capsys.readouterr().out.splitlines() == lines


def test_tail_goes_on_into_what_was_rotated_away_and_counts_for_each_slot(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured
) -> None:
    cluster.logs = {
        "attempt-0/slot-0.out": "three\n",
        "attempt-0/slot-0.out.1": "one\ntwo\n",
        "attempt-0/slot-1.out": "a\nb\nc\n",
    }
    assert tidemark("logs", JOB_ID, "-n", "2") == 0
    assert capsys.readouterr().out.splitlines() == [
        "slot-0.out.1 | two",
        "slot-0.out | three",
        "slot-1.out | b",
        "slot-1.out | c",
    ]


def test_the_tail_of_a_log_whose_begin_is_deleted_is_what_is_left(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured
) -> None:
    cluster.logs, cluster.deleted_bytes = {"attempt-0/slot-0.out": "one\ntwo\n"}, 100
    assert tidemark("logs", JOB_ID, "-n", "5") == 0
    assert capsys.readouterr().out.splitlines() == ["one", "two"]


def test_following_goes_on_from_the_tail(cluster: FakeCluster) -> None:
    cluster.logs = {"attempt-0/slot-0.out": "one\ntwo\nthr"}
    out = io.StringIO()
    follower = LogFollower(RestClient(cluster.server), JOB_ID, LogChoice(), Terminal(out, out))
    follower.print_tail(2)
    cluster.logs = {"attempt-0/slot-0.out": "one\ntwo\nthree\nfour\n"}
    follower.print_new()
    assert out.getvalue() == "two\nthree\nfour\n"


def test_tail_can_be_followed_until_the_job_ends(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.logs = {"attempt-0/slot-0.out": "one\ntwo\nthree"}
    cluster.documents = [document(), document("FINISHED")]
    assert tidemark("logs", "-f", "--tail", "2", JOB_ID) == 0
    assert capsys.readouterr().out.splitlines() == ["two", "three"]


# --- all logs by time -------------------------------------------------------------------------------------------------

VERTEX = "cd" * 16


def entry(text: str, **fields: object) -> dict[str, object]:
    at = {"time": 1_782_900_000_123, "level": "WARN", "slot": 1, "kind": "log", "vertex": "", "subtask": None}
    return at | {"text": text} | fields


def found(*entries: dict[str, object], **fields: object) -> dict[str, object]:
    return {
        "entries": list(entries),
        "cursor": "next",
        "follow": "follow",
        "is_complete": True,
        "logs": 2,
        "left_out": 0,
    } | fields


def test_all_logs_are_searched_to_their_end_and_shown_by_time(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured
) -> None:
    cluster.job_logs = [
        found(entry("demo - slow\nTraceback", vertex=VERTEX, subtask=0), is_complete=False, cursor="c1"),
        found(is_complete=False, cursor="c2"),
        found(entry("hello", level="", kind="out", time=None)),
    ]
    options = ("--level", "INFO", "--search", "o w", "--vertex", "Source: num", "--attempt", "2", "--slot", "1")
    assert tidemark("logs", JOB_ID, *options) == 0
    first, more, last = capsys.readouterr().out.splitlines()
    assert first.endswith(",123 WARN  Source: numbers -> Sink: print #0 | demo - slow")
    assert (more, last) == ("    Traceback", f"{'-' * 23}       slot-1.out | hello")
    wanted = {"level": "INFO", "q": "o w", "vertex": VERTEX, "attempt": "2", "slot": "1", "order": "oldest"}
    assert all(query.items() >= wanted.items() for query in cluster.log_queries)
    assert [query.get("cursor") for query in cluster.log_queries] == [None, "c1", "c2"]


def test_the_last_entries_are_followed_until_the_job_ends(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured
) -> None:
    cluster.documents = [document(), document(), document("FINISHED")]
    cluster.job_logs = [
        found(entry("c"), entry("b"), cursor="older"),
        found(entry("a"), entry("0"), cursor=None),
        found(entry("d"), cursor="f2"),
        found(cursor="f2"),
    ]
    assert tidemark("logs", "-f", "--tail", "3", "--by-time", JOB_ID) == 0
    assert [line[-1] for line in capsys.readouterr().out.splitlines()] == ["a", "b", "c", "d"]
    assert [query.get("cursor") for query in cluster.log_queries] == [None, "older", "follow", "f2"]


def test_logs_that_are_left_out_are_told_once(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.job_logs = [found(entry("a"), is_complete=False, left_out=600), found(entry("b"), left_out=600)]
    assert tidemark("logs", "--by-time", JOB_ID) == 0
    assert capsys.readouterr().err == "tidemark: 600 logs are left out; --attempt or --slot shows them\n"


def with_operators() -> dict[str, Any]:
    told = document()
    operators = [{"uid": "u1", "name": "parse"}, {"uid": "u2", "name": "parse"}, {"uid": "u3", "name": "sink"}]
    return told | {"vertices": [told["vertices"][0] | {"operators": operators}]}


def test_what_an_operator_or_a_process_has_logged_is_chosen(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured
) -> None:
    cluster.documents = [with_operators()]
    process = entry("a command was refused", slot=None, kind="taskmanager", name="taskmanager/host:1")
    cluster.job_logs = [found(process), found(entry("written", vertex=VERTEX, subtask=1))]
    assert tidemark("logs", JOB_ID, "--kind", "taskmanager") == 0
    assert capsys.readouterr().out.endswith(" WARN  taskmanager/host:1 | a command was refused\n")
    assert tidemark("logs", JOB_ID, "--operator", "sink") == 0
    assert capsys.readouterr().out.endswith(" #1 | written\n")
    first, second = cluster.log_queries
    assert (first["kind"], "operator" in first, second["operator"]) == ("taskmanager", False, "u3")


@pytest.mark.parametrize(
    ("given", "why"), [("parse", "several operators are named 'parse'"), ("nobody", "no operator is named 'nobody'")]
)
def test_an_operator_that_is_not_one_is_told(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured, given: str, why: str
) -> None:
    cluster.documents = [with_operators()]
    assert tidemark("logs", JOB_ID, "--operator", given) == 1
    assert why in capsys.readouterr().err


def test_a_vertex_that_the_job_lacks_is_told(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    assert tidemark("logs", JOB_ID, "--vertex", "nobody") == 1
    assert "--vertex nobody matches none" in capsys.readouterr().err
