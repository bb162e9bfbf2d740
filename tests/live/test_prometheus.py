"""/metrics: valid OpenMetrics, true figures, prompt answers whoever is silent; board and alerts name what is there."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.http.request import validate_host
from pytest_django import Settings
from rest_framework.test import APIClient

from backend.cluster import bus, services
from backend.cluster.models import Checkpoint, Job, LeaderEpoch, Operation
from backend.live import prometheus
from backend.live.exposition import Exposition
from tests.accounts.cast import client_of
from tests.cluster.redis_fixture import running_redis
from tests.dispatcher import rows

REPOSITORY = Path(__file__).parents[2]
BOARD = REPOSITORY / "docker/grafana/tidemark.json"
ALERTS = REPOSITORY / "docker/prometheus/alerts.yaml"
FIGURES = dict.fromkeys(("cpu_s", "descriptors", "disk_free_bytes", "late_s", "log_warnings", "resident_bytes"), 1)
SAMPLE = re.compile(r'(\w+)(?:\{((?:\w+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)')
LABEL = re.compile(r'(\w+)="((?:[^"\\\n]|\\["\\n])*)"')


def samples(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Read OpenMetrics text, strictly: families in one piece, each with its type and help, no sample twice, an end."""
    assert text.endswith("# EOF\n")
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    family = ""
    for line in text.splitlines()[:-1]:
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")
            assert kind == "gauge" and family not in found
            found[family] = {}
        elif line.startswith("# HELP "):
            assert line.split(" ", 3)[2] == family and line.split(" ", 3)[3]
        else:
            match = SAMPLE.fullmatch(line)
            assert match is not None, line
            assert match[1] == family
            labels = tuple(LABEL.findall(match[2] or ""))
            assert labels not in found[family]
            found[family][labels] = float(match[3])
    return found


def scraped(client: APIClient) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert answer["Cache-Control"] == "no-store"
    return samples(answer.content.decode())


@pytest.fixture
def live_redis(settings: Settings, tmp_path: Path) -> Iterator[None]:
    with running_redis(tmp_path) as url:
        settings.REDIS_URL = url
        bus.disconnect()
        yield
        bus.disconnect()


@pytest.fixture
def no_redis(settings: Settings) -> Iterator[None]:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    bus.disconnect()
    yield
    bus.disconnect()


def test_text_of_others_stays_within_its_quotes() -> None:
    out = Exposition({"tidemark_jobs": 'Jobs "by"\nstate.'})
    out.add("tidemark_jobs", 1, state='a"b\\c\nd\re\ud800{}=,')
    out.add("tidemark_jobs", float("nan"), state="n")
    out.add("tidemark_jobs", None, state="unknown")
    found = samples(out.text())["tidemark_jobs"]
    assert [labels[0][1] for labels in found] == ['a\\"b\\\\c\\nd e?{}=,', "n"]
    with pytest.raises(KeyError):
        out.add("unheard_of", 1)


