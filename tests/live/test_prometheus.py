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
from django.db import DatabaseError
from django.http.request import validate_host
from pytest_django import Settings
from rest_framework.test import APIClient

from backend.cluster import bus
from backend.cluster.models import LeaderEpoch
from backend.live import prometheus
from backend.live.exposition import Exposition
from tests.accounts.cast import client_of
from tests.cluster.redis_fixture import running_redis
from tests.dispatcher import rows

REPOSITORY = Path(__file__).parents[2]
BOARD = REPOSITORY / "docker/grafana/tidemark.json"
ALERTS = REPOSITORY / "docker/prometheus/alerts.yaml"
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
def test_figures_are_those_of_rows_and_documents(victor: Any, live_redis: None) -> None:
    rows.taskmanager()
    rows.ended_job("FAILED", "weather")
    job = rows.running_job('fl"ights')
    given = {"epoch": 7, "holder": "localhost:1", "since": 1}
    LeaderEpoch.objects.update_or_create(name="jobmanager", defaults=given)
    bus.show_jobmanager("localhost:1")
    bus.show_jobmanager("localhost:2")
    connection = bus.client()
    assert job.document is not None
    connection.set(bus.JOB_KEY.format(job.id), json.dumps(job.document), ex=bus.EXPIRY_S)
    connection.set(bus.CLUSTER_KEY, json.dumps({"slots_available": 2, "now": 1}), ex=bus.EXPIRY_S)
    connection.set(bus.BEAT_KEY, "1", ex=bus.EXPIRY_S)
    found = scraped(client_of(victor))
    assert found["tidemark_database_up"] == found["tidemark_redis_up"] == {(): 1}
    assert found["tidemark_leader_epoch"] == {(): 7} and found["tidemark_leader_present"] == {(): 1}
    assert found["tidemark_jobmanagers"] == {(("role", "leader"),): 1, (("role", "standby"),): 1}
    states = {labels[0][1]: count for labels, count in found["tidemark_jobs"].items()}
    assert (states["RUNNING"], states["FAILED"], states["FINISHED"]) == (1, 1, 0)
    assert found["flink_jobmanager_taskSlotsTotal"] == {(): 4}
    assert found["flink_jobmanager_taskSlotsAvailable"] == {(): 2}
    of_job = (("job_id", job.id), ("job_name", 'fl\\"ights'))
    assert found["flink_jobmanager_job_numRestarts"] == {of_job: 0}
    assert found["tidemark_job_watermark_lag_seconds"] == {of_job: 5}
    latest = job.document["checkpoints"]["latest"]["completed"]
    assert found["flink_jobmanager_job_lastCheckpointDuration"] == {of_job: latest["end_to_end_duration"]}
    assert found["flink_jobmanager_job_lastCheckpointFullSize"] == {of_job: latest["state_size"]}
    received = found["flink_taskmanager_job_task_numRecordsIn"]
    assert sorted(received.values()) == [400, 400]
    assert {dict(labels)["task_id"] for labels in received} == {rows.SOURCE, rows.SINK}
    assert set(found["flink_taskmanager_job_task_busyTimeMsPerSecond"].values()) == {200}
    # nothing is declared that nobody exposes
    assert set(prometheus.FAMILIES) - set(found) == set()


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
        job = rows.running_job(f"{number}" * 1000 if number else "0")
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
def test_without_the_database_that_is_told(victor: Any, no_redis: None, monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(victor)

    def away(*args: object) -> None:
        raise DatabaseError("gone")

    monkeypatch.setattr(prometheus, "_of_rows", away)
    assert scraped(client) == {"tidemark_database_up": {(): 0}, "tidemark_redis_up": {(): 0}}


@pytest.mark.parametrize("path", [BOARD, ALERTS])
def test_board_and_alerts_refer_only_to_metrics_that_exist(path: Path) -> None:
    named = set(re.findall(r"\b(?:tidemark|flink)_\w+", path.read_text()))
    assert len(named) > 10
    assert named - set(prometheus.FAMILIES) == set()


def test_the_web_process_answers_to_the_name_by_which_prometheus_reaches_it() -> None:
    compose = (REPOSITORY / "docker/compose.yaml").read_text()
    [target] = re.findall(
        r'targets: \["([\w.-]+):\d+"\]', (REPOSITORY / "docker/prometheus/prometheus.yaml").read_text()
    )
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
