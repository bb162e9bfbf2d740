"""Pinned metrics: which series are of one, how many are kept of a job, and the numbers that are sampled of them."""

from __future__ import annotations

from typing import Any

import pytest

from backend.cluster.models import Job
from backend.cluster.pinned_metrics import MAX_PINNED, Pin, pin, pin_of_series, pinned_row, pins_of
from runtime.core.ids import SlotId, TaskId, operator_id_of
from runtime.jobmaster.status import TaskSnapshot
from runtime.task.messages import TaskState
from tests.dispatcher import rows

VERTICES: list[dict[str, Any]] = [
    {"id": rows.SOURCE, "operators": [{"name": "parse", "uid": "uid-2"}]},
    {"id": rows.SINK, "operators": []},
]


def task(index: int, metrics: dict[str, Any]) -> TaskSnapshot:
    return TaskSnapshot(TaskId(rows.SOURCE, index), "source", SlotId(index), TaskState.RUNNING, metrics)


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        (f"p.{rows.SOURCE}.numRecordsIn.least", "numRecordsIn"),
        (f"p.{rows.SOURCE}.parse.moon.tides.average", "parse.moon.tides"),
        (f"p.{rows.SOURCE}.least.greatest", "least"),
        (f"p.{rows.SOURCE}.numRecordsIn.median", None),
        (f"p.{rows.SOURCE}.least", None),
        (f"v.{rows.SOURCE}.busy", None),
        ("p.x.numRecordsIn.least", None),
        (f"p.{rows.SOURCE}.a b.least", None),
        (f"p.{rows.SOURCE}.{'x' * 201}.least", None),
    ],
)
def test_a_series_names_vertex_metric_and_statistic(name: str, metric: str | None) -> None:
    assert pin_of_series(name) == (None if metric is None else Pin(rows.SOURCE, metric))


def test_the_least_the_average_and_the_greatest_of_the_subtasks_are_sampled() -> None:
    tides = f"{operator_id_of('uid-2')}.tides"
    tasks = [task(0, {tides: 4, "busy": 1.0}), task(1, {tides: 8.0}), task(2, {tides: "high"}), task(3, {tides: True})]
    pins = [Pin(rows.SOURCE, "parse.tides"), Pin(rows.SOURCE, "moon"), Pin("c" * 32, "busy")]
    row = pinned_row(pins, VERTICES, tasks)
    assert [row[f"p.{rows.SOURCE}.parse.tides.{each}"] for each in ("least", "average", "greatest")] == [4.0, 6.0, 8.0]
    # always of the same series, also while nobody tells it
    assert row[f"p.{rows.SOURCE}.moon.least"] is None and row[f"p.{'c' * 32}.busy.average"] is None
    assert len(row) == 9


def test_numbers_that_are_no_measurements_are_left_out() -> None:
    tasks = [task(index, {"x": value}) for index, value in enumerate((float("nan"), float("inf"), 1e300, 3))]
    row = pinned_row([Pin(rows.SOURCE, "x")], VERTICES, tasks)
    assert set(row.values()) == {3.0}


def test_only_so_many_are_kept_of_a_job_the_newest(db: None) -> None:
    job = rows.running_job()
    pin(job.id, [Pin(rows.SOURCE, f"m{number}") for number in range(MAX_PINNED)])
    pin(job.id, [Pin(rows.SOURCE, "m1"), Pin(rows.SOURCE, "one more"), Pin(rows.SOURCE, "one more")])
    pinned = pins_of([job.id])[job.id]
    assert len(pinned) == MAX_PINNED
    assert (pinned[0].metric, pinned[-1].metric) == ("m1", "one more")


def test_nothing_is_pinned_of_a_job_that_has_ended(db: None) -> None:
    job = rows.ended_job("FINISHED")
    pin(job.id, [Pin(rows.SOURCE, "m")])
    pin("f" * 32, [Pin(rows.SOURCE, "m")])
    assert Job.objects.get().pinned_metrics == []
