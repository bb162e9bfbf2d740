"""Senders of events without the cluster's seal: named once a minute, and never more than the log can bear."""

from __future__ import annotations

import json

from backend.cluster.strangers import MAX_SENDERS, OTHERS, REPEAT_MS, Strangers


def gone(name: str) -> str:
    return json.dumps({"type": "gone", "taskmanager": name})


def test_a_sender_is_named_once_a_minute() -> None:
    strangers = Strangers()
    assert strangers.name(gone("a"), 1_000) == "TaskManager a"
    assert strangers.name(gone("a"), 1_000 + REPEAT_MS - 1) is None
    assert strangers.name(gone("b"), 1_000 + REPEAT_MS - 1) == "TaskManager b"
    assert strangers.name(gone("a"), 1_000 + REPEAT_MS) == "TaskManager a"


def test_a_clock_that_was_set_back_silences_nobody() -> None:
    strangers = Strangers()
    strangers.name(gone("a"), 10 * REPEAT_MS)
    assert strangers.name(gone("a"), 0) == "TaskManager a"


def test_ever_new_names_do_not_fill_the_log() -> None:
    strangers = Strangers()
    named = [strangers.name(gone(str(number)), 0) for number in range(1_000)]
    assert len([name for name in named if name is not None]) == MAX_SENDERS + 1
    assert OTHERS in named


def test_what_a_sender_writes_stays_in_its_line() -> None:
    assert Strangers().name(gone("a\nERROR: all is lost"), 0) == "TaskManager 'a\\nERROR: all is lost'"
    assert Strangers().name("no JSON", 0) == "an unknown process"
    assert Strangers().name(json.dumps({"type": "job_submitted"}), 0) == "a web process"
