"""`tidemark tag` and `tidemark list --tag`: what they ask, what they print."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.client.fake_cluster import JOB_ID, FakeCluster, overview

Tidemark = Callable[..., int]
Captured = pytest.CaptureFixture[str]
PATH = f"/api/v1/jobs/{JOB_ID}/tags"


def test_tags_are_shown(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.answers = {f"GET {PATH}": (200, {"tags": ["prod", "team=payments"]})}
    assert tidemark("tag", "three numbers") == 0
    assert capsys.readouterr().out == "prod  team=payments\n"
    cluster.answers = {f"GET {PATH}": (200, {"tags": []})}
    assert tidemark("tag", "three numbers") == 0
    assert capsys.readouterr().out == "The job has no tags.\n"


def test_tags_are_added_and_removed(tidemark: Tidemark, cluster: FakeCluster) -> None:
    known = (200, {"tags": ["prod", "old"]})
    cluster.answers = {f"GET {PATH}": known, f"PUT {PATH}": known}
    assert tidemark("tag", JOB_ID, "new", "--remove", "old") == 0
    assert ("PUT", PATH, {"tags": ["prod", "new"]}) in cluster.calls


def test_list_shows_the_jobs_that_have_all_of_the_tags(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured
) -> None:
    cluster.jobs = [overview("a" * 32, "one"), overview("b" * 32, "both"), overview("c" * 32, "none")]
    tags = {"a" * 32: ["prod"], "b" * 32: ["prod", "eu"]}
    cluster.answers = {"GET /api/v1/tags": (200, {"jobs": tags})}
    assert tidemark("list", "--tag", "prod", "--tag", "eu") == 0
    [_, row] = capsys.readouterr().out.splitlines()
    assert "both" in row
