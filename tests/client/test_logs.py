"""The last lines of a job's logs, and what follows them."""

from __future__ import annotations

import io
from collections.abc import Callable

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
