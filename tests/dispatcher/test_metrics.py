"""Metrics that slots report, operators' and users', and accumulators: over REST, live and after the job's end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import Settings
from rest_framework.test import APIClient

from backend.cluster import bus, services
from backend.cluster.models import Job, TaskManager
from backend.cluster.task_metrics import ACCUMULATORS, accumulators_document, metric_fields, subtask_field
from runtime.core.elements import MIN_WATERMARK
from runtime.core.ids import SlotId, TaskId, operator_id_of
from runtime.jobmaster.status import TaskSnapshot
from runtime.task.memory import LIMIT, PEAK, RESIDENT
from runtime.task.messages import TaskState
from tests.cluster.redis_fixture import running_redis
from tests.dispatcher import rows
from tests.support.bus_contents import put_fields

OPERATOR = operator_id_of("uid-3")


def reported(index: int) -> dict[str, object]:
    """Return the report of subtask `index` of the sink."""
    return {
        "numRecordsIn": 7,
        "isBackPressured": False,
        "mailboxQueueSize": index,
        f"{OPERATOR}.numLateRecordsDropped": 10 * (index + 1),
        f"{OPERATOR}.tide.alarms": 2 + index,
        f"{OPERATOR}.tide.last alarm": "none",
        f"{OPERATOR}.tide.share": float("nan"),
        f"{OPERATOR}.__accumulator__.IntCounter.sum.records": 5 + index,
        "sink.__accumulator__.AverageAccumulator.sum.mean": 6.0 * index,
        "sink.__accumulator__.AverageAccumulator.count.mean": 4 * index,
        f"latency.operator_id.x.operator_subtask_index.{index}.latency_p99": 12.5,
    }


TASKS = [
    TaskSnapshot(TaskId(rows.SINK, index), "count", SlotId(index), TaskState.RUNNING, reported(index))
    for index in range(rows.PARALLELISM)
]


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_redis(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def reporting(no_redis: None, settings: Settings, redis_url: str, job: Job) -> Iterator[Job]:
    """A running job of which the sink's subtasks have reported."""
    settings.REDIS_URL = redis_url
    bus.disconnect()
    bus.client().flushall()
    put_fields(bus.METRICS_KEY.format(job.id), metric_fields(TASKS), bus.METRICS_EXPIRY_S)
    yield job
    bus.disconnect()


@pytest.fixture
def sink(reporting: Job) -> str:
    return f"/v1/jobs/{reporting.id}/vertices/{rows.SINK}"


def values(api: APIClient, path: str) -> dict[str, str]:
    return {entry["id"]: entry["value"] for entry in api.get(path).json()}


def test_a_vertex_lists_the_metrics_of_its_operators_and_of_the_user(api: APIClient, sink: str) -> None:
    ids = {entry["id"] for entry in api.get(f"{sink}/metrics").json()}
    assert {"0.window__count.tide.alarms", "1.window__count.numLateRecordsDropped", "0.mailboxQueueSize"} <= ids
    assert not [name for name in ids if "accumulator" in name or "latency." in name]
    wanted = "0.window__count.tide.alarms,1.window__count.tide.alarms,0.window__count.tide.last_alarm,0.isBackPressured"
    assert values(api, f"{sink}/metrics?get={wanted}") == {
        "0.window__count.tide.alarms": "2",
        "1.window__count.tide.alarms": "3",
        "0.window__count.tide.last_alarm": "none",
        "0.isBackPressured": "false",
    }


def test_the_live_document_is_newer_than_what_was_reported(api: APIClient, sink: str) -> None:
    assert values(api, f"{sink}/metrics?get=1.numRecordsIn") == {"1.numRecordsIn": "100"}


def test_a_subtask_has_ids_without_its_number(api: APIClient, sink: str) -> None:
    path = f"{sink}/subtasks/1/metrics"
    assert values(api, f"{path}?get=window__count.tide.alarms,mailboxQueueSize") == {
        "window__count.tide.alarms": "3",
        "mailboxQueueSize": "1",
    }


def test_subtasks_are_aggregated_where_all_values_are_numbers(api: APIClient, sink: str) -> None:
    [figures] = api.get(f"{sink}/subtasks/metrics?get=window__count.numLateRecordsDropped&agg=sum,max").json()
    assert figures == {"id": "window__count.numLateRecordsDropped", "max": 20.0, "sum": 30.0}
    assert api.get(f"{sink}/subtasks/metrics?get=window__count.tide.last_alarm,isBackPressured").json() == []
    [figures] = api.get(f"{sink}/subtasks/metrics?get=window__count.tide.share&agg=avg").json()
    assert figures["avg"] == "NaN"


