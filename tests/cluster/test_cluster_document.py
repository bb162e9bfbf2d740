"""Entries of jobs in the cluster's document: how fast they read, how far they are behind, what limits them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from backend.cluster.cluster_document import JOB_FIGURES, cluster_document, figures_of, job_entry, lasting_part
from tests.live.live_jobs import NOW, RunningJob

Document = dict[str, Any]


def document_of(job: RunningJob, *watermarks: int | str | None, **more: Any) -> Document:
    """A document of a running job whose vertices have reached these watermarks."""
    document = job.running(1_000, Random(3))
    for vertex, watermark in zip(document["vertices"], watermarks, strict=True):
        vertex["metrics"] |= {"watermark": watermark}
    return document | {"causes": {}, "event_time": {"is_live": False, "held_by": {}}} | more


def entry_of(document: Document) -> tuple[Any, ...]:
    entry = job_entry(document)
    return entry["behind"], entry["lag"]


def test_the_rate_of_a_job_is_that_of_its_sources() -> None:
    job = RunningJob(3, 2)
    document = document_of(job, 1, 1, 1)
    rate = document["vertices"][0]["metrics"]["records_in_per_second"]
    assert job_entry(document)["records_in_per_second"] == round(rate) > 100
    document["vertices"][0]["metrics"]["records_in_per_second"] = 7.25
    assert job_entry(document)["records_in_per_second"] == 7.2


def test_a_job_is_as_far_behind_as_the_vertex_that_is_furthest_behind() -> None:
    job = RunningJob(3, 1)
    replayed = {"is_live": False, "held_by": {}, "newest": NOW - 86_400_000}
    marks = (NOW - 86_400_000, NOW - 86_403_000, NOW - 86_409_000)
    assert entry_of(document_of(job, *marks, event_time=replayed)) == (9_000, None)
    # of live sources the distance to the clock is a lag
    live = replayed | {"is_live": True, "live": dict.fromkeys(job.vertices, True), "newest": NOW}
    assert entry_of(document_of(job, NOW, NOW - 2_000, None, event_time=live)) == (2_000, 3_000)
    # of data that another source replays it is not
    mixed = live | {"live": {job.vertices[0]: True}}
    assert entry_of(document_of(job, NOW - 2_000, NOW - 86_400_000, None, event_time=mixed)) == (86_400_000, 3_000)
    # a vertex is newer than what was measured a second ago
    assert entry_of(document_of(job, NOW + 500, NOW, "max", event_time=live)) == (500, 1_000)
    # streams that never meet the newest have their own
    apart = replayed | {"newest": NOW, "newest_of": {job.vertices[1]: NOW - 50_000}}
    assert entry_of(document_of(job, NOW, NOW - 51_000, None, event_time=apart)) == (1_000, None)


def test_nothing_is_behind_without_a_watermark() -> None:
    job = RunningJob(2, 1)
    assert entry_of(document_of(job, None, "max", event_time={"is_live": True, "held_by": {}})) == (None, None)
    earlier = document_of(job, 5, 5)
    del earlier["event_time"]
    assert entry_of(earlier) == (None, None)


def test_the_weightiest_cause_limits_a_job_and_is_told_without_figures() -> None:
    job = RunningJob(2, 1)
    slow = {"cause": "slow-sink", "vertex": job.vertices[1], "text": "spends 93 % …", "figures": {}, "waiting": []}
    late = slow | {"cause": "late-data", "vertex": job.vertices[0]}
    limited = job_entry(document_of(job, 1, 1, causes={"late": late, "limit": slow}))
    assert limited["limit"] == {"cause": "slow-sink", "vertex": job.vertices[1], "name": "step 1 -> step 1 again"}
    assert job_entry(document_of(job, 1, 1))["limit"] is None


@pytest.mark.parametrize("state", ["RESTARTING", "FINISHED"])
def test_a_job_that_does_not_run_does_nothing(state: str) -> None:
    job = RunningJob(2, 1)
    live = {"is_live": True, "held_by": {}, "newest": NOW}
    entry = job_entry(document_of(job, NOW, NOW - 1, event_time=live, state=state))
    assert [entry[name] for name in (*JOB_FIGURES, "limit")] == [0.0, None, None, None]


def test_figures_that_move_are_no_news_and_a_cause_is() -> None:
    job, random = RunningJob(2, 1), Random(5)
    one, other = (cluster_document([], [job_entry(job.running(ms, random))], NOW, ms) for ms in (500, 1_000))
    assert lasting_part(one) == lasting_part(other) and figures_of(one) != figures_of(other)
    other["jobs"][0]["limit"] = {"cause": "busy", "vertex": "v", "name": "map"}
    assert lasting_part(one) != lasting_part(other)
