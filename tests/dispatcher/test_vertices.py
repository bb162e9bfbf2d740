"""/jobs/:jobid/vertices/:vertexid and what hangs on it."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from backend.cluster.models import Job
from backend.dispatcher.shapes.statistics import summary
from backend.dispatcher.shapes.vertices import MAX_WATERMARK, NO_WATERMARK, back_pressure, watermarks
from tests.dispatcher import rows


@pytest.fixture
def source(job: Job) -> str:
    return f"/v1/jobs/{job.id}/vertices/{rows.SOURCE}"


@pytest.fixture
def sink(job: Job) -> str:
    return f"/v1/jobs/{job.id}/vertices/{rows.SINK}"


def test_a_vertex_lists_its_subtasks_and_sums_them_up(api: APIClient, source: str) -> None:
    detail = api.get(source).json()
    assert [s["metrics"]["read-records"] for s in detail["subtasks"]] == [300, 100]
    assert detail["subtasks"][0]["taskmanager-id"] == rows.TASKMANAGER
    records = detail["aggregated"]["metrics"]["read-records"]
    assert (records["min"], records["max"], records["avg"], records["sum"]) == (100, 300, 200, 400)


def test_metrics_are_listed_then_read_as_texts(api: APIClient, source: str) -> None:
    ids = {entry["id"] for entry in api.get(f"{source}/metrics").json()}
    assert {"0.numRecordsIn", "1.busyTimeMsPerSecond", "0.currentOutputWatermark"} <= ids
    answer = api.get(f"{source}/metrics?get=0.numRecordsIn,1.numRecordsIn,7.numRecordsIn").json()
    assert answer == [{"id": "0.numRecordsIn", "value": "300"}, {"id": "1.numRecordsIn", "value": "100"}]


def test_all_metrics_can_be_asked_for_at_once(api: APIClient, source: str) -> None:
    ids = [entry["id"] for entry in api.get(f"{source}/metrics").json()]
    assert [entry["id"] for entry in api.get(f"{source}/metrics?get={','.join(ids)}").json()] == ids


def test_subtasks_are_aggregated_with_their_skew(api: APIClient, source: str) -> None:
    [figures] = api.get(f"{source}/subtasks/metrics?get=numRecordsIn").json()
    assert figures == {"id": "numRecordsIn", "min": 100.0, "max": 300.0, "avg": 200.0, "sum": 400.0, "skew": 50.0}
    [one] = api.get(f"{source}/subtasks/metrics?get=numRecordsIn&subtasks=1&agg=sum").json()
    assert one == {"id": "numRecordsIn", "sum": 100.0}
    assert api.get(f"{source}/subtasks/metrics?get=numRecordsIn&subtasks=0-x").status_code == 400
    assert api.get(f"{source}/subtasks/metrics?get=numRecordsIn&subtasks=0-999999999").status_code == 400


def test_one_subtask_and_its_attempt(api: APIClient, source: str) -> None:
    assert api.get(f"{source}/subtasks/1").json()["metrics"]["read-records"] == 100
    assert api.get(f"{source}/subtasks/1/attempts/0").status_code == 200
    assert api.get(f"{source}/subtasks/1/attempts/4").status_code == 404
    assert api.get(f"{source}/subtasks/9").status_code == 404
    assert api.get(f"{source}/subtasks/-1").status_code == 400
    assert api.get(f"{source}/subtasks/1/metrics?get=numRecordsIn").json()[0]["value"] == "100"


def test_sources_have_no_input_watermark(api: APIClient, source: str, sink: str) -> None:
    assert api.get(f"{source}/watermarks").json() == []
    ids = [entry["id"] for entry in api.get(f"{sink}/watermarks").json()]
    assert ids == ["0.currentInputWatermark", "1.currentInputWatermark"]


def test_watermarks_before_the_first_and_after_the_last_are_the_ends_of_a_long() -> None:
    subtasks = [{"index": i, "metrics": {"watermark": value}} for i, value in enumerate([None, "max", 17])]
    values = [entry["value"] for entry in watermarks({"inputs": [{}], "subtasks": subtasks})]
    assert values == [str(NO_WATERMARK), str(MAX_WATERMARK), "17"]


@pytest.mark.parametrize(("ms", "level"), [(0, "ok"), (100, "ok"), (101, "low"), (500, "low"), (501, "high")])
def test_back_pressure_levels(ms: int, level: str) -> None:
    metrics = {"back_pressured": ms, "idle": 0, "busy": 1000 - ms}
    answer = back_pressure({"subtasks": [{"index": 0, "attempt": 0, "metrics": metrics}]}, 1)
    assert (answer["backpressure-level"], answer["subtasks"][0]["ratio"]) == (level, ms / 1000)


def test_what_is_not_measured_is_not_a_number() -> None:
    answer = back_pressure({"subtasks": [{"index": 0, "attempt": 0, "metrics": {}}]}, 1)
    assert answer["subtasks"][0]["busyRatio"] == "NaN"


def test_subtasks_are_grouped_by_taskmanager(api: APIClient, source: str) -> None:
    [group] = api.get(f"{source}/taskmanagers").json()["taskmanagers"]
    assert (group["taskmanager-id"], group["status"]) == (rows.TASKMANAGER, "RUNNING")
    assert group["metrics"]["read-records"] == 400
    assert group["metrics"]["accumulated-busy-time"] == "NaN"
    assert group["status-counts"]["RUNNING"] == 2


def test_summaries_are_flinks() -> None:
    """Figures of a real cluster: two subtasks that wrote 100 and 103 records."""
    figures = summary([103, 100])
    assert figures == {
        "min": 100, "max": 103, "avg": 101, "sum": 203, "median": 101, "p25": 100, "p75": 103, "p95": 103,
    }  # fmt: skip
    assert summary(["NaN", "NaN"])["sum"] == -2
