"""The history of metrics over REST, from a real Redis, as leaders write it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings
from rest_framework.test import APIClient

from backend.cluster import bus
from backend.cluster.checkpoint_document import TRACES
from backend.cluster.cluster_document import taskmanager_entry
from backend.cluster.metric_history import MetricHistory, SampleWriter
from backend.cluster.metric_samples import sample_row
from backend.cluster.models import Job, Operation
from backend.cluster.pinned_metrics import Pin, pins_of
from backend.cluster.services import now_ms
from backend.cluster.taskmanager_samples import taskmanager_history, taskmanager_rows
from backend.live import history_api
from runtime.testing.clock import ManualClock
from tests.accounts.cast import client_of
from tests.cluster.snapshots import statistics
from tests.dispatcher import rows
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("bus_redis")

BUSY, EDGE = f"v.{rows.SOURCE}.busy", "e.0.records_per_second"


@pytest.fixture
def job(db: None) -> Job:
    return rows.running_job()


@pytest.fixture
def writers() -> Iterator[Callable[[int], SampleWriter]]:
    """Makes writers of leaders, by epoch."""
    made: list[SampleWriter] = []

    def make(epoch: int) -> SampleWriter:
        made.append(SampleWriter(epoch))
        return made[-1]

    yield make
    for writer in made:
        end(writer)


def end(writer: SampleWriter) -> None:
    writer.close()
    wait_until(lambda: writer._work.is_idle, 10, "the end of the writer")


def sampled(writer: SampleWriter, job: Job, begin: int, busy: list[float]) -> None:
    """Have a leader sample the job every five seconds."""
    clock = ManualClock(begin)
    history = MetricHistory(writer.add, clock)
    for value in busy:
        row = sample_row(rows.running_document(job.document or {}, begin), None, statistics()) | {
            BUSY: value,
            EDGE: 7.0,
        }
        history.sample(SimpleNamespace(job=job, metric_row=lambda row=row: row))
        clock.advance(5_000)
    wait_until(lambda: writer._added == writer._done, 10, "writing samples")


def history_of(client: APIClient, job: Job, **query: Any) -> Any:
    return client.get(f"/api/v1/jobs/{job.id}/history", query)


def test_viewers_read_the_last_ten_minutes_if_they_do_not_say_more(job: Job, writers: Any, victor: User) -> None:
    now = now_ms()
    sampled(writers(1), job, now - 700_000, [999])
    sampled(writers(1), job, now - 20_000, [100, 200, 300])
    answer = history_of(client_of(victor), job, series=f"{BUSY},{EDGE},{BUSY}").json()
    assert (answer["is_available"], answer["step"], answer["end"] - answer["begin"]) == (True, 5_000, 600_000)
    assert answer["times"] == [now - 20_000, now - 15_000, now - 10_000]
    assert answer["series"] == {BUSY: [100.0, 200.0, 300.0], EDGE: [7.0, 7.0, 7.0]}


def test_nobody_else_reads_it(job: Job, anonymous: APIClient) -> None:
    assert history_of(anonymous, job, series=BUSY).status_code == 401


def test_samples_are_averaged_over_the_step(api: APIClient, job: Job, writers: Any) -> None:
    begin = now_ms() // 20_000 * 20_000 - 100_000
    sampled(writers(1), job, begin, [100, 200, 300, 400, 500])
    query = {"from": begin, "to": begin + 60_000, "step": 20_000}
    answer = history_of(api, job, series=BUSY, **query).json()
    assert (answer["begin"], answer["end"], answer["step"]) == (begin, begin + 60_000, 20_000)
    assert (answer["times"], answer["series"]) == ([begin + 7_500, begin + 20_000], {BUSY: [250.0, 500.0]})


def test_a_series_has_a_thousand_points_at_most(api: APIClient, job: Job) -> None:
    now = now_ms()
    assert history_of(api, job, series=BUSY, step=1, **{"from": now - 3_600_000, "to": now}).json()["step"] == 3_600


def test_another_leader_goes_on(api: APIClient, job: Job, writers: Any) -> None:
    now = now_ms()
    sampled(writers(1), job, now - 60_000, [100, 200])
    bus.client().set(bus.EPOCH_KEY, 2)
    sampled(writers(2), job, now - 50_000, [300])
    # it does not know yet that it is replaced
    sampled(writers(1), job, now - 45_000, [999])
    assert history_of(api, job, series=BUSY).json()["series"] == {BUSY: [100.0, 200.0, 300.0]}


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ({}, "series"),
        ({"series": ""}, "series"),
        ({"series": ",".join(f"v.{n}.busy" for n in range(65))}, "1 to 64 series"),
        ({"series": f"{BUSY},v.{rows.SOURCE}.speed"}, f"no series 'v.{rows.SOURCE}.speed'"),
        ({"series": f"v.{'0' * 32}.busy"}, "no series"),
        ({"series": "e.9.records_per_second"}, "no series"),
        ({"series": "x" * 5_000 + "\n\udcff"}, "no series"),
        ({"series": BUSY, "from": "5", "to": "5"}, "before the end"),
        ({"series": BUSY, "from": "10", "to": "5"}, "before the end"),
        ({"series": BUSY, "from": "-1"}, "from"),
        ({"series": BUSY, "to": "tomorrow"}, "to"),
        ({"series": BUSY, "to": "9" * 18}, "to"),
        ({"series": BUSY, "step": "0"}, "step"),
        ({"series": BUSY, "step": "1.5"}, "step"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(api: APIClient, job: Job, query: dict[str, str], what: str) -> None:
    refused = history_of(api, job, **{name: value.encode("utf-8", "replace") for name, value in query.items()})
    assert refused.status_code == 400
    assert what in str(refused.json())


def test_any_time_may_be_asked_for(api: APIClient, job: Job) -> None:
    answer = history_of(api, job, series=BUSY, **{"from": 0, "to": 2**50}).json()
    assert (answer["times"], answer["series"]) == ([], {BUSY: []})


def test_jobs_that_are_not_there_are_not_found(api: APIClient, job: Job) -> None:
    assert api.get(f"/api/v1/jobs/{'0' * 32}/history?series={BUSY}").status_code == 404
    assert api.get(f"/api/v1/jobs/x/history?series={BUSY}").status_code == 400


def test_what_happened_in_this_time_is_told(api: APIClient, job: Job) -> None:
    now = now_ms()
    for number, begun in enumerate((now - 700_000, now - 5_000)):
        Operation.objects.create(
            trigger_id=f"{number:032x}",
            job=job,
            kind=Operation.Kind.SAVEPOINT,
            state=Operation.State.COMPLETED,
            created_at=begun,
            finished_at=begun + 10,
        )
    failure = {"timestamp": now - 1_000, "attempt": 0, "name": "ValueError", "task_name": "", "stacktrace": ""}
    Job.objects.filter(id=job.id).update(document=(job.document or {}) | {"exceptions": [failure]})
    told = history_of(api, job, series=BUSY).json()["events"]
    # the checkpoint goes on
    assert [(event["kind"], event["begin"]) for event in told] == [
        ("checkpoint", 4_000),
        ("savepoint", now - 5_000),
        ("failure", now - 1_000),
    ]


def test_a_checkpoint_that_failed_is_told_from_others(api: APIClient, job: Job) -> None:
    now = now_ms()
    kept = next(iter((job.document or {})[TRACES].values()))
    ended = kept | {"trigger_timestamp": now - 9_000, "duration": 1_000}
    traces = {
        str(number): ended | {"id": number, "status": status} for number, status in ((11, "COMPLETED"), (12, "FAILED"))
    }
    Job.objects.filter(id=job.id).update(document=(job.document or {}) | {TRACES: traces})
    told = history_of(api, job, series=BUSY).json()["events"]
    assert [(event["text"][:13], event["is_failed"]) for event in told] == [
        ("checkpoint 12", True),
        ("checkpoint 11", False),
    ]


def test_any_metric_is_kept_from_when_it_is_asked_for(api: APIClient, job: Job, writers: Any) -> None:
    series = f"p.{rows.SOURCE}.parse.tides.greatest"
    answer = history_of(api, job, series=f"{series},{BUSY}").json()
    assert answer["series"] == {series: [], BUSY: []}
    assert pins_of([job.id]) == {job.id: [Pin(rows.SOURCE, "parse.tides")]}
    writer, clock = writers(1), ManualClock(now_ms() - 5_000)
    history = MetricHistory(writer.add, clock)
    history.add(job.id, {series: 8.0})
    wait_until(lambda: writer._added == writer._done, 10, "writing samples")
    assert history_of(api, job, series=series).json()["series"] == {series: [8.0]}
    unknown = f"p.{'c' * 32}.parse.tides.greatest"
    assert history_of(api, job, series=unknown).status_code == 400
    assert len(pins_of([job.id])[job.id]) == 1


def test_the_memory_of_a_taskmanager_and_of_its_slots_is_kept(api: APIClient, db: None, writers: Any) -> None:
    taskmanager = rows.taskmanager()
    entry = taskmanager_entry(taskmanager, 1)
    writer, clock = writers(1), ManualClock(now_ms() - 10_000)
    history = MetricHistory(writer.add, clock)
    for resident in (100.0, 200.0):
        memory = [{(taskmanager.id, 0): resident, ("another", 0): 7.0}, {(taskmanager.id, 1): 50.0}]
        history.add(taskmanager_history(taskmanager.id), taskmanager_rows([entry], memory)[taskmanager.id])
        clock.advance(5_000)
    wait_until(lambda: writer._added == writer._done, 10, "writing samples")
    answer = api.get(f"/api/v1/taskmanagers/{taskmanager.id}/history").json()
    assert answer["series"] == {
        "memory_used": [float(12 << 30)] * 2,
        "slots_memory": [150.0, 250.0],
        "slots_used": [3.0, 3.0],
    }
    assert (answer["step"], len(answer["times"])) == (5_000, 2)
    assert api.get("/api/v1/taskmanagers/nobody/history").status_code == 404
    refused = api.get(f"/api/v1/taskmanagers/{taskmanager.id}/history", {"from": 2, "to": 1})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "from")


def test_without_redis_nothing_is_known_and_nothing_fails(api: APIClient, job: Job, settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    bus.disconnect()
    answer = history_of(api, job, series=BUSY)
    assert answer.status_code == 200
    assert (answer.json()["is_available"], answer.json()["times"], answer.json()["series"]) == (False, [], {BUSY: []})


def test_a_frozen_redis_is_not_waited_for(
    api: APIClient, job: Job, frozen: Callable[[], AbstractContextManager[None]]
) -> None:
    with frozen():
        assert history_of(api, job, series=BUSY).json()["is_available"] is False


def test_only_so_many_histories_are_read_at_once(api: APIClient, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_api, "MAX_WAIT_S", 0.05)
    with history_api._places:
        assert history_of(api, job, series=BUSY).json()["is_available"] is True
        with history_api._places:
            assert history_of(api, job, series=BUSY).json()["is_available"] is False
    assert history_of(api, job, series=BUSY).json()["is_available"] is True