@pytest.mark.django_db
def test_figures_are_those_of_rows_and_documents(
    victor: Any, live_redis: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.taskmanager()
    rows.ended_job("FAILED", "weather")
    job = rows.running_job('fl"ights')
    given = {"epoch": 7, "holder": "localhost:1", "since": 1}
    LeaderEpoch.objects.update_or_create(name="jobmanager", defaults=given)
    store = bus.client()
    assert job.document is not None
    cause = {"cause": "idle-input", "vertex": rows.SOURCE, "text": "…", "figures": {}, "waiting": []}
    holder = {"vertex": rows.SOURCE, "subtask": 0, "why": "behind", "behind": 7_000, "still": 9_000}
    live = {rows.SOURCE: True, rows.SINK: True}
    event_time = {"newest": 1, "is_live": True, "live": live, "held_by": {}, "holder": holder}
    job.document |= {"causes": {"watermark": cause}, "event_time": event_time}
    Operation.objects.create(job=job, kind="savepoint", created_at=services.now_ms() - 70_000)
    store.set(bus.JOB_KEY.format(job.id), json.dumps(job.document), ex=bus.EXPIRY_S)
    store.set(bus.CLUSTER_KEY, json.dumps({"slots_available": 2, "now": 1}), ex=bus.EXPIRY_S)
    store.set(bus.BEAT_KEY, "1", ex=bus.EXPIRY_S)
    client = client_of(victor)
    # the first request imports all views, which takes longer on a busy machine than JobManagers are remembered
    monkeypatch.setattr(bus, "JOBMANAGER_EXPIRY_MS", 60_000)
    bus.show_jobmanager("localhost:1")
    bus.show_jobmanager("localhost:2")
    further = {"log_errors": 3, "gc0_ms": 1500, "gc1_ms": 500, "refused_connections": 2}
    report = {"figures": {**FIGURES, **further}}
    store.set(bus.PROCESS_KEY.format("localhost:1"), json.dumps(report))
    found = scraped(client)
    assert found["tidemark_redis_up"] == {(): 1}
    of_process = (("kind", "jobmanager"), ("process", "localhost:1"))
    assert found["tidemark_process_log_errors"] == {of_process: 3}
    assert found["tidemark_process_collection_seconds"] == {of_process: 2}
    assert found["tidemark_process_refused"] == {(*of_process, ("what", "connections")): 2}
    assert found["tidemark_jobs_stranded"] == {(): 0}
    assert {dict(labels)["kind"] for labels in found["tidemark_process_resident_bytes"]} == {"jobmanager", "web"}
    # the other JobManager and the TaskManager
    assert found["tidemark_processes_silent"] == {(): 2}
    assert found["tidemark_leader_epoch"] == {(): 7} and found["tidemark_leader_present"] == {(): 1}
    assert found["tidemark_jobmanagers"] == {(("role", "leader"),): 1, (("role", "standby"),): 1}
    states = {labels[0][1]: count for labels, count in found["tidemark_jobs"].items()}
    assert (states["RUNNING"], states["FAILED"], states["FINISHED"]) == (1, 1, 0)
    assert found["tidemark_jobs_failed_lately"] == {(): 1}
    assert found["flink_jobmanager_taskSlotsTotal"] == {(): 4}
    assert found["flink_jobmanager_taskSlotsAvailable"] == {(): 2}
    of_job = (("job_id", job.id), ("job_name", 'fl\\"ights'))
    assert found["flink_jobmanager_job_numRestarts"] == {of_job: 0}
    assert found["tidemark_job_watermark_lag_seconds"] == {of_job: 5}
    assert found["tidemark_job_event_time_behind_seconds"] == {of_job: 7}
    assert found["tidemark_job_watermark_still_seconds"] == {of_job: 9}
    [labels] = found["tidemark_job_causes"]
    told = {
        "topic": "watermark",
        "cause": "idle-input",
        "task_id": rows.SOURCE,
        "task_name": "Source: flights -> parse",
    }
    assert dict(labels).items() >= told.items()
    assert 70 <= found["tidemark_oldest_operation_age_seconds"][()] < 170
    uptime_ms = found["flink_jobmanager_job_uptime"][of_job]
    assert uptime_ms == pytest.approx(job.document["now"] - job.state_times["RUNNING"], abs=500)
    latest = job.document["checkpoints"]["latest"]["completed"]
    assert found["flink_jobmanager_job_lastCheckpointDuration"] == {of_job: latest["end_to_end_duration"]}
    assert found["flink_jobmanager_job_lastCheckpointFullSize"] == {of_job: latest["state_size"]}
    received = found["flink_taskmanager_job_task_numRecordsIn"]
    assert sorted(received.values()) == [400, 400]
    assert {dict(labels)["task_id"] for labels in received} == {rows.SOURCE, rows.SINK}
    assert set(found["flink_taskmanager_job_task_busyTimeMsPerSecond"].values()) == {200}
    # nothing is declared that nobody exposes
    assert set(prometheus.FAMILIES) - set(found) == set()
    known = {name: {label for labels in each for label, _ in labels} for name, each in found.items()} | {"up": {"job"}}
    for expression, told_labels in expressions():
        families = set(
            re.findall(r"\b(?:tidemark_\w+|flink_\w+|up)\b", re.sub(r"\{[^}]*\}|by \([^)]*\)", "", expression))
        )
        assert families, expression
        selected = set(re.findall(r"[{,] *(\w+)=", expression))
        grouped = {name for names in re.findall(r"by \(([^)]*)\)", expression) for name in names.split(", ")}
        for family in families:
            assert grouped | told_labels <= known[family], expression
        assert selected <= set().union(*(known[family] for family in families)), expression


def expressions() -> Iterator[tuple[str, set[str]]]:
    """Expressions of board and alerts, each with the labels that its texts refer to."""
    for panel in json.loads(BOARD.read_text())["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")))
    for rule in ALERTS.read_text().split("- alert:")[1:]:
        [expression] = re.findall(r"expr: '(.*)'", rule)
        yield expression, set(re.findall(r"\$labels\.(\w+)", rule))


