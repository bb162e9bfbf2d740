"""Events are decoded one by one; whatever is in them, the result is an event or a MalformedEventError."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from backend.cluster.events import (
    Heartbeat,
    MalformedEventError,
    PeekEnded,
    PeekWanted,
    RowsChanged,
    StageEnded,
    TaskManagerGone,
    decode_event,
)

REPORT = {
    "id": "host:1-abc",
    "worker_name": "w@host",
    "host": "host",
    "pid": 1,
    "slots": 2,
    "spark_master": "local[4,1]",
    "registered_at": 5,
    "hardware": {"cpu_cores": 2},
}
EVENTS: list[dict[str, Any]] = [
    {"type": "heartbeat", "taskmanager": REPORT, "stages": [["job", 0, 1]]},
    {"type": "stage_ended", "job": "job", "attempt": 1, "stage": 2, "error": "bad"},
    {"type": "gone", "taskmanager": "host:1-abc", "cause": "it was stopped"},
    {"type": "job_submitted", "job": "job"},
    {"type": "operation", "job": "job"},
    {"type": "peek", "job": "job", "peek": "p", "edge": 7, "subtasks": [0, 2], "rows": 20},
    {"type": "peek", "job": "job", "peek": "p", "edge": "f" * 32, "rows": 1},
    {"type": "peek_ended", "job": "job", "peek": "p"},
]


def test_well_formed_events_are_decoded() -> None:
    assert [decode_event(json.dumps(event)) for event in EVENTS] == [
        Heartbeat(REPORT, (("job", 0, 1),)),
        StageEnded("job", 1, 2, "bad"),
        TaskManagerGone("host:1-abc", "it was stopped"),
        RowsChanged(),
        RowsChanged(),
        PeekWanted("job", "p", 7, (0, 2), 20),
        PeekWanted("job", "p", "f" * 32, (), 1),
        PeekEnded("job", "p"),
    ]
    normal = decode_event(json.dumps(EVENTS[1] | {"error": None}))
    assert isinstance(normal, StageEnded) and normal.error is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("9" * 5_000, "not valid JSON"),
        ("[1]", "not a JSON object"),
        ('{"type": ["heartbeat"]}', "its type is"),
        ('{"type": "heartbeat", "taskmanager": {}, "stages": []}', "id is None"),
        (json.dumps(EVENTS[0] | {"stages": [["job", True, 0]]}), "attempt is True"),
        (json.dumps(EVENTS[0] | {"stages": [["job", 0]]}), "a stage is"),
        (json.dumps(EVENTS[0] | {"taskmanager": REPORT | {"slots": 2**40}}), "slots is"),
        (json.dumps(EVENTS[0] | {"taskmanager": REPORT | {"id": "x" * 256}}), "id has 256"),
        (json.dumps(EVENTS[0] | {"taskmanager": REPORT | {"hardware": {"cpu_cores": "two"}}}), "cpu_cores is"),
        (json.dumps(EVENTS[1] | {"error": 5}), "error is 5"),
        (json.dumps(EVENTS[5] | {"edge": None}), "edge is None"),
        (json.dumps(EVENTS[5] | {"rows": 21}), "rows is 21"),
        (json.dumps(EVENTS[5] | {"subtasks": [0] * 1_001}), "subtasks is"),
        (json.dumps(EVENTS[5] | {"subtasks": [True]}), "subtask is True"),
    ],
)
def test_malformed_events_are_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(MalformedEventError, match=reason):
        decode_event(text)


def test_characters_that_the_database_cannot_store_are_replaced() -> None:
    event = decode_event(json.dumps(EVENTS[2] | {"cause": "a\0b\ud83cc"}))
    assert event == TaskManagerGone("host:1-abc", "a\ufffdb\ufffdc")


def random_events(seed: int, count: int) -> list[str]:
    """Events with one thing or everything wrong."""
    chance = random.Random(seed)
    return [_random_event(chance) for _ in range(count)]


def _random_event(chance: random.Random) -> str:
    if chance.random() < 0.2:
        return "".join(
            chr(chance.choice((0, 34, 44, 91, 93, 123, 125, 0xFFFD, 97))) for _ in range(chance.randrange(30))
        )
    event: Any = json.loads(json.dumps(chance.choice(EVENTS)))
    for _ in range(chance.randrange(1, 3)):
        _spoil(event, chance)
    text = json.dumps(event)
    return text if chance.random() < 0.9 else text[: chance.randrange(len(text))]


def _spoil(value: Any, chance: random.Random) -> None:
    """Replace or drop one thing in a document, at any depth."""
    keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not keys:
        return
    key = chance.choice(keys)
    if isinstance(value[key], dict | list) and chance.random() < 0.7:
        _spoil(value[key], chance)
    elif chance.random() < 0.2:
        del value[key]
    else:
        value[key] = chance.choice(
            (None, True, -1, 0, 1.5, 2**31, 2**70, float("nan"), "", "\0", "\ud800", "x" * 300, [], {}, [[]], {"": 1})
        )


def test_random_events_are_decoded_or_refused() -> None:
    for text in random_events(7, 10_000):
        try:
            decode_event(text)
        except MalformedEventError:
            continue


def test_a_taskmanager_that_drains_says_when_its_jobs_have_to_leave() -> None:
    report = REPORT | {"evicts_in_ms": 20_000}
    assert decode_event(json.dumps(EVENTS[0] | {"taskmanager": report})) == Heartbeat(report, (("job", 0, 1),))
    with pytest.raises(MalformedEventError, match="evicts_in_ms is -1"):
        decode_event(json.dumps(EVENTS[0] | {"taskmanager": REPORT | {"evicts_in_ms": -1}}))
