"""Storage of the subtasks' metrics and accumulators, and Flink's ids of them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from backend.cluster.task_metrics import (
    ACCUMULATORS,
    JOB_METRICS,
    accumulator_reports,
    accumulators_document,
    flink_metrics,
    metric_fields,
    metric_scopes,
    subtask_field,
)
from backend.dispatcher.shapes.accumulators import subtask_accumulators
from runtime.core.ids import SlotId, TaskId, VertexId, operator_id_of
from runtime.jobmaster.status import TaskSnapshot
from runtime.task.messages import TaskState

VERTEX = VertexId("v")
OPERATORS = [{"name": name, "uid": f"u{number}"} for number, name in enumerate(("Source: tides", "map.v2", "map v2"))]
SOURCE, FIRST, SECOND = (operator_id_of(f"u{number}") for number in range(3))


def task(index: int = 0, state: TaskState = TaskState.RUNNING, **metrics: Any) -> TaskSnapshot:
    return TaskSnapshot(TaskId(VERTEX, index), "map", SlotId(0), state, metrics)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("numRecordsIn", "numRecordsIn"),
        ("Shuffle.Netty.Input.Buffers.inPoolUsage", "Shuffle.Netty.Input.Buffers.inPoolUsage"),
        (f"{SOURCE}.numRecordsOut", "Source__tides.numRecordsOut"),
        (f"{FIRST}.my group.high, low", "map_v2.my_group.high__low"),
        (f"{SECOND}.alarms", "map_v2_2.alarms"),
        ("map.v3", "map.v3"),
    ],
)
def test_ids_have_no_character_that_separates_them(name: str, expected: str) -> None:
    assert flink_metrics({name: 1}, metric_scopes(OPERATORS)) == {expected: 1}


def test_every_subtask_has_a_field_without_what_belongs_elsewhere() -> None:
    own: dict[str, Any] = {
        "map.alarms": 2,
        "map.__accumulator__.IntCounter.sum.n": 5,
        "latency.operator_id.x.latency_p99": 7,
    }
    other: dict[str, Any] = {"map.alarms": 3, "broken": None}
    fields = metric_fields([task(0, **own), task(1, **other)])
    assert fields == {
        subtask_field(VERTEX, 0): {"map.alarms": 2},
        subtask_field(VERTEX, 1): {"map.alarms": 3},
        JOB_METRICS: {"latency.operator_id.x.latency_p99": 7},
        ACCUMULATORS: {VERTEX: {"0": [["n", "IntCounter", {"sum": 5}]]}},
    }
    [report] = accumulator_reports(fields[ACCUMULATORS], VERTEX)[0]
    assert (report.name, report.kind, report.value) == ("n", "IntCounter", 5)
    assert accumulator_reports(fields[ACCUMULATORS], "other") == {}


def test_a_task_that_has_ended_has_no_rates() -> None:
    ended = task(0, TaskState.FINISHED, numRecordsIn=20, numRecordsInPerSecond=5.0, lateRecordsDroppedRate=1.0)
    assert metric_fields([ended])[subtask_field(VERTEX, 0)] == {
        "numRecordsIn": 20,
        "numRecordsInPerSecond": 0.0,
        "lateRecordsDroppedRate": 0.0,
    }


def test_what_json_cannot_say_is_text() -> None:
    values = metric_fields([task(a=float("nan"), b=float("inf"), c=float("-inf"), d=True)])[subtask_field(VERTEX, 0)]
    assert values == {"a": "NaN", "b": "Infinity", "c": "-Infinity", "d": True}


def test_accumulators_are_json_whatever_was_added_and_are_read_as_the_numbers_that_they_were() -> None:
    group = f"{FIRST}.__accumulator__"
    metrics: dict[str, Any] = {f"{group}.AverageAccumulator.sum.mean": math.nan}
    metrics |= {f"{group}.AverageAccumulator.count.mean": 2}
    metrics |= {f"{group}.DoubleMinimum.minimum.least": -math.inf, f"{group}.IntMaximum.maximum.most": None}
    document = accumulators_document([task(0, **metrics)])
    json.dumps(document, allow_nan=False)
    mean, least, most = accumulator_reports(document, VERTEX)[0]
    assert mean.value is not None and math.isnan(mean.value)
    assert (least.value, most.value) == (-math.inf, None)
    [shown, _, nothing] = subtask_accumulators(document, {"id": VERTEX}, {"index": 0})
    assert (shown["value"], nothing["value"]) == ("NaN", "null")
