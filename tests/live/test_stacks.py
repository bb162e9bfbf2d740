"""Samples of stacks over REST: ours and Flink's flame graph; from a real Redis, as the leader writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis
from rest_framework.test import APIClient

from backend.cluster import bus
from backend.cluster.models import Job
from backend.cluster.services import now_ms
from backend.cluster.stack_document import flame_tree, vertex_stacks
from runtime.core.ids import SlotId, TaskId, VertexId
from runtime.jobmaster.stack_reports import StackReport
from runtime.task.messages import SampledStacks, StackCount
from tests.dispatcher import rows
from tests.support.bus_contents import take_events

pytestmark = pytest.mark.usefixtures("bus_redis")

SOURCE = VertexId(rows.SOURCE)
MAP, SLOW, FAST = "map (/srv/tidemark/artifacts/" + "a" * 64 + "/job.py:3)", "slow (job.py:9)", "fast (job.py:20)"


@pytest.fixture
def job(db: None) -> Job:
    return rows.running_job()


@pytest.fixture
def vertex(job: Job) -> str:
    return f"jobs/{job.id}/vertices/{rows.SOURCE}"


def report() -> StackReport:
    """Two slots; the second one also runs a task of another vertex."""
    one = {TaskId(SOURCE, 0): [StackCount([0, 1], 20, 10), StackCount([0, 2], 10, 0)]}
    two = {TaskId(SOURCE, 1): [StackCount([1], 0, 4)], TaskId(VertexId(rows.SINK), 0): [StackCount([0], 9, 9)]}
    threads = {"loop (1)": "  File job.py, line 3, in map\n"}
    slots = {
        SlotId(0): SampledStacks(1, 50, [MAP, SLOW, FAST], one, threads),
        SlotId(1): SampledStacks(1, 50, [FAST, SLOW], two, {}),
    }
    return StackReport(SOURCE, 1, 5_000, slots, {0: SlotId(0), 1: SlotId(1), 2: SlotId(2)})


def told(server: redis.Redis, job: Job, ended_at: int) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(vertex_stacks(report(), ended_at)))
    server.hset(bus.STACKS_KEY.format(job.id), rows.SOURCE, json.dumps(document))
    return document


def test_a_report_names_each_frame_once_and_leaves_other_vertices_out() -> None:
    document = vertex_stacks(report(), 7)
    assert document["frames"] == ["map (job.py:3)", SLOW, FAST]
    assert document["stacks"] == [(0, [0, 1], 20, 10), (0, [0, 2], 10, 0), (1, [1], 0, 4)]
    assert (document["count"], document["subtasks"], document["ended_at"]) == (100, [0, 1], 7)
    [thread] = document["threads"]
    assert (thread["slot"], thread["name"]) == ("0", "loop (1)")


def test_a_tree_is_flinks() -> None:
    tree = flame_tree(vertex_stacks(report(), 7), "full", None)
    assert (tree["name"], tree["value"]) == ("root", 44)
    first, second = tree["children"]
    assert (first["name"], first["value"]) == ("map (job.py:3)", 40)
    assert [(child["name"], child["value"], child["children"]) for child in first["children"]] == [
        (SLOW, 30, []),
        (FAST, 10, []),
    ]
    assert (second["name"], second["value"]) == (SLOW, 4)
    assert flame_tree(vertex_stacks(report(), 7), "on_cpu", 0)["value"] == 30
    assert flame_tree(vertex_stacks(report(), 7), "off_cpu", 1)["value"] == 4


def test_samples_are_asked_for_and_read(api: APIClient, job: Job, vertex: str, bus_redis: redis.Redis) -> None:
    assert api.get(f"/api/v1/{vertex}/stacks").json() == {"stacks": None}
    assert api.post(f"/api/v1/{vertex}/stacks", {"duration": 5_000}, format="json").status_code == 202
    assert take_events() == [{"type": "stacks", "job": job.id, "vertex": rows.SOURCE, "duration": 5_000}]
    document = told(bus_redis, job, 7)
    assert api.get(f"/api/v1/{vertex}/stacks").json() == {"stacks": document}


@pytest.mark.parametrize("duration", [-1, 60_001, "5", True, None, 1.5])
def test_only_a_minute_at_most_is_sampled(api: APIClient, vertex: str, duration: object) -> None:
    assert api.post(f"/api/v1/{vertex}/stacks", {"duration": duration}, format="json").status_code == 400
    assert take_events() == []


def test_an_unknown_vertex_is_not_found(api: APIClient, job: Job) -> None:
    assert api.get(f"/api/v1/jobs/{job.id}/vertices/{'0' * 32}/stacks").status_code == 404
    asked = api.post(f"/api/v1/jobs/{job.id}/vertices/{'0' * 32}/stacks", {"duration": 0}, format="json")
    assert asked.status_code == 404


def test_flinks_route_takes_samples_when_there_are_no_fresh_ones(
    api: APIClient, job: Job, vertex: str, bus_redis: redis.Redis
) -> None:
    assert api.get(f"/v1/{vertex}/flamegraph").json() == {"endTimestamp": -3}
    assert [event["type"] for event in take_events()] == ["stacks"]
    now = now_ms()
    told(bus_redis, job, now - 1_000)
    answer = api.get(f"/v1/{vertex}/flamegraph?type=ON_CPU&subtaskindex=0").json()
    assert (answer["endTimestamp"], answer["data"]["value"]) == (now - 1_000, 30)
    assert take_events() == []
    told(bus_redis, job, now - 61_000)
    assert api.get(f"/v1/{vertex}/flamegraph").json()["data"]["value"] == 44
    assert [event["type"] for event in take_events()] == ["stacks"]
    assert api.get(f"/v1/{vertex}/flamegraph?type=HOT").status_code == 400
    assert api.get(f"/v1/{vertex}/flamegraph?subtaskindex=99").status_code == 404


@pytest.mark.parametrize(
    "options",
    [
        {"execution.mode": "micro-batch"},
        {"execution.runtime-mode": "batch", "execution.batch-shuffle-mode": "all_exchanges_blocking"},
    ],
)
def test_a_job_whose_tasks_run_in_passes_is_not_sampled(
    job: Job, vertex: str, api: APIClient, options: dict[str, str]
) -> None:
    job.graph["configuration"] |= options
    job.save(update_fields=["graph"])
    answer = api.post(f"/api/v1/{vertex}/stacks", {"duration": 100}, format="json")
    assert answer.status_code == 409 and "passes" in str(answer.json())