def publish(job: Job, written_ms_ago: int = 0, **parts: Any) -> None:
    """Publish a job's document under a leader that lives."""
    store = bus.client()
    left_ms = bus.EXPIRY_S * 1000 - written_ms_ago
    store.set(bus.JOB_KEY.format(job.id), json.dumps({**(job.document or {}), **parts}), px=left_ms)
    store.set(bus.CLUSTER_KEY, json.dumps({"slots_available": 2}), ex=bus.EXPIRY_S)
    store.set(bus.BEAT_KEY, "1", ex=bus.EXPIRY_S)


@pytest.mark.django_db
def test_a_job_that_nobody_runs_is_counted_while_somebody_leads(
    victor: Any, live_redis: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # longer than any pause of this machine
    monkeypatch.setattr(prometheus, "TAKEN_MS", 3_600_000)
    publish(rows.running_job())
    left = rows.running_job("left")
    client = client_of(victor)
    Job.objects.filter(id=left.id).update(created_at=services.now_ms())
    assert scraped(client)["tidemark_jobs_stranded"] == {(): 0}, "it may not have been taken yet"
    Job.objects.filter(id=left.id).update(created_at=services.now_ms() - 2 * prometheus.TAKEN_MS)
    assert scraped(client)["tidemark_jobs_stranded"] == {(): 1}
    bus.client().delete(bus.BEAT_KEY)
    assert "tidemark_jobs_stranded" not in scraped(client), "nobody leads, which is told by itself"


@pytest.mark.django_db
def test_ages_of_a_job_that_only_waits_grow(victor: Any, live_redis: None) -> None:
    client, job = client_of(victor), rows.running_job()
    publish(job)
    before = scraped(client)["tidemark_job_last_checkpoint_age_seconds"]
    publish(job, written_ms_ago=600_000)
    [(labels, age)] = scraped(client)["tidemark_job_last_checkpoint_age_seconds"].items()
    assert age - before[labels] == pytest.approx(600, abs=30)


@pytest.mark.django_db
def test_the_age_of_the_newest_checkpoint_outlives_a_leader(victor: Any, live_redis: None) -> None:
    client, job = client_of(victor), rows.running_job()
    assert job.document is not None
    none_yet = job.document["checkpoints"] | {"latest": {}}
    publish(job, checkpoints=none_yet)
    found = scraped(client)
    assert "tidemark_job_last_checkpoint_age_seconds" not in found
    [since] = found["tidemark_job_since_checkpoint_seconds"].values()
    assert since == pytest.approx((job.document["now"] - job.state_times["RUNNING"]) / 1000, abs=30)
    given = {"location": "file:///c", "is_owned": True, "is_savepoint": False, "leader_epoch": 1, "size": 1}
    then = job.document["now"] - 500_000
    Checkpoint.objects.create(job=job, checkpoint_id=1, triggered_at=then, completed_at=then, **given)
    found = scraped(client)
    for name in ("tidemark_job_last_checkpoint_age_seconds", "tidemark_job_since_checkpoint_seconds"):
        assert list(found[name].values()) == [pytest.approx(500, abs=30)]


@pytest.mark.django_db
def test_of_data_that_is_replayed_no_lag_is_exposed(victor: Any, live_redis: None) -> None:
    client, job = client_of(victor), rows.running_job()
    for is_live in (True, False):
        live = {rows.SOURCE: True, rows.SINK: True} if is_live else {}
        publish(job, event_time={"newest": 1, "is_live": is_live, "live": live, "held_by": {}})
        found = scraped(client)
        assert ("tidemark_job_watermark_lag_seconds" in found) is is_live
    assert list(found["tidemark_job_watermark_still_seconds"].values()) == [0]


@pytest.mark.django_db
def test_a_leader_that_is_gone_leaves_no_figures_of_jobs(victor: Any, live_redis: None) -> None:
    job = rows.running_job()
    bus.client().set(bus.JOB_KEY.format(job.id), json.dumps(job.document), ex=bus.EXPIRY_S)
    bus.client().set(bus.CLUSTER_KEY, json.dumps({"slots_available": 2}), ex=bus.EXPIRY_S)
    bus.client().set(bus.BEAT_KEY, "1", px=bus.EXPIRY_S * 1000 - 60_000)
    found = scraped(client_of(victor))
    assert found["tidemark_leader_beat_age_seconds"][()] >= 60 and found["tidemark_leader_present"] == {(): 0}
    assert "flink_jobmanager_job_numRestarts" not in found
    assert found["flink_jobmanager_numRunningJobs"] == {(): 1}


@pytest.mark.django_db
def test_the_number_of_series_has_a_bound(victor: Any, live_redis: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "MAX_JOBS", 2)
    monkeypatch.setattr(prometheus, "MAX_VERTICES", 1)
    for number in range(3):
        job = rows.running_job(f"{number}" * 255 if number else "0")
        bus.client().set(bus.JOB_KEY.format(job.id), json.dumps(job.document), ex=bus.EXPIRY_S)
    bus.client().set(bus.CLUSTER_KEY, json.dumps({"slots_available": 2}), ex=bus.EXPIRY_S)
    bus.client().set(bus.BEAT_KEY, "1", ex=bus.EXPIRY_S)
    found = scraped(client_of(victor))
    assert found["tidemark_jobs_not_exposed"] == {(): 1}
    assert len(found["flink_taskmanager_job_task_numRecordsIn"]) == 2
    assert all(len(value) <= 200 for labels in found["flink_jobmanager_job_numRestarts"] for _, value in labels)


@pytest.mark.django_db
def test_without_redis_the_rows_are_told(victor: Any, no_redis: None) -> None:
    rows.running_job()
    found = scraped(client_of(victor))
    assert found["tidemark_redis_up"] == {(): 0} and found["flink_jobmanager_numRunningJobs"] == {(): 1}
    assert "flink_jobmanager_job_numRestarts" not in found


@pytest.mark.django_db
def test_a_silent_redis_is_not_waited_for_longer_than_readers_wait(victor: Any, settings: Settings) -> None:
    client = client_of(victor)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.REDIS_URL = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        bus.disconnect()
        began = time.monotonic()
        found = scraped(client)
        # one call is tried, and once more where a connection was lost: all others fail at once
        assert time.monotonic() - began < 10 * bus.READ_TIMEOUT_S
        assert found["tidemark_redis_up"] == {(): 0}
        bus.disconnect()


@pytest.mark.django_db
def test_without_the_database_prometheus_notes_that_it_is_down(victor: Any, no_redis: None) -> None:
    client = client_of(victor)

    def away(*arguments: object) -> None:
        raise OperationalError("gone")

    with connection.execute_wrapper(away):
        assert client.get("/metrics").status_code == 503


@pytest.mark.parametrize("path", [BOARD, ALERTS])
def test_board_and_alerts_refer_only_to_metrics_that_exist(path: Path) -> None:
    named = set(re.findall(r"\b(?:tidemark|flink)_\w+", path.read_text()))
    assert len(named) > 10
    assert named - set(prometheus.FAMILIES) == set()


def test_the_web_process_answers_to_the_name_by_which_prometheus_reaches_it() -> None:
    compose = (REPOSITORY / "docker/compose.yaml").read_text()
    scraped = (REPOSITORY / "docker/prometheus/prometheus.yaml").read_text().partition("scrape_configs:")[2]
    [target] = re.findall(r'targets: \["([\w.-]+):\d+"\]', scraped)
    [given] = re.findall(r'TIDEMARK_ALLOWED_HOSTS: "(.*)"', compose)
    # whatever docker/.env has
    assert validate_host(target, re.sub(r"\$\{.*\}", "tidemark.example.com", given).split(","))
    assert re.search(rf"^  {target}:$", compose, re.MULTILINE)


def test_the_board_has_no_two_panels_in_one_place() -> None:
    board = json.loads(BOARD.read_text())
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in board["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) == 23
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_every_alert_says_what_it_is_about() -> None:
    yaml = pytest.importorskip("yaml")
    [group] = yaml.safe_load(ALERTS.read_text())["groups"]
    assert all(rule["annotations"]["summary"] and rule["labels"]["severity"] for rule in group["rules"])
    assert len({rule["alert"] for rule in group["rules"]}) == len(group["rules"]) > 8


def test_a_failure_is_told_for_ten_minutes_though_older_rows_go(victor: Any) -> None:
    kept, gone = rows.ended_job("FAILED"), rows.ended_job("FAILED")
    for job, minutes_ago in ((kept, 1), (gone, 60)):
        Job.objects.filter(id=job.id).update(ended_at=services.now_ms() - minutes_ago * 60_000)
    client = client_of(victor)
    assert scraped(client)["tidemark_jobs_failed_lately"] == {(): 1}
    gone.delete()
    assert scraped(client)["tidemark_jobs_failed_lately"] == {(): 1}
    Job.objects.update(ended_at=services.now_ms() - 601_000)
    assert scraped(client)["tidemark_jobs_failed_lately"] == {(): 0}