def test_latencies_are_the_jobs(api: APIClient, reporting: Job) -> None:
    name = "latency.operator_id.x.operator_subtask_index.1.latency_p99"
    found = values(api, f"/v1/jobs/{reporting.id}/metrics?get={name},runningTime,createdTime")
    assert (found[name], found["createdTime"]) == ("12.5", "0")
    assert int(found["runningTime"]) >= 1000


def test_the_page_reads_all_metrics_of_a_vertex_at_once(api: APIClient, reporting: Job) -> None:
    tasks = [TaskSnapshot(t.task, t.name, t.slot, t.state, {"currentInputWatermark": MIN_WATERMARK}) for t in TASKS[1:]]
    put_fields(bus.METRICS_KEY.format(reporting.id), metric_fields([TASKS[0], *tasks]), 60)
    answer = api.get(f"/api/v1/jobs/{reporting.id}/vertices/{rows.SINK}/metrics").json()
    metrics = {entry["id"]: entry["values"] for entry in answer["metrics"]}
    assert answer["subtasks"] == [0, 1]
    assert answer["operators"] == [
        {"id": OPERATOR, "name": "window: count", "scope": "window__count"},
        {"id": operator_id_of("uid-4"), "name": "sink", "scope": "sink"},
    ]
    assert metrics["window__count.tide.alarms"] == {"0": 2}
    assert metrics["currentInputWatermark"] == {"1": str(MIN_WATERMARK)}
    assert api.get(f"/api/v1/jobs/{reporting.id}/vertices/{'f' * 32}/metrics").status_code == 404


def test_accumulators_are_merged_over_subtasks(api: APIClient, reporting: Job, sink: str) -> None:
    merged = [
        {"name": "records", "type": "IntCounter", "value": "11"},
        {"name": "mean", "type": "AverageAccumulator", "value": "1.5"},
    ]
    answer = api.get(f"/v1/jobs/{reporting.id}/accumulators?includeSerializedValue=true").json()
    assert answer["user-task-accumulators"] == merged
    assert api.get(f"{sink}/accumulators").json() == {"id": rows.SINK, "user-accumulators": merged}
    source = f"/v1/jobs/{reporting.id}/vertices/{rows.SOURCE}"
    assert api.get(f"{source}/accumulators").json()["user-accumulators"] == []


def test_each_subtask_has_its_own_accumulators(api: APIClient, sink: str) -> None:
    subtasks = api.get(f"{sink}/subtasks/accumulators").json()["subtasks"]
    assert subtasks[0]["user-accumulators"] == [
        {"name": "records", "type": "IntCounter", "value": "5"},
        {"name": "mean", "type": "AverageAccumulator", "value": "null"},
    ]
    one = api.get(f"{sink}/subtasks/1/attempts/0/accumulators").json()
    assert one["user-accumulators"] == subtasks[1]["user-accumulators"]


def test_accumulators_of_an_ended_job_are_in_the_database(api: APIClient, db: None) -> None:
    job = rows.ended_job("FINISHED")
    job.document = dict(job.document or {}) | {ACCUMULATORS: accumulators_document(TASKS)}
    job.save()
    [records, _] = api.get(f"/v1/jobs/{job.id}/accumulators").json()["user-task-accumulators"]
    assert records == {"name": "records", "type": "IntCounter", "value": "11"}
    assert ACCUMULATORS not in services.job_document(job.id)
    path = f"/v1/jobs/{job.id}/vertices/{rows.SINK}/metrics"
    assert "0.numRecordsIn" in {entry["id"] for entry in api.get(path).json()}


def test_metrics_of_a_job_that_nobody_runs_expire(reporting: Job) -> None:
    ttl = bus.client().ttl(bus.METRICS_KEY.format(reporting.id))
    assert 0 < ttl <= bus.METRICS_EXPIRY_S


def test_a_slot_in_use_has_a_process_and_its_memory(api: APIClient, reporting: Job, taskmanager: TaskManager) -> None:
    reported = {RESIDENT: 90 << 20, PEAK: 120 << 20, LIMIT: 4 << 30}
    put_fields(bus.METRICS_KEY.format(reporting.id), {subtask_field(rows.SOURCE, 0): reported}, bus.METRICS_EXPIRY_S)
    slots = api.get(f"/v1/taskmanagers/{rows.TASKMANAGER}").json()["allocatedSlots"]
    told, silent = sorted(slots, key=lambda slot: int(slot["slot"]))
    assert (told["slot"], told["pid"]) == (0, 4712)
    assert told["memory"] == {"resident": 90 << 20, "peak": 120 << 20, "limit": 4 << 30}
    assert silent["memory"] == dict.fromkeys(("resident", "peak", "limit"))
