"""Every answer of a real Flink 2.3 cluster is replayed: its status, fields and metric ids are ours, too.

data/flink_samples.json: answers of a session cluster with a running SQL job and a failed one, and of one with the
adaptive scheduler; lists are cut to two.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings
from rest_framework.test import APIClient

from backend.cluster import bus, services
from backend.cluster.leadership import ROLE
from backend.cluster.models import Artifact, Job, LeaderEpoch, TaskManager
from backend.cluster.process_report import ProcessReporter
from tests.cluster.redis_fixture import running_redis
from tests.dispatcher import rows
from tests.dispatcher.test_shapes import differences, kind_of

SAMPLES: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "flink_samples.json").read_text())
JOBMANAGER = "localhost:4710"
#: samples that are answered otherwise, and why
OTHERWISE = {
    "jobs_JID_resource-requirements": "every job here can be rescaled, as with Flink's AdaptiveScheduler",
    "jobs_JID_checkpoints_details_CID": "the keys of its tasks are vertex ids; test_checkpoints compares it",
    "jobs_JID_vertices_V0_flamegraph_type=on_cpu": "there is none until stacks were sampled; test_vertices compares it",
    "jobs_JID_vertices_V1_flamegraph_type=on_cpu": "the same",
    "adaptive_resource-requirements": "its keys are vertex ids; test_rescaling compares it",
    **dict.fromkeys(
        (
            "adaptive_rescales_config",
            "adaptive_rescales_history",
            "adaptive_rescales_overview",
            "adaptive_rescales_summary",
        ),
        "404, as of a job without that scheduler; rescalings are in the job's timeline",
    ),
}
#: parts of an answer that are missing on purpose
MISSING = {
    "jobs_JID_config": ("user-config",),
    # the sample begins with a sink: sources have none, in Flink's plan neither
    **dict.fromkeys(("jobs_FAIL", "jobs_JID", "jobs_JID_plan"), ("answer.plan.nodes[].inputs",)),
    "applications_overview": ("answer.applications[].jobs.",),  # counts by state, of states that there are
    "jobs_JID_checkpoints": ("answer.history[].external_path", "answer.history[].discarded"),
}
#: collectors of that JVM
JVM_OWN = (".Copy.", ".MarkSweepCompact.")


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_redis(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def names(
    no_redis: None, settings: Settings, redis_url: str, home: Path, alice: User, job: Job, taskmanager: TaskManager
) -> Iterator[dict[str, str]]:
    """Ids of the samples → those of this cluster, whose processes have reported, in the order to replace them."""
    settings.REDIS_URL = redis_url
    bus.disconnect()
    bus.client().flushall()
    LeaderEpoch.objects.create(name=ROLE, epoch=1, holder=JOBMANAGER)
    for process, kind in ((JOBMANAGER, "jobmanager"), (rows.TASKMANAGER, "taskmanager")):
        reporter = ProcessReporter(process, kind)
        reporter.start()
        reporter.stop()
    now = services.now_ms()
    Artifact.objects.create(id="a" * 64, file_name="job.py", size=1, uploaded_at=now, files=["x"], uploaded_by=alice)
    failed = rows.ended_job("FAILED")
    rows.failure_of(failed, 0)
    yield {
        ":job": job.id,
        ":failed": failed.id,
        ":vertex2": rows.SINK,
        ":vertex": rows.SOURCE,
        ":taskmanager": rows.TASKMANAGER,
        ":checkpoint": "1",
    }
    bus.disconnect()


def _ids(body: Any) -> set[str] | None:
    """The ids of a list of metrics, without those of operators; None: it is no such list."""
    is_list = isinstance(body, list) and body and all(isinstance(item, dict) and "id" in item for item in body)
    return {item["id"] for item in body if not any(own in item["id"] for own in JVM_OWN)} if is_list else None


@pytest.mark.parametrize("name", sorted(SAMPLES.keys() - OTHERWISE))
def test_a_sample_is_answered_as_flink_does(api: APIClient, names: dict[str, str], name: str) -> None:
    sample = SAMPLES[name]
    path: str = sample["path"]
    for placeholder, value in names.items():
        path = path.replace(placeholder, value)
    ids = _ids(sample["body"])
    if path.endswith("get=*"):
        assert ids
        path = path[:-1] + ",".join(ids)
    answer = api.get(f"/v1{path}")
    assert answer.status_code == sample["status"], answer.content[:300]
    if sample["status"] != 200:
        assert list(answer.json()) == ["errors"]
        return
    if "vertices" in name and ids is not None:
        # which operators a vertex has, and what they measure, is the job's matter: test_metrics has ours
        return
    if ids is not None:
        assert ids - _ids(answer.json() or [{"id": ""}]) == set()  # type: ignore[operator]
    found = differences(kinds(sample["body"]), answer.json(), "answer")
    assert [text for text in found if not any(part in text for part in MISSING.get(name, ()))] == []


def kinds(value: Any) -> Any:
    """A sample with the kinds of its values, as `differences` takes it."""
    if isinstance(value, dict):
        return {key: kinds(item) for key, item in value.items()}
    if isinstance(value, list):
        return [kinds(value[0])] if value else []
    return kind_of(value)


def test_reasons_are_given_for_samples_only() -> None:
    assert OTHERWISE.keys() | MISSING.keys() <= SAMPLES.keys()
